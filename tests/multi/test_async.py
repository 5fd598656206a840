"""Tasks of one or more event loops beside threads on one queue."""

import asyncio
import collections.abc
import time

import pytest

from drainq import ShutDown, SubQueueRemoved
from tests.patience import LOOKS

from .helpers import drain, in_thread, totals_add_up


async def asleep(queue, getters=0, putters=0):
    """Give the loop turns until so many wait."""
    end = time.thread_time() + LOOKS
    while (blocked := (queue.stats().blocked_getters, queue.stats().blocked_putters)) != (getters, putters):
        assert time.thread_time() < end, f"{blocked} getters and putters wait, not {(getters, putters)}"
        await asyncio.sleep(0)


def test_an_awaitable_is_a_coroutine_to_asyncio(queue):
    for waiting in (queue.get_async(), queue.add_sub_queue("a").put_async(1)):
        assert isinstance(waiting, collections.abc.Coroutine)
        waiting.close()


@pytest.mark.parametrize("item", [None, (), (1, 2), StopIteration(3), ValueError("x"), ValueError])
def test_any_item_comes_through_an_await(queue, item):
    async def main():
        await sub.put_async(item)
        return await queue.get_async()

    sub = queue.add_sub_queue("a")
    assert asyncio.run(main()) is item


def test_put_async_raises_when_removed_or_shut_down(queue):
    async def blocked_put(key, end):
        sub = queue.add_sub_queue(key, capacity=1)
        sub.put(0)
        task = asyncio.create_task(sub.put_async(1))
        await asleep(queue, putters=1)
        end(key)
        with pytest.raises(ShutDown) as caught:
            await task
        return type(caught.value), sub.stats().rejected

    assert asyncio.run(blocked_put("a", queue.remove_sub_queue)) == (SubQueueRemoved, 1)
    assert asyncio.run(blocked_put("b", lambda key: queue.shutdown())) == (ShutDown, 1)


def test_a_wake_up_of_a_cancelled_task_goes_to_a_thread(queue):
    async def main():
        task = asyncio.create_task(queue.get_async())
        await asleep(queue, getters=1)
        thread = in_thread(queue.get)
        await asleep(queue, getters=2)
        sub.put("item")
        task.cancel()
        return await asyncio.wrap_future(thread)

    sub = queue.add_sub_queue("a")
    assert asyncio.run(main()) == "item"


@pytest.mark.parametrize("seed", range(5))
def test_randomly_cancelled_gets_and_puts_lose_and_double_nothing(queue, seed):
    import random

    async def main():
        rng = random.Random(seed)
        sub = queue.add_sub_queue("a", capacity=3)
        got, put = [], []

        async def get():
            got.append(await queue.get_async())

        async def store(item):
            await sub.put_async(item)
            put.append(item)

        tasks = []
        for item in range(300):
            tasks += [asyncio.create_task(get()), asyncio.create_task(store(item))]
            if rng.random() < 0.5:
                await asyncio.sleep(0)
            if rng.random() < 0.4:
                rng.choice(tasks).cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(got + drain(queue)) == sorted(put)
        assert queue.stats().blocked_getters == queue.stats().blocked_putters == 0

    asyncio.run(main())
    totals_add_up(queue)


def test_a_task_that_is_cancelled_between_its_wake_up_and_its_turn_leaves_the_others_of_the_loop_theirs(queue):
    """All are woken by one call into the loop, which meets the cancelled one first."""

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
        tasks = [asyncio.create_task(queue.get_async()) for _ in range(4)]
        await asleep(queue, getters=4)
        assert sub.put_many(list("abcd")) == 4
        tasks[0].cancel()
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    sub, trouble = queue.add_sub_queue("a"), []
    got = asyncio.run(main())
    assert [isinstance(one, asyncio.CancelledError) for one in got] == [True, False, True, False]
    assert got[1::2] == ["a", "b"] and drain(queue) == ["c", "d"]
    assert trouble == []
    totals_add_up(queue)
