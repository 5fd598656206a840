"""A capacity that all partitions share: its bound, and the producers that wait for it."""

import threading

import pytest

from drainq import BufferStrategy, PartitionPolicy, WouldDeadlock
from tests.batch.conftest import PATIENCE, Gate, accounts


class A(int): ...


class B(int): ...


class C(int): ...


class D(int): ...


class First(int): ...


TYPES = (A, B, C, D)


@pytest.fixture
def held(make_queue):
    """Makes queues of five partitions, whose only drain thread is inside a handler; returns the queue and its gate."""

    def make(**settings):
        gate = Gate(is_open=False)
        queue = make_queue(partitions=PartitionPolicy.fixed(5), **settings)
        for kind in (First, *TYPES):
            queue.add_handler(kind, gate)
        queue.produce(First(0))
        gate.wait_entered()
        return queue, gate

    return make


@pytest.mark.parametrize("capacity", [1, 2, 7, 100, 1_000, 3_333])
@pytest.mark.parametrize("pattern", ["in turn", "one after the other", "lists", "lists of all types"])
def test_all_partitions_together_hold_the_capacity_and_no_item_more(held, capacity, pattern):
    queue, gate = held(capacity=capacity, strategy=BufferStrategy.IF_POSSIBLE)
    wanted = capacity + 50
    if pattern == "in turn":
        accepted = sum(queue.produce(kind(n)) for n in range(wanted) for kind in TYPES)
    elif pattern == "one after the other":
        accepted = sum(queue.produce(kind(n)) for kind in TYPES for n in range(wanted // 2))
    elif pattern == "lists":
        accepted = sum(queue.produce_many([kind(n)] * 30) for n in range(wanted // 30 + 1) for kind in TYPES)
    else:
        accepted = queue.produce_many([kind(n) for n in range(wanted) for kind in TYPES])
    stats = queue.stats()
    assert accepted == capacity
    assert stats.total_used == capacity == stats.total_capacity
    assert stats.total_used_percentage == 100.0
    assert stats.accepted == capacity + 1
    accounts(stats)
    gate.open()
    assert queue.flush(PATIENCE)
    assert len(gate.items) == capacity + 1
    assert sum(queue.produce(A(n)) for n in range(min(capacity, 3))) == min(capacity, 3), "the room is there again"


def test_a_partition_is_full_at_its_buffer_size_and_others_go_on(held):
    queue, gate = held(capacity=100, buffer_size=30, strategy=BufferStrategy.IF_POSSIBLE)
    assert queue.produce_many([A(n) for n in range(50)]) == 30
    assert queue.produce(A(0)) is False
    assert [queue.produce_many([kind(n) for n in range(50)]) for kind in (B, C, D)] == [30, 30, 10]
    assert queue.stats().rejected["full"] == 20 + 1 + 20 + 20 + 40
    gate.open()
    assert queue.flush(PATIENCE)
    accounts(queue.stats())


def test_a_capacity_above_all_partitions_changes_nothing(make_queue):
    queue = make_queue(partitions=PartitionPolicy.fixed(2), buffer_size=5, capacity=1_000)
    assert queue.stats().total_capacity == 10


def test_producers_of_every_partition_wait_for_the_one_place(held):
    queue, gate = held(capacity=1)
    assert queue.produce(A(0))
    done = []
    producers = [threading.Thread(target=lambda kind=kind: done.append(queue.produce(kind(1)))) for kind in TYPES * 3]
    for producer in producers:
        producer.start()
    assert queue.offer(B(2), timeout=0) is False
    gate.open()
    for producer in producers:
        producer.join(PATIENCE)
    assert done == [True] * 12
    assert queue.flush(PATIENCE)
    assert (len(gate.items), queue.stats().rejected["full"]) == (14, 1)


def test_the_close_releases_those_who_wait_for_the_capacity(held):
    queue, gate = held(capacity=1)
    assert queue.produce(A(0))
    done = []
    producers = [threading.Thread(target=lambda: done.append(queue.produce(B(1)))) for _ in range(3)]
    for producer in producers:
        producer.start()
    ended = threading.Thread(target=queue.shutdown)
    ended.start()
    for producer in producers:
        producer.join(PATIENCE)
    assert done == [False] * 3
    gate.open()
    ended.join(PATIENCE)
    stats = queue.stats()
    assert (stats.handled, stats.rejected["closed"]) == (2, 3)
    accounts(stats)


def test_a_capacity_in_rows_counts_the_weight_of_all_partitions(held):
    queue, gate = held(capacity=10, len_of=lambda item: int(item) or 1, strategy=BufferStrategy.IF_POSSIBLE)
    assert [queue.produce(item) for item in (A(4), B(4), C(3), D(2), A(1))] == [True, True, False, True, False]
    assert queue.stats().total_used == 10
    gate.open()
    assert queue.flush(PATIENCE)
    assert queue.produce(A(40)), "an item above the capacity is accepted by an empty queue"
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert (stats.handled, stats.rejected["full"]) == (1 + 10 + 40, 3 + 1)


def test_a_handler_that_waits_for_the_capacity_of_its_own_queue_is_told(make_queue):
    errors = []
    queue = make_queue(
        partitions=PartitionPolicy.fixed(2),
        capacity=2,
        on_error=lambda batch, error: errors.append(error),
    )
    queue.add_handler(A, lambda batch: [queue.produce(B(n)) for n in range(3)])
    queue.add_handler(B, lambda batch: None)
    queue.produce(A(0))
    assert queue.flush(PATIENCE)
    (error,) = errors
    assert isinstance(error, WouldDeadlock)
    assert "capacity" in str(error)
