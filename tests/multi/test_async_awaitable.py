"""The awaitable of the multi-queue's calls behaves as a coroutine does."""

import asyncio
import gc
import weakref

import pytest

from drainq import MultiQueue, SetQueue


def test_without_a_running_loop_waiting_is_a_runtime_error(queue):
    with pytest.raises(RuntimeError, match="no running event loop"):
        queue.get_async().send(None)
    assert queue.stats().blocked_getters == 0


def test_awaiting_twice_is_a_runtime_error(queue):
    async def main():
        waiting = queue.get_async()
        assert await waiting == 1
        with pytest.raises(RuntimeError, match="awaited already"):
            await waiting

    queue.add_sub_queue("a").put(1)
    asyncio.run(main())


def test_an_unawaited_put_changes_nothing(queue):
    sub = queue.add_sub_queue("a")
    sub.put_async(1).close()
    del sub
    gc.collect()
    stats = queue.stats()
    assert (stats.put, stats.rejected) == (0, 0)


WAITS = {
    "get_async": lambda queue: queue.get_async(),
    "get_item_async": lambda queue: queue.get_item_async(),
    "get_many_async": lambda queue: queue.get_many_async(2),
    "async for": lambda queue: anext(queue.stream_async()),
    "put_async": lambda queue: queue["full"].put_async("y"),
    "put_many_async": lambda queue: queue["full"].put_many_async(["y", "z"]),
    "put_many_async of a set queue": lambda queue: full_set(queue).put_many_async(["y", queue]),
}


def full_set(queue):
    full = SetQueue(capacity=1)
    full.put("x")
    return full


@pytest.mark.parametrize("name", WAITS)
def test_a_queue_and_a_task_that_only_know_each_other_are_collected(name):
    class Canary:
        pass

    async def wait_forever(canary):
        queue = MultiQueue()
        queue.add_sub_queue("full", capacity=1, enabled=False).put("x")
        await WAITS[name](queue)

    async def main():
        canary = Canary()
        ghost = weakref.ref(canary)
        task = asyncio.create_task(wait_forever(canary))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task._log_destroy_pending = False
        del task, canary
        gc.collect()
        return ghost()  # the end of the loop would end the task

    assert asyncio.run(main()) is None


def test_an_item_that_holds_the_put_it_waits_for_is_collected(queue):
    class Canary:
        pass

    full = queue.add_sub_queue("full", capacity=1)
    full.put("x")
    canary = Canary()
    canary.waiting = full.put_async(canary)
    ghost = weakref.ref(canary)
    del canary
    with pytest.warns(RuntimeWarning, match="never awaited"):
        gc.collect()
    assert ghost() is None
    assert list(full) == ["x"]


def test_one_that_is_dropped_before_it_was_awaited_warns_as_a_coroutine_does(queue):
    sub = queue.add_sub_queue("a")
    with pytest.warns(RuntimeWarning, match=r"coroutine 'SubQueue.put_async' was never awaited"):
        sub.put_async("lost")
    gc.collect()  # of other tests, which may warn when they are collected
    with pytest.warns(RuntimeWarning, match=r"coroutine 'MultiQueue.get_async' was never awaited") as told:
        queue.get_async()
    assert [warning.filename for warning in told] == [__file__], "the place that dropped it"
    assert queue.stats().put == 0


def test_one_that_was_begun_closed_or_thrown_into_does_not_warn(queue, recwarn):
    gc.collect()  # of other tests, which may warn when they are collected
    recwarn.clear()
    sub = queue.add_sub_queue("a")
    sub.put_async(1).close()
    with pytest.raises(KeyError):
        sub.put_async(1).throw(KeyError)
    asyncio.run(_await(sub.put_async(1)))
    assert asyncio.run(_await(queue.get_async())) == 1
    anext(queue.stream_async()).close()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


async def _await(waiting):
    return await waiting


CALLS = {
    "get_async": lambda queue, sub: queue.get_async(),
    "get_item_async": lambda queue, sub: queue.get_item_async(),
    "get_many_async": lambda queue, sub: queue.get_many_async(2),
    "put_async": lambda queue, sub: sub.put_async("new"),
    "put_many_async": lambda queue, sub: sub.put_many_async(["new"]),
    "anext": lambda queue, sub: anext(queue.stream_async()),
}


@pytest.mark.parametrize("ends", ["well", "cancelled", "closed"])
@pytest.mark.parametrize("name", CALLS)
def test_one_that_has_ended_does_nothing_more_and_counts_once(queue, name, ends):
    """Ended well after a wait, cancelled in it, or closed in it; each refusal of a put is counted once."""

    async def main():
        sub = queue.add_sub_queue("a", capacity=2)
        if name.startswith("put"):
            sub.put_many([1, 2])
        waiting = CALLS[name](queue, sub)
        if ends == "closed":
            assert waiting.send(None) is not None
            waiting.close()
        else:
            task = asyncio.ensure_future(_await(waiting))
            await asyncio.sleep(0)
            if ends == "cancelled":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                assert queue.get() == 1 if name.startswith("put") else sub.put("one")
                await task
        before = queue.stats()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="awaited already"):
                await waiting
            waiting.close()
        stats = queue.stats()
        assert (stats.put, stats.got, stats.rejected) == (before.put, before.got, before.rejected)
        assert (stats.blocked_getters, stats.blocked_putters) == (0, 0)
        is_refused = name.startswith("put") and ends != "well"
        assert stats.rejected == sub.stats().rejected == int(is_refused)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_step_of_a_for_loop_that_is_dropped_does_not_warn(queue, recwarn):
    gc.collect()  # of other tests, which may warn when they are collected
    recwarn.clear()
    anext(queue.stream_async())
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []
    for call in ("get_item_async", "get_many_async"):
        with pytest.warns(RuntimeWarning, match=rf"coroutine 'MultiQueue.{call}' was never awaited"):
            CALLS[call](queue, None)
