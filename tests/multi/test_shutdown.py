"""Shutdown with the semantics of Python 3.13's queue, on every version."""

import asyncio
import queue as std

import pytest

from drainq import MultiQueue, ShutDown, SubQueueRemoved

from .helpers import PATIENCE, blocked_getters, drain, eventually, in_thread, totals_add_up


@pytest.fixture
def queue():
    queue = MultiQueue()
    queue.add_sub_queue("a", capacity=2).put_many([1, 2])
    return queue


def test_shut_down_is_the_standard_class_where_there_is_one():
    assert ShutDown is getattr(std, "ShutDown", ShutDown)
    assert issubclass(ShutDown, Exception)


@pytest.mark.parametrize(
    "use",
    [
        lambda queue: queue["a"].put(3),
        lambda queue: queue["a"].put_nowait(3),
        lambda queue: queue["a"].put(3, timeout=0),
        lambda queue: queue["a"].put_many([3]),
        lambda queue: queue.add_sub_queue("b"),
        lambda queue: queue.add_sub_queue("a", exist_ok=True),
    ],
)
def test_puts_and_additions_raise_after_shutdown(queue, use):
    queue.shutdown()
    assert queue.is_shutdown
    with pytest.raises(ShutDown) as caught:
        use(queue)
    assert not isinstance(caught.value, SubQueueRemoved)
    assert list(queue) == ["a"]
    assert list(queue["a"]) == [1, 2]


@pytest.mark.parametrize("get", ["get", "get_nowait", "get_item", "peek", "get_many"])
def test_gets_go_on_until_nothing_is_left_then_raise(queue, get):
    arguments = [5] if get == "get_many" else []
    queue.shutdown()
    assert drain(queue) == [1, 2]
    with pytest.raises(ShutDown):
        getattr(queue, get)(*arguments)


def test_shutdown_wakes_blocked_getters_and_putters():
    queue = MultiQueue()
    getters = [in_thread(queue.get), in_thread(queue.get_item, timeout=10 * PATIENCE), in_thread(queue.get_many, 5)]
    sub = queue.add_sub_queue("a", capacity=1, enabled=False)
    sub.put(1)
    putters = [in_thread(sub.put, 2), in_thread(sub.put_many, [2])]
    eventually(blocked_getters(queue, 3))
    eventually(lambda: sub.stats().blocked_putters == 2)
    queue.shutdown()
    for blocked in [*getters, *putters]:
        assert isinstance(blocked.exception(PATIENCE), ShutDown)
    assert queue.stats().blocked_getters == queue.stats().blocked_putters == 0


def test_a_shutdown_can_be_made_immediate_later(queue):
    queue.shutdown()
    queue.shutdown(immediate=True)
    queue.shutdown()
    with pytest.raises(ShutDown):
        queue.get()
    totals_add_up(queue)


ONE = {
    "get": MultiQueue.get,
    "get_nowait": MultiQueue.get_nowait,
    "get_item": lambda queue: queue.get_item()[1],
    "get_many": lambda queue: queue.get_many(1)[0],
    "get_async": lambda queue: asyncio.run(queue.get_async()),
    "get_item_async": lambda queue: asyncio.run(queue.get_item_async())[1],
    "get_many_async": lambda queue: asyncio.run(queue.get_many_async(1))[0],
    "stream_async": lambda queue: asyncio.run(anext(queue.stream_async())),
    "stream": lambda queue: next(queue.stream()),
}


@pytest.mark.parametrize("call", ONE.values(), ids=ONE)
def test_items_of_a_disabled_sub_queue_can_be_got_once_it_is_enabled(queue, call):
    queue["a"].disable()
    queue.shutdown()
    with pytest.raises((ShutDown, StopIteration, StopAsyncIteration)):
        call(queue)
    queue["a"].enable()
    assert call(queue) == 1
    assert drain(queue) == [2]


def test_items_taken_by_a_broken_get_many_are_discarded_too_when_immediate():
    class Select:
        def select(self, groups):
            sub = groups[0][0]
            if sub.qsize() == 1:
                queue.shutdown(immediate=True)
                raise RuntimeError("broken")
            return sub

    queue = MultiQueue(Select())
    sub = queue.add_sub_queue("a")
    sub.put_many([1, 2])
    with pytest.raises(RuntimeError, match="broken"):
        queue.get_many(2)
    assert sub.qsize() == 0
    assert queue.stats().removed == 2
    totals_add_up(queue)
