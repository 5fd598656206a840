"""The consuming loop: acknowledged messages, returned messages, and its end. On every back end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq import Backoff
from drainq.delayed import RetryConfig, ScheduledMessage, TimeConfig


@pytest.fixture
def stop():
    return threading.Event()


def test_every_message_is_handled_once_and_gone(queue, world, stop):
    queue.offer_batch([ScheduledMessage(f"{n}", n, world.now) for n in range(20)])
    seen = []

    def handle(envelope):
        seen.append(envelope.payload)
        if len(seen) == 20:
            stop.set()

    assert queue.consume(handle, stop=stop) == 20
    assert seen == list(range(20))
    stats = queue.stats()
    assert (stats.ready, stats.in_flight, stats.scheduled, stats.dead) == (0, 0, 0, 0)


def test_a_batch_handler_gets_lists(queue, world, stop):
    queue.offer_batch([ScheduledMessage(f"{n:02}", n, world.now) for n in range(25)])
    seen = []

    def handle(envelope):
        seen.append(envelope.payload)
        if sum(map(len, seen)) == 25:
            stop.set()

    assert queue.consume(handle, batch_size=10, stop=stop) == 25
    assert seen == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert queue.stats().in_flight == 0


def test_a_handler_of_whose_call_nothing_has_run_acknowledges_nothing(world, stop):
    queue = world.open(retry=RetryConfig(max_retries=0))
    queue.offer_or_update("a", 1, world.now)

    async def send(envelope):
        raise AssertionError(envelope)

    def handle(envelope):
        stop.set()
        return send(envelope)

    assert queue.consume(handle, stop=stop) == 0
    (letter,) = queue.dead_letters()
    assert letter.error.startswith("TypeError: the handler returned <coroutine object")


def test_a_failed_batch_keeps_what_it_acknowledged_before(world, stop):
    queue = world.open(retry=RetryConfig(Backoff(0)))
    queue.offer_batch([ScheduledMessage(f"{n}", n, world.now) for n in range(3)])
    seen = []

    def handle(envelope):
        seen.append(envelope.payload)
        if len(seen) == 1:
            envelope.ack_some(["0", "2"])
            raise ValueError("after two of three")
        stop.set()

    queue.consume(handle, batch_size=5, stop=stop)
    assert seen == [[0, 1, 2], [1]]
    assert queue.stats().ready == queue.stats().in_flight == 0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failed_message_waits_as_long_as_backoff_says(world, asynchronous):
    queue = world.open(retry=RetryConfig(backoff=Backoff(1, 1)))  # which is for the database

    def fail(envelope):
        raise ValueError

    async def fail_async(envelope):
        raise ValueError

    options = {"backoff": Backoff(60, 100, jitter=0), "max_attempts": 4, "until": "empty"}
    queue.offer("a", 1)
    waits = []
    for _ in range(3):
        asyncio.run(queue.consume_async(fail_async, **options)) if asynchronous else queue.consume(fail, **options)
        (again,) = queue.peek(key="a")
        waits.append(round(again.due_at.timestamp() - world.now, 3))
        world.clock.advance(waits[-1])
    assert waits == [60, 100, 100]
    with pytest.raises(TypeError, match=r"backoff must be a drainq.Backoff, such as Backoff\(0.1, 10.0\), got 60"):
        queue.consume(fail, backoff=60)


def test_a_handler_may_speak_for_itself(queue, world, stop):
    queue.offer_batch([ScheduledMessage("acked", 1, world.now), ScheduledMessage("returned", 2, world.now)])

    def handle(envelope):
        if envelope.message_id == "acked":
            assert envelope.ack()
        else:
            assert envelope.nack(delay=5)
            stop.set()

    assert queue.consume(handle, stop=stop) == 2
    assert not queue.contains_message("acked")
    assert queue.stats().scheduled == 1


def test_stop_before_the_start_fetches_nothing(queue, world, stop):
    queue.offer_or_update("a", 1, world.now)
    stop.set()
    assert queue.consume(lambda envelope: pytest.fail("handled"), stop=stop) == 0
    assert queue.stats().ready == 1


def test_stop_ends_an_idle_loop(queue, stop):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.consume, lambda envelope: None, stop=stop)
        stop.set()
        assert running.result(30) == 0


def test_close_ends_an_idle_loop_without_a_stop(world):
    queue, begun = world.open(time=TimeConfig(poll_period=3600)), threading.Event()
    queue._session.listen = begun.set  # the first that a loop does
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.consume, lambda envelope: None)
        assert begun.wait(60)
        queue.close()
        assert running.result(30) == 0


def test_the_lease_is_extended_while_the_handler_runs(world, stop):
    queue = world.open(time=TimeConfig(acquire_timeout=0.6, poll_period=0.05))
    queue.offer_or_update("a", 1, 0)
    handling, go_on, extended = threading.Event(), threading.Event(), threading.Semaphore(0)
    extend = queue._session.storage.extend

    def noted_extend(*arguments):
        count = extend(*arguments)
        extended.release()
        return count

    queue._session.storage.extend = noted_extend

    def handle(envelope):
        handling.set()
        assert go_on.wait(60)
        stop.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.consume, handle, stop=stop)
        assert handling.wait(30)
        try:
            for _ in range(3):
                world.clock.advance(0.4)  # more than a third of the lease; two of them are more than the whole of it
                assert extended.acquire(timeout=30)
                assert queue.try_poll() is None
        finally:
            go_on.set()
        assert running.result(30) == 1
    assert not queue.contains_message("a")


def test_a_message_updated_while_it_is_handled_comes_again(queue, world, stop):
    queue.offer_or_update("a", "old", world.now)
    seen = []

    def handle(envelope):
        seen.append(envelope.payload)
        if envelope.payload == "old":
            queue.offer_or_update("a", "new", world.now)
        else:
            stop.set()

    queue.consume(handle, stop=stop)
    assert seen == ["old", "new"]
    assert not queue.contains_message("a")


def test_several_loops_share_the_work_and_repeat_nothing(queue, world, stop):
    queue.offer_batch([ScheduledMessage(f"{n}", n, world.now) for n in range(120)])
    seen, lock = [], threading.Lock()

    def handle(envelope):
        with lock:
            seen.extend(envelope.payload)
            if len(seen) >= 120:
                stop.set()

    with ThreadPoolExecutor(3) as pool:
        loops = [pool.submit(queue.consume, handle, batch_size=7, stop=stop) for _ in range(3)]
        assert sum(loop.result(60) for loop in loops) == 120
    assert sorted(seen) == list(range(120))
    assert queue.stats().in_flight == 0


def test_a_loop_leaves_no_thread_behind(queue, world, stop):
    queue.offer_or_update("a", 1, world.now)
    before = set(threading.enumerate())
    queue.consume(lambda envelope: stop.set(), stop=stop)
    assert not [thread for thread in set(threading.enumerate()) - before if "lease" in thread.name]
