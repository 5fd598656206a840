"""`flush_async` and `shutdown_async`: the drain thread that ends what they wait for resumes them, and no thread waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq import BatchQueue, ThreadPolicy, WouldDeadlock
from tests.batch.conftest import PATIENCE

LOOPS, WAITS, TICKS = 3, 50, 100


class Held:
    """A handler that a test holds, and the end of the queue as it is told."""

    def __init__(self) -> None:
        self.busy, self.go_on = threading.Event(), threading.Event()
        self.is_let_go: bool | None = None
        self.items: list[object] = []
        self.closed_by: list[threading.Thread] = []

    def consume(self, batch: list[object]) -> None:
        self.busy.set()
        self.is_let_go = self.go_on.wait(PATIENCE)
        self.items += batch

    def on_close(self) -> None:
        self.closed_by.append(threading.current_thread())


def held(**settings) -> tuple[Held, BatchQueue]:
    handler = Held()
    queue = BatchQueue("held", consumer=handler, **settings)
    assert queue.produce(0) and handler.busy.wait(PATIENCE)
    return handler, queue


def test_waits_of_many_loops_hold_no_thread_and_their_loops_go_on():
    handler, queue = held()
    waits, ticked = threading.Barrier(LOOPS + 1), threading.Barrier(LOOPS + 1)

    async def loop() -> list[object]:
        cancelled = [asyncio.ensure_future(wait()) for wait in (queue.flush_async, queue.shutdown_async)]
        # The end of the queue is waited for, too, as soon as one shutdown has begun.
        tasks = [asyncio.ensure_future(queue.flush_async()) for _ in range(WAITS)]
        tasks += [asyncio.ensure_future(queue.shutdown_async()) for _ in range(WAITS)]
        limited = asyncio.ensure_future(asyncio.wait_for(queue.flush_async(), 0.001))
        for _ in range(TICKS):
            await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()
        assert isinstance((await asyncio.gather(limited, return_exceptions=True))[0], asyncio.TimeoutError)
        waits.wait(PATIENCE), ticked.wait(PATIENCE)
        assert not any(task.done() for task in tasks)
        return await asyncio.gather(*tasks)

    with ThreadPoolExecutor(LOOPS) as threads:
        loops = [threads.submit(asyncio.run, loop()) for _ in range(LOOPS)]
        waits.wait(PATIENCE)
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith(("asyncio", "drainq-aside"))]
        ticked.wait(PATIENCE)
        handler.go_on.set()
        answers = [loop.result(PATIENCE) for loop in loops]
    assert (names, answers) == ([], [[True] * 2 * WAITS] * LOOPS)
    stats = queue.stats()
    assert (handler.items, stats.handled, stats.balanced, len(handler.closed_by)) == ([0], 1, True, 1)


def test_an_awaited_flush_ends_the_gathering_of_items():
    async def main() -> list[int]:
        handled: list[int] = []
        async with BatchQueue("gathers", linger=3600, consumer=handled.extend) as queue:
            for number in range(3):
                await queue.produce_async(number)
                assert await queue.flush_async(PATIENCE)
            return handled.copy()

    assert asyncio.run(main()) == [0, 1, 2]


def test_an_awaited_flush_ends_when_another_call_abandons_its_items():
    handler, queue = held()

    async def main() -> bool:
        flush = asyncio.ensure_future(queue.flush_async())
        await asyncio.sleep(0)
        assert await queue.shutdown_async(0) is False
        return await flush

    assert asyncio.run(main()) is False
    assert handler.is_let_go is None and queue.stats().abandoned == 1
    handler.go_on.set()


def test_a_cancelled_shutdown_closes_the_queue_and_abandons_nothing():
    handler, queue = held()

    async def main() -> bool:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.shutdown_async(3600), 0.001)
        assert not queue.running and queue.stats().abandoned == 0
        handler.go_on.set()
        return await queue.shutdown_async()

    assert asyncio.run(main())
    assert queue.stats().handled == 1 and len(handler.closed_by) == 1


def test_no_loop_calls_the_handler_of_a_shared_scheduler_at_the_end():
    handler, queue = held(shared_scheduler=("ends", ThreadPolicy.fixed(1)))
    handler.go_on.set()
    assert asyncio.run(queue.shutdown_async())
    assert len(handler.closed_by) == 1 and handler.closed_by[0] is not threading.current_thread()


def test_a_plain_handler_that_awaits_its_own_end_raises():
    refused = []

    def handle(batch: list[object]) -> None:
        for wait in (queue.flush_async, queue.shutdown_async):
            try:
                asyncio.run(wait(PATIENCE))
            except WouldDeadlock as error:
                refused.append(str(error))

    with BatchQueue("itself", consumer=handle) as queue:
        queue.produce(1)
    assert [message.split(" of ")[0] for message in refused] == ["flush_async", "shutdown_async"]
