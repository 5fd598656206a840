"""The coroutines of the batch queue, for its table."""

from __future__ import annotations

import asyncio

from tests.hostile.batch_scene import VARIANTS, Scene, entry
from tests.hostile.mischief import PATIENCE, strike


@entry("BatchQueue.produce_async", *VARIANTS)
@entry("BatchQueue.offer_async", *VARIANTS)
@entry("BatchQueue.flush_async", *VARIANTS)
def tasks(scene: Scene) -> None:
    async def main() -> None:
        for number in range(5):
            items = [scene.item(number + more) for more in range(4)]
            produced = asyncio.gather(
                *(scene.queue.produce_async(item) for item in items[:2]),
                *(scene.queue.offer_async(item, PATIENCE) for item in items[2:]),
            )
            scene.note(4, sum(await produced))
            strike("call")
        assert await scene.queue.flush_async(PATIENCE)

    asyncio.run(main())


@entry("BatchQueue.__aenter__", "keys", "small", "pool")
@entry("BatchQueue.__aexit__", "keys", "small", "pool")
@entry("BatchQueue.shutdown_async", "keys", "small", "pool")
def end_in_a_task(scene: Scene) -> None:
    async def main() -> None:
        async with scene.queue as queue:
            assert queue is scene.queue
            scene.offer(scene.item(1))
        assert await scene.queue.shutdown_async(PATIENCE)

    asyncio.run(main())
