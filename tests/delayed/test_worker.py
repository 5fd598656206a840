"""Several handlers at once, on threads and on an event loop, and a shutdown within a time. On every back end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest

import drainq.delayed.consume
from drainq.delayed import DelayedQueue, MsgspecCodec, ScheduledMessage
from drainq.delayed.cli import add_commands
from drainq.delayed.cli_work import _on_signals
from drainq.monitoring import prometheus_text
from tests.delayed.test_cli import call  # noqa: F401

LONG = 60  # seconds: far longer than any of this takes


def offer(queue, world, count):
    queue.offer_batch([ScheduledMessage(f"{n:03}", n, world.now) for n in range(count)])


def run(queue, kind, handle, *, stop=None, **options):
    """Consume on threads, or with an async handler on an event loop of its own."""
    if kind == "threads":
        return queue.consume(handle, stop=stop, **options)

    async def consume():
        stopped = asyncio.Event()
        if stop is not None:
            stop.loop, stop.event = asyncio.get_running_loop(), stopped

        async def handle_async(envelope):
            await asyncio.get_running_loop().run_in_executor(pool, handle, envelope)

        with ThreadPoolExecutor(8) as pool:
            return await queue.consume_async(handle_async, stop=stopped, **options)

    return asyncio.run(consume())


class Stop(threading.Event):
    """An event that also sets that of an event loop."""

    loop = None

    def set(self):
        super().set()
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.event.set)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_as_many_handlers_run_at_once_as_it_says_and_each_message_comes_once(queue, world, kind):
    offer(queue, world, 40)
    together, seen = threading.Barrier(4), []

    def handle(envelope):
        together.wait(LONG)  # which four pass, and no fewer
        seen.append(envelope.payload)

    assert run(queue, kind, handle, concurrency=4, until="empty") == 40
    assert Counter(seen) == Counter(range(40)) and queue.stats().ready == 0


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_failing_message_comes_again_and_others_go_on(queue, world, kind):
    offer(queue, world, 6)
    seen = []

    def handle(envelope):
        seen.append((envelope.payload, envelope.attempt))
        if envelope.payload == 3 and envelope.attempt == 1:
            raise ValueError("no such address")

    assert run(queue, kind, handle, concurrency=3, until="empty") == 5
    world.clock.advance(60)
    assert run(queue, kind, handle, concurrency=3, until="empty") == 1
    assert sorted(seen) == [(0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (5, 1)]


@pytest.mark.parametrize("kind", ["threads", "tasks"])
@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_handler_that_outlasts_the_grace_loses_its_message_at_once(queue, world, kind, concurrency):
    offer(queue, world, 2)
    stop, go_on, begun, late = Stop(), threading.Event(), threading.Barrier(concurrency + 1), []

    def handle(envelope):
        begun.wait(LONG)
        go_on.wait(LONG)
        late.append(envelope.ack())

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, queue, kind, handle, stop=stop, concurrency=concurrency, grace=0.01)
        begun.wait(LONG)
        stop.set()
        if kind == "threads":
            assert running.result(LONG) == 0
        else:
            while queue.stats().in_flight:
                threading.Event().wait(0.01)
        assert [row.attempts for row in queue.peek()] == [0, 0] and queue.stats().in_flight == 0
        go_on.set()
        assert running.result(LONG) == 0
    assert queue.try_poll_many(9).payload == [0, 1]


def test_what_was_handled_before_a_handler_outlasts_the_grace_counts(queue, world):
    offer(queue, world, 3)
    stop, go_on = threading.Event(), threading.Event()

    def handle(envelope):
        if envelope.payload == 2:
            stop.set()
            go_on.wait(LONG)

    try:
        assert queue.consume(handle, stop=stop, concurrency=1, grace=0.01, prefetch=1) == 2
    finally:
        go_on.set()
    assert [row.key for row in queue.peek()] == ["002"]


def test_a_handler_that_ends_within_the_grace_is_acknowledged(queue, world):
    offer(queue, world, 2)
    stop = threading.Event()

    def handle(envelope):
        stop.set()

    handled = queue.consume(handle, stop=stop, concurrency=2, grace=LONG)
    assert handled == 2 - queue.stats().ready and handled >= 1


@pytest.mark.parametrize("grace", [None, 0])
def test_an_interrupt_ends_the_handlers_and_gives_back_what_they_do_not_end(queue, world, monkeypatch, grace):
    offer(queue, world, 2)
    begun, go_on = threading.Barrier(3), threading.Event()

    def handle(envelope):
        begun.wait(LONG)
        go_on.wait(LONG)

    def interrupted(*arguments):
        monkeypatch.setattr(drainq.delayed.consume, "wait", wait)
        begun.wait(LONG)
        if grace is None:
            go_on.set()
        raise KeyboardInterrupt

    wait = drainq.delayed.consume.wait
    monkeypatch.setattr(drainq.delayed.consume, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.consume(handle, concurrency=2, grace=grace)
    go_on.set()
    assert queue.stats().ready == (0 if grace is None else 2)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_an_error_that_ends_a_loop_ends_the_others_and_comes_out(queue, world, kind):
    offer(queue, world, 30)

    class Broken(BaseException):
        """No error of a handler."""

    def handle(envelope):
        if envelope.payload == 5:
            raise Broken

    with pytest.raises(Broken):
        run(queue, kind, handle, concurrency=3)
    assert queue.stats().in_flight == 0 and queue.contains_message("005")


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": 1.5}, {"grace": -1}, {"time_limit": 0}])
def test_a_number_that_is_none_is_refused(options):
    async def handle(envelope):
        """Never called."""

    with DelayedQueue.open("memory:") as queue:
        with pytest.raises((ValueError, TypeError), match=next(iter(options))):
            queue.consume(print, **options)
        with pytest.raises((ValueError, TypeError), match=next(iter(options))):
            asyncio.run(queue.consume_async(handle, **options))


# --- the command


HANDLERS = """
import drainq.delayed
import drainq.monitoring
seen = []

def sync(envelope):
    seen.append((envelope.payload, envelope._session.storage.holder.split("/")[2:]))

async def tasks(envelope):
    seen.append((envelope.payload, envelope._session.storage.holder.split("/")[2:]))

def scrapes(envelope):
    seen.append(drainq.monitoring.prometheus_text())

def fails(envelope):
    raise ValueError("not now")

def opened():
    return drainq.delayed.DelayedQueue.open(URL, "mail", table=TABLE, codec=drainq.delayed.MsgspecCodec(int))

def with_schedule():
    queue = opened()
    queue.cron.install_periodic_tick("sweep", 3600, lambda at: at.hour).close()
    return queue

def no_queue():
    return 5
"""


@pytest.fixture
def handlers(tmp_path, monkeypatch, database):
    """A module of the user's, in the working directory."""
    (tmp_path / "my_handlers.py").write_text(f"URL, TABLE = {database.url!r}, {database.table!r}\n{HANDLERS}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda: sys.modules["my_handlers"].seen
    sys.modules.pop("my_handlers", None)


@pytest.mark.parametrize("kind", ["sync", "tasks"])
def test_the_command_works_with_a_handler_from_the_working_directory(call, database, handlers, kind):  # noqa: F811
    queue = database.open(clock=None)
    queue.offer_batch([ScheduledMessage(str(n), n) for n in range(5)])
    before = signal.getsignal(signal.SIGTERM)
    options = ["--queue", "mail", "--concurrency", "2", "--until-empty", "--consumer", "w1", "--time-limit", "5m"]
    assert call("work", f"my_handlers:{kind}", *options) == (0, "handled 5\n", "")
    assert sorted(handlers()) == [(n, ["w1"]) for n in range(5)] and queue.stats().ready == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_first_signal_stops_the_command_and_a_second_one_ends_the_process():
    stopped = []
    with _on_signals(lambda: stopped.append("stop")):
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
        assert stopped == ["stop"] and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert callable(signal.getsignal(signal.SIGINT))


def test_the_log_lines_of_the_command_have_a_time(call, database, handlers, monkeypatch):  # noqa: F811
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    database.open(clock=None).offer("a", 7)
    code, out, err = call("work", "my_handlers:fails", "--queue", "mail", "--until-empty")
    assert (code, out) == (0, "handled 0\n")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ERROR the handler of delayed queue 'mail' failed on", err)


def test_the_command_publishes_its_counters_while_it_works(call, database, handlers):  # noqa: F811
    database.open(clock=None).offer("a", 7)
    code, out, err = call("work", "my_handlers:scrapes", "--queue", "mail", "--until-empty", "--metrics-port", "0")
    assert (code, err) == (0, "") and re.fullmatch(r"metrics at http://127.0.0.1:\d+/metrics\nhandled 1\n", out)
    (text,) = handlers()
    assert 'drainq_delayed_in_flight{queue="mail"} ' in text
    assert 'queue="mail"' not in prometheus_text()
    with pytest.raises(OSError):
        urlopen(out.split()[2], timeout=LONG)


def test_a_queue_with_a_codec_of_the_users_is_opened_by_the_users_function(call, database, handlers):  # noqa: F811
    queue = database.open(clock=None, codec=MsgspecCodec(int))
    queue.offer("a", 7)
    code, out, err = call("work", "my_handlers:sync", "--queue", "mail", "--until-empty")
    assert (code, out) == (2, "") and "'json:int' is none of drainq's: pass --open MODULE:FUNCTION" in err
    assert "name the queue with --url and --queue" in call("work", "my_handlers:sync", "--until-empty")[2]
    command = ("work", "my_handlers:sync", "--until-empty", "--open")
    assert call(*command, "my_handlers:no_queue")[2].endswith("must return a DelayedQueue, got a int\n")
    assert call(*command, "my_handlers:opened") == (0, "handled 1\n", "") and handlers() == [(7, [])]
    queue.offer("b", 8)
    assert call(*command, "my_handlers:opened", "--consumer", "w2") == (0, "handled 1\n", "")
    assert handlers()[1:] == [(8, ["w2"])]


def test_the_ticks_of_a_range_are_made_by_the_users_schedule(call, database, handlers):  # noqa: F811
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(required=True))
    database.open(codec=MsgspecCodec(int))

    def backfill(prefix, opened):
        line = ["delayed", "backfill", prefix, "--open", f"my_handlers:{opened}"]
        return parser.parse_args([*line, "--start", "2020-01-31T04:00", "--end", "2020-01-31T09:30+02:00", "--quiet"])

    for prefix, opened, code in (("sweep", "with_schedule", 0), ("nosuch", "with_schedule", 2), ("sweep", "opened", 2)):
        parsed = backfill(prefix, opened)
        assert parsed.run(parsed) == code
    found = database.open(codec=MsgspecCodec(int)).try_poll_many(9)
    assert found.payload[:4] == [at.hour for at in found.schedule_at[:4]] == [4, 5, 6, 7]


@pytest.mark.parametrize("name", ["my_handlers", "my_handlers:nosuch", "my_handlers:seen", ":sync", "no_such_module:f"])
def test_a_handler_that_is_none_is_one_line(call, database, handlers, name):  # noqa: F811
    database.open()
    code, out, err = call("work", name, "--queue", "mail", "--until-empty")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_handler_end_and_gives_back_the_one_that_does_not(database, tmp_path, kind, number):
    queue = database.open(clock=None)
    queue.offer_batch([ScheduledMessage(key, key) for key in ("quick", "slow")])
    wait = "await asyncio.sleep" if kind == "async def" else "time.sleep"
    (tmp_path / "app.py").write_text(
        f"import asyncio, time\n{kind} handle(envelope):\n"
        f"    open(envelope.payload, 'w').close()\n    {wait}(1 if envelope.payload == 'quick' else 60)\n"
    )
    command = [sys.executable, "-m", "drainq", "delayed", "work", "app:handle", "--url", database.url]
    command += ["--table", database.table, "--queue", "mail", "--concurrency", "2", "--grace", "5"]
    worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        while not all((tmp_path / key).exists() for key in ("quick", "slow")):
            threading.Event().wait(0.05)
        worker.send_signal(number)
        assert worker.communicate(timeout=LONG)[0] == "handled 1\n" and worker.returncode == 0
    finally:
        worker.kill()
    assert [(row.key, row.attempts, row.in_flight) for row in queue.peek()] == [("slow", 0, False)]
