"""Faults outside: processes die, servers restart, files are shared, snapshots are held. Totals are exact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drainq.delayed import DelayedQueue, DeliveryType, ScheduledMessage
from drainq.delayed.storage.postgres.scan_floor import IN_A_ROW, LOWEST, ScanFloor
from drainq.delayed.storage.postgres.take_sql import TAKE

pytestmark = pytest.mark.system

HERE = Path(__file__).parent


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a helper program of this directory."""
    return subprocess.Popen(
        [sys.executable, str(HERE / script), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_consumer_killed_between_poll_and_ack_loses_nothing(database):
    queue = database.open(clock=None)
    queue.offer_batch([ScheduledMessage(f"{n:02}", n, 0) for n in range(10)])
    with start("crash_consumer.py", database.url, database.table, "300") as consumer:
        consumer.stdin.write("4\n")
        consumer.stdin.flush()
        assert consumer.stdout.readline() == "4\n"
        os.kill(consumer.pid, signal.SIGKILL)
        assert consumer.wait(30) == -signal.SIGKILL
    rest = queue.try_poll_many(100)
    assert rest.payload == [4, 5, 6, 7, 8, 9]
    assert rest.ack()
    assert queue.stats().in_flight == 4

    class Later:
        def now(self):
            return queue.clock.now() + 301

    survivor = database.open(clock=Later())
    again = survivor.try_poll_many(100)
    assert (again.payload, again.delivery_type) == ([0, 1, 2, 3], DeliveryType.REDELIVERY)
    assert again.ack()
    stats = survivor.stats()
    assert (stats.ready, stats.scheduled, stats.in_flight, stats.dead) == (0, 0, 0, 0)


def test_two_processes_on_one_queue_lose_and_repeat_nothing(database):
    queue = database.open(clock=None)
    workers = [start("busy_worker.py", database.url, database.table, name, "60") for name in ("one", "two")]
    created = 0
    for worker in workers:
        created += int(worker.stdout.readline().removeprefix("created "))
        assert worker.stdout.readline() == "offered\n"
    assert created == 60
    assert queue.stats().ready == 180
    taken = []
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        out, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        taken += [line.removeprefix("took ") for line in out.splitlines()]
    expected = [f"{name}/{n}" for name in ("one", "two", "shared") for n in range(60)]
    assert sorted(taken) == sorted(expected)
    assert queue.stats().ready == queue.stats().in_flight == 0


def test_many_processes_may_open_one_new_database_at_once(database):
    table = f"{database.table}_new"
    database.tables.add(table)
    program = (
        "import sys; from drainq.delayed import DelayedQueue; sys.stdin.readline();"
        "q = DelayedQueue.open(sys.argv[1], 'mail', table=sys.argv[2]); print(q.offer_if_not_exists('a', 1, 0).value)"
    )
    command = [sys.executable, "-c", program, database.url, table]
    openers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    said = [opener.communicate("\n", timeout=120)[0].strip() for opener in openers]
    assert [opener.returncode for opener in openers] == [0] * 5
    assert sorted(said) == ["created"] + ["ignored"] * 4


def test_a_forked_child_uses_a_connection_of_its_own(database):
    queue = database.open()
    queue.offer_or_update("parent", 1, database.now)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            queue.offer_or_update("child", 2, database.now)
            code = 0 if queue.read("parent").payload == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sorted(queue.try_poll_many(10).message_id) == ["child", "parent"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs a list of open files")
def test_a_forked_child_opens_the_file_anew(tmp_path):
    """SQLite's locks on a file that two processes opened as one would let both write at once."""
    file = tmp_path / "queue.db"

    def times_opened():
        return sum(os.path.realpath(f"/proc/self/fd/{number}") == str(file) for number in os.listdir("/proc/self/fd"))

    with DelayedQueue.open(f"sqlite:///{file}", "mail") as queue:
        queue.offer_or_update("parent", 1, 0)
        opened = times_opened()
        assert opened > 0
        child = os.fork()
        if child == 0:
            code = 100
            try:
                queue.offer_or_update("child", 2, 0)
                code = times_opened()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == opened + 1
        assert sorted(queue.try_poll_many(10).message_id) == ["child", "parent"]


def test_with_a_held_snapshot_and_dead_rows_everything_is_delivered_once_and_the_mark_spares_the_walk(postgres):
    """A forgotten transaction keeps vacuum from the rows that were acknowledged; polls must not walk over them."""
    import psycopg

    queue = postgres.open()
    storage = queue._session.storage
    with psycopg.connect(postgres.url) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM pg_class")
        taken = []
        for part in range(4):
            queue.offer_batch([ScheduledMessage(f"{part}-{n}", n, postgres.now - 10 + part) for n in range(1000)])
            while (batch := queue.try_poll_many(250)).payload:
                taken += batch.message_id
                assert batch.ack()
        assert len(taken) == len(set(taken)) == 4000
        queue.offer_or_update("live", 1, postgres.now)

        def buffers(start):
            now = int(postgres.now * 1000)
            values = {"kind": queue._session.kind, "now": now, "until": now, "lock": "x", "holder": "", "start": start}
            values["soon"] = now + 1000
            with psycopg.connect(postgres.url) as connection:
                take = storage._fill(TAKE["due", False], 1)
                explained = connection.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + take, values)
                plan = explained.fetchone()[0][0]["Plan"]
                connection.rollback()
            return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

        without, with_mark = buffers(LOWEST), buffers(int(postgres.now * 1000) - 1000)
        assert without > 5 * with_mark, json.dumps([without, with_mark])

        time = [0.0]

        def polls_became_slow():
            mark = storage._marks[queue._session.kind] = ScanFloor(3600, monotonic=lambda: time[0])
            for _ in range(IN_A_ROW):
                mark.polled(LOWEST, 100.0, [], int(postgres.now * 1000))
            assert mark.start() > LOWEST

        polls_became_slow()
        assert queue.try_poll().message_id == "live"
        queue.offer_or_update("back-dated", 1, 0)
        assert queue.try_poll().message_id == "back-dated"

        polls_became_slow()
        elsewhere = postgres.open()
        elsewhere.offer_or_update("back-dated elsewhere", 1, 0)
        assert queue.try_poll() is None, "as a moment ago"
        time[0] = 3600.0
        assert queue.try_poll().message_id == "back-dated elsewhere"

        polls_became_slow()
        queue.offer_or_update("one more", 1, postgres.now)
        elsewhere.offer_or_update("back-dated again", 1, 0)
        assert [queue.try_poll().message_id for _ in range(2)] == ["one more", "back-dated again"], (
            "nothing is left over"
        )
        assert queue.try_poll() is None


LEAKS = """
import os, sys, threading
from drainq.delayed import DelayedQueue

def use():
    with DelayedQueue.open(sys.argv[1], "mail", table="leaks", notify=True) as queue:
        queue.offer_or_update("a", 1, 0)
        queue.poll(timeout=60).ack()
        queue.poll(timeout=0.01)

def left():
    threads = [thread.name for thread in threading.enumerate() if thread.name != "drainq-timer"]
    return threads, len(os.listdir("/proc/self/fd"))

use()
before = left()
for _ in range(5):
    use()
print(*before, *left(), sep="\\n")
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs a list of open files")
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_opening_and_closing_leaks_no_descriptor_and_no_thread(backend, request, tmp_path):
    """In a process of its own, as other tests leave what ends at any time; the timer that all share has a thread or two."""
    url = f"sqlite:///{tmp_path}/q.db" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    done = subprocess.run([sys.executable, "-c", LEAKS, url], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    threads, descriptors, threads_after, descriptors_after = done.stdout.splitlines()
    assert threads == threads_after == "['MainThread']"
    assert descriptors == descriptors_after
