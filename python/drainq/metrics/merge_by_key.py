"""L1: one handler per metric type merges what its task parsed, so that few rows leave the task.

A handler is called by one drain thread at a time and takes no lock for its state. What it hands out on the way
goes through a deque, which the task's own thread empties.

1. Every record that was consumed is in exactly one place: pending, the state, or rows handed out.
2. Pending and state are bounded, so a task's memory does not grow with its input.

Source: ``MetricsAggregateWorker`` in SkyWalking, which also merges by key in one thread without a lock.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator

import pyarrow as pa

from drainq.metrics import partial_rows
from drainq.metrics.types import METRICS, BadLine, JobMetric, LinesRead
from drainq.spark.task import TaskInfo

MOST_PENDING = 60_000  # rows not merged yet: three Arrow batches
MOST_KEYS = 100_000  # keys held before they leave the task


class MergeByKey:
    """Add up one type's rows by key.

    Args:
        metric: the type.
        most_pending: rows to collect before they are merged.
        most_keys: keys to hold; more leave the task and are merged by Spark.
    """

    def __init__(
        self, metric: type[JobMetric], *, most_pending: int = MOST_PENDING, most_keys: int = MOST_KEYS
    ) -> None:
        self._metric = metric
        self._most_pending, self._most_keys = most_pending, most_keys
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._state: pa.Table | None = None
        self._out: deque[pa.RecordBatch] = deque()
        self.busy = 0.0  # seconds spent here

    def consume(self, batch: list[JobMetric]) -> None:
        """Take what was parsed; called by the queue."""
        started = time.perf_counter()
        for metric in batch:
            self._pending.append(self._merge([metric.rows]))
            self._pending_rows += len(self._pending[-1])
        if self._pending_rows > self._most_pending:
            self._settle()
            if self._state is not None and len(self._state) > self._most_keys:
                self._out.append(self._rows(self._state))
                self._state = None
        self.busy += time.perf_counter() - started

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Rows that may leave the task already."""
        while self._out:
            yield self._out.popleft()

    def result(self) -> Iterator[pa.RecordBatch]:
        """All rows that have not left yet; called once everything was consumed."""
        self._settle()
        yield from self.ready()
        if self._state is not None and len(self._state):
            yield self._rows(self._state)
        self._state = None

    def _settle(self) -> None:
        if self._pending:
            tables = self._pending if self._state is None else [self._state, *self._pending]
            self._state = self._merge(tables)
            self._pending, self._pending_rows = [], 0

    def _merge(self, tables: list[pa.Table]) -> pa.Table:
        keys, sums = list(self._metric.keys), list(self._metric.sums)
        merged = (
            pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([(column, "sum") for column in sums])
        )
        return merged.select([*keys, *(f"{column}_sum" for column in sums)]).rename_columns([*keys, *sums])

    def _rows(self, state: pa.Table) -> pa.RecordBatch:
        columns = {column: state[column].combine_chunks() for column in state.column_names}
        if "name" in columns:
            columns["name"] = pa.array([partial_rows.name(raw) for raw in columns["name"].to_pylist()], pa.string())
        return partial_rows.rows(self._metric.table, len(state), **columns)


class KeepBadLines:
    """Hand on bad lines as they are."""

    def __init__(self) -> None:
        self._out: deque[pa.RecordBatch] = deque()

    def consume(self, batch: list[BadLine]) -> None:
        """Take bad lines; called by the queue."""
        self._out.append(
            partial_rows.rows(
                partial_rows.BAD_LINE,
                len(batch),
                name=[partial_rows.bad_line(bad.line) for bad in batch],
                detail=[bad.reason for bad in batch],
                source=[bad.source for bad in batch],
                number=[bad.block for bad in batch],
                time=[bad.number for bad in batch],
                requests=[1] * len(batch),
            )
        )

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Rows that may leave the task already."""
        while self._out:
            yield self._out.popleft()

    result = ready


class CountLines:
    """Add up how many lines of each block were read, and how many of each source parsed."""

    def __init__(self) -> None:
        self._lines: Counter[tuple[int, int]] = Counter()
        self._parsed: Counter[int] = Counter()

    def consume(self, batch: list[LinesRead]) -> None:
        """Take counts; called by the queue."""
        for read in batch:
            self._lines[read.source, read.block] += read.lines
            self._parsed[read.source] += read.parsed

    def result(self) -> Iterator[pa.RecordBatch]:
        """One row per block, and one per source."""
        yield partial_rows.rows(
            partial_rows.LINES_READ,
            len(self._lines),
            source=[source for source, _ in self._lines],
            number=[block for _, block in self._lines],
            requests=list(self._lines.values()),
        )
        yield partial_rows.rows(
            partial_rows.PARSED, len(self._parsed), source=list(self._parsed), requests=list(self._parsed.values())
        )


def make_handlers(info: TaskInfo) -> dict[type, MergeByKey | KeepBadLines | CountLines]:
    """The handlers of one task attempt, by the type they take."""
    return {**{metric: MergeByKey(metric) for metric in METRICS}, BadLine: KeepBadLines(), LinesRead: CountLines()}
