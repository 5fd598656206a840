"""A handler that runs longer than its time limit fails its message."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq import Backoff
from drainq.delayed.consume_loop import consumer_loop

from ..patience import PATIENCE

TOO_LONG = "TimeoutError: the handler ran longer than 5 seconds"


@pytest.fixture
def consumer(queue):
    """Return a consumer whose steps and checks are the test's to make."""
    queue.offer("a", 1, 0)
    loop = consumer_loop(
        queue._session,
        batch_size=1,
        stop=None,
        max_attempts=2,
        backoff=Backoff(7, jitter=0),
        max_in_flight=None,
        prefetch=1,
        until="empty",
        time_limit=5,
    )
    return loop


def test_a_handler_that_runs_too_long_loses_its_message_which_is_tried_again(consumer, queue, world, caplog):
    steps = consumer.run()
    envelope = next(steps)
    world.clock.advance(4.9)
    consumer._keeper._extend_in_time()
    assert not envelope.revoked
    world.clock.advance(0.1)
    for _ in range(3):
        consumer._keeper._extend_in_time()
    assert envelope.revoked
    (row,) = queue.peek()
    assert (row.last_error, row.attempts, row.in_flight) == (TOO_LONG, 1, False)
    assert row.due_at.timestamp() == world.now + 7
    assert not envelope.ack() and queue.contains_message("a")
    assert steps.send(None) == consumer.handled == 0
    (record,) = [it for it in caplog.records if it.levelname == "ERROR"]
    assert "the handler ran longer than 5 seconds" in record.getMessage() and "'a'" not in record.getMessage()
    assert queue.activity().failed == 1


def test_the_time_of_a_handler_goes_on_while_its_lease_is_extended(consumer, queue, world):
    consumer._keeper._time_limit = 25.0  # two extensions of a lease of 30 seconds
    steps = consumer.run()
    envelope = next(steps)
    for seconds, revoked in ((11, False), (11, False), (2.9, False), (0.1, True)):
        world.clock.advance(seconds)
        consumer._keeper._extend_in_time()
        assert envelope.revoked is revoked
    steps.close()


def test_the_last_attempt_that_runs_too_long_leaves_a_dead_letter(consumer, queue, world):
    assert queue.try_poll().nack()
    steps = consumer.run()
    assert next(steps).attempt == 2
    world.clock.advance(5)
    consumer._keeper._extend_in_time()
    (letter,) = queue.dead_letters()
    assert (letter.error, letter.attempts) == (TOO_LONG, 2)
    steps.close()


@pytest.mark.parametrize("late", [ValueError("late"), None])
def test_what_a_handler_does_after_its_time_changes_nothing(consumer, queue, world, caplog, late):
    steps = consumer.run()
    envelope = next(steps)
    world.clock.advance(5)
    consumer._keeper._extend_in_time()
    with envelope:
        pass
    assert steps.send(late) == 0
    assert queue.peek()[0].last_error == TOO_LONG
    assert len([it for it in caplog.records if it.levelname == "ERROR"]) == 1


def test_a_handler_that_has_settled_its_message_has_all_the_time(consumer, queue, world):
    steps = consumer.run()
    envelope = next(steps)
    assert envelope.ack()
    world.clock.advance(50)
    consumer._keeper._extend_in_time()
    assert not envelope.revoked
    assert steps.send(None) == 1


def test_the_message_after_one_that_took_too_long_is_acknowledged(consumer, queue, world):
    queue.offer("b", 2, 1)
    steps = consumer.run()
    next(steps)
    world.clock.advance(5)
    consumer._keeper._extend_in_time()
    assert steps.send(None).payload == 2
    assert steps.send(None) == 1
    assert [row.key for row in queue.peek()] == ["a"]


def test_the_next_message_has_the_whole_time_again(consumer, queue, world):
    queue.offer("b", 2, 1)
    steps = consumer.run()
    next(steps)
    world.clock.advance(4)
    envelope = steps.send(None)
    world.clock.advance(4)
    consumer._keeper._extend_in_time()
    assert not envelope.revoked and steps.send(None) == 2


def test_a_hanging_thread_holds_up_its_consumer_and_no_other(world):
    queue, go_on, seen = world.open(clock=None), threading.Event(), []
    queue.offer("a", 1)

    def hang(envelope):
        seen.append(envelope.attempt)
        if envelope.attempt == 1:
            go_on.wait(PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.consume, hang, time_limit=0.05, backoff=Backoff(0), concurrency=2, until="empty")
        while not queue._session.activity.read().failed:
            threading.Event().wait(0.01)
        queue.consume(hang, until="empty")
        go_on.set()
        running.result(PATIENCE)
    assert seen == [1, 2] and queue.peek() == []


def consumed(queue, handle, **options):
    async def main():
        return await queue.consume_async(handle, until="empty", **options)

    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_coroutine_that_runs_too_long_is_cancelled_and_its_message_fails(queue):
    cancelled = []
    queue.offer("a", 1, 0, max_attempts=1)

    async def hang(envelope):
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.append(envelope.payload)

    assert consumed(queue, hang, time_limit=0.01) == 0
    (letter,) = queue.dead_letters()
    assert letter.error == "TimeoutError: the handler ran longer than 0.01 seconds" and cancelled == [1]


@pytest.mark.parametrize("end", ["returns", "raises"])
def test_a_coroutine_that_resists_its_cancellation_fails_all_the_same(queue, end, caplog):
    queue.offer("a", 1, 0, max_attempts=1)

    async def resist(envelope):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if end == "raises":
                raise ValueError("while it ended") from None

    assert consumed(queue, resist, time_limit=0.01) == 0
    assert "TimeoutError" in queue.dead_letters()[0].error
    assert "never retrieved" not in caplog.text


def test_a_coroutine_that_ends_in_time_is_acknowledged_and_its_errors_are_its_own(queue):
    queue.offer("a", "good", 0), queue.offer("b", "bad", 1, max_attempts=1)

    async def handle(envelope):
        await asyncio.sleep(0)
        if envelope.payload == "bad":
            raise ValueError("no good")

    assert consumed(queue, handle, time_limit=PATIENCE) == 1
    assert queue.dead_letters()[0].error == "ValueError: no good" and queue.peek() == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancellation_from_outside_stays_one_and_gives_the_message_back(queue, caplog, fails):
    queue.offer("a", 1, 0)

    async def main():
        begun, ended = asyncio.Event(), []

        async def hang(envelope):
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(True)
                if fails:
                    raise ValueError("while it ended")

        task = asyncio.ensure_future(queue.consume_async(hang, time_limit=PATIENCE))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended

    assert asyncio.run(main()) == [True]
    gc.collect()
    assert "never retrieved" not in caplog.text
    (row,) = queue.peek()
    assert (row.attempts, row.in_flight, row.last_error) == (0, False, None)


@pytest.mark.parametrize("wrong", [0, -1, "5", True])
def test_a_limit_that_is_none_is_refused(queue, wrong):
    with pytest.raises((TypeError, ValueError), match="time_limit"):
        queue.consume(print, time_limit=wrong)
