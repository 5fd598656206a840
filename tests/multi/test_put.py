"""Puts: room, waits, bulk, refused and counted items."""

import asyncio
import queue as std

import pytest

from drainq import MultiQueue, ShutDown

from .helpers import PATIENCE, blocked_putters, eventually, in_thread, totals_add_up


@pytest.fixture
def full(queue):
    """Return a sub-queue of two, both taken."""
    sub = queue.add_sub_queue("a", capacity=2)
    sub.put_many([0, 1])
    return sub


@pytest.mark.parametrize(
    "put",
    [
        lambda sub: sub.put_nowait(9),
        lambda sub: sub.put(9, False),
        lambda sub: sub.put(9, block=False),
        lambda sub: sub.put(9, timeout=0),
        lambda sub: sub.put(9, timeout=0.01),
    ],
)
def test_no_room_raises_full_and_counts_one_rejection(queue, full, put):
    with pytest.raises(std.Full, match="'a' is full \\(capacity 2\\)"):
        put(full)
    assert list(full) == [0, 1]
    assert full.stats().rejected == queue.stats().rejected == 1


def test_a_timed_put_succeeds_when_room_appears(queue, full):
    put = in_thread(full.put, 2, timeout=10 * PATIENCE)
    eventually(lambda: full.stats().blocked_putters == 1)
    queue.get()
    put.result(PATIENCE)
    assert list(full) == [1, 2]


def test_put_many_of_a_snapshot_of_itself_doubles_it(queue):
    sub = queue.add_sub_queue("a")
    sub.put_many([1, 2])
    assert sub.put_many(sub) == 2
    assert list(sub) == [1, 2, 1, 2]


def test_put_many_returns_the_prefix_when_time_runs_out(queue):
    sub = queue.add_sub_queue("a", capacity=2)
    assert sub.put_many(range(5), timeout=0.01) == 2
    assert list(sub) == [0, 1]


def test_put_many_waits_for_room_as_long_as_it_takes(queue):
    sub = queue.add_sub_queue("a", capacity=2)
    put = in_thread(sub.put_many, range(7))
    assert in_thread(lambda: [queue.get() for _ in range(7)]).result(PATIENCE) == list(range(7))
    assert put.result(PATIENCE) == 7
    totals_add_up(queue)


def test_put_many_of_an_iterable_that_raises_puts_nothing(queue):
    sub = queue.add_sub_queue("a")

    def items():
        yield 1
        raise RuntimeError("source failed")

    with pytest.raises(RuntimeError, match="source failed"):
        sub.put_many(items())
    assert sub.qsize() == 0


def test_raising_the_capacity_wakes_putters(full):
    putters = [in_thread(full.put, item) for item in (2, 3)]
    eventually(lambda: full.stats().blocked_putters == 2)
    full.capacity = 4
    for put in putters:
        put.result(PATIENCE)
    assert sorted(full) == [0, 1, 2, 3]


def test_putters_are_served_in_order_of_arrival(queue):
    sub = queue.add_sub_queue("a", capacity=1)
    sub.put("first")
    putters = []
    for item in range(5):
        putters.append(in_thread(sub.put, item))
        eventually(lambda expected=item + 1: sub.stats().blocked_putters == expected)
    got = [queue.get()]
    for item in range(5):
        putters[item].result(PATIENCE)
        got.append(queue.get())
    assert got == ["first", 0, 1, 2, 3, 4]


def orphan(capacity, items):
    sub = MultiQueue().add_sub_queue("a", capacity=capacity)
    sub.put_many(items)
    return sub


def test_a_sub_queue_without_its_multi_queue_accepts_what_there_is_room_for():
    sub = orphan(2, [])
    sub.put(0)
    assert sub.put_many([1, 2], block=False) == 1
    with pytest.raises(std.Full):
        sub.put_nowait(2)
    with pytest.raises(std.Full):
        sub.put(2, block=False)
    assert sub.clear() == [0, 1]
    sub.put(3)
    assert (list(sub), sub.stats().rejected) == ([3], 3)


@pytest.mark.parametrize(
    "put",
    [
        lambda sub: sub.put(1),
        lambda sub: sub.put(1, timeout=60),
        lambda sub: sub.put(1, timeout=0),
        lambda sub: asyncio.run(sub.put_async(1)),
    ],
)
def test_a_put_that_no_getter_can_make_room_for_raises_instead_of_waiting(put):
    sub = orphan(1, [0])
    with pytest.raises(ShutDown, match="'a' is full, and its multi-queue is gone"):
        put(sub)
    assert (list(sub), sub.stats().rejected) == ([0], 1)


def test_a_bulk_put_that_no_getter_can_make_room_for_says_how_much_went_in():
    sub = orphan(2, [0])
    with pytest.raises(ShutDown) as caught:
        sub.put_many([1, 2, 3])
    assert (caught.value.accepted, list(sub), sub.stats().rejected) == (1, [0, 1], 2)


def test_a_bulk_put_that_ends_by_a_shutdown_says_how_much_went_in(queue):
    sub = queue.add_sub_queue("a", capacity=3)
    sub.put(0)
    put = in_thread(sub.put_many, [1, 2, 3, 4, 5])
    eventually(blocked_putters(queue, 1))
    queue.shutdown()
    error = put.exception(PATIENCE)
    assert isinstance(error, ShutDown)
    assert (error.accepted, list(sub), sub.stats().rejected) == (2, [0, 1, 2], 3)


def test_a_blocked_put_ends_when_the_multi_queue_goes():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=1)
    sub.put(0)
    putters = [in_thread(sub.put, 1), in_thread(sub.put_many, [1, 2])]
    eventually(blocked_putters(queue, 2))
    del queue
    for putter in putters:
        assert isinstance(putter.exception(PATIENCE), ShutDown)
    assert sub.stats().rejected == 3
