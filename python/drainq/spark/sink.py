"""The sink: writes a DataFrame's rows to something slow, from inside the tasks, and accounts for each row.

A plain loop in a task writes one batch at a time. A pool of threads is as fast as ``sink``, but it does not retry,
does not find the row that makes a batch fail, and returns no account. ``sink`` promises:

1. It is an action: Spark runs it once, now. A lazy result would be computed again by each sort, limit and count.
2. If a task succeeds, each row was written, skipped or parked, and counted as such: ``read = rows + dropped +
   parked``. If the account of a task does not add up, the task fails.
3. Rows are written at least once: a task that fails, or whose executor dies, runs again and writes its rows again, and
   a task that Spark kills continues for some seconds. Only writes under a key store each row once.
4. A failure ends its task: queued batches are not written, the writers are closed, and Spark tries the task again.

The work of one task is in :mod:`drainq.spark.sink_task`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from drainq.arguments import Seconds, seconds, whole
from drainq.backoff import Backoff
from drainq.callables import check_callable
from drainq.spark.rows import Rows, rows_of
from drainq.spark.sink_settings import BACKOFF, MakeWriter, OnError, Settings, on_error_of
from drainq.spark.task_attempt import task_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PartitionReport:
    """The account of one partition's rows, from the attempt that Spark kept.

    Args:
        partition: its number.
        rows: rows written.
        batches: successful calls of ``write``.
        retries: calls of ``write`` that repeated a failed call.
        errors: rows that could not be written even singly: ``dropped + parked``.
        dropped: the errors that were skipped.
        parked: the errors that are now in the delayed queue.
        seconds: from the task's start to the last writer's end.
    """

    partition: int
    rows: int
    batches: int
    retries: int
    errors: int
    dropped: int
    parked: int
    seconds: float


@dataclass(frozen=True)
class SinkReport:
    """The account of all rows. The counts are sums over the partitions.

    Args:
        rows, batches, retries, errors, dropped, parked: see :class:`PartitionReport`.
        seconds: the sum of the times of all tasks, which may run at the same time.
        partitions: one report each, by number.
    """

    rows: int
    batches: int
    retries: int
    errors: int
    dropped: int
    parked: int
    seconds: float
    partitions: tuple[PartitionReport, ...]

    @classmethod
    def of(cls, partitions: Iterable[PartitionReport]) -> SinkReport:
        """Add partitions up."""
        ordered = tuple(sorted(partitions, key=lambda report: report.partition))
        sums = {
            field.name: sum(getattr(report, field.name) for report in ordered)
            for field in fields(cls)
            if field.name != "partitions"
        }
        return cls(**sums, partitions=ordered)


_SCHEMA = "attempt long, " + ", ".join(
    f"{field.name} {'double' if field.name == 'seconds' else 'long'}" for field in fields(PartitionReport)
)


def sink(
    df: DataFrame,
    make_writer: MakeWriter,
    *,
    threads: int = 4,
    rows: str | Rows = Rows.TUPLES,
    columns: Sequence[str] | None = None,
    max_in_flight: int | None = None,
    max_batch_rows: int = 1000,
    max_batch_bytes: int | None = None,
    linger: Seconds = 0.05,
    retries: int = 3,
    backoff: Backoff = BACKOFF,
    on_error: str | OnError | Callable[[Any, Exception], str | OnError] | None = None,
    delayed: Callable[[], Any] | None = None,
    close_timeout: Seconds = 5.0,
) -> SinkReport:
    """Write all rows of a DataFrame by your writers, several batches at a time in each task. This is a Spark action.

    Args:
        df: the rows.
        make_writer: ``make_writer(info)`` returns an object with ``write(batch)`` and, optionally, ``close()``. Each
            thread of a task attempt makes its own writer, and no other thread calls it. ``info`` is a
            :class:`TaskInfo`.
        threads: writers of a task.
        rows: the form of a batch: a list of ``"tuples"`` in column order, a list of ``"records"`` (dictionaries), or
            ``"arrow"``, one ``pyarrow.RecordBatch``.
        columns: the columns to write; None writes all.
        max_in_flight: the most batches of a task that are being written or wait for a writer. At this number the task
            waits. None is three for each thread.
        max_batch_rows: the most rows in a batch.
        max_batch_bytes: about the most bytes in a batch, by the mean size of a row in Arrow's memory. None is no limit.
        linger: seconds for which a batch that is not full waits for more rows.
        retries: how often a failed ``write`` is repeated before the batch counts as failed.
        backoff: the pauses between tries, in seconds.
        on_error: the action for a batch that failed. ``"fail"``: the task fails with the writer's exception.
            ``"skip"`` and ``"park"``: the batch is halved repeatedly until each failing row is found. The other rows
            are written. The failing rows are counted as ``dropped``, or offered to ``delayed``. A callable
            ``on_error(row, exception)`` returns one of these words for each such row, on the writer's thread. None is
            ``"park"`` if ``delayed`` is given, else ``"fail"``.
        delayed: a function without arguments that opens the :class:`drainq.delayed.DelayedQueue` for the rows that
            cannot be written. A task calls it at its first such row. A message's payload is ``{"row": ..., "error":
            text}``, from which ``drainq.delivery.payload.unpack`` restores the row with its types. Its key is derived
            from the row, so a repeated task parks a row once.
        close_timeout: seconds for which a failed task waits for its writers.
    Returns:
        The account of the attempts that Spark kept.
    Raises:
        TypeError: ``make_writer``, ``on_error`` or ``delayed`` cannot be called, or ``backoff`` is no ``Backoff``.
        ValueError: a number is out of range, ``columns`` is no list, or ``on_error="park"`` without ``delayed``.
        pyspark.errors.PySparkException: a task failed. The text shows the writer's exception and its line.

    Example:
        >>> class Store:
        ...     def __init__(self, info):
        ...         self.connection = connect()
        ...     def write(self, batch):
        ...         self.connection.insert(batch)
        ...     def close(self):
        ...         self.connection.close()
        >>> sink(df, Store, threads=8).rows  # doctest: +SKIP
        1000000

    Source: Kafka Connect's sink tasks, which also limit the requests in flight and report errors record by record.
    """
    check_callable("make_writer", make_writer, "info")
    threads = whole("threads", threads, least=1)
    if not isinstance(backoff, Backoff):
        raise TypeError(f"backoff must be a drainq.backoff.Backoff, got {backoff!r}")
    if isinstance(columns, str) or (columns is not None and not columns):
        raise ValueError(f"columns must be a list of column names, at least one, or None for all, got {columns!r}")
    settings = Settings(
        make_writer=make_writer,
        threads=threads,
        rows=rows_of(rows),
        max_in_flight=whole("max_in_flight", 3 * threads if max_in_flight is None else max_in_flight, least=1),
        max_batch_rows=whole("max_batch_rows", max_batch_rows, least=1),
        max_batch_bytes=None if max_batch_bytes is None else whole("max_batch_bytes", max_batch_bytes, least=1),
        linger=seconds("linger", linger),
        retries=whole("retries", retries, least=0),
        backoff=backoff,
        on_error=on_error_of(on_error, delayed),
        delayed=delayed,
        close_timeout=seconds("close_timeout", close_timeout),
    )
    chosen = df if columns is None else df.select(*columns)
    return SinkReport.of(report for _, report in reports_of(chosen, settings))


def reports_of(df: DataFrame, settings: Settings) -> list[tuple[int, PartitionReport]]:
    """Write all rows. Return the ids of the task attempts that Spark kept, each with its report."""
    write_id = str(uuid4())

    def write(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from drainq.spark.sink_task import SinkTask  # a delivery's modules are loaded only in tasks

        info = replace(task_info(), write_id=write_id)
        counts = SinkTask(settings, info).run(batches)
        report = {field.name: counts[field.name] for field in fields(PartitionReport)}
        yield pa.RecordBatch.from_pylist([{"attempt": info.task_attempt_id, **report}])

    reports = [row.asDict() for row in df.mapInArrow(write, _SCHEMA).collect()]
    return [(report.pop("attempt"), PartitionReport(**report)) for report in reports]
