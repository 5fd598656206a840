"""Results and writes during faults: exact totals.

Each case takes a session and a directory, asserts its totals, and is run on several masters.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

from drainq.spark import aggregate, partition_fn, sink

ROWS, KEYS = 20_000, 7
EXPECTED = {key: (len(range(key, ROWS, KEYS)), sum(range(key, ROWS, KEYS))) for key in range(KEYS)}
SCHEMA = "key long, n long, total long"
MERGE = {"n": "sum", "total": "sum"}


class Totals:
    """Counts and adds up by key; ``fault(info)`` is called once, in the middle of the task."""

    def __init__(self, info, fault):
        self.info, self.fault = info, fault
        self.n, self.total = Counter(), Counter()

    def consume(self, batch):
        for number, *_ in batch:
            self.n[number % KEYS] += 1
            self.total[number % KEYS] += number
        if self.fault is not None and sum(self.n.values()) >= ROWS // 16:
            fault, self.fault = self.fault, None
            fault(self.info)

    def result(self):
        return [(key, self.n[key], self.total[key]) for key in self.n]


def numbers(session, partitions=8):
    return session.range(0, ROWS, 1, partitions)


def aggregated(frame, fault=None, merge=MERGE):
    return aggregate(frame, lambda info: {tuple: Totals(info, fault)}, schema=SCHEMA, merge=merge)


def check(rows):
    assert {key: (n, total) for key, n, total in map(tuple, rows)} == EXPECTED


def once(mark, act):
    """Do something in the first task attempt that comes here, and in no other."""

    def fault(info):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        act()

    return fault


def fail():
    raise RuntimeError("a fault in a handler")


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor():
    import psutil

    java = next(parent for parent in psutil.Process().parents() if "java" in parent.name())
    assert "CoarseGrainedExecutorBackend" in " ".join(java.cmdline())
    os.kill(java.pid, signal.SIGKILL)


class Table:
    """A writer that inserts by key, and counts each insert in another table."""

    def __init__(self, file, info, fault):
        self.connection, self.info, self.fault = sqlite3.connect(file, timeout=120), info, fault
        self.written = 0

    def write(self, batch):
        with self.connection:
            self.connection.executemany("INSERT OR REPLACE INTO numbers VALUES (?)", batch)
        self.written += len(batch)
        if self.fault is not None and self.written >= ROWS // 25:  # of three writers of a task one gets to 833 at least
            self.fault(self.info)

    def close(self):
        self.connection.close()


def table(folder):
    file = str(Path(folder) / "numbers.db")
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY)")
    return file


def check_table(file):
    with sqlite3.connect(file) as connection:
        found = connection.execute("SELECT count(*), sum(n) FROM numbers").fetchone()
    assert found == (ROWS, sum(range(ROWS)))


# -- cases ----------------------------------------------------------------------------------------


def aggregate_survives(session, folder, act):
    mark = str(Path(folder) / f"aggregate-{act.__name__}")
    check(aggregated(numbers(session), once(mark, act)).collect())
    assert os.path.exists(mark)


def sink_survives(session, folder, act):
    mark, file = str(Path(folder) / f"sink-{act.__name__}"), table(folder)
    fault = once(mark, act)
    report = sink(numbers(session), lambda info: Table(file, info, fault), threads=3, max_batch_rows=200, retries=0)
    assert os.path.exists(mark)
    assert (report.rows, report.errors) == (ROWS, 0)
    check_table(file)


def shapes_are_exact(session, folder):
    """Plans that run a function again, or only in part."""
    frame = numbers(session)
    check(aggregated(frame.coalesce(3)).coalesce(1).collect())
    check(aggregated(frame).orderBy("key").collect())
    check(aggregated(frame.repartition(40).where("id >= 0")).collect())
    partial = aggregated(frame, merge=None)
    check(
        partial.groupBy("key").agg({"n": "sum", "total": "sum"}).selectExpr("key", "`sum(n)`", "`sum(total)`").collect()
    )
    (few,) = aggregated(frame, merge=None).limit(1).collect()
    assert few.key in EXPECTED
    (rows,) = aggregate(
        aggregated(frame), lambda info: {tuple: Rows()}, schema="n long, total long", merge=MERGE
    ).collect()
    assert tuple(rows) == (ROWS, sum(range(ROWS)))


class Rows:
    """Adds up partial results: a second aggregation behind the first."""

    def __init__(self):
        self.n = self.total = 0

    def consume(self, batch):
        self.n += sum(n for _, n, _ in batch)
        self.total += sum(total for _, _, total in batch)

    def result(self):
        return [(self.n, self.total)]


def rdds_are_exact(session, folder):
    rdd = session.sparkContext.parallelize([(number,) for number in range(ROWS)], 8)
    partial = rdd.mapPartitions(partition_fn(lambda info: {tuple: Totals(info, None)}))
    summed = partial.map(lambda row: (row[0], (row[1], row[2]))).reduceByKey(lambda a, b: (a[0] + b[0], a[1] + b[1]))
    check((key, n, total) for key, (n, total) in summed.sortBy(lambda row: -row[0]).collect())
    assert len(partial.take(3)) == 3


def cancel_ends_a_sink(session, folder):
    """Cancel a sink: it writes for some more seconds at most, and the next job is exact."""
    import threading

    file, started = table(folder), Path(folder) / "started"

    class Slow(Table):
        def write(self, batch):
            started.touch()
            super().write(batch)
            time.sleep(0.2)  # a slow service

    context = session.sparkContext
    errors = []

    def run():
        context.setJobGroup("slow", "a sink that is cancelled", interruptOnCancel=True)
        try:
            sink(numbers(session), lambda info: Slow(file, info, None), threads=2, max_batch_rows=10)
        except Exception as error:
            errors.append(error)

    from pyspark import InheritableThread

    thread = InheritableThread(target=run)
    thread.start()
    while not started.exists():
        threading.Event().wait(0.05)
    context.cancelJobGroup("slow")
    thread.join(120)
    assert not thread.is_alive() and "cancel" in str(errors[0]).lower()
    before = -1
    while (now := _count(file)) != before:  # a task that is killed writes on for some seconds
        before = now
        threading.Event().wait(3)
    assert now < ROWS
    sink_survives(session, folder, no_fault)


def no_fault():
    """Do nothing."""


def _count(file):
    with sqlite3.connect(file) as connection:
        return connection.execute("SELECT count(*) FROM numbers").fetchone()[0]
