"""L1: the handlers of a task. Each aggregates the records of one metric type and writes the groups to a file.

One drain thread at a time calls a handler, which takes no lock. The files are in Arrow's format, in a directory of the
driver, and the task's result names them. Executors on other machines return them with the result.

1. Every consumed record is in exactly one place: the groups, or the file.
2. The groups are bounded, so a task's memory does not grow with its input.
3. A file's name contains the number of the task attempt. Files of failed or cancelled attempts are never read,
   because their results do not arrive.

Source: ``MetricsAggregateWorker`` in SkyWalking, which also merges by key in one thread without a lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from drainq.metrics.arrays import as_array
from drainq.metrics.metric_types import METRICS, BadLines, JobMetric, LinesRead
from drainq.metrics.storable_text import as_names, bad_line
from drainq.spark.task_attempt import TaskInfo

MOST_GROUPS = 200_000  # of one type in one task; more are written to the file
MOST_BAD = 1000  # bad lines of one log that are kept; the others are only counted
BAD_LINES = pa.schema(
    {"source": pa.int64(), "block": pa.int64(), "number": pa.int64(), "line": pa.string(), "reason": pa.string()}
)


@dataclass(frozen=True)
class Spooled:
    """A task's output: groups of a metric, or bad lines. ``kind`` names the table.

    ``rows`` is the number of rows. ``written`` is the path of the file, or the file's bytes.
    """

    kind: str
    written: str | bytes
    rows: int


@dataclass(frozen=True)
class BadCounts:
    """The number of a log's bad lines in a task, by reason."""

    source: int
    reasons: Counter[str]


@dataclass(frozen=True)
class QueueCounts:
    """The counters of a task's queue."""

    counts: dict[str, int]


class SpoolFile:
    """Writes record batches to a file, or into memory if ``path`` is None. The first batch creates the file."""

    def __init__(self, kind: str, path: Path | None) -> None:
        self._kind, self._path = kind, path
        self._memory = pa.BufferOutputStream() if path is None else None
        self._writer: Any = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._memory or str(self._path), batch.schema)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def closed(self) -> Iterator[Spooled]:
        """End the stream. Yield its description if there was a batch."""
        if self._writer is not None:
            self._writer.close()
            written = str(self._path) if self._memory is None else self._memory.getvalue().to_pybytes()
            yield Spooled(self._kind, written, self._rows)


class AddUp:
    """Adds up one type's records by key.

    Args:
        metric: the type. file: gets the groups.
        most_groups: groups to hold. If there may be more, all groups are written to the file, to be merged later.
    """

    def __init__(self, metric: type[JobMetric], file: SpoolFile, *, most_groups: int = MOST_GROUPS) -> None:
        self._metric, self._file, self._most = metric, file, most_groups
        self._groups = metric.groups()
        self._room = most_groups  # records until there may be too many groups

    def consume(self, batch: list[JobMetric]) -> None:
        """Aggregate parsed records. The queue calls this."""
        for metric in batch:
            self._groups.add(metric.columns)
            self._room -= len(metric)
            if self._room <= 0:
                held = len(self._groups)
                if held > self._most // 2:  # len() merges the groups: too slow to repeat after a few records
                    self._hand_out()
                    held = 0
                self._room = self._most - held

    def result(self) -> Iterator[Spooled]:
        """Yield the file with all groups. The task calls this after the last batch."""
        self._hand_out()
        yield from self._file.closed()

    def _hand_out(self) -> None:
        if len(self._groups):
            self._file.write(named(self._metric, self._groups.take()))


def named(metric: type[JobMetric], groups: pa.RecordBatch) -> pa.RecordBatch:
    """Return the groups with names as texts. Groups whose names become the same text are merged."""
    columns = dict(zip(groups.schema.names, groups.columns))
    changed = False
    for key in metric.names:
        if pa.types.is_binary(columns[key].type):
            columns[key], differs = as_names(columns[key])
            changed |= differs
    groups = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    if not changed:
        return groups
    merged = metric.groups()
    merged.merge(groups)
    return merged.take()


class KeepBadLines:
    """Writes the first bad lines of each log to a file, as storable texts, and counts all bad lines by reason."""

    def __init__(self, file: SpoolFile) -> None:
        self._file = file
        self._reasons: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def consume(self, batch: list[BadLines]) -> None:
        """Write and count bad lines. The queue calls this."""
        rows = []
        for bad in batch:
            reasons = self._reasons[bad.source]
            kept = bad.lines[: max(0, MOST_BAD - reasons.total())]
            rows += [(bad.source, bad.block, bad.before + place + 1, bad_line(line), why) for place, line, why in kept]
            reasons.update(why for *_, why in bad.lines)
        if rows:
            columns = [as_array(column) for column in zip(*rows)]
            self._file.write(pa.RecordBatch.from_arrays(columns, schema=BAD_LINES))

    def result(self) -> Iterator[Spooled | BadCounts]:
        """Yield the file with the first bad lines, and the counts."""
        yield from self._file.closed()
        yield from (BadCounts(*counts) for counts in self._reasons.items())


class CountLines:
    """Counts, for each block, the lines read, the lines that became records, and the directives."""

    def __init__(self) -> None:
        self._lines: Counter[tuple[int, int]] = Counter()
        self._parsed: Counter[tuple[int, int]] = Counter()
        self._directives: Counter[tuple[int, int]] = Counter()

    def consume(self, batch: Sequence[LinesRead]) -> None:
        """Add counts. The queue calls this."""
        for read in batch:
            self._lines[read.source, read.block] += read.lines
            self._parsed[read.source, read.block] += read.parsed
            self._directives[read.source, read.block] += read.directives

    def result(self) -> Iterator[LinesRead]:
        """Yield the counts of each block."""
        for block, lines in self._lines.items():
            yield LinesRead(*block, lines, self._parsed[block], self._directives[block])


@dataclass(frozen=True)
class MakeHandlers:
    """Makes the handlers of one task attempt: a dictionary from the type of an item to its handler.

    Args:
        spool: the directory for their files; None keeps them in memory, for the task's result.
    """

    spool: str | None

    def __call__(self, info: TaskInfo) -> dict[type, Any]:
        def file(kind: str) -> SpoolFile:
            name = f"{info.task_attempt_id}-{kind}.arrow"
            return SpoolFile(kind, None if self.spool is None else Path(self.spool, name))

        handlers: dict[type, Any] = {metric: AddUp(metric, file(metric.table)) for metric in METRICS}
        return {**handlers, BadLines: KeepBadLines(file("bad_lines")), LinesRead: CountLines()}


def queue_counts(stats: Any, handlers: Any) -> list[QueueCounts]:
    """Return the counters of a task's queue, as a result of the task."""
    return [QueueCounts(counters(stats))]


def counters(stats: Any) -> dict[str, int]:
    """Return a queue's counters by name."""
    left = ("handled", "failed", "unrouted", "dead_lettered", "abandoned", "queued")
    refused = {f"rejected_{reason}": count for reason, count in stats.rejected.items()}
    counts = {name: getattr(stats, name) for name in left}
    return {"offered": stats.offered, "accepted": stats.accepted, **refused, **counts}
