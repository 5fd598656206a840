"""Write a DataFrame's rows to something slow, from inside the tasks, with an account of each row.

A loop that writes while Spark waits wastes both. A pool of threads by hand is as fast as what is here, and has no
retries, does not find the row that a batch fails on, and returns no account. What `sink` promises:

1. It is an action: Spark runs it once, now. A lazy result would be computed again by each sort, limit and count.
2. Each row of a task that ends well is written, skipped or parked, and counted as that: ``read = rows + dropped +
   parked``. If the account of a task does not add up, the task fails.
3. At least once: a task that fails, or whose executor dies, runs again and writes its rows again; a task that Spark
   kills writes on for some seconds. Give the writes a key, and they are exact.
4. A failure ends its task: what is queued is not written, the writers are closed, and Spark tries the task again.

The work of one task is in :mod:`drainq.spark.sink_task`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from drainq.arguments import Seconds, seconds
from drainq.backoff import Backoff
from drainq.callables import check_callable
from drainq.spark.checks import whole
from drainq.spark.rows import Rows, rows_of
from drainq.spark.sink_settings import MakeWriter, OnError, Settings, on_error_of
from drainq.spark.task_attempt import task_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

_BACKOFF = Backoff(0.1, 5.0)


@dataclass(frozen=True)
class PartitionReport:
    """What became of one partition's rows, in the attempt that Spark kept.

    Args:
        partition: its number.
        rows: how many were written.
        batches: calls of ``write`` that returned.
        retries: calls of ``write`` that repeated one that had raised.
        errors: rows that could not be written even alone: ``dropped + parked``.
        dropped: of these, the rows that were skipped.
        parked: of these, the rows that are in the delayed queue now.
        seconds: from the task's first row to the last writer's end.
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
    """What became of all rows; the counts are the sums over the partitions.

    Args:
        rows, batches, retries, errors, dropped, parked: see :class:`PartitionReport`.
        seconds: the time of all tasks together; tasks that ran at the same time both count.
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


_SCHEMA = ", ".join(
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
    backoff: Backoff = _BACKOFF,
    on_error: str | OnError | Callable[[Any, Exception], str | OnError] | None = None,
    delayed: Callable[[], Any] | None = None,
    close_timeout: Seconds = 5.0,
) -> SinkReport:
    """Write all rows of a DataFrame through writers of yours, several at a time in each task. An action.

    Args:
        df: the rows.
        make_writer: ``make_writer(info)`` returns an object with ``write(batch)`` and, if it likes, ``close()``. It is
            called at most once for each thread of a task attempt, on that thread, and so is all that it returns: a
            writer is never called by two threads. ``info`` is a :class:`TaskInfo`.
        threads: writers of a task.
        rows: what a batch is: a list of ``"tuples"`` in column order, a list of ``"records"`` (dictionaries), or
            ``"arrow"``, one ``pyarrow.RecordBatch``.
        columns: the columns to write; None: all.
        max_in_flight: batches that are being written or wait for a writer, in a task; then the task waits. None: three
            for each thread.
        max_batch_rows: rows in a batch, at most.
        max_batch_bytes: bytes in a batch, about: by the mean size of a row in Arrow's memory. None: no limit.
        linger: seconds that a batch which is not full waits for more rows.
        retries: how often a batch whose ``write`` raised is tried again before it counts as failed.
        backoff: the pauses between tries, in seconds.
        on_error: what becomes of a batch that failed. ``"fail"``: the task fails with the writer's exception.
            ``"skip"`` and ``"park"``: the batch is halved and halved again until the rows that fail alone are found;
            the others are written, these are counted as ``dropped``, or offered to ``delayed``. A callable is asked
            for each such row, ``on_error(row, exception)``, and answers with one of these words; it is called by the
            writers' threads. None: ``"park"`` if there is a ``delayed``, else ``"fail"``.
        delayed: a function without arguments that opens the :class:`drainq.delayed.DelayedQueue` which takes the rows
            that cannot be written. It runs in the task, at the first such row. A message's payload is ``{"row": ...,
            "error": text}``, and ``drainq.delivery.payload.unpack`` makes the row of it again, with its types; its key
            is made from the row, so a repeated task parks a row once.
        close_timeout: seconds that a task which fails waits for its writers to end.
    Returns:
        The account, of the attempts that Spark kept.
    Raises:
        TypeError: ``make_writer``, ``on_error`` or ``delayed`` cannot be called, or ``backoff`` is none.
        ValueError: a number is out of range, ``columns`` is no list, or ``on_error="park"`` without ``delayed``.
        pyspark.errors.PySparkException: a task failed; the text shows the writer's exception and its line.

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

    Source: the window of requests in flight and the error record by record are those of Kafka Connect's sink tasks.
    """
    check_callable("make_writer", make_writer, "info")
    threads = whole("threads", threads, 1)
    if not isinstance(backoff, Backoff):
        raise TypeError(f"backoff must be a drainq.backoff.Backoff, got {backoff!r}")
    if isinstance(columns, str) or (columns is not None and not columns):
        raise ValueError(f"columns must be a list of column names, at least one, or None for all, got {columns!r}")
    settings = Settings(
        make_writer=make_writer,
        threads=threads,
        rows=rows_of(rows),
        max_in_flight=whole("max_in_flight", 3 * threads if max_in_flight is None else max_in_flight, 1),
        max_batch_rows=whole("max_batch_rows", max_batch_rows, 1),
        max_batch_bytes=None if max_batch_bytes is None else whole("max_batch_bytes", max_batch_bytes, 1),
        linger=seconds("linger", linger),
        retries=whole("retries", retries, 0),
        backoff=backoff,
        on_error=on_error_of(on_error, delayed),
        delayed=delayed,
        close_timeout=seconds("close_timeout", close_timeout),
    )
    chosen = df if columns is None else df.select(*columns)
    write_id = str(uuid4())

    def write(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from drainq.spark.sink_task import SinkTask  # what a delivery needs is loaded in tasks alone

        counts = SinkTask(settings, replace(task_info(), write_id=write_id)).run(batches)
        yield pa.RecordBatch.from_pylist([{field.name: counts[field.name] for field in fields(PartitionReport)}])

    reports = chosen.mapInArrow(write, _SCHEMA).collect()
    return SinkReport.of(PartitionReport(**report.asDict()) for report in reports)
