"""Removal of a sub-queue: for good, with its leftovers, without effect on the others."""

import threading

import pytest

from drainq import MultiQueue, ShutDown, SubQueueRemoved

from .helpers import PATIENCE, blocked_getters, drain, eventually, in_thread, totals_add_up


@pytest.fixture
def queue():
    queue = MultiQueue()
    for key in "ab":
        queue.add_sub_queue(key, capacity=5).put_many([f"{key}{index}" for index in range(3)])
    return queue


def test_a_removed_key_can_be_added_again_and_starts_empty(queue):
    old = queue.remove_sub_queue("a")
    new = queue.add_sub_queue("a")
    assert new is not old
    assert new.qsize() == 0
    new.put("fresh")
    assert sorted(drain(queue)) == ["b0", "b1", "b2", "fresh"]
    assert old.qsize() == 3


def test_sub_queue_removed_is_a_shut_down():
    assert issubclass(SubQueueRemoved, ShutDown)


@pytest.mark.parametrize(
    "put",
    [
        lambda sub: sub.put("x"),
        lambda sub: sub.put("x", timeout=1),
        lambda sub: sub.put("x", block=False),
        lambda sub: sub.put_nowait("x"),
        lambda sub: sub.put_many(["x"]),
    ],
)
def test_puts_into_a_removed_sub_queue_raise_and_corrupt_nothing(queue, put):
    """Otherwise a stale handle would raise the total for ever, and getters would wake for nothing."""
    removed = queue.remove_sub_queue("a")
    with pytest.raises(SubQueueRemoved, match="'a' was removed"):
        put(removed)
    assert queue.qsize() == 3
    assert removed.qsize() == 3
    assert removed.stats().rejected == 1
    assert queue.stats().rejected == 0
    totals_add_up(queue)


@pytest.mark.parametrize("enabled", [True, False])
def test_removal_wakes_blocked_putters(enabled):
    """Otherwise a producer of a removed, or of a disabled and removed, sub-queue hangs for ever."""
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=1, enabled=enabled)
    sub.put(0)
    putters = [in_thread(sub.put, 1), in_thread(sub.put, 1, timeout=10 * PATIENCE), in_thread(sub.put_many, [1, 2])]
    eventually(lambda: sub.stats().blocked_putters == 3)
    queue.remove_sub_queue("a")
    for putter in putters:
        assert isinstance(putter.exception(PATIENCE), SubQueueRemoved)
    assert list(sub) == [0]
    assert sub.stats().rejected == 4


def test_put_many_tells_how_many_went_in_before_the_removal():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=2)
    put = in_thread(sub.put_many, range(5))
    eventually(lambda: sub.stats().blocked_putters == 1)
    queue.remove_sub_queue("a")
    error = put.exception(PATIENCE)
    assert isinstance(error, SubQueueRemoved)
    assert error.accepted == 2
    assert list(sub) == [0, 1]
    assert sub.stats().rejected == 3


def test_a_getter_keeps_waiting_through_a_removal():
    queue = MultiQueue()
    queue.add_sub_queue("a", enabled=False).put("hidden")
    other = queue.add_sub_queue("b")
    got = in_thread(queue.get)
    eventually(blocked_getters(queue, 1))
    queue.remove_sub_queue("a").enable()
    assert not got.done()
    other.put("seen")
    assert got.result(PATIENCE) == "seen"


@pytest.mark.parametrize("seed", range(20))
def test_a_producer_racing_a_removal_loses_and_corrupts_nothing(seed):
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    queue.add_sub_queue("b")
    started = threading.Event()

    def produce():
        for accepted in range(100_000):
            try:
                sub.put(accepted)
            except SubQueueRemoved:
                return accepted
            started.set()
        return 100_000

    producer = in_thread(produce)
    started.wait(PATIENCE)
    got = queue.get_many(seed, min_items=0)
    queue.remove_sub_queue("a")
    accepted = producer.result(PATIENCE)
    assert [*got, *sub] == list(range(accepted))
    assert queue.qsize() == 0
    totals_add_up(queue)
