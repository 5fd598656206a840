"""Disabling and enabling, for several reasons at once."""

import queue as std

import pytest

from drainq import MultiQueue

from .helpers import PATIENCE, blocked_getters, drain, eventually, in_thread, totals_add_up


@pytest.fixture
def queue():
    queue = MultiQueue()
    for key in "ab":
        queue.add_sub_queue(key).put_many([f"{key}{index}" for index in range(3)])
    return queue


def test_a_sub_queue_is_enabled_by_default():
    sub = MultiQueue().add_sub_queue("a")
    assert sub.enabled
    assert sub.disabled_by == []


def test_items_of_a_disabled_sub_queue_are_not_served_and_not_counted(queue):
    queue["a"].disable()
    assert not queue["a"].enabled
    assert (queue.qsize(), queue["a"].qsize()) == (3, 3)
    assert queue.peek() == "b0"
    assert drain(queue) == ["b0", "b1", "b2"]
    assert queue.empty()
    with pytest.raises(std.Empty):
        queue.get_nowait()


def test_items_put_into_a_disabled_sub_queue_count_once_it_is_enabled():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", enabled=False)
    for n in range(3):
        sub.put(n)
    assert (queue.qsize(), queue.stats().depth, queue.empty()) == (0, 3, True)
    sub.enable("")
    assert (queue.qsize(), queue.stats().depth, queue.empty()) == (3, 3, False)
    assert queue.get_many(9) == [0, 1, 2]
    assert queue.qsize() == 0


def test_a_disabled_sub_queue_accepts_items_up_to_its_capacity():
    sub = MultiQueue().add_sub_queue("a", capacity=2, enabled=False)
    assert sub.put_many([1, 2, 3], block=False) == 2
    with pytest.raises(std.Full):
        sub.put_nowait(3)
    assert sub.full()


def test_added_disabled_is_disabled_for_the_empty_reason():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", enabled=False)
    sub.put(1)
    assert (sub.enabled, sub.disabled_by, queue.qsize()) == (False, [""], 0)
    sub.enable("")
    assert queue.get() == 1


def test_a_get_with_all_disabled_blocks_until_one_is_enabled(queue):
    queue["a"].disable()
    queue["b"].disable()
    got = in_thread(queue.get)
    eventually(blocked_getters(queue, 1))
    queue["b"].enable()
    assert got.result(PATIENCE) == "b0"


def test_both_directions_are_idempotent(queue):
    for _ in range(2):
        queue["a"].disable()
        assert queue.qsize() == 3
    for _ in range(2):
        queue["a"].enable()
        assert queue.qsize() == 6
    totals_add_up(queue)


def test_enabled_means_no_reason_is_left(queue):
    sub = queue["a"]
    sub.disable("paused")
    sub.disable("no space")
    sub.disable()
    assert sub.disabled_by == ["", "no space", "paused"]
    sub.enable("paused")
    sub.enable("never given")
    assert not sub.enabled
    sub.enable("")
    assert not sub.enabled
    sub.enable("no space")
    assert sub.enabled
    assert queue.qsize() == 6


def test_enable_without_a_reason_takes_all_away(queue):
    sub = queue["a"]
    sub.disable("x")
    sub.disable("y")
    sub.enable()
    assert sub.enabled


def test_a_reason_is_a_string(queue):
    with pytest.raises(TypeError):
        queue["a"].disable(3)
    assert queue["a"].enabled


def test_order_and_place_survive_being_disabled(queue):
    assert queue.get() == "a0"
    queue["b"].disable()
    queue["b"].put("b3")
    queue["b"].enable()
    assert drain(queue) == ["b0", "a1", "b1", "a2", "b2", "b3"]


def test_an_empty_sub_queue_can_be_disabled_and_filled_later():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    sub.disable()
    sub.put(1)
    assert queue.empty()
    sub.enable()
    assert queue.get() == 1
