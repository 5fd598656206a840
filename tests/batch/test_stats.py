"""The counters: every item in exactly one place, at any moment."""

import threading
import time

import pytest

from drainq import BufferStrategy, PartitionPolicy, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts


def test_usage_by_partition_and_in_total(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate, partitions=PartitionPolicy.fixed(4), buffer_size=10,
                       partition_selector=lambda item, count: item[0])  # fmt: skip
    queue.produce((0,))
    gate.wait_entered()
    for partition, items in enumerate((1, 5, 2, 0)):
        queue.produce_many([(partition,)] * items)
    stats = queue.stats()
    assert (stats.partition_count, stats.buffer_size, stats.total_capacity) == (4, 10, 40)
    assert (stats.total_used, stats.total_used_percentage) == (8, 20.0)
    assert [stats.partition_used(i) for i in range(4)] == [1, 5, 2, 0]
    assert stats.partition_used_percentage(1) == 50.0
    assert [(u.partition_index, u.used, u.used_percentage) for u in stats.top_n(2)] == [(1, 5, 50.0), (2, 2, 20.0)]
    assert len(stats.top_n(99)) == 4
    assert stats.top_n(0) == []
    for index in (4, -1):
        with pytest.raises(ValueError, match=f"the number of a partition.* got {index}"):
            stats.partition_used(index)
    assert stats.queued == 9, "the one in the handler call included"
    gate.open()


def test_the_identity_holds_in_every_snapshot_of_a_busy_queue(make_queue):
    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), buffer_size=50,
                       strategy=BufferStrategy.IF_POSSIBLE, on_error=lambda batch, error: None)  # fmt: skip

    def fails(batch):
        raise ValueError

    queue.add_handler(int, len)
    queue.add_handler(str, fails)
    enough, offered = threading.Event(), []

    def produce():
        while not enough.is_set():
            queue.produce_many([1, "a", 1.0])
            offered.append(3)

    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(200):
        accounts(queue.stats())
    enough.set()
    producer.join()
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    accounts(stats)
    assert stats.offered == sum(offered) > 0
    assert stats.handled == stats.per_type[int].handled == stats.per_type[int].accepted
    assert stats.failed == stats.per_type[str].failed
    assert stats.unrouted == stats.per_type[float].unrouted
    assert stats.queued == 0


def test_threads_are_named_and_their_work_adds_up(make_queue):
    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2))
    names = set()
    for kind in (int, str):
        queue.add_handler(kind, lambda batch: names.add(threading.current_thread().name))
    queue.produce_many([1, "a"] * 100)
    assert queue.flush(PATIENCE)
    threads = queue.stats().threads
    assert {thread.name for thread in threads} == names == {f"drainq-{queue.name}-0", f"drainq-{queue.name}-1"}
    assert [thread.partitions for thread in threads] == queue.assignments() == [[0], [1]]
    assert [thread.handled for thread in threads] == [100, 100]
    assert all(thread.cycles >= 1 and thread.busy_seconds > 0 for thread in threads)


def test_memory_follows_what_is_queued_not_what_could_be(make_queue):
    queue = make_queue(consumer=Gate(), partitions=PartitionPolicy.fixed(450), buffer_size=20_000)
    assert queue.stats().allocated_bytes < 4 << 20
    for n in range(100):
        queue.produce(n)
    assert queue.stats().allocated_bytes < 4 << 20


def test_the_counters_as_a_dictionary_are_the_counters(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate, buffer_size=2, strategy=BufferStrategy.IF_POSSIBLE)
    queue.produce(0)
    gate.wait_entered()
    accepted = 1 + queue.produce_many(range(5))
    stats = queue.stats()
    counts = stats.as_dict()
    rejected = counts.pop("rejected")
    assert rejected == stats.rejected and rejected["full"] == 6 - accepted == 3
    assert counts == {name: getattr(stats, name) for name in counts}
    assert list(counts) == [
        "offered",
        "accepted",
        "handled",
        "failed",
        "unrouted",
        "dead_lettered",
        "abandoned",
        "queued",
    ]
    assert stats.balanced and counts["queued"] == accepted
    gate.open()


@pytest.mark.needs_gil("it counts waits for the GIL")
def test_the_waits_for_the_gil_are_those_of_the_passes(make_queue):
    queue = make_queue(consumer=lambda batch: None)
    assert [count for _, count in queue.stats().gil_waits].count(0) == len(queue.stats().gil_waits)
    for number in range(1, 20):
        queue.produce(number)
        assert queue.flush(PATIENCE)
        stats = queue.stats()
        passes = stats.threads[0].cycles
        assert number <= sum(count for _, count in stats.gil_waits) <= passes + 1
    bounds = [bound for bound, _ in stats.gil_waits]
    assert bounds == pytest.approx([2**bucket * 1e-6 for bucket in range(len(bounds))])


def test_what_stats_say_of_themselves(make_queue):
    queue = make_queue(consumer=len, partitions=PartitionPolicy.fixed(2), buffer_size=10)
    assert queue.produce_many(list("abc")) == 3 and queue.flush(PATIENCE)
    stats = queue.stats()
    rejected = "{'full': 0, 'closed': 0, 'would_deadlock': 0}"
    assert repr(stats) == (
        f"BatchQueueStats(accepted=3, rejected={rejected}, handled=3, failed=0, unrouted=0, dead_lettered=0, "
        "abandoned=0, queued=0)"
    )
    assert repr(stats.top_n(1)) == "[PartitionUsage(partition_index=0, used=0, used_percentage=0.0)]"
    (thread,) = stats.threads
    assert repr(thread).startswith("ThreadStats(name='drainq-test-0-0', handled=3, cycles=")
    assert "partitions=[0, 1], busy_seconds=" in repr(thread)


def test_a_thread_is_busy_no_longer_than_it_lives(make_queue):
    begin = time.monotonic()
    queue = make_queue(consumer=lambda batch: sum(range(10_000)))
    for number in range(100):
        queue.produce(number)
        assert queue.flush(PATIENCE)
    (thread,) = queue.stats().threads
    assert 0 < thread.busy_seconds <= time.monotonic() - begin
