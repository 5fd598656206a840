"""A worker that runs a thousand tasks is afterwards as it was after the first hundred: no thread, file or memory more."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("psutil")

import psutil
from tests.spark_session import by_value

from drainq.spark import partition_fn

pytestmark = pytest.mark.system

TASKS = 1000
WARM = 100  # tasks of a worker until its caches and its allocator have what they need
WINDOW = 50  # tasks; the least of a window has neither garbage nor a thread that is about to end
MOST_GROWTH = 4 << 20  # bytes; in a worker with half of the tasks a leak of 12 kB a task would be more


class Count:
    def __init__(self) -> None:
        self.seen = 0

    def consume(self, batch: list) -> None:
        self.seen += len(batch)

    def result(self):
        return [self.seen]


def measured(partition):
    """Run a task through a batch queue. Yield what the worker holds afterwards."""
    (seen,) = partition_fn(lambda info: {int: Count()})(partition)
    process = psutil.Process()
    yield seen, os.getpid(), process.num_threads(), process.num_fds(), process.memory_info().rss


def least(held):
    """Return the least of threads, files and bytes, each for itself."""
    return tuple(min(of) for of in zip(*held))


@pytest.mark.usefixtures("own_limit")
def test_a_thousand_tasks_leave_a_worker_as_it_was(spark):
    by_value(__name__)
    found = spark.sparkContext.parallelize(range(TASKS * 10), TASKS).mapPartitions(measured).collect()
    assert [seen for seen, *_ in found] == [10] * TASKS
    of_worker = defaultdict(list)
    for _, pid, *held in found:
        of_worker[pid].append(held)
    busy = [held for held in of_worker.values() if len(held) > 2 * WARM]
    assert busy, "there is a worker with enough tasks"
    for held in busy:
        threads, files, memory = least(held[WARM : WARM + WINDOW])
        last_threads, last_files, last_memory = least(held[-WINDOW:])
        assert last_threads <= threads and last_files <= files
        assert last_memory - memory < MOST_GROWTH
