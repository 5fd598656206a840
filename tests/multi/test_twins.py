"""The multi-queue and the set queue take, wait and end alike, for threads and for tasks."""

from __future__ import annotations

import asyncio
import queue as std
from itertools import chain

import pytest

from drainq import MultiQueue, SetQueue, ShutDown

from .helpers import in_thread


class Kind:
    """A queue of one kind, and its putting side."""

    def __init__(self, kind, capacity=None):
        self.queue = MultiQueue() if kind is MultiQueue else SetQueue(capacity)
        self.end = self.queue.add_sub_queue("s", capacity=capacity) if kind is MultiQueue else self.queue

    def waiting(self, getters=0, putters=0):
        stats = self.queue.stats()
        return (stats.blocked_getters, stats.blocked_putters) == (getters, putters)


@pytest.fixture(params=[MultiQueue, SetQueue])
def kind(request):
    return request.param


async def asleep(both, **waiters):
    while not both.waiting(**waiters):
        await asyncio.sleep(0)


def test_a_bulk_get_takes_nothing_before_there_is_enough(kind):
    async def main():
        both = Kind(kind)
        task = asyncio.create_task(both.queue.get_many_async(3, min_items=3, timeout=60))
        thread = in_thread(both.queue.get_many, 3, min_items=3)
        await asleep(both, getters=2)
        both.end.put_many(range(2))
        await asyncio.sleep(0)
        assert both.queue.qsize() == 2 and both.waiting(getters=2)
        both.end.put_many(range(2, 6))
        assert sorted([await task, await asyncio.wrap_future(thread)]) == [[0, 1, 2], [3, 4, 5]]

    asyncio.run(main())


def test_nothing_in_time_is_told_as_the_standard_queue_tells_it(kind):
    async def main():
        both = Kind(kind, capacity=3)
        assert await both.queue.get_many_async(3, min_items=0) == both.queue.get_many(3, min_items=0) == []
        for seconds in (0, 0.001):
            with pytest.raises(std.Empty):
                await both.queue.get_async(timeout=seconds)
            assert await both.queue.get_many_async(3, timeout=seconds) == []
        both.end.put_many(list("abc"))
        for seconds in (0, 0.001):
            with pytest.raises(std.Full):
                await both.end.put_async("d", timeout=seconds)
        assert both.queue.get_many(2) == ["a", "b"]
        assert await both.queue.get_many_async(3, min_items=2, timeout=0.001) == ["c"]
        for call in (both.queue.get_async, lambda timeout: both.queue.get_many_async(1, timeout=timeout)):
            with pytest.raises(ValueError, match="timeout"):
                call(timeout=-1)
        assert both.waiting()

    asyncio.run(main())


def test_a_limit_of_time_leaves_no_timer_behind(kind):
    async def main():
        both = Kind(kind)
        task = asyncio.create_task(both.queue.get_async(timeout=3600))
        await asleep(both, getters=1)
        timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]
        both.end.put("a")
        assert await task == "a"
        return [timer.cancelled() for timer in timers]

    assert asyncio.run(main()) == [True]


def test_a_stream_has_the_items_until_the_shutdown(kind):
    async def main():
        both = Kind(kind)

        async def collect(stream):
            return [item async for item in stream]

        shared = both.queue.stream_async()
        tasks = [asyncio.create_task(collect(stream)) for stream in (shared, shared, both.queue.stream_async())]
        threads = [in_thread(list, both.queue.stream()) for _ in range(2)]
        await asleep(both, getters=5)
        for item in range(100):
            await both.end.put_async(item)
        both.queue.shutdown()
        got = [await task for task in tasks] + [await asyncio.wrap_future(thread) for thread in threads]
        assert sorted(chain(*got)) == list(range(100))
        assert all(part == sorted(part) for part in got)

    asyncio.run(main())


def test_a_with_block_ends_with_the_shutdown_and_leaves_the_items(kind):
    async def main():
        both = Kind(kind)
        async with both.queue as entered:
            assert entered is both.queue
            await both.end.put_async("a")
        assert both.queue.is_shutdown and await both.queue.get_async() == "a"
        with both.queue:  # a second end
            pass
        return both

    both = Kind(kind)
    with pytest.raises(ZeroDivisionError), both.queue as entered:
        assert entered is both.queue
        raise ZeroDivisionError
    for queue in (both.queue, asyncio.run(main()).queue):
        for call in (queue.get, lambda queue=queue: queue.get_many(1, min_items=0)):
            with pytest.raises(ShutDown):
                call()


def test_tasks_of_several_loops_and_threads_share_one_queue(kind):
    """Each item goes to one getter, wherever it runs; puts wait for room in both."""
    both = Kind(kind, capacity=3)

    async def collect():
        async def one():
            return [item async for item in both.queue.stream_async()]

        return [*chain(*await asyncio.gather(one(), one()))]

    async def produce(first):
        await asyncio.gather(*(both.end.put_async(item) for item in range(first, first + 100)))

    getters = [in_thread(lambda: asyncio.run(collect())) for _ in range(2)] + [in_thread(list, both.queue.stream())]
    putters = [in_thread(lambda first=first: asyncio.run(produce(first))) for first in (0, 100)]
    both.end.put_many(range(200, 300))
    for putter in putters:
        putter.result(60)
    both.queue.shutdown()
    assert sorted(chain(*(getter.result(60) for getter in getters))) == list(range(300))


def test_a_set_queues_putter_that_waits_learns_that_its_item_is_known():
    async def main():
        queue = SetQueue(2, in_flight="ack")
        queue.put_many(list("ab"))
        first, second = (asyncio.create_task(queue.put_async("c")) for _ in range(2))
        while queue.stats().blocked_putters < 2:
            await asyncio.sleep(0)
        assert queue.get() == "a"
        assert (await first, await second) == (True, False)
        assert (queue.stats().put, queue.stats().duplicates) == (3, 1)

    asyncio.run(main())


def test_a_set_queue_refuses_to_wait_for_more_than_it_can_hold():
    with pytest.raises(ValueError, match="min_items must be at most the capacity"):
        SetQueue(2).get_many(5, min_items=3)


def test_join_waits_until_each_item_and_what_it_brought_is_done(kind):
    """Workers in threads and tasks put what an item leads to before it is done; the join comes after all of them."""

    async def main():
        both, done = Kind(kind), []

        def lead_on(item):
            if item < 200:
                both.end.put_many([2 * item + 1, 2 * item + 2])
            done.append(item)
            both.queue.task_done()

        def work():
            for item in both.queue.stream():
                lead_on(item)

        async def work_async():
            async for item in both.queue.stream_async():
                lead_on(item)

        assert both.queue.join() and await both.queue.join_async(), "nothing was put"
        both.end.put(0)
        assert not both.queue.join(timeout=0) and not await both.queue.join_async(timeout=0.001)
        joins = [in_thread(both.queue.join), *(asyncio.ensure_future(both.queue.join_async()) for _ in range(2))]
        tasks = [asyncio.ensure_future(work_async()) for _ in range(2)]
        threads = [in_thread(work) for _ in range(2)]
        assert await both.queue.join_async(timeout=60)
        assert sorted(done) == list(range(401))
        assert await asyncio.wrap_future(joins[0]) and all(await asyncio.gather(*joins[1:]))
        both.queue.shutdown()
        await asyncio.gather(*tasks, *map(asyncio.wrap_future, threads))
        with pytest.raises(ValueError, match="more often than items were taken"):
            both.queue.task_done()

    asyncio.run(main())


@pytest.mark.parametrize("end", ["clear", "shutdown"])
def test_what_is_taken_out_undone_is_not_waited_for(kind, end):
    both = Kind(kind)
    both.end.put_many([1, 2, 3])
    assert both.queue.get() == 1
    join = in_thread(both.queue.join)
    both.end.clear() if end == "clear" else both.queue.shutdown(immediate=True)
    assert not both.queue.join(timeout=0)
    both.queue.task_done()
    assert join.result()


def test_done_of_a_set_queue_is_the_end_of_its_task():
    queue = SetQueue(in_flight="ack")
    queue.put_many([1, 2])
    assert queue.done(queue.get_many(2)) == 2 and queue.join(timeout=0)
    with pytest.raises(ValueError, match="more often"):
        queue.task_done()
