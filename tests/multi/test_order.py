"""Whose turn it is: strict priority, then round-robin over fixed places."""

import random

import pytest

from drainq import MultiQueue

from .helpers import drain


def filled(selection="priority", **subs):
    """Return a queue with a sub-queue for each name: (priority, weight, items)."""
    queue = MultiQueue(selection)
    for name, (priority, weight, count) in subs.items():
        sub = queue.add_sub_queue(name, priority, weight=weight)
        sub.put_many([f"{name}{index}" for index in range(count)])
    return queue


def test_a_lower_number_is_served_first_and_may_be_negative():
    queue = filled(low=(5, 1, 2), high=(-3, 1, 2), mid=(0, 1, 2))
    assert drain(queue) == ["high0", "high1", "mid0", "mid1", "low0", "low1"]


def test_the_reference_order_of_three_sub_queues():
    queue = MultiQueue()
    a, b, c = queue.add_sub_queue("a", 1), queue.add_sub_queue("b", 2), queue.add_sub_queue("c", 2)
    a.put_many([0, 1, 2])
    b.put_many([3, 5, 7])
    c.put_many([4, 6, 8])
    seen = []
    while not queue.empty():
        head = queue.peek()
        assert head == queue.peek()
        seen.append(queue.get())
        assert seen[-1] == head
    assert seen == list(range(9))


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


@pytest.mark.parametrize("seed", range(20))
def test_weighted_passes_nobody_over_longer_than_the_sum_of_the_other_weights(seed):
    rng = random.Random(seed)
    queue = MultiQueue("weighted")
    weights = {key: rng.randint(1, 5) for key in range(rng.randint(2, 6))}
    for key, weight in weights.items():
        queue.add_sub_queue(key, rng.randint(0, 2), weight=weight).put_many([key] * 300)
    served = queue.get_many(200)
    longest = dict.fromkeys(weights, 0)
    passed = dict(longest)
    for winner in served:
        for key in weights:
            passed[key] = 0 if key == winner else passed[key] + 1
            longest[key] = max(longest[key], passed[key])
    for key, weight in weights.items():
        assert longest[key] <= sum(weights.values()) - weight


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
