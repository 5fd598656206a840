"""Whose turn it is: strict priority, then round-robin over fixed places."""

from drainq import MultiQueue

from .helpers import drain


def filled(selection="priority", **subs):
    """Return a queue with a sub-queue for each name: (priority, weight, items)."""
    queue = MultiQueue(selection)
    for name, (priority, weight, count) in subs.items():
        sub = queue.add_sub_queue(name, priority, weight=weight)
        sub.put_many([f"{name}{index}" for index in range(count)])
    return queue


def test_weight_is_the_number_of_turns_in_a_row():
    queue = filled(a=(0, 2, 5), b=(0, 1, 3), c=(0, 3, 4))
    assert drain(queue) == ["a0", "a1", "b0", "c0", "c1", "c2", "a2", "a3", "b1", "c3", "a4", "b2"]


def test_weighted_serves_all_priorities_in_one_ring_by_weight():
    queue = filled("weighted", low=(5, 1, 4), high=(0, 3, 6), mid=(2, 2, 4))
    assert drain(queue) == [
        *["high0", "high1", "high2", "mid0", "mid1", "low0"],
        *["high3", "high4", "high5", "mid2", "mid3", "low1"],
        *["low2", "low3"],
    ]


def test_many_removals_keep_order_and_turn():
    queue = MultiQueue()
    for key in range(500):
        queue.add_sub_queue(key).put_many([key, key])
    assert queue.get_many(300) == list(range(300))
    for key in range(500):
        if key % 7:
            queue.remove_sub_queue(key)
    left = [key for key in range(500) if key % 7 == 0]
    later = [key for key in left if key >= 300]
    assert drain(queue) == [*later, *left]
