"""Aggregate inside tasks, through a batch queue: a pure function of each partition.

Spark throws a failed attempt's rows away and runs the task again, so what leaves is exact without any effort:
the only use of a queue on Spark that is exactly-once for free.

1. One queue per task attempt, opened and drained inside the iterator (see :mod:`drainq.spark.queue_of_task`).
2. Results leave after the drain; ``ready()`` may hand out rows earlier, to keep a task's memory bounded.
   No result leaves a task that had items without a handler, unless they were asked for as a count.
3. The iterator that feeds us may be filled by another thread; only the thread that iterates touches the task.

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
from drainq.spark.version import check_version

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
    """Run each partition through handlers on a batch queue; return what the handlers made of it.

    Args:
        df: the input.
        make_handlers: ``make_handlers(info) -> {type: handler}``, called once per task attempt.
        schema: of the rows that ``result()`` gives, as Spark takes it.
        columns: the columns that are read; None: all.
        rows: ``"tuples"``: an input item is a tuple in column order, and ``result()`` gives tuples; ``"records"``: both
            are dictionaries; ``"arrow"``: both are ``pyarrow.RecordBatch``.
        items: called once per task attempt; what it returns turns a list of tuples, or a record batch, into the items
            that are queued. None: the tuples, or the batch.
        dispatch_key: maps an item to the key of its handler; None: its exact type.
        threads: drain threads; None: as many as the task has processors (``spark.task.cpus``).
        capacity: items that wait in the queue before the task does.
        len_of: says for how many items one counts, in ``capacity`` and in the queue's counters; None: for one.
        merge: column -> ``"sum"``, ``"max"`` or ``"min"``; the partial results are merged by all other columns, in
            Spark. None: the partial results as they are.
        stats: ``stats(queue_stats, handlers) -> rows``, more rows of the schema at the end of a task. True: the result
            has one more column, ``queue_stats``, and a row for each task in which all others are null: the counts of
            the task's queue as JSON.
        unrouted: ``"fail"``: an item that has no handler fails the task, and the error names its type and how many
            there were; ``"count"``: such items are missing in the result, and ``queue_stats`` counts them.
    Returns:
        A lazy DataFrame.
    Raises:
        ValueError: ``rows``, ``merge`` or ``unrouted`` is unknown; ``stats=True`` with ``merge`` or Arrow rows.

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
        parsed = df.sparkSession.createDataFrame([], schema).schema  # Spark reads DDL in the driver alone
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
    """The same for ``rdd.mapPartitions``: returns the function to map with.

    Args:
        rows: ``"tuples"``: the partition's elements are the items, whatever they are; ``"arrow"``: they are record
            batches.
        make_handlers, items, dispatch_key, threads, capacity, len_of, stats, unrouted: as in :func:`aggregate`.
        info: which task attempt this is, to run the function without Spark; None: Spark knows.

    Example:
        >>> rdd.mapPartitions(partition_fn(make_handlers)).collect()  # doctest: +SKIP
    """
    kind = rows_of(rows)
    spec = Spec(make_handlers, items, dispatch_key, threads, capacity, len_of, stats, unrouted_of(unrouted))
    if kind is Rows.ARROW:
        return lambda batches: _run(spec, batches, info)
    return lambda elements: _run(spec, chunks(elements), info)


def merged(partial: DataFrame, merge: Mapping[str, str]) -> DataFrame:
    """Merge partial results in Spark: ``merge`` columns by their function, by all the others.

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
    """One task attempt."""
    check_version(spec.version)
    info = info or task_info()
    handlers = dict(spec.make_handlers(info))
    early = [handler.ready for handler in handlers.values() if hasattr(handler, "ready")]
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
            for ready in early:
                yield from ready()
            if failures:
                raise failures[0]
    if spec.unrouted is Unrouted.FAIL:
        check_routed(queue.stats(), handlers)
    for handler in handlers.values():
        yield from handler.result()
    if spec.stats is not None:
        yield from spec.stats(queue.stats(), handlers)
