"""``get_item_async`` and ``get_many_async``: as ``get_async``, with the key, and with many items."""

from __future__ import annotations

import asyncio

import pytest

from drainq import MultiQueue, ShutDown

GETS = pytest.mark.parametrize("get", [MultiQueue.get_item_async, lambda queue: queue.get_many_async(10)])


def queue_with(**items: list) -> MultiQueue:
    queue = MultiQueue()
    for priority, (key, values) in enumerate(items.items()):
        queue.add_sub_queue(key, priority).put_many(values)
    return queue


def test_they_take_in_the_order_of_get():
    async def main() -> None:
        queue = queue_with(a=[1, 2], b=[3, 4, 5])
        assert await queue.get_item_async() == ("a", 1)
        assert await queue.get_many_async(2) == [2, 3]
        assert await queue.get_many_async(10) == [4, 5]

    asyncio.run(main())


@GETS
def test_they_wait_for_an_item(get):
    async def main() -> None:
        queue = queue_with(a=[])
        waiting = asyncio.create_task(get(queue))
        await asyncio.sleep(0)
        assert not waiting.done()
        queue["a"].put("x")
        assert await waiting in (("a", "x"), ["x"])

    asyncio.run(main())


@GETS
def test_they_end_with_the_shutdown(get):
    async def main() -> None:
        queue = queue_with(a=[])
        waiting = asyncio.create_task(get(queue))
        await asyncio.sleep(0)
        queue.shutdown()
        with pytest.raises(ShutDown):
            await waiting
        with pytest.raises(ShutDown):
            await get(queue)

    asyncio.run(main())


def test_what_is_left_after_a_shutdown_is_handed_out():
    async def main() -> None:
        queue = queue_with(a=[1, 2, 3])
        queue.shutdown()
        assert await queue.get_many_async(2) == [1, 2]
        assert await queue.get_item_async() == ("a", 3)

    asyncio.run(main())


def test_a_selection_of_the_users_is_asked():
    class Last:
        def select(self, groups):
            return groups[-1][-1]

    async def main() -> None:
        queue = MultiQueue(selection=Last())
        queue.add_sub_queue("a", 0).put_many([1, 2])
        queue.add_sub_queue("b", 1).put(3)
        assert await queue.get_item_async() == ("b", 3)
        assert await queue.get_many_async(5) == [1, 2]

    asyncio.run(main())
