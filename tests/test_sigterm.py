"""SIGTERM ends the ``with`` blocks: nothing that was accepted is lost."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from drainq import stop_on_sigterm
from drainq.delayed import DelayedQueue
from tests.patience import PATIENCE, Call

pytestmark = pytest.mark.system

ITEMS = 5000
BEGIN = """
import asyncio, sys, threading
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy, stop_on_sigterm
from drainq.delayed import DelayedQueue
from drainq.workers import BatchWriter

entered, ending = threading.Event(), threading.Event()
stored = open("stored", "a", buffering=1)

def store(batch):
    entered.set()
    ending.wait()  # so all items wait when the signal comes
    stored.write("".join(f"{item}\\n" for item in batch))

def say(line):
    print(line, flush=True)

config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=store, max_batch=100, buffer_size=10_000)
assert stop_on_sigterm() and stop_on_sigterm()
"""
SERVICE = """
def handle(envelope):
    if envelope.payload == 10:
        say("ready")
        threading.Event().wait()
    stored.write(f"message-{envelope.payload}\\n")

with (
    DelayedQueue.open("sqlite:///mail.db", "mail") as mail,
    BatchWriter(url="sqlite:///rows.db", table="rows", columns=["n"]) as writer,
    BatchQueue("items", config) as queue,
):
    queue.produce_many(range(5000))
    writer.produce_many((n,) for n in range(5000))
    try:
        mail.consume(handle)
    finally:
        say("ending")
        ending.set()
"""
COROUTINES = """
async def main():
    async with BatchQueue("items", config) as queue:
        for number in range(5000):
            await queue.produce_async(number)
        say("ready")
        try:
            await asyncio.Event().wait()
        finally:
            say("ending")
            ending.set()

with BatchWriter(url="sqlite:///rows.db", table="rows", columns=["n"]) as writer:
    writer.produce_many((n,) for n in range(5000))
    asyncio.run(main())
"""
BUSY_LOOP = COROUTINES.replace("await asyncio.Event().wait()", "while True: await asyncio.sleep(0)")


@contextmanager
def running(program: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield the program, once it is ready."""
    command = [sys.executable, "-c", BEGIN + program]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        try:
            assert Call(process.stdout.readline).result() == "ready\n", process.stderr.read()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("program", [SERVICE, COROUTINES, BUSY_LOOP], ids=["service", "coroutines", "busy loop"])
def test_a_program_that_gets_sigterm_loses_nothing_that_it_accepted(program, tmp_path):
    keys = [f"message-{number}" for number in range(20)]
    with DelayedQueue.open(f"sqlite:///{tmp_path}/mail.db", "mail") as mail:
        for number, key in enumerate(keys):
            mail.offer_or_update(key, number, number)
    with closing(sqlite3.connect(tmp_path / "rows.db", isolation_level=None)) as rows:
        rows.execute("CREATE TABLE rows (n INTEGER)")
        rows.execute("BEGIN IMMEDIATE")  # until the COMMIT below, the program can write no row
        with running(program, tmp_path) as process:
            process.send_signal(signal.SIGTERM)
            assert Call(process.stdout.readline).result() == "ending\n"
            rows.execute("COMMIT")
            assert (process.wait(PATIENCE), process.stderr.read()) == (128 + signal.SIGTERM, "")
        assert rows.execute("SELECT count(*), count(DISTINCT n) FROM rows").fetchone() == (ITEMS, ITEMS)
    stored = (tmp_path / "stored").read_text().split()
    assert [line for line in stored if line.isdigit()] == [str(number) for number in range(ITEMS)]
    with DelayedQueue.open(f"sqlite:///{tmp_path}/mail.db", "mail") as mail:
        left = [key for key in keys if mail.contains_message(key)]
    assert [line for line in stored if not line.isdigit()] + left == keys
    assert left == (keys[10:] if program is SERVICE else keys)


SLOW = """
with BatchQueue("items", config) as queue:
    queue.produce(1)  # whose handler never ends
    try:
        say("ready")
        threading.Event().wait()
    finally:
        say("ending")
"""
SLOW_COROUTINE = """
async def main():
    try:
        say("ready")
        await asyncio.Event().wait()
    finally:
        say("ending")
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [SLOW, SLOW_COROUTINE], ids=["threads", "coroutines"])
def test_a_second_sigterm_ends_the_process_at_once(program, tmp_path):
    with running(program, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        assert Call(process.stdout.readline).result() == "ending\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == -signal.SIGTERM


def test_a_producer_that_waits_for_room_ends_and_what_was_accepted_is_handled(tmp_path):
    program = """
config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=store, buffer_size=10)
with BatchQueue("items", config) as queue:
    queue.produce("first")
    entered.wait()
    while queue.offer("more", 0):
        pass
    try:
        say("ready")
        queue.produce("never")
    finally:
        ending.set()
"""
    with running(program, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert (tmp_path / "stored").read_text().split() == ["first"] + ["more"] * 10


def test_a_handler_of_something_else_stays():
    before = signal.signal(signal.SIGTERM, handler := lambda number, frame: None)
    try:
        assert stop_on_sigterm() is False
        assert signal.getsignal(signal.SIGTERM) is handler
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert isinstance(Call(stop_on_sigterm).exception(), ValueError)
    finally:
        signal.signal(signal.SIGTERM, before)
