"""Queues inside Spark tasks, compared with code written by hand: one warm session, in local mode on two cores.

1. A sink that takes 5 ms for 1,000 rows: ``sink`` with eight threads, a loop, eight threads and a ``queue.Queue``.
2. Counts and sums of Python rows by key: ``aggregate``, a dictionary, a ``queue.Queue`` with an item for each row,
   ``applyInPandas``, and Spark's own ``groupBy``, which is not Python.
3. What a queue costs a task that has nothing to do.

Run it:  make bench-spark
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benches.protocol import Below, Faster, Report, arguments, measure, rounds, seconds, wanted
from benches.spark import rivals

from drainq.metrics.spark_session import DEFAULT_MASTER, open_session
from drainq.spark import aggregate, sink, task_queue

KEYS = 1000
SUMS = "key long, n long, total long"
IDLE_QUEUES = 200  # opened and closed by a task, one after the other


class Service:
    """A writer for ``sink``."""

    def __init__(self, info: Any) -> None:
        pass

    def write(self, batch: Any) -> None:
        """Call the service."""
        rivals.call(batch)


class Sums:
    """A handler for ``aggregate``."""

    def __init__(self) -> None:
        self.sums: dict[int, list[int]] = {}

    def consume(self, batch: list[Any]) -> None:
        """Count rows."""
        for key, value in batch:
            rivals.add(self.sums, key, value)

    def result(self) -> Iterator[tuple[int, int, int]]:
        """Return the partial results."""
        return ((key, n, total) for key, (n, total) in self.sums.items())


def written(frame: Any, form: str, rows: int) -> float:
    """Measure the seconds of ``sink``."""

    def run() -> None:
        assert sink(frame, Service, threads=rivals.THREADS, rows=form).rows == rows

    return seconds(run)


def by_hand(frame: Any, task: rivals.Task, rows: int) -> float:
    """Measure the seconds of a rival's task that writes all rows."""

    def run() -> None:
        assert sum(row.n for row in frame.mapInArrow(task, "n long").collect()) == rows

    return seconds(run)


def summed(make: Callable[[], Any], rows: int) -> float:
    """Measure the seconds for an item until the merged sums are in the driver."""

    def run() -> None:
        found = make().groupBy("key").sum("n", "total").collect()
        assert len(found) == KEYS and sum(row["sum(n)"] for row in found) == rows

    return seconds(run) / rows


def in_pandas(frame: Any) -> Any:
    """Sums of each key as pandas has it."""

    def of(group: Any) -> Any:
        import pandas

        return pandas.DataFrame({"key": group.key[:1], "n": [len(group)], "total": [group.value.sum()]})

    return frame.groupBy("key").applyInPandas(of, SUMS)


def idle(spark: Any) -> float:
    """Measure the seconds of a task's queue without items: opened, drained and closed."""

    def open_and_close(rows: Iterator[Any]) -> Iterator[float]:
        started = time.perf_counter()
        for _ in range(IDLE_QUEUES):
            with task_queue():
                pass
        yield (time.perf_counter() - started) / IDLE_QUEUES

    return float(max(spark.sparkContext.parallelize(range(2), 2).mapPartitions(open_and_close).collect()))


def run_figures(spark: Any, report: Report, options: argparse.Namespace) -> None:
    """Run the figures that were asked for."""
    from pyspark.sql import functions as F

    times = rounds(options, 5)
    rows = 400_000 if options.quick else 2_000_000
    for form in ("tuples", "arrow"):
        name = f"sink at 5 ms for 1,000 rows, {form}"
        if wanted(name, options):
            frame = spark.range(0, rows, 1, 2)
            contestants = {
                "drainq": partial(written, frame, form, rows),
                "loop": partial(by_hand, frame, rivals.loop(form), rows),
                "queue.Queue and 8 threads": partial(by_hand, frame, rivals.threads(form), rows),
            }
            goals = [Faster("drainq", "loop", 7.0), Faster("drainq", "queue.Queue and 8 threads", 1.0)]
            report.add(measure(name, "s", contestants, rounds=times, goals=goals, note=f"{rows:,} rows in two tasks"))
    name = "counts and sums by key"
    if wanted(name, options):
        frame = spark.range(0, rows, 1, 2).select((F.col("id") % KEYS).alias("key"), F.col("id").alias("value")).cache()
        assert frame.count() == rows
        contestants = {
            "drainq": partial(
                summed, lambda: aggregate(frame, lambda info: {tuple: Sums()}, schema=SUMS, threads=1), rows
            ),
            "dictionary in mapInArrow": partial(summed, lambda: frame.mapInArrow(rivals.dictionary, SUMS), rows),
            "queue.Queue, an item each": partial(summed, lambda: frame.mapInArrow(rivals.item_by_item, SUMS), rows),
            "applyInPandas": partial(summed, lambda: in_pandas(frame), rows),
            "(groupBy in Spark)": partial(
                summed, lambda: frame.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total")), rows
            ),
        }
        goals = [
            Faster("drainq", "dictionary in mapInArrow", 0.85),
            Faster("drainq", "queue.Queue, an item each", 4.0),
            Faster("drainq", "applyInPandas", 2.0),
        ]
        note = "a row is an item; where Spark's own groupBy can say it, that is the better choice"
        report.add(measure(name, "s/item", contestants, rounds=times, goals=goals, note=note))
        frame.unpersist()
    name = "a task's queue that gets nothing"
    if wanted(name, options):
        goals = [Below("drainq", 0.005)]
        report.add(measure(name, "s", {"drainq": partial(idle, spark)}, rounds=times, goals=goals))


def main() -> int:
    """Run the figures in one session."""
    options = arguments("spark")
    import pyspark

    report = Report("spark", options, {"pyspark": pyspark.__version__})
    with tempfile.TemporaryDirectory() as home:
        with open_session(DEFAULT_MASTER, Path(home) / "spark.log") as spark:
            from pyspark.cloudpickle import register_pickle_by_value

            register_pickle_by_value(rivals)
            run_figures(spark, report, options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
