"""Aggregation inside tasks, by a batch queue: a pure function of each partition.

Spark discards the rows of a failed attempt and runs the task again, so every row counts exactly once.

1. Each task attempt opens and drains one queue inside its iterator (see :mod:`drainq.spark.queue_of_task`).
2. A task returns its results after the drain. A handler's ``ready()`` may return rows earlier, to bound memory. A task
   with items without a handler fails, unless ``unrouted="count"``.
3. Another thread may fill the input iterator. Only the iterating thread uses the task's context.

Source: SkyWalking's ``MetricsAggregateWorker`` (L1), here a combiner in front of the shuffle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drainq.spark.queue_of_task import CAPACITY, default_config, task_queue
from drainq.spark.row_slices import of_slices, slices, taking_slices
from drainq.spark.row_task import MakeHandlers, RowTask, Spec, chunks, with_queue_stats
from drainq.spark.rows import Rows, rows_of
from drainq.spark.task_attempt import TaskInfo, task_info
from drainq.spark.unrouted import Unrouted, check_routed, unrouted_of
from drainq.spark.version_check import check_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def aggregate(
    df: DataFrame,
    make_handlers: MakeHandlers,
    *,
    schema: Any,
    columns: Sequence[str] | None = None,
    rows: str | Rows = Rows.TUPLES,
    items: Callable[[], Callable[[Any], Iterable[Any]]] | None = None,
    dispatch_key: Callable[[Any], Any] | None = None,
    threads: int | None = None,
    capacity: int = CAPACITY,
    len_of: Callable[[Any], int] | None = None,
    merge: Mapping[str, str] | None = None,
    stats: bool | Callable[[Any, dict[Any, Any]], Iterable[Any]] | None = None,
    unrouted: str | Unrouted = Unrouted.FAIL,
) -> DataFrame:
    """Send each partition through a batch queue to handlers, and return the rows of their ``result()``.

    Args:
        df: the input.
        make_handlers: ``make_handlers(info) -> {type: handler}``, called once per task attempt.
        schema: the schema of the rows of ``result()``, in any form that Spark accepts.
        columns: the columns to read; None reads all.
        rows: the form of an input item and of a row of ``result()``. ``"tuples"``: tuples in column order.
            ``"records"``: dictionaries. ``"arrow"``: ``pyarrow.RecordBatch``.
        items: called once per task attempt. Returns a function that turns a list of tuples, or a record batch, into
            the items to queue. None queues the tuples, or the batch.
        dispatch_key: maps an item to the key of its handler; None takes its exact type.
        threads: drain threads; None takes the task's processors (``spark.task.cpus``).
        capacity: items in one partition of the queue before the task waits. Each thread has a partition.
        len_of: returns the weight of an item in ``capacity`` and in the queue's counters; None is 1.
        merge: column -> ``"sum"``, ``"max"`` or ``"min"``. Spark merges the partial results by all other columns.
            None returns the partial results.
        stats: ``stats(queue_stats, handlers) -> rows``, which returns more rows of the schema at the end of a task.
            True adds a column ``queue_stats``, and a row for each task with the counts of its queue as JSON. The other
            columns of this row are null.
        unrouted: ``"fail"``: an item without a handler fails the task, with an error that names the types and their
            numbers. ``"count"``: such items are missing in the result, and ``queue_stats`` counts them.
    Returns:
        A lazy DataFrame.
    Raises:
        ValueError: ``rows``, ``merge`` or ``unrouted`` is unknown, or ``stats=True`` with ``merge`` or Arrow rows.

    Example:
        >>> class Count:
        ...     n = 0
        ...     def consume(self, batch):
        ...         self.n += len(batch)
        ...     def result(self):
        ...         return [(self.n,)]
        >>> aggregate(df, lambda info: {tuple: Count()}, schema="n long")  # doctest: +SKIP
    """
    kind = rows_of(rows)
    if stats is True and (merge is not None or kind is Rows.ARROW):
        raise ValueError(
            "stats=True adds a column and rows of its own, which merge= and rows='arrow' cannot take: "
            "use stats=a function that returns rows of the schema"
        )
    extra = stats if callable(stats) else None
    spec = Spec(make_handlers, items, dispatch_key, threads, capacity, len_of, extra, unrouted_of(unrouted))
    chosen = df if columns is None else df.select(*columns)
    if kind is Rows.ARROW:
        result = chosen.mapInArrow(lambda batches: _run(spec, batches), schema)
    else:
        parsed = df.sparkSession.createDataFrame([], schema).schema  # Spark reads DDL only in the driver
        if stats is True:
            parsed, spec = with_queue_stats(parsed, spec, kind)
        result = chosen.mapInArrow(RowTask(spec, parsed, kind, _run), parsed)
    return result if merge is None else merged(result, merge)


def partition_fn(
    make_handlers: MakeHandlers,
    *,
    rows: str | Rows = Rows.TUPLES,
    items: Callable[[], Callable[[Any], Iterable[Any]]] | None = None,
    dispatch_key: Callable[[Any], Any] | None = None,
    threads: int | None = None,
    capacity: int = CAPACITY,
    len_of: Callable[[Any], int] | None = None,
    stats: Callable[[Any, dict[Any, Any]], Iterable[Any]] | None = None,
    unrouted: str | Unrouted = Unrouted.FAIL,
    info: TaskInfo | None = None,
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for ``rdd.mapPartitions`` that does the same as :func:`aggregate`.

    Args:
        rows: ``"tuples"``: the partition's elements, of any type, are the items. ``"arrow"``: the elements are record
            batches.
        make_handlers, items, dispatch_key, threads, capacity, len_of, stats, unrouted: as in :func:`aggregate`.
        info: the task attempt, to run the function without Spark; None asks Spark.

    Example:
        >>> rdd.mapPartitions(partition_fn(make_handlers)).collect()  # doctest: +SKIP
    """
    kind = rows_of(rows)
    spec = Spec(make_handlers, items, dispatch_key, threads, capacity, len_of, stats, unrouted_of(unrouted))
    if kind is Rows.ARROW:
        return lambda batches: _run(spec, batches, info)
    return lambda elements: _run(spec, chunks(elements), info)


def merged(partial: DataFrame, merge: Mapping[str, str]) -> DataFrame:
    """Group partial results by the columns not in ``merge``. Merge the others by the functions in ``merge``, in Spark.

    Raises:
        ValueError: an unknown column or function.
    """
    from pyspark.sql import functions as F

    functions = {"sum": F.sum, "max": F.max, "min": F.min}
    for column, function in merge.items():
        if column not in partial.columns or function not in functions:
            raise ValueError(
                f"merge={{{column!r}: {function!r}}}: use a column of {partial.columns} and one of {list(functions)}"
            )
    keys = [F.col(column) for column in partial.columns if column not in merge]
    sums = [functions[merge[column]](column).alias(column) for column in partial.columns if column in merge]
    return partial.groupBy(*keys).agg(*sums).select(*partial.columns)


def _run(spec: Spec, batches: Iterable[Any], info: TaskInfo | None = None) -> Iterator[Any]:
    """Run one task attempt."""
    check_version(spec.version)
    info = info or task_info()
    handlers = dict(spec.make_handlers(info))
    early = [(key, handler) for key, handler in handlers.items() if hasattr(handler, "ready")]
    items = spec.items() if spec.items else None
    config = default_config(
        threads=spec.threads or info.cpus,
        capacity=spec.capacity,
        dispatch_key=spec.dispatch_key,
        len_of=spec.len_of,
    )
    failures: list[BaseException] = []
    if spec.form is not None:
        config = of_slices(config, spec.form, failures)
        items = functools.partial(slices, capacity=spec.capacity)
    with task_queue(config, failures=failures, unrouted=Unrouted.COUNT, info=info) as queue:
        for key, handler in handlers.items():
            queue.add_handler(key, handler if spec.form is None else taking_slices(handler, spec.form))
        for batch in batches:
            if items is not None:
                for item in items(batch):
                    queue.produce(item)
            elif isinstance(batch, list):
                queue.produce_many(batch)
            else:
                queue.produce(batch)
            for key, handler in early:
                yield from spec.changed(_said("ready", key, handler), handler.ready())
            if failures:
                raise failures[0]
    if spec.unrouted is Unrouted.FAIL:
        check_routed(queue.stats(), handlers)
    for key, handler in handlers.items():
        yield from spec.changed(_said("result", key, handler), handler.result())
    if spec.stats is not None:
        yield from spec.stats(queue.stats(), handlers)


def _said(method: str, key: Any, handler: Any) -> str:
    of = key.__name__ if isinstance(key, type) else repr(key)
    return f"{method}() of {type(handler).__name__}, the handler of {of},"
