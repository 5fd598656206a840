"""Aggregation in tasks: exact whatever happens to an attempt."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark_session import by_value

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BufferStrategy,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from drainq.spark import aggregate, partition_fn, task_info, task_queue

by_value(__name__)
ROWS = 20_000
EXPECTED = Counter({key: len(range(key, ROWS, 7)) for key in range(7)})


class CountByKey:
    """Counts tuples by their remainder of 7."""

    def __init__(self, fail=None):
        self.counts = Counter()
        self.fail = fail

    def consume(self, batch):
        for (n,) in batch:
            self.counts[n % 7] += 1
        if self.fail is not None:
            self.fail()

    def result(self):
        return list(self.counts.items())


def totals(rows):
    found = Counter()
    for key, n in rows:
        found[key] += n
    return found


@pytest.fixture
def numbers(spark):
    return spark.range(0, ROWS, 1, 5)


def test_partial_results_add_up(numbers):
    partial = aggregate(numbers, lambda info: {tuple: CountByKey()}, schema="key long, n long")
    rows = [tuple(row) for row in partial.collect()]
    assert len(rows) > 7 and totals(rows) == EXPECTED


def test_merge_lets_spark_add_them_up(numbers):
    merged = aggregate(numbers, lambda info: {tuple: CountByKey()}, schema="key long, n long", merge={"n": "sum"})
    assert sorted(map(tuple, merged.collect())) == sorted(EXPECTED.items())


def test_the_rdd_door_gives_the_same(numbers):
    found = numbers.rdd.map(tuple).mapPartitions(partition_fn(lambda info: {tuple: CountByKey()})).collect()
    assert totals(found) == EXPECTED


def dying(mark, how):
    """Handlers that stop the first attempt of partition 1 after it has consumed something."""

    def make(info):
        def stop():
            if info.partition == 1 and info.attempt == 0:
                Path(mark).touch()
                how()

        return {tuple: CountByKey(stop)}

    return make


def raise_error():
    raise RuntimeError("first attempt")


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("how", [raise_error, kill_worker])
def test_a_failed_attempt_counts_nothing(numbers, tmp_path, how):
    mark = tmp_path / "stopped"
    merged = aggregate(numbers, dying(str(mark), how), schema="key long, n long", merge={"n": "sum"})
    assert sorted(map(tuple, merged.collect())) == sorted(EXPECTED.items())
    assert mark.exists()


def test_a_handler_error_reaches_the_driver_with_its_own_words(numbers):
    def make(info):
        return {tuple: CountByKey(raise_error)}

    with pytest.raises(Exception, match="first attempt"):
        aggregate(numbers.coalesce(1), make, schema="key long, n long").collect()


def test_a_handler_for_the_wrong_type_of_row_fails_instead_of_giving_nothing(numbers):
    from pyspark.sql import Row

    with pytest.raises(Exception, match=r"items have no handler: \d+ of tuple.*handlers for pyspark.sql.types.Row"):
        aggregate(numbers.coalesce(1), lambda info: {Row: CountByKey()}, schema="key long, n long").collect()


@pytest.mark.parametrize("value", ["ignore", None, 3])
def test_an_unknown_wish_for_unrouted_items_is_refused_before_anything_runs(numbers, value):
    for make in (
        lambda: aggregate(numbers, lambda info: {}, schema="n long", unrouted=value),
        lambda: partition_fn(lambda info: {}, unrouted=value),
        lambda: task_queue(unrouted=value).__enter__(),
    ):
        with pytest.raises(ValueError, match=f"unrouted must be 'fail' .* got {value!r}"):
            make()


def test_an_empty_partition_has_results_too(spark):
    empty = aggregate(spark.range(0), lambda info: {tuple: CountByKey()}, schema="key long, n long", merge={"n": "sum"})
    assert empty.collect() == []


@pytest.mark.parametrize("more", [{"rows": "pandas"}, {"merge": {"n": "avg"}}, {"merge": {"nope": "sum"}}])
def test_what_is_unknown_is_refused_before_anything_runs(numbers, more):
    with pytest.raises(ValueError):
        aggregate(numbers, lambda info: {}, schema="key long, n long", **more)


def test_task_info_tells_the_attempt(spark):
    def ask(rows):
        info = task_info()
        yield info.partition, info.attempt, info.cpus, info.task_attempt_id, info.query_id

    found = spark.sparkContext.parallelize(range(3), 3).mapPartitions(ask).collect()
    assert [(p, a, c, q) for p, a, c, _, q in found] == [(n, 0, 1, None) for n in range(3)]
    assert len({attempt for *_, attempt, _ in found}) == 3


def test_a_task_queue_drains_at_its_end_and_drops_when_nobody_wants_more(spark):
    def ends(rows):
        seen = []
        with task_queue() as queue:
            queue.add_handler(int, seen.extend)
            queue.produce_many(list(rows))
        stats = queue.stats()
        yield sum(seen), stats.handled, stats.abandoned, queue.running

    def is_left(rows):
        import threading

        gate = threading.Event()
        config = BatchQueueConfig(threads=ThreadPolicy.fixed(1))
        try:
            with task_queue(config) as queue:
                queue.add_handler(int, lambda batch: gate.wait())
                queue.produce_many(list(rows))
                raise GeneratorExit
        except GeneratorExit:
            stats = queue.stats()
            gate.set()
            yield stats.handled, stats.abandoned, queue.running

    data = spark.sparkContext.parallelize(range(100), 1)
    assert data.mapPartitions(ends).collect() == [(4950, 100, 0, False)]
    assert data.mapPartitions(is_left).collect() == [(0, 100, False)]


def test_a_configuration_that_is_made_in_the_driver_travels_into_the_tasks(spark):
    limit = 40
    config = BatchQueueConfig(
        threads=ThreadPolicy.cpu_cores_with_base(1, 0.5),
        partitions=PartitionPolicy.fixed(3),
        partition_selector=PartitionSelector.by(lambda item: item % 2),
        dispatch_key=lambda item: "low" if item < limit else "high",
        strategy=BufferStrategy.IF_POSSIBLE,
        max_batch=7,
        linger=0.001,
    )
    names = [name for name in dir(config) if not name.startswith("_") and name != "replace"]
    plain = [name for name in names if not callable(getattr(config, name))]

    def low(rows):
        sums, sizes = [], []
        with task_queue(config) as queue:
            queue.add_handler("low", lambda batch: (sums.append(sum(batch)), sizes.append(len(batch))))
            queue.add_handler("high", len)
            queue.produce_many(list(rows))
        yield sum(sums), max(sizes) <= 7, {name: repr(getattr(config, name)) for name in plain}

    task = spark.sparkContext.parallelize(range(100), 1).mapPartitions(low).collect()
    assert task == [(780, True, {name: repr(getattr(config, name)) for name in plain})]
    assert len(plain) > 12


def test_a_queue_that_a_task_uses_is_refused_with_what_to_send_instead(spark):
    with BatchQueue("driver", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
        with pytest.raises(Exception, match="'BatchQueue' object cannot be pickled or copied.*send its name and its"):
            spark.sparkContext.parallelize(range(2), 1).map(queue.produce).collect()


def test_a_task_leaves_no_thread_behind(spark):
    def threads(rows):
        import threading

        for _ in range(50):
            with task_queue() as queue:
                queue.add_handler(int, len)
                queue.produce(1)
        yield threading.active_count()

    counts = spark.sparkContext.parallelize(range(2), 2).mapPartitions(threads).collect()
    assert max(counts) < 10
