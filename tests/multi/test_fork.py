"""A forked child starts with the same sub-queues, empty, and works; the parent keeps its items."""

import gc
import os
import queue as std

import pytest

from drainq import MultiQueue, SetQueue, ShutDown
from tests.forked import in_child, needs_fork

from .helpers import PATIENCE, blocked_getters, blocked_putters, ended, eventually, in_thread, totals_add_up
from .test_twins import Kind

pytestmark = needs_fork


def test_a_child_finds_the_sub_queues_with_their_settings_and_counters_at_zero():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", priority=3, capacity=2, weight=4)
    paused = queue.add_sub_queue("b")
    paused.disable("by hand")
    removed = queue.add_sub_queue("c")
    removed.put("leftover")
    queue.remove_sub_queue("c")
    sub.put_many(["parent's", "too"])
    assert queue.get() == "parent's"

    def check():
        assert list(queue) == ["a", "b"]
        assert (sub.priority, sub.capacity, sub.weight) == (3, 2, 4)
        assert (paused.disabled_by, removed.removed, list(removed)) == (["by hand"], True, [])
        stats = queue.stats()
        assert (stats.put, stats.got, stats.removed, stats.depth, stats.oldest_age) == (0, 0, 0, 0, None)
        assert sub.stats().put == 0
        totals_add_up(queue)

    assert in_child(check) == 0
    assert list(removed) == ["leftover"]


KINDS = pytest.mark.parametrize("kind", [MultiQueue, SetQueue])


@KINDS
def test_a_child_waits_and_wakes_by_itself_beside_the_waiters_of_its_parent(kind):
    """The parent's waiters are not in the child: no wake-up of the child goes to one of them."""
    both, full = Kind(kind, capacity=5), Kind(kind, capacity=1)
    full.end.put(0)
    waiters = [in_thread(both.queue.get) for _ in range(3)] + [in_thread(full.end.put, 1)]
    waiters += [in_thread(both.queue.get_many, 5, min_items=5)]
    eventually(lambda: both.waiting(getters=4) and full.waiting(putters=1))

    def check():
        assert both.waiting() and full.waiting()
        for item in range(20):
            mine = in_thread(both.queue.get)
            eventually(blocked_getters(both.queue, 1))
            both.end.put(item)
            assert mine.result(PATIENCE) == item
        full.end.put(1)
        blocked = in_thread(full.end.put, 2)
        eventually(blocked_putters(full.queue, 1))
        assert full.queue.get() == 1
        with ended(blocked):
            assert full.queue.get() == 2

    assert in_child(check) == 0
    both.queue.shutdown()
    full.queue.shutdown()
    for waiter in waiters:
        assert isinstance(waiter.exception(PATIENCE), ShutDown)


def test_what_a_get_many_of_the_parent_holds_is_not_in_the_child():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=1)
    bulk = in_thread(queue.get_many, 2, min_items=2)
    sub.put("held")
    eventually(lambda: queue.qsize() == 0)

    def check():
        assert (queue.stats().depth, queue.get_many(5, min_items=0)) == (0, [])

    assert in_child(check) == 0
    sub.put("second")
    assert bulk.result(PATIENCE) == ["held", "second"]


@KINDS
def test_the_items_of_the_parent_are_not_finalised_in_a_child(kind):
    class Item:
        def __del__(self):
            os.write(writing, b"x")

    reading, writing = os.pipe()
    both = Kind(kind)
    both.end.put(Item())

    def check():
        nonlocal both
        both.end.clear()
        del both
        gc.collect()

    assert in_child(check) == 0
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    both.end.clear()
    assert os.read(reading, 5) == b"x"
    os.close(reading)
    os.close(writing)


@KINDS
def test_no_lock_is_left_taken_by_threads_that_wait_and_look(kind):
    """Waiters with short time limits take their places in line and leave them all the time."""
    both, over = Kind(kind, capacity=1), []

    def wait():
        while not over:
            try:
                both.queue.get(timeout=0.0005)
            except std.Empty:
                pass

    def check():
        both.end.put(1)
        assert (both.queue.get(), both.queue.qsize()) == (1, 0)

    waiters = [in_thread(wait) for _ in range(8)]
    assert [in_child(check) for _ in range(40)] == [0] * 40
    over.append(True)
    for waiter in waiters:
        waiter.result(PATIENCE)


def test_a_child_knows_no_item_of_its_parent_as_a_duplicate():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", unique=True)
    sub.put(1)

    def check():
        assert sub.put(1) and not sub.put(1)
        assert queue.get() == 1 and sub.put(1)

    assert in_child(check) == 0
    assert not sub.put(1) and queue.get() == 1
