"""A multi-queue and event loops, step by step: a test drives loops and futures by hand."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drainq import MultiQueue


class HandFuture:
    """A future whose result is set once."""

    def __init__(self) -> None:
        self.state = "pending"

    def __await__(self) -> Iterator[HandFuture]:
        yield self
        if self.state == "cancelled":
            raise asyncio.CancelledError
        assert self.state == "done", "stepped without a result"

    def done(self) -> bool:
        return self.state != "pending"

    def set_result(self, result: None) -> None:
        assert (self.state, result) == ("pending", None)
        self.state = "done"


class HandLoop:
    """An event loop that runs what it was given when the test says so."""

    def __init__(self, running: bool = True) -> None:
        self.running, self.calls, self.futures, self.errors = running, [], [], []

    def create_future(self) -> HandFuture:
        self.futures.append(HandFuture())
        return self.futures[-1]

    def is_running(self) -> bool:
        if isinstance(self.running, BaseException):
            raise self.running
        return self.running

    def called(self, name: str, call: Any) -> None:
        self.calls.append((name, call))
        if self.errors:
            raise self.errors.pop(0)

    def call_soon(self, call: Any) -> None:
        self.called("call_soon", call)

    def call_soon_threadsafe(self, call: Any) -> None:
        self.called("call_soon_threadsafe", call)

    @contextmanager
    def current(self) -> Iterator[None]:
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def run(self) -> list[str]:
        """Make the calls; return their names."""
        calls, self.calls = self.calls, []
        with self.current():
            for _, call in calls:
                call()
        return [name for name, _ in calls]

    def step(self, coroutine: Any) -> Any:
        """Run the coroutine to its next sleep or its end: the future that it sleeps on, or a tuple of its result."""
        with self.current():
            try:
                return coroutine.send(None)
            except StopIteration as end:
                return (end.value,)


class Getters:
    """Tasks that wait for an item; to wake one is to put an item."""

    def __init__(self) -> None:
        self.queue = MultiQueue()
        self.sub = self.queue.add_sub_queue("a", capacity=2)
        self.count = 0

    def coroutine(self) -> Any:
        return self.queue.get_async()

    def wake(self) -> tuple:
        self.count += 1
        self.sub.put_nowait(self.count)
        return (self.count,)

    def waiting(self) -> int:
        return self.queue.stats().blocked_getters

    def unused(self) -> int:
        """Wake-ups that nobody has used."""
        return self.sub.qsize()


class Putters(Getters):
    """Tasks that wait for room; to wake one is to get an item."""

    def __init__(self) -> None:
        super().__init__()
        self.sub.put_many([0, 0])

    def coroutine(self) -> Any:
        return self.sub.put_async("late")

    def wake(self) -> tuple:
        self.queue.get_nowait()
        return (True,)

    def waiting(self) -> int:
        return self.queue.stats().blocked_putters

    def unused(self) -> int:
        return self.sub.remaining_capacity()


@pytest.fixture(params=[Getters, Putters])
def side(request: pytest.FixtureRequest) -> Getters:
    return request.param()


def asleep(side: Getters, loop: HandLoop, count: int = 1) -> list:
    coroutines = [side.coroutine() for _ in range(count)]
    assert [loop.step(coroutine) for coroutine in coroutines] == loop.futures[-count:]
    return coroutines


def states(loop: HandLoop) -> list[str]:
    return [future.state for future in loop.futures]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list:
    told: list = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append((type(what.exc_value), str(what.exc_value))))
    return told


def test_one_call_wakes_all_that_were_notified_and_the_next_wake_up_makes_another(side):
    loop = HandLoop()
    tasks = asleep(side, loop, 2)
    results = [side.wake(), side.wake()]
    assert states(loop) == ["pending", "pending"] and side.waiting() == 2
    assert loop.run() == ["call_soon_threadsafe"]
    assert states(loop) == ["done", "done"]
    assert [loop.step(task) for task in tasks] == results
    assert (side.waiting(), side.unused()) == (0, 0)
    (third,) = asleep(side, loop)
    with loop.current():
        result = side.wake()
    assert loop.run() == ["call_soon"], "the loop's own thread need not interrupt its selector"
    assert loop.step(third) == result


def test_the_current_loop_is_the_one_of_this_thread_and_no_other(side):
    sleeps_in, runs_here = HandLoop(), HandLoop()
    (task,) = asleep(side, sleeps_in)
    with runs_here.current():
        result = side.wake()
    assert (sleeps_in.run(), runs_here.run()) == (["call_soon_threadsafe"], [])
    assert sleeps_in.step(task) == result


def test_only_those_that_were_notified_are_woken(side):
    loop = HandLoop()
    first, second = asleep(side, loop, 2)
    result = side.wake()
    loop.run()
    assert states(loop) == ["done", "pending"]
    assert loop.step(first) == result and side.waiting() == 1
    result = side.wake()
    loop.run()
    assert states(loop) == ["done", "done"] and loop.step(second) == result


def test_a_woken_task_that_comes_too_late_sleeps_on_a_future_of_its_own_and_keeps_its_place(side):
    loop = HandLoop()
    task, younger = asleep(side, loop, 2)
    side.wake()
    loop.run()
    assert isinstance(loop.step(side.coroutine()), tuple), "another one was faster"
    assert loop.step(task) is loop.futures[2] and side.waiting() == 2
    result = side.wake()
    loop.run()
    assert states(loop) == ["done", "pending", "done"], "it was there before the other that sleeps"
    assert loop.step(task) == result and side.waiting() == 1
    result = side.wake()
    loop.run()
    assert loop.step(younger) == result and side.waiting() == 0


def test_a_cancelled_future_is_left_alone_and_its_wake_up_goes_to_the_next(side):
    loop = HandLoop()
    first, second = asleep(side, loop, 2)
    result = side.wake()
    loop.futures[0].state = "cancelled"
    loop.run()
    assert states(loop) == ["cancelled", "pending"]
    with pytest.raises(asyncio.CancelledError), loop.current():
        first.send(None)
    assert (side.waiting(), side.unused()) == (1, 1)
    assert loop.run() == ["call_soon"], "the task gave its wake-up back in the loop's own thread"
    assert loop.step(second) == result
    with pytest.raises(RuntimeError, match="this has been awaited already"):
        first.send(None)


def test_a_loop_that_does_not_run_is_told_all_the_same_and_the_next_is_woken(side):
    idle, loop = HandLoop(running=False), HandLoop()
    (first, second), (late,) = asleep(side, idle, 2), asleep(side, loop)
    result = side.wake()
    assert (idle.run(), loop.run()) == (["call_soon_threadsafe"], ["call_soon_threadsafe"])
    assert (states(idle), states(loop)) == (["done", "done"], ["done"]), "each of them was the next"
    assert loop.step(late) == result
    idle.running = True
    assert idle.step(first) is idle.futures[2] and side.waiting() == 2
    result = side.wake()
    assert idle.run() == ["call_soon_threadsafe"] and idle.step(first) == result
    assert idle.step(second) is idle.futures[3] and side.waiting() == 1


def test_a_running_loop_keeps_its_wake_up(side):
    first, second = HandLoop(), HandLoop()
    (early,), (late,) = asleep(side, first), asleep(side, second)
    result = side.wake()
    assert (first.run(), second.run()) == (["call_soon_threadsafe"], [])
    assert (states(first), states(second)) == (["done"], ["pending"])
    assert first.step(early) == result and side.waiting() == 1
    late.close()
    assert side.waiting() == 0


@pytest.mark.parametrize("where", ["call_soon", "is_running"])
def test_a_loop_that_raises_gives_its_wake_up_to_the_next_and_nothing_is_told(side, where, told):
    broken, loop = HandLoop(), HandLoop()
    _task, (late,) = asleep(side, broken), asleep(side, loop)
    if where == "call_soon":
        broken.errors = [RuntimeError("Event loop is closed")]
    else:
        broken.running = RuntimeError("Event loop is closed")
    result = side.wake()
    assert loop.run() == ["call_soon_threadsafe"] and loop.step(late) == result
    assert (told, states(broken)) == ([], ["pending"])
    assert len(broken.calls) == 1, "an ordinary error is not tried again"


def test_a_call_that_failed_leaves_the_loops_other_tasks_theirs(side, told):
    loop = HandLoop()
    first, second, third = asleep(side, loop, 3)
    loop.errors = [RuntimeError("once")]
    results = [side.wake(), side.wake()]
    assert loop.run() == ["call_soon_threadsafe"] * 2, "one that failed, and one for the two that were told then"
    assert (states(loop), told) == (["pending", "done", "done"], [])
    assert [loop.step(task) for task in (second, third)] == results
    assert side.waiting() == 1, "the first one sleeps on: its loop may be closed"
    first.close()
    (later,) = asleep(side, loop)
    result = side.wake()
    assert loop.run() == ["call_soon_threadsafe"] and loop.step(later) == result


def test_a_loop_is_known_as_long_as_one_of_its_tasks_sleeps(side):
    loop = HandLoop()
    first, second = asleep(side, loop, 2)
    first.close()
    result = side.wake()
    assert loop.run() == ["call_soon_threadsafe"] and loop.step(second) == result
    (third,) = asleep(side, loop)
    futures, ghost = [weakref.ref(future) for future in loop.futures], weakref.ref(loop)
    del loop
    assert ghost() is not None
    third.close()
    assert (ghost(), [future() for future in futures]) == (None, [None] * 3), "although the coroutines live on"
    assert side.waiting() == 0


def test_a_task_that_is_dropped_while_it_sleeps_is_given_up(side):
    loop = HandLoop()
    tasks = asleep(side, loop, 3)
    before = side.queue.stats()
    assert (side.waiting(), before.rejected) == (3, 0)
    del tasks[1]
    rejected = 1 if isinstance(side, Putters) else 0
    after = side.queue.stats()
    assert (side.waiting(), after.rejected, after.put, after.got) == (2, rejected, before.put, before.got)
    results = [side.wake(), side.wake()]
    assert loop.run() == ["call_soon_threadsafe"] and states(loop) == ["done", "pending", "done"]
    assert [loop.step(task) for task in tasks] == results
    assert (side.waiting(), side.queue.stats().rejected) == (0, rejected)


@pytest.mark.parametrize("kind", [Getters, Putters])
@pytest.mark.parametrize("holder", ["loop", "future"])
def test_a_loop_or_future_that_holds_what_its_task_waits_for_is_collected(kind, holder):
    side, loop = kind(), HandLoop()
    loop.tasks = asleep(side, loop)
    held = loop if holder == "loop" else loop.futures[0]
    held.side = side
    loop.futures[0].loop = loop
    ghosts = [weakref.ref(held), weakref.ref(side.queue), weakref.ref(side.sub)]
    side = held = loop = None
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None] * 3
