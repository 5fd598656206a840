"""The threads that drainq starts: nothing waits for them where they start, and they are threads like others."""

from __future__ import annotations

import doctest
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import drainq.threads
from drainq import (
    BatchQueue,
    BatchQueueConfig,
    DrainqError,
    PartitionPolicy,
    PrefetchSource,
    SourceScheduler,
    ThreadPolicy,
)
from drainq.sources import Fair
from drainq.threads import DaemonThread
from drainq.timer import Timer
from tests.shape.project import PACKAGE

PATIENCE = 20.0


class Held:
    """Threads of drainq take no step of their own before :meth:`release`."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self.starts = 0

    def bootstrap(self, original: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        def held(thread: threading.Thread) -> None:
            if thread.name.startswith("drainq-"):
                self.starts += 1
                assert self._gate.wait(PATIENCE)
            original(thread)

        return held

    def release(self) -> None:
        self._gate.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held()
    monkeypatch.setattr(threading.Thread, "_bootstrap", held.bootstrap(threading.Thread._bootstrap))  # type: ignore[attr-defined]
    yield held
    held.release()


def a_queue(held: Held) -> None:
    batches: list[Any] = []
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(2),
        partitions=PartitionPolicy.fixed(2),
        consumer=batches.extend,
        balancer=lambda throughput, owners, threads: owners,
    )
    queue = BatchQueue("held", config)
    assert held.starts <= 3 and queue.produce(1)
    held.release()
    assert queue.shutdown(PATIENCE) is True
    assert batches == [1]


def a_pool(held: Held) -> None:
    batches: list[Any] = []
    queue = BatchQueue(
        "held", BatchQueueConfig(shared_scheduler=("held", ThreadPolicy.fixed(1)), consumer=batches.extend)
    )
    assert queue.produce(1)
    held.release()
    assert queue.shutdown(PATIENCE) is True
    assert batches == [1]


def a_report(held: Held) -> None:
    told = threading.Semaphore(0)
    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), on_drop=lambda reason, count: told.release(count))
    queue = BatchQueue("held", config)
    held.release()
    assert queue.shutdown(PATIENCE) is True
    held.__init__()  # type: ignore[misc]
    assert not any(queue.produce(n) for n in range(3))
    held.release()
    assert all(told.acquire(timeout=PATIENCE) for _ in range(3))


def an_alarm(held: Held) -> None:
    rang = threading.Event()
    Timer().after(0, rang.set)
    held.release()
    assert rang.wait(PATIENCE)


def a_refill(held: Held) -> None:
    asked = threading.Event()
    source: PrefetchSource[int] = PrefetchSource(lambda size: asked.set(), capacity=4, replenish_threshold=1)
    source.get_next_batch(1)
    held.release()
    assert asked.wait(PATIENCE)
    source.close(PATIENCE)


def a_loop(held: Held) -> None:
    scheduler = SourceScheduler({"x": lambda size: []}, lambda name, items: None, Fair("x"))
    scheduler.start()
    held.release()
    scheduler.stop(PATIENCE)


@pytest.mark.parametrize("place", [a_queue, a_pool, a_report, an_alarm, a_refill, a_loop])
def test_no_call_waits_for_the_first_step_of_a_thread_that_it_starts(held, place):
    place(held)


def test_green_threads_are_refused_with_a_word_on_what_to_do(monkeypatch):
    def get_ident():
        return 1

    get_ident.__module__ = "gevent.thread"
    monkeypatch.setattr(threading, "get_ident", get_ident)
    with pytest.raises(DrainqError, match=r"^gevent has patched .* monkey.patch_all\(thread=False\)"):
        BatchQueue("green", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=len))
    monkeypatch.undo()
    with BatchQueue("real", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=len)) as queue:
        assert queue.produce(1)


def test_a_thread_that_has_not_begun_is_alive_and_is_joined_to_its_end(held):
    ran = []
    thread = DaemonThread(ran.append, name="drainq-test", args=(1,))
    assert not thread.is_alive() and thread.daemon
    thread.start()
    assert thread.is_alive() and thread in threading.enumerate() and not ran
    thread.join(0.001)
    assert thread.is_alive() and not ran, "the time ran out"
    with pytest.raises(RuntimeError, match="once"):
        thread.start()
    held.release()
    thread.join()
    assert not thread.is_alive() and thread not in threading.enumerate()
    assert ran == [1]


def test_a_thread_that_cannot_start_can_start_later(monkeypatch):
    ran = []
    thread = DaemonThread(ran.append, name="drainq-test", args=(1,))

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as refusing:
        refusing.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            thread.start()
    assert not thread.is_alive()
    thread.start()
    thread.join()
    assert ran == [1]


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_thread_that_had_not_begun_is_not_alive_in_a_child(held):
    thread = DaemonThread(print, name="drainq-test")
    thread.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(7 if not thread.is_alive() and thread not in threading.enumerate() else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert thread.is_alive()


def test_the_package_starts_no_other_threads():
    texts = {path.name: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert sum("DaemonThread(" in text for text in texts.values()) > 5
    assert [name for name, text in texts.items() if re.search(r"\bthreading\.Thread\(|\bimport Thread\b", text)] == []


def test_the_example_runs():
    assert doctest.testmod(drainq.threads).failed == 0
