"""``consume_async``: the loop of ``consume``, with handlers on the caller's event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from drainq import Backoff
from drainq.delayed import RetryConfig, ScheduledMessage, TimeConfig
from drainq.errors import ShutDown
from drainq.loop_signal import LoopSignal

LONG = TimeConfig(poll_period=3600)


def offer(queue, world, *names):
    queue.offer_batch([ScheduledMessage(name, name, world.now - 9 + n) for n, name in enumerate(names)])


def consumed(queue, handle, **options):
    """Run a consumer on a loop of its own. ``handle`` gets the envelope and the event that stops the consumer."""

    async def main():
        stop = asyncio.Event()
        return await queue.consume_async(lambda_of(handle, stop), stop=stop, **options)

    return asyncio.run(asyncio.wait_for(main(), 60))


def lambda_of(handle, stop):
    async def handler(envelope):
        await handle(envelope, stop)

    return handler


def test_what_is_handled_is_acknowledged_and_what_fails_is_tried_again_and_buried(world):
    queue, seen = world.open(retry=RetryConfig(Backoff(0), max_retries=1)), []
    offer(queue, world, "good", "bad", "last")

    async def handle(envelope, stop):
        await asyncio.sleep(0)
        seen.append((envelope.payload, envelope.attempt))
        if seen.count(("bad", 2)) and len(seen) == 4:
            stop.set()
        if envelope.payload == "bad":
            raise ValueError("no good")

    assert consumed(queue, handle) == 2
    assert sorted(seen) == [("bad", 1), ("bad", 2), ("good", 1), ("last", 1)]
    assert [dead.key for dead in queue.dead_letters()] == ["bad"]
    assert (queue.stats().ready, queue.stats().in_flight) == (0, 0)


def test_stop_lets_the_handler_end_and_gives_the_others_back(world):
    queue = world.open()
    offer(queue, world, "a", "b")

    async def handle(envelope, stop):
        stop.set()
        await asyncio.sleep(0)

    assert consumed(queue, handle) == 1
    rest = queue.try_poll_many(5)
    assert (rest.payload, rest.attempt) == (["b"], [1])


def test_a_consumer_that_waits_is_woken_by_an_offer_of_a_thread_and_by_stop_and_holds_no_thread(world, monkeypatch):
    queue, before, waits = world.open(time=LONG), set(threading.enumerate()), []

    class Signal(LoopSignal):
        async def wait(self, seconds):
            waits.append((self._given, seconds > 60))
            if len(waits) == 50:
                all_wait.set()
            await super().wait(seconds)

    monkeypatch.setattr("drainq.delayed.consume.LoopSignal", Signal)

    all_wait = asyncio.Event()

    async def main():
        stop, handled = asyncio.Event(), asyncio.Event()

        async def handle(envelope):
            handled.set()

        consumers = [asyncio.create_task(queue.consume_async(handle, stop=stop)) for _ in range(50)]
        await asyncio.wait_for(all_wait.wait(), 60)
        await asyncio.to_thread(queue.offer_or_update, "a", 1, world.now)
        await asyncio.wait_for(handled.wait(), 60)
        assert len(set(threading.enumerate()) - before) < 45
        stop.set()
        return await asyncio.wait_for(asyncio.gather(*consumers), 60)

    assert sum(asyncio.run(main())) == 1
    assert set(waits) == {(False, True)} and not queue._session.wakeup._listeners


def test_a_cancelled_consumer_cancels_its_handler_and_gives_the_message_back_uncounted(world):
    queue = world.open()
    offer(queue, world, "a")

    async def main():
        running, cancelled = asyncio.Event(), []

        async def handle(envelope):
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(envelope.payload)
                raise

        consuming = asyncio.create_task(queue.consume_async(handle))
        await asyncio.wait_for(running.wait(), 60)
        storage, gate = queue._session.storage, threading.Event()
        release, storage.release = storage.release, lambda *given: gate.wait(60) and release(*given)
        consuming.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not consuming.done()  # before the message was given back
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        again = await queue.try_poll_async()
        return cancelled, again.payload, again.attempt

    assert asyncio.run(main()) == (["a"], "a", 1)


def test_what_was_handled_before_a_cancel_is_acknowledged_although_every_thread_is_busy(world):
    queue = world.open()
    offer(queue, world, "a", "b")
    queue._session.calls._executor = ThreadPoolExecutor(1)

    async def main():
        free, handled = threading.Event(), []

        async def handle(envelope):
            handled.append(envelope.payload)
            queue._session.calls.submit(free.wait)  # the only thread: the next step of the consumer cannot begin
            asyncio.get_running_loop().call_soon(consuming.cancel)

        consuming = asyncio.create_task(queue.consume_async(handle))
        asyncio.get_running_loop().call_later(0.05, free.set)  # while the consumer waits for its books
        with pytest.raises(asyncio.CancelledError):
            await consuming
        return handled

    assert asyncio.run(main()) == ["a"]
    rest = queue.try_poll_many(5)
    assert (rest.payload, rest.attempt) == (["b"], [1])


def test_closing_the_queue_ends_its_consumers_and_the_coroutines_of_a_closed_one_say_so(world):
    queue = world.open(time=LONG)

    async def main():
        async def handle(envelope):
            pass

        consuming = asyncio.create_task(queue.consume_async(handle))
        await asyncio.sleep(0)  # the task begins; from CPython 3.14 on a call that is over at once does not let it
        await queue.stats_async()
        assert await queue.close_async() is True
        assert await asyncio.wait_for(consuming, 60) == 0
        for call in (queue.poll_async(), queue.consume_async(handle)):
            with pytest.raises(ShutDown):
                await call
        with pytest.raises(ShutDown):
            queue.consume(print)

    asyncio.run(main())


def test_a_block_acknowledges_gives_back_and_when_cancelled_leaves_the_attempts(world):
    async def main():
        async with world.open() as queue:
            offer(queue, world, "a")
            async with await queue.poll_async() as envelope:
                assert envelope.attempt == 1

            assert not await queue.contains_message_async("a")
            offer(queue, world, "b")

            async def fails(error):
                async with await queue.poll_async(timeout=60):
                    if error is None:
                        asyncio.current_task().cancel()
                        await asyncio.sleep(60)
                    raise error

            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(fails(None))
            with pytest.raises(ValueError):
                await fails(ValueError("no"))
            return (await queue.try_poll_async()).attempt

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((print,), "handler must be an async function that takes .envelope.*print"),
        ((asyncio.sleep, threading.Event()), "stop must be an asyncio.Event or None, got <threading.Event"),
    ],
)
def test_what_cannot_be_awaited_is_refused(sqlite, arguments, says):
    with pytest.raises(TypeError, match=says):
        asyncio.run(sqlite.open().consume_async(arguments[0], stop=(*arguments, None)[1]))


def test_every_option_of_a_consumer_reaches_its_loop(sqlite, monkeypatch):
    options = {"batch_size": 2, "max_attempts": 3, "max_in_flight": {"a": 1}, "prefetch": 7, "until": "empty"}
    options |= {"backoff": Backoff(60, 60), "time_limit": 9}
    seen = []
    monkeypatch.setattr(
        "drainq.delayed.consume.consumer_loop",
        lambda session, **given: (
            seen.append(given) or SimpleNamespace(session=session, run=lambda: (n for n in [5]), follow=lambda: None)
        ),
    )
    with sqlite.open() as queue:
        assert queue.consume(print, **options) == asyncio.run(queue.consume_async(asyncio.sleep, **options)) == 5
    assert [given.pop("time_limit", None) for given in seen] == [9, None]  # a coroutine is cancelled by its caller
    del options["time_limit"]
    assert [{**given, "stop": None} for given in seen] == [{**options, "stop": None}] * 2
