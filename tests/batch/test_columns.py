"""Items of many rows: capacity and counters by `len_of`, and the size of batches."""

import threading

import pytest

from drainq import BufferStrategy, PartitionPolicy, PartitionSelector, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts

pa = pytest.importorskip("pyarrow")


def batch_of(*values):
    return pa.RecordBatch.from_pydict({"value": list(values)})


def held(make_queue, **settings):
    """Return a queue whose handler holds a first item of one row until its gate opens."""
    gate = Gate(is_open=False)
    queue = make_queue(len_of=len, buffer_size=10, **settings)
    queue.add_handler(pa.RecordBatch, gate)
    queue.produce(batch_of(0))
    gate.wait_entered()
    return queue, gate


def test_capacity_and_counters_are_in_rows(make_queue):
    queue, gate = held(make_queue, strategy=BufferStrategy.IF_POSSIBLE)
    assert queue.produce(batch_of(*range(6)))
    assert not queue.produce(batch_of(*range(5))), "6 + 5 rows are more than 10"
    assert queue.produce(batch_of(*range(4)))
    assert queue.produce_many([batch_of(1), batch_of(2)]) == 0
    stats = queue.stats()
    assert (stats.offered, stats.accepted, stats.rejected["full"], stats.queued) == (18, 11, 7, 11)
    assert (stats.partition_used(0), stats.total_used_percentage) == (10, 100.0)
    accounts(stats)
    gate.open()
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert (stats.handled, stats.per_type[pa.RecordBatch].handled, stats.queued) == (11, 11, 0)
    assert [item.num_rows for item in gate.items] == [1, 6, 4]
    assert stats.threads[0].handled == 11


def test_blocking_waits_for_room_in_rows(make_queue):
    queue, gate = held(make_queue)
    queue.produce(batch_of(*range(8)))
    assert queue.offer(batch_of(*range(3)), timeout=0.01) is False
    accepted = []
    producer = threading.Thread(target=lambda: accepted.append(queue.produce_many([batch_of(*range(3))] * 5)))
    producer.start()
    gate.open()
    producer.join(PATIENCE)
    assert accepted == [5]
    assert queue.flush(PATIENCE)
    assert queue.stats().handled == 1 + 8 + 15


def test_an_item_larger_than_the_capacity_goes_through_alone(make_queue):
    queue, gate = held(make_queue, strategy=BufferStrategy.IF_POSSIBLE)
    assert queue.produce(batch_of(*range(100)))
    assert not queue.produce(batch_of(1))
    gate.open()
    assert queue.flush(PATIENCE)
    assert queue.produce(batch_of(1))


def test_an_items_rows_are_counted_once_however_often_len_of_changes_its_mind(make_queue):
    answers = [2**31 - 1, 0, 5, 2]
    queue = make_queue(len_of=lambda item: answers[item], buffer_size=10, strategy=BufferStrategy.IF_POSSIBLE)
    queue.add_handler(int, gate := Gate(is_open=False))
    assert queue.produce(0), "one item that is heavier than the partition is let in"
    gate.wait_entered()
    assert [queue.produce(item) for item in (1, 2, 0, 3)] == [True, True, False, True]
    answers[:] = [1, 2, 3, 4]
    now = queue.stats()
    assert (now.offered, now.accepted, now.rejected["full"]) == (2**32 + 5, 2**31 + 6, 2**31 - 1)
    gate.open()
    assert queue.flush(PATIENCE)
    assert (queue.stats().handled, gate.items) == (2**31 + 6, [0, 1, 2, 3])


def test_selector_and_dispatch_key_see_the_table(make_queue):
    gates = {"a": Gate(), "b": Gate()}
    queue = make_queue(
        threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), len_of=lambda table: table.num_rows,
        dispatch_key=lambda table: table.schema.metadata[b"kind"].decode(),
        partition_selector=PartitionSelector.by(lambda table: table.schema.metadata[b"kind"]),
    )  # fmt: skip
    for kind, gate in gates.items():
        queue.add_handler(kind, gate)
    for kind in "abab":
        queue.produce(pa.table({"n": [1, 2]}).replace_schema_metadata({"kind": kind}))
    assert queue.flush(PATIENCE)
    assert [sum(table.num_rows for table in gate.items) for gate in gates.values()] == [4, 4]
    assert queue.stats().per_type["a"].handled == 4


def test_lingering_lets_a_batch_form(make_queue):
    gate = Gate()
    queue = make_queue(consumer=gate, linger=30.0, buffer_size=100)
    for n in range(49):
        queue.produce(n)
    assert gate.batches == [], "it waits for more"
    queue.produce(49)
    gate.wait_entered()
    assert gate.batches == [list(range(50))], "half full ends the wait"


def test_a_flush_and_a_shutdown_end_the_lingering(make_queue):
    for end in ("flush", "shutdown"):
        gate = Gate()
        queue = make_queue(consumer=gate, linger=30.0)
        queue.produce(1)
        assert getattr(queue, end)(PATIENCE) is True
        assert gate.items == [1]


@pytest.mark.needs_gil("it counts GIL yields")
def test_a_busy_producer_hands_the_gil_over_before_items_are_dropped(make_queue):
    queue = make_queue(strategy=BufferStrategy.IF_POSSIBLE, buffer_size=4_096)
    queue.add_handler(int, sum)

    offered = []

    def produce():
        """At least 60,000 items; more where the machine is too busy to run a drain thread meanwhile."""
        for already in range(500):
            if already >= 3 and queue.stats().gil_yields:
                break
            for n in range(20_000):
                queue.produce(n % 100)
            offered.append(20_000)

    producers = [threading.Thread(target=produce) for _ in range(3)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    assert queue.flush(PATIENCE)
    stats = queue.stats()
    accounts(stats)
    assert stats.offered == sum(offered) >= 180_000
    assert stats.gil_yields > 0
    waits = dict(stats.gil_waits)
    assert sum(waits.values()) == sum(thread.cycles for thread in stats.threads)
