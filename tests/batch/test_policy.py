"""Policies, selectors and the balancer as values."""

import itertools
import os

import pytest

from drainq import DrainBalancer, PartitionPolicy, PartitionSelector, ThreadPolicy, size_policies
from drainq.size_policies import MAX_THREADS

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def test_thread_policies_resolve_to_numbers():
    assert ThreadPolicy.fixed(3).resolve() == 3
    assert ThreadPolicy.cpu_cores(1.0).resolve() == CORES
    assert ThreadPolicy.cpu_cores(0.0001).resolve() == 1, "at least one"
    assert ThreadPolicy.cpu_cores_with_base(2, 1.0).resolve() == 2 + CORES
    assert ThreadPolicy.cpu_cores_with_base(3, 0.0).resolve() == 3


def test_threads_per_core_are_rounded_and_within_the_most(monkeypatch):
    monkeypatch.setattr(size_policies, "core_count", lambda: 3)
    assert [ThreadPolicy.cpu_cores(each).resolve() for each in (0.1, 0.49, 0.5, 1e9)] == [1, 1, 2, MAX_THREADS]
    assert ThreadPolicy.cpu_cores_with_base(MAX_THREADS, 1.0).resolve() == MAX_THREADS
    with pytest.raises(ValueError, match=f"base must be between 0 and {MAX_THREADS} threads"):
        ThreadPolicy.cpu_cores_with_base(MAX_THREADS + 1, 1.0)


def test_partition_policies_resolve_by_threads_and_weight():
    assert PartitionPolicy.fixed(5).resolve(8, 99) == PartitionPolicy.fixed(5).resolve(0) == 5
    assert PartitionPolicy.thread_multiply(2).resolve(8, 99) == 16
    adaptive = PartitionPolicy.adaptive()
    assert [adaptive.resolve(8, weight) for weight in (0, 1, 100, 200, 500)] == [8, 1, 100, 200, 350]
    assert adaptive.resolve(8) == 8
    assert PartitionPolicy.adaptive(multiplier=50).resolve(2, 120) == 110


def test_policies_are_equal_hashable_and_read_like_their_calls():
    policies = [
        ThreadPolicy.fixed(2), ThreadPolicy.cpu_cores(0.5), ThreadPolicy.cpu_cores_with_base(1, 0.25),
        PartitionPolicy.fixed(2), PartitionPolicy.thread_multiply(2),
        PartitionPolicy.adaptive(), PartitionPolicy.adaptive(multiplier=3),
    ]  # fmt: skip
    for policy in policies:
        same = eval(repr(policy))
        assert same == policy and hash(same) == hash(policy) and repr(same) == repr(policy)
    assert len(set(policies)) == len(policies)
    for one, other in itertools.permutations(policies, 2):
        assert one != other and not one == other
    for policy in policies:
        assert policy != 2 and policy != repr(policy)


def test_a_type_has_one_partition():
    selector = PartitionSelector.type_hash()
    assert len({selector(text, 7) for text in "abcdef"}) == 1
    assert 0 <= selector(1, 7) < 7


def test_round_robin_takes_turns():
    selector = PartitionSelector.round_robin()
    assert [selector(None, 3) for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_by_keeps_equal_keys_together_and_spreads_different_ones():
    selector = PartitionSelector.by(lambda item: item["user"])
    assert len({selector({"user": "ann", "n": n}, 8) for n in range(20)}) == 1
    assert len({selector({"user": user}, 8) for user in range(100)}) == 8


def test_the_balancer_spreads_skewed_load_and_leaves_balanced_load():
    balancer = DrainBalancer.throughput_weighted()
    plan = balancer.assign([24, 24, 8, 8, 4, 4, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1], 2)
    loads = [sum(n for n, owner in zip([24, 24, 8, 8, 4, 4, 1, 1], plan) if owner == t) for t in (0, 1)]
    assert max(loads) / min(loads) < 1.05
    assert balancer.assign([100, 110], [0, 1], 2) is None


@pytest.mark.parametrize(
    ("throughput", "owners", "threads"),
    [([1, 2], [0], 2), ([1], [0, 1], 2), ([9, 9, 1], [0, 0, 2], 2), ([9, 1], [3, 0], 2), ([9], [0], 0), ([], [1], 2)],
)
def test_the_balancer_refuses_owners_that_are_no_threads_and_lists_of_two_lengths(throughput, owners, threads):
    with pytest.raises(ValueError, match="of one length and owners below threads, got") as refusal:
        DrainBalancer.throughput_weighted().assign(throughput, owners, threads)
    assert str(refusal.value).endswith(f"got {throughput}, {owners}, {threads}")


@pytest.mark.parametrize("rule", ["type_hash", "round_robin", "by"])
def test_a_selector_chooses_among_some_partitions_and_not_among_none(rule):
    make = getattr(PartitionSelector, rule)
    selector = make(len) if rule == "by" else make()
    assert {selector("abc", 1) for _ in range(5)} == {0}
    chosen = [selector("abc", 4) for _ in range(8)]
    if rule != "round_robin":
        assert len(set(chosen)) == 1
    assert set(chosen) <= set(range(4))
    with pytest.raises(ValueError, match="count must be at least 1 partition, got 0"):
        selector("abc", 0)


@pytest.mark.parametrize("weight", [float("nan"), -0.5, -1])
def test_handlers_weigh_something_or_nothing(weight):
    with pytest.raises(ValueError, match=r"weighted_handlers must not be negative, got (nan|-0\.5|-1\.0)$"):
        PartitionPolicy.adaptive().resolve(2, weighted_handlers=weight)
    with pytest.raises(ValueError, match="threads must not be negative, got -1"):
        PartitionPolicy.fixed(2).resolve(-1)
    assert PartitionPolicy.fixed(2).resolve(1, weighted_handlers=0.0) == 2
