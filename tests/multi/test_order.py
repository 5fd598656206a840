"""Whose turn it is: strict priority, then round-robin over fixed places."""

import itertools
import random

import pytest

from drainq import MultiQueue

from .helpers import drain


def filled(selection="priority", **subs):
    """A queue with a sub-queue for each name: (priority, weight, items)."""
    queue = MultiQueue(selection)
    for name, (priority, weight, count) in subs.items():
        sub = queue.add_sub_queue(name, priority, weight=weight)
        sub.put_many([f"{name}{index}" for index in range(count)])
    return queue


def test_a_lower_number_is_served_first_and_may_be_negative():
    queue = filled(low=(5, 1, 2), high=(-3, 1, 2), mid=(0, 1, 2))
    assert drain(queue) == ["high0", "high1", "mid0", "mid1", "low0", "low1"]


@pytest.mark.parametrize("order", list(itertools.permutations([3, -1, 0, 7])))
def test_groups_are_sorted_whatever_the_order_of_insertion(order):
    queue = MultiQueue()
    for priority in order:
        queue.add_sub_queue(priority, priority).put(priority)
    assert drain(queue) == sorted(order)


def test_a_group_between_two_others_is_served_between_them():
    queue = filled(a=(1, 1, 1), b=(9, 1, 1))
    queue.add_sub_queue("m", 5).put("m0")
    assert drain(queue) == ["a0", "m0", "b0"]


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


def test_a_newcomer_takes_the_place_after_the_last_one():
    queue = filled(a=(0, 1, 4), b=(0, 1, 4))
    first = queue.get()
    queue.add_sub_queue("c").put_many(["c0", "c1"])
    assert [first, *drain(queue)] == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "a3", "b3"]


def test_a_member_that_becomes_non_empty_is_served_at_its_place():
    queue = filled(a=(0, 1, 3), b=(0, 1, 0), c=(0, 1, 3))
    assert queue.get() == "a0"
    queue["b"].put("b0")
    assert drain(queue) == ["b0", "c0", "a1", "c1", "a2", "c2"]


def test_the_turn_persists_between_get_and_get_many():
    queue = filled(a=(0, 1, 3), b=(0, 1, 3), c=(0, 1, 3))
    assert queue.get_many(4) == ["a0", "b0", "c0", "a1"]
    assert queue.get() == "b1"
    assert queue.get_many(100) == ["c1", "a2", "b2", "c2"]


def test_a_turn_of_a_lower_group_survives_service_of_a_higher_one():
    queue = filled(a=(1, 3, 6), b=(1, 1, 2), top=(0, 1, 0))
    assert queue.get() == "a0"
    queue["top"].put("top0")
    assert drain(queue) == ["top0", "a1", "a2", "b0", "a3", "a4", "a5", "b1"]


def test_a_lower_group_gets_nothing_while_a_higher_one_has_items():
    queue = filled(high=(0, 1, 1000), low=(1, 1, 5))
    assert all(item.startswith("high") for item in queue.get_many(1000))
    assert drain(queue) == [f"low{index}" for index in range(5)]


def test_removal_of_an_earlier_place_costs_nobody_a_turn():
    queue = filled(a=(0, 1, 3), b=(0, 1, 3), c=(0, 1, 3))
    assert queue.get() == "a0"
    queue.remove_sub_queue("a")
    assert drain(queue) == ["b0", "c0", "b1", "c1", "b2", "c2"]


def test_removal_of_the_last_of_two_wraps_to_the_first():
    queue = filled(a=(0, 1, 3), b=(0, 1, 3))
    assert queue.get_many(2) == ["a0", "b0"]
    queue.remove_sub_queue("b")
    assert drain(queue) == ["a1", "a2"]


def test_removal_of_the_one_whose_turn_it_is_passes_the_turn_on():
    queue = filled(a=(0, 2, 4), b=(0, 1, 2), c=(0, 1, 2))
    assert queue.get() == "a0"
    queue.remove_sub_queue("a")
    assert drain(queue) == ["b0", "c0", "b1", "c1"]


def test_an_empty_group_is_removed_and_getting_goes_on():
    queue = filled(a=(0, 1, 1), b=(1, 1, 1), c=(2, 1, 1))
    queue.remove_sub_queue("a")
    assert queue.get() == "b0"
    queue.remove_sub_queue("b")
    assert queue.get() == "c0"


def test_weight_is_the_number_of_turns_in_a_row():
    queue = filled(a=(0, 2, 5), b=(0, 1, 3), c=(0, 3, 4))
    assert drain(queue) == ["a0", "a1", "b0", "c0", "c1", "c2", "a2", "a3", "b1", "c3", "a4", "b2"]


def test_weight_counts_from_the_turn_under_way_when_it_changes():
    queue = filled(a=(0, 3, 6), b=(0, 1, 3))
    assert queue.get_many(2) == ["a0", "a1"]
    queue["a"].weight = 2
    assert drain(queue) == ["b0", "a2", "a3", "b1", "a4", "a5", "b2"]


def test_a_change_of_priority_moves_to_the_place_after_the_last_one():
    queue = filled(a=(0, 1, 2), b=(1, 1, 2), c=(1, 1, 2))
    queue["a"].priority = 1
    assert queue["a"].priority == 1
    assert drain(queue) == ["b0", "c0", "a0", "b1", "c1", "a1"]


def test_setting_the_same_priority_keeps_the_place():
    queue = filled(a=(0, 1, 1), b=(0, 1, 1))
    queue["a"].priority = 0
    assert drain(queue) == ["a0", "b0"]


def test_a_change_of_priority_of_a_disabled_sub_queue_keeps_it_disabled():
    queue = filled(a=(0, 1, 1), b=(1, 1, 1))
    queue["a"].disable()
    queue["a"].priority = 5
    assert drain(queue) == ["b0"]
    queue["a"].enable()
    assert drain(queue) == ["a0"]


def test_weighted_serves_all_priorities_in_one_ring_by_weight():
    queue = filled("weighted", low=(5, 1, 4), high=(0, 3, 6), mid=(2, 2, 4))
    assert drain(queue) == [
        *["high0", "high1", "high2", "mid0", "mid1", "low0"],
        *["high3", "high4", "high5", "mid2", "mid3", "low1"],
        *["low2", "low3"],
    ]


def test_weighted_starts_a_round_with_the_highest_priority_whatever_was_added_first():
    queue = filled("weighted", low=(5, 1, 1), high=(0, 1, 1))
    assert drain(queue) == ["high0", "low0"]


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


def test_weighted_goes_on_after_the_group_at_turn_is_removed():
    queue = filled("weighted", a=(0, 1, 2), b=(1, 2, 4), c=(2, 1, 2))
    assert queue.get_many(2) == ["a0", "b0"]
    queue.remove_sub_queue("b")
    assert drain(queue) == ["c0", "a1", "c1"]


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
