"""The threads that drainq starts."""

from __future__ import annotations

import asyncio
import contextvars
import re
import sys
import threading

import pytest

from drainq import BatchQueue, BatchQueueConfig, DrainqError, MultiQueue, ThreadPolicy
from drainq.monitoring import watch
from drainq.sources import Fair, ItemTracker, SourceScheduler
from drainq.threads import run_aside, start_thread
from tests.shape.project import PACKAGE


def test_green_threads_are_refused_with_a_word_on_what_to_do(monkeypatch):
    ident = threading.get_ident  # still the right number, because a thread of another test may end meanwhile

    def get_ident():
        return ident()

    get_ident.__module__ = "gevent.thread"
    monkeypatch.setattr(threading, "get_ident", get_ident)
    with pytest.raises(DrainqError, match=r"^gevent has patched .* monkey.patch_all\(thread=False\)"):
        BatchQueue("green", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=len))
    monkeypatch.undo()
    with BatchQueue("real", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=len)) as queue:
        assert queue.produce(1)


def test_a_thread_is_a_daemon_of_its_name():
    ran = []
    thread = start_thread(ran.append, name="drainq-test", args=(1,))
    thread.join()
    assert (thread.name, thread.daemon, ran) == ("drainq-test", True, [1])


def test_no_thread_is_started_while_the_interpreter_ends(monkeypatch):
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail("it would wait for ever"))
    with pytest.raises(RuntimeError, match="while the interpreter ends"):
        start_thread(print, name="drainq-test")


def test_the_package_starts_no_other_threads():
    texts = {path.name: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert sum("start_thread(" in text for text in texts.values()) > 5
    starts = [name for name, text in texts.items() if re.search(r"\bthreading\.Thread\(|\bimport Thread\b", text)]
    assert starts == ["threads.py"]


def test_a_call_aside_has_the_context_and_gives_its_result_or_its_error_back():
    name = contextvars.ContextVar("name", default="none")

    def call(fails, *, error=None):
        if fails:
            raise error
        return name.get(), threading.current_thread().name

    async def main():
        name.set("of the task")
        assert await run_aside(call, False) == ("of the task", "drainq-aside")
        with pytest.raises(GeneratorExit):
            await run_aside(call, True, error=GeneratorExit())

    asyncio.run(main())


def test_what_holds_threads_or_connections_closes_by_one_hand():
    delayed = pytest.importorskip("drainq.delayed", reason="msgspec is for CPython with a GIL, or 3.14")

    async def main(thing):
        with thing as entered:
            assert entered is thing
        async with thing:
            pass
        return await thing.close_async(timeout=5), thing.close(timeout=0)

    with delayed.DelayedQueue.open("memory:") as queue:
        source, counters = {"x": iter([])}, MultiQueue()
        scheduler = SourceScheduler(source, print, Fair("x"), name="moves")
        for thing in (scheduler, ItemTracker.open(), queue.cron, watch(queue, "closes"), watch(counters, "native")):
            assert asyncio.run(main(thing)) == (True, True), thing
        assert repr(scheduler) == "<SourceScheduler 'moves'>" and asyncio.run(scheduler.join_async(timeout=5))
