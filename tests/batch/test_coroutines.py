"""Coroutines and the batch queue: producing, waiting for its end, and handlers that are ``async def``."""

from __future__ import annotations

import asyncio
import inspect
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, ThreadPolicy, WouldDeadlock, aio
from drainq.callables import is_async
from drainq.loop_signal import LoopSignal
from tests.batch.conftest import PATIENCE, Gate


def config(**settings) -> BatchQueueConfig:
    return BatchQueueConfig(threads=ThreadPolicy.fixed(1), **settings)


async def fill(queue: BatchQueue, gate: Gate) -> int:
    """Fill a queue whose handler waits; the number of items that went in."""
    assert await queue.produce_async("first")
    await asyncio.to_thread(gate.wait_entered)
    count = 1
    while await queue.offer_async(count, timeout=0):
        count += 1
    return count


def test_a_full_queue_does_not_stop_the_event_loop():
    async def main() -> list[bool]:
        gate = Gate(is_open=False)
        async with BatchQueue("full", config(buffer_size=4, consumer=gate)) as queue:
            accepted = await fill(queue, gate)
            waiting = asyncio.create_task(queue.produce_async("waits"))
            for _ in range(200):  # the loop goes on, or the test would never end
                await asyncio.sleep(0)
            assert not waiting.done()
            gate.open()
            assert await waiting
            await queue.flush_async()
            stats = queue.stats()
            assert stats.accepted == stats.handled == accepted + 1
            assert stats.rejected["full"] == 1  # the offer that found no room
            return gate.items

    assert asyncio.run(main())[-1] == "waits"


def test_many_items_are_queued_in_order_and_other_tasks_have_turns_although_there_is_room():
    async def main() -> None:
        handled, turns = [], []

        async def tick() -> None:
            while True:
                turns.append(len(turns))
                await asyncio.sleep(0)

        async with BatchQueue("many", config(buffer_size=2_000, consumer=handled.extend)) as queue:
            ticking = asyncio.create_task(tick())
            assert await queue.produce_many_async(iter(range(1_000))) == 1_000
            ticking.cancel()
        assert handled == list(range(1_000)) and len(turns) >= 4

    asyncio.run(main())


def test_many_items_whose_task_is_cancelled_are_counted_exactly_and_not_read_further():
    async def main() -> None:
        gate, read = Gate(is_open=False), []
        async with BatchQueue("cut", config(buffer_size=4, consumer=gate)) as queue:
            accepted = await fill(queue, gate)
            items = (read.append(number) or number for number in range(9))
            waiting = asyncio.create_task(queue.produce_many_async(items))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            gate.open()
        stats = queue.stats()
        assert read == [0] and stats.accepted == stats.handled == accepted
        assert stats.rejected["full"] == 2 and stats.offered == accepted + 2  # the other one is the offer of ``fill``

    asyncio.run(main())


@pytest.mark.parametrize("is_shut_down", [False, True])
def test_many_items_that_are_refused_count_as_those_of_a_thread_do(is_shut_down):
    async def main() -> None:
        gate, strategy = Gate(is_open=False), BufferStrategy.IF_POSSIBLE
        async with BatchQueue("refuses", config(buffer_size=4, consumer=gate, strategy=strategy)) as queue:
            await fill(queue, gate)
            if is_shut_down:
                gate.open()
                await queue.shutdown_async()
            before = queue.stats()
            assert queue.produce_many(["a", "b"]) == 0
            by_thread = queue.stats()
            assert await queue.produce_many_async(["a", "b"]) == 0
            stats, reason = queue.stats(), "closed" if is_shut_down else "full"
            gate.open()
        assert stats.offered - by_thread.offered == by_thread.offered - before.offered == 2
        assert stats.rejected[reason] == before.rejected[reason] + 4

    asyncio.run(main())


def test_a_handler_is_removed_after_its_items_while_the_loop_goes_on():
    async def main() -> None:
        gate = Gate(is_open=False)
        async with BatchQueue("removed", config(loop=asyncio.get_running_loop())) as queue:
            refused: list = []

            async def removes_itself(batch: list) -> None:
                try:
                    await queue.remove_handler_async(str)
                except WouldDeadlock as error:
                    refused.append(str(error))

            queue.add_handler(int, gate)
            queue.add_handler(str, removes_itself)
            queue.produce(1), await asyncio.to_thread(gate.wait_entered)
            removing = asyncio.create_task(queue.remove_handler_async(int))
            for _ in range(200):
                await asyncio.sleep(0)
            assert not removing.done()
            gate.open()
            assert await removing and not await queue.remove_handler_async(int)
            await queue.produce_async("me"), await queue.flush_async()
        assert gate.items == [1] and len(refused) == 1 and "remove_handler_async" in refused[0]

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(5))
def test_totals_are_exact_with_tasks_cancelled_at_random(seed):
    async def main() -> None:
        rng, handled = random.Random(seed), []
        async with BatchQueue("random", config(buffer_size=3, consumer=handled.extend)) as queue:
            began: list[int] = []

            async def produce(number: int) -> bool:
                began.append(number)
                return await queue.produce_async(number)

            tasks = [asyncio.create_task(produce(number)) for number in range(300)]
            while not all(task.done() for task in tasks):
                rng.choice(tasks).cancel()
                await asyncio.sleep(0)
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await queue.flush_async()
            stats = queue.stats()
            accepted = [number for number, end in enumerate(ends) if end is True]
            assert sorted(handled) == accepted
            assert stats.accepted == stats.handled == len(accepted)
            assert stats.offered == len(began)
            assert stats.rejected["full"] == len(began) - len(accepted)
            assert stats.balanced

    asyncio.run(main())


def test_each_coroutine_keeps_the_order_of_its_items():
    async def main() -> None:
        handled: list[tuple[int, int]] = []
        async with BatchQueue("order", config(buffer_size=2, consumer=handled.extend)) as queue:

            async def produce(who: int) -> None:
                for number in range(50):
                    await queue.produce_async((who, number))

            await asyncio.gather(*(produce(who) for who in range(5)))
        for who in range(5):
            assert [number for by, number in handled if by == who] == list(range(50))

    asyncio.run(main())


def test_offers_end_in_time_and_say_why():
    async def main() -> None:
        gate = Gate(is_open=False)
        async with BatchQueue("late", config(buffer_size=2, consumer=gate)) as queue:
            await fill(queue, gate)
            assert await queue.offer_async("x", timeout=0.01) is False
            for bad in (-1, float("nan")):
                with pytest.raises(ValueError, match="timeout must be a number of seconds >= 0"):
                    await queue.offer_async("x", timeout=bad)
            gate.open()
        assert await queue.produce_async("late") is False
        assert queue.stats().rejected["closed"] == 1
        gate = Gate(is_open=False)
        async with BatchQueue(
            "drops", config(buffer_size=2, consumer=gate, strategy=BufferStrategy.IF_POSSIBLE)
        ) as queue:
            await fill(queue, gate)
            refused = asyncio.ensure_future(queue.produce_async("x"))
            for _ in range(200):
                await asyncio.sleep(0)
            ended = refused.done()
            gate.open()
            assert await refused is False and ended

    asyncio.run(main())


def test_a_wait_for_room_ends_with_the_queue():
    async def main() -> None:
        gate = Gate(is_open=False)
        queue = BatchQueue("closes", config(buffer_size=2, consumer=gate))
        accepted = await fill(queue, gate)
        waiting = asyncio.create_task(queue.produce_async("x"))
        await asyncio.sleep(0)
        ends = asyncio.create_task(queue.shutdown_async())
        assert await waiting is False
        gate.open()
        assert await ends
        assert queue.stats().handled == accepted

    asyncio.run(main())


def test_a_flush_and_a_shutdown_that_are_awaited_end_at_their_timeout():
    async def main() -> None:
        gate = Gate(is_open=False)
        queue = BatchQueue("awaited", config(consumer=gate))
        assert await queue.produce_async(1)
        assert not await queue.flush_async(timeout=0.0)
        assert not await queue.shutdown_async(timeout=0.0)
        assert queue.stats().abandoned == 1
        gate.open()

    asyncio.run(main())


def test_async_handlers_run_on_the_loop_one_at_a_time_and_in_order():
    async def main() -> None:
        running, handled, loops = [0], [], set()

        async def handler(batch: list[int]) -> None:
            running[0] += 1
            assert running[0] == 1
            loops.add(asyncio.get_running_loop())
            await asyncio.sleep(0)
            handled.extend(batch)
            running[0] -= 1

        here = asyncio.get_running_loop()
        async with BatchQueue("async", config(loop=here, max_batch=7, buffer_size=10)) as queue:
            queue.add_handler(int, handler)
            for number in range(100):
                await queue.produce_async(number)
            assert await queue.flush_async()
            assert queue.stats().handled == 100
        assert handled == list(range(100))
        assert loops == {here}

    asyncio.run(main())


def test_after_a_call_on_the_loop_nothing_of_it_is_left():
    async def main() -> None:
        async def handler(batch: list[int]) -> None:
            assert aio.HANDLING.get() == (7,)

        async def nested(batch: list[int]) -> None:  # the handler of one queue calls that of another
            inner = aio.on_loop(innermost, loop, 7)
            await asyncio.to_thread(inner, batch)
            assert aio.HANDLING.get() == (5,)

        async def innermost(batch: list[int]) -> None:
            assert aio.HANDLING.get() == (5, 7)

        loop = asyncio.get_running_loop()
        call = aio.on_loop(handler, loop, 7)
        assert await asyncio.to_thread(lambda: (call([1]), aio.HANDLING.get())) == (None, ())
        outer = aio.on_loop(nested, loop, 5)
        assert await asyncio.to_thread(lambda: (outer([1]), aio.HANDLING.get())) == (None, ())
        signal = LoopSignal()
        loop.call_soon(signal.give)
        before = len([timer for timer in loop._scheduled if not timer.cancelled()])
        await signal.wait(3600)
        assert len([timer for timer in loop._scheduled if not timer.cancelled()]) == before
        assert signal._waiter is None
        with pytest.raises(StopIteration):  # it was given and not cleared
            signal.wait(3600).send(None)

    asyncio.run(main())


@pytest.mark.parametrize("during", [False, True])
def test_a_batch_whose_loop_was_closed_leaves_no_coroutine(during, monkeypatch):
    async def handler(batch: list[int]) -> None:
        """Is never begun."""

    loop, made = asyncio.new_event_loop(), []
    call = aio._OnLoop(lambda batch: made.append(handler(batch)) or made[0], loop, 7)
    if during:
        monkeypatch.setattr("concurrent.futures.wait", lambda *_: loop.close())
    else:
        loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        call([1])
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED and aio.HANDLING.get() == ()


def test_a_consumer_and_an_object_with_consume_may_be_async():
    async def main() -> None:
        handled: list = []

        class Handler:
            async def consume(self, batch: list) -> None:
                handled.extend(batch)

        async def consumer(batch: list) -> None:
            handled.extend(batch)

        loop = asyncio.get_running_loop()
        async with BatchQueue("object", config(loop=loop)) as queue:
            queue.add_handler(str, Handler())
            queue.add_handler(int, lambda batch: handled.extend(batch))
            queue.produce("a"), queue.produce(1)
            await queue.flush_async()
        async with BatchQueue("consumer", config(loop=loop, consumer=consumer)) as queue:
            queue.produce("b")
        assert sorted(map(str, handled)) == ["1", "a", "b"]

    asyncio.run(main())


def test_an_async_handler_that_raises_or_is_cancelled_fails_its_batch_and_no_other():
    async def main() -> None:
        failures: list = []

        async def handler(batch: list) -> None:
            await asyncio.sleep(0)
            if batch[0] == "raise":
                raise ValueError("no")
            if batch[0] == "cancel":
                asyncio.current_task().cancel()
                await asyncio.sleep(0)

        settings = config(
            loop=asyncio.get_running_loop(),
            max_batch=1,
            on_error=lambda batch, error: failures.append(type(error).__name__),
        )
        async with BatchQueue("fails", settings) as queue:
            queue.add_handler(str, handler)
            queue.produce_many(["raise", "fine", "cancel", "fine"])
            await queue.flush_async()
            stats = queue.stats()
            assert (stats.handled, stats.failed) == (2, 2)
        assert failures == ["ValueError", "CancelledError"]

    asyncio.run(main())


def test_what_would_wait_for_itself_raises():
    async def main() -> None:
        errors: list[BaseException] = []
        offers: list[bool] = []
        settings = config(loop=asyncio.get_running_loop(), buffer_size=2)
        queue = BatchQueue("itself", settings)

        attempts = (
            lambda: queue.flush_async(0),
            lambda: queue.shutdown_async(0),
            lambda: asyncio.wait_for(asyncio.create_task(queue.produce_async("one too many")), PATIENCE / 3),
        )

        async def handler(batch: list) -> None:
            for attempt in attempts[len(errors) :]:
                try:
                    while await attempt():
                        """There was room for the item."""
                except WouldDeadlock as error:
                    errors.append(error)
            if not offers:  # the partition is full
                offers.append(await queue.offer_async("does not wait", timeout=0))

        queue.add_handler(str, handler)
        queue.produce("go")
        with pytest.raises(WouldDeadlock, match="await flush_async"):
            queue.flush()
        with pytest.raises(WouldDeadlock, match="await shutdown_async"):
            queue.shutdown()
        await queue.flush_async()
        await queue.shutdown_async()
        assert len(errors) == 3 and offers == [False]
        stats = queue.stats()
        assert (stats.rejected["would_deadlock"], stats.rejected["full"], stats.failed) == (1, 1, 0) and stats.balanced

    asyncio.run(main())


def test_a_plain_produce_in_the_loop_of_the_handlers_does_not_wait_for_them():
    async def main() -> None:
        started = asyncio.Event()
        let_go = asyncio.Event()

        async def handler(batch: list) -> None:
            started.set()
            await let_go.wait()

        async with BatchQueue("plain", config(loop=asyncio.get_running_loop(), buffer_size=2)) as queue:
            queue.add_handler(int, handler)
            queue.produce(0)
            await started.wait()
            try:
                with pytest.raises(WouldDeadlock, match=r"await produce_async\(item\)"):
                    for number in range(10):
                        queue.produce(number)
            finally:
                let_go.set()
            stats = queue.stats()
            assert stats.rejected["would_deadlock"] == 1 and stats.offered == stats.accepted + 1

    asyncio.run(main())


def test_a_loop_that_was_closed_fails_the_batches_and_holds_nothing_up():
    failures: list = []
    loop = asyncio.new_event_loop()
    queue = BatchQueue("closed", config(loop=loop, on_error=lambda batch, error: failures.append(str(error))))

    async def handler(batch: list) -> None:
        raise AssertionError("never runs")

    queue.add_handler(int, handler)
    queue.produce(1)  # the loop does not run: the drain thread waits for it
    loop.close()
    assert queue.flush(PATIENCE)
    queue.produce(2)
    assert queue.shutdown(PATIENCE)
    assert queue.stats().failed == 2
    assert all("closed" in failure for failure in failures)


def test_without_a_loop_async_handlers_are_refused():
    async def handler(batch: list) -> None: ...

    assert is_async(handler)
    with BatchQueue("none", config()) as queue, pytest.raises(TypeError, match="loop="):
        queue.add_handler(int, handler)
    with pytest.raises(TypeError, match="loop="):
        config(consumer=handler)


def test_async_with_ends_the_queue_also_after_an_exception():
    async def main() -> BatchQueue:
        with pytest.raises(ZeroDivisionError):
            async with BatchQueue("leaves", config()) as queue:
                raise ZeroDivisionError
        return queue

    assert not asyncio.run(main()).running


def test_a_coroutine_that_is_never_awaited_offers_nothing():
    with BatchQueue("forgotten", config()) as queue:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            queue.produce_async(1)
        assert queue.stats().offered == 0


def test_coroutines_that_wait_for_room_are_woken_and_set_no_timer():
    busy, go_on, handled = threading.Event(), threading.Event(), []

    def handle(batch):
        busy.set()
        assert go_on.wait(30)
        handled.extend(batch)

    async def main():
        queue = BatchQueue("full", buffer_size=2, threads=1, consumer=handle)
        assert await queue.produce_async(0)
        await asyncio.to_thread(busy.wait)
        assert await queue.produce_async(1) and await queue.produce_async(2)
        tasks = [asyncio.create_task(queue.produce_async(number)) for number in range(3, 40)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert asyncio.get_running_loop()._scheduled == [], "they look from time to time"
        tasks[0].cancel()
        go_on.set()
        tasks[1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[2:] == [True] * 35
        assert await queue.shutdown_async(30)
        stats = queue.stats()
        assert stats.accepted == len(handled) == 38 and stats.rejected["full"] == 2

    asyncio.run(main())


@pytest.mark.parametrize("crowded", [False, True])
def test_a_coroutine_that_meets_other_threads_gives_the_gil_up_once_before_its_item_goes_in(crowded):
    steps = []
    attempt = SimpleNamespace(is_crowded=lambda: crowded, try_now=lambda: steps.append("try") or True)
    waits = aio.produce(SimpleNamespace(_attempt=lambda item: attempt), 1, None, 1, True)

    async def main():
        asyncio.get_running_loop().call_soon(steps.append, "others")
        assert await waits

    asyncio.run(main())
    assert steps[:1] == (["others"] if crowded else ["try"])


@pytest.mark.parametrize(("in_time", "left"), [(True, 7.0), (False, 0.0)])
def test_an_end_that_is_awaited_has_its_time_once_and_names_itself(in_time, left):
    async def ended(timeout):
        assert timeout == 7.0
        return in_time

    async def main():
        queue = SimpleNamespace(name="q", _when_ended=ended, shutdown=lambda timeout: timeout)
        assert await aio.end(queue, 3, "shutdown", 7.0) == left
        aio.HANDLING.set((3,))
        with pytest.raises(WouldDeadlock, match="^shutdown_async of queue 'q' was awaited in one of its own handlers"):
            await aio.end(queue, 3, "shutdown", 7.0)

    asyncio.run(main())


def test_loops_on_several_threads_wait_for_room_in_one_queue():
    handled = []
    queue = BatchQueue("small", buffer_size=3, threads=1, consumer=handled.extend)

    async def produce(first):
        return await asyncio.gather(*(queue.produce_async(number) for number in range(first, first + 200)))

    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(asyncio.run, produce(first)) for first in (0, 200, 400)]
        assert all(queue.produce(number) for number in range(600, 800))
        assert all(all(answer.result(60)) for answer in answers)
    assert queue.shutdown(30)
    assert sorted(handled) == list(range(800))


AN_IMPORT_THAT_COMES_BACK = """
import sys
from drainq import BatchQueue

queue, made = BatchQueue("a", consumer=print, threads=1), []


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "drainq.aio" and not made:
            made.append(None)
            made.append(queue.produce_async(1))


sys.meta_path.insert(0, Finder())
made.append(queue.produce_async(2))
print(*[coroutine.close() for coroutine in made[1:]])
"""


@pytest.mark.system
def test_the_import_of_the_first_call_may_run_code_that_makes_the_same_call():
    ran = subprocess.run([sys.executable, "-c", AN_IMPORT_THAT_COMES_BACK], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "None None\n"), ran.stderr
