"""``get_item_async`` and ``get_many_async``: as ``get_async``, with the key, and with many items."""

from __future__ import annotations

import asyncio

import pytest

from drainq import MultiQueue, ShutDown

GETS = pytest.mark.parametrize(
    "get", [MultiQueue.get_async, MultiQueue.get_item_async, lambda queue: queue.get_many_async(10)]
)


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
        assert await waiting in ("x", ("a", "x"), ["x"])

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
