"""Each public call that can wait has a twin, ``NAME_async``, on the same object, or a reason why it has none."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from drainq import BatchQueueManager, WouldDeadlock
from drainq.sources import Fair, PrefetchSource, SourceScheduler

from .patience import PATIENCE
from .shape.project import loaded_modules
from .sources.by_hand import HandExecutor, Scripted

WAITS_WITHOUT_TIMEOUT = {"DelayedQueue.consume", "DelayedQueue.open", "DelayedQueue.offer", "DelayedQueue.read"}
"""Methods that wait without a ``timeout``. The others are found by their ``timeout``; tests/delayed has more."""
WITHOUT_TWIN = {
    "drain_now": "it runs the handlers on this thread, for tests",
}
"""Public functions and methods with a ``timeout`` and no twin, and the reason."""


def waiting_calls() -> dict[str, bool]:
    """Return the public calls with a ``timeout``, and whether each has a twin."""
    found = {}
    for module in loaded_modules().values():
        for exported in getattr(module, "__all__", ()):
            thing = getattr(module, exported)
            if not inspect.isclass(thing):
                if callable(thing) and "timeout" in parameters(thing):
                    found[exported] = hasattr(module, f"{exported}_async")
                continue
            for method in dir(thing):
                call = getattr(thing, method)
                if method.startswith("_") or method.endswith("_async") or not callable(call):
                    continue
                if "timeout" in parameters(call) or f"{exported}.{method}" in WAITS_WITHOUT_TIMEOUT:
                    twin = getattr(thing, f"{method}_async", None)
                    found[f"{exported}.{method}"] = callable(twin)
    return found


def parameters(call) -> set[str]:
    try:
        return set(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return set()


def test_each_call_that_can_wait_has_a_twin_or_a_reason():
    calls = waiting_calls()
    assert {"BatchQueue.offer", "SubQueue.put_many", "PrefetchSource.wait", "MultiQueue.get"} <= calls.keys()
    assert len(calls) > 40
    assert {call for call, has_twin in calls.items() if not has_twin} == WITHOUT_TWIN.keys() & calls.keys()


def test_a_wait_for_a_source_ends_with_its_items_its_time_its_end_or_a_close():
    async def main():
        background = HandExecutor()
        source = PrefetchSource(Scripted([1, 2], None), 10, 2, executor=background)
        assert await source.wait_async(0) is False
        waiting = asyncio.create_task(source.wait_async())
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.to_thread(background.run)
        assert await waiting is True and source.get_next_batch(2) == [1, 2]
        assert await source.wait_async(0.01) is False
        background.run()
        assert await source.wait_async() is True and source.finished
        closed = PrefetchSource(Scripted(), 10, 2, executor=background)
        assert await closed.wait_async(0) is False
        closed.close()
        assert await closed.wait_async() is True
        with pytest.raises(ValueError, match="timeout"):
            await source.wait_async(-1)

    asyncio.run(main())


def test_a_wait_for_an_async_source_on_its_own_loop_stops_nothing():
    async def main():
        async def pages(batch_size):
            await asyncio.sleep(0)
            return [1, 2]

        async with PrefetchSource(pages, 4, 2) as source:
            assert await source.wait_async(PATIENCE) and source.get_next_batch(2) == [1, 2]

    asyncio.run(main())


class Many:
    """Returns more than it is asked for, so that the scheduler holds the rest."""

    def get_next_batch(self, batch_size):
        return list(range(batch_size + 3))


def test_sources_come_and_go_from_a_coroutine_and_a_cancelled_removal_loses_nothing():
    async def main():
        got = []
        with_two = SourceScheduler({"x": Many()}, lambda name, items: got.extend(items), Fair("x"), batch_size=2)
        await with_two.add_source_async("y", Many())
        with pytest.raises(ValueError, match="already"):
            await with_two.add_source_async("y", Many())
        with_two.strategy = Fair("y")
        with_two.step()
        held = with_two.stats().sources["y"]
        removing = asyncio.create_task(with_two.remove_source_async("y"))
        with_two.strategy = Fair("x")
        with with_two._between_steps(None):  # a step is under way
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            removing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await removing
        while threading.active_count() > 1 and any("aside" in each.name for each in threading.enumerate()):
            await asyncio.sleep(0)
        assert with_two.stats().sources["y"] == held
        assert await with_two.remove_source_async("y", timeout=PATIENCE) == list(range(2, 5))
        with pytest.raises(KeyError):
            await with_two.remove_source_async("y")
        with_two.close()

    asyncio.run(main())


def test_the_manager_ends_queues_from_a_coroutine_and_refuses_to_in_a_handler():
    async def main():
        loop, refused = asyncio.get_running_loop(), []

        async def handle(batch):
            for end in (BatchQueueManager.shutdown_all_async, lambda: BatchQueueManager.shutdown_async("one")):
                try:
                    await end()
                except WouldDeadlock as error:
                    refused.append(str(error))

        one = BatchQueueManager.create("one", consumer=handle, loop=loop, threads=1)
        two = BatchQueueManager.create("two", consumer=lambda batch: None, threads=1)
        await one.produce_async(1)
        assert await BatchQueueManager.shutdown_async("one") is True and not one.running
        assert len(refused) == 2
        with pytest.raises(KeyError, match="'one'"):
            await BatchQueueManager.shutdown_async("one")
        assert await BatchQueueManager.shutdown_async("one", missing_ok=True) is True
        assert two.running and await BatchQueueManager.shutdown_all_async(PATIENCE) is True
        assert not two.running and BatchQueueManager.names() == []

    asyncio.run(main())
