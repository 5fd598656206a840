"""The task for rows that are Python objects. Its input and output are record batches."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drainq.spark.rows import Rows
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.unrouted import Unrouted
from drainq.spark.version_check import installed


class Handler(Protocol):
    """A handler from ``make_handlers``. An optional ``ready()`` returns rows before the end of the task."""

    def consume(self, batch: list[Any]) -> object:
        """Handle a batch. One drain thread at a time calls this."""

    def result(self) -> Iterable[Any]:
        """Return the rows of the task. Called once, after the last batch."""


MakeHandlers = Callable[[TaskInfo], Mapping[Any, Handler]]


@dataclass(frozen=True)
class Spec:
    """The arguments of ``aggregate`` that a task needs, and the form of its rows."""

    make_handlers: MakeHandlers
    items: Callable[[], Callable[[Any], Iterable[Any]]] | None
    dispatch_key: Callable[[Any], Any] | None
    threads: int | None
    capacity: int
    len_of: Callable[[Any], int] | None
    stats: Callable[[Any, dict[Any, Any]], Iterable[Any]] | None
    unrouted: Unrouted
    form: Rows | None = None  # of all rows, if they are queued in slices
    version: str = installed


PRODUCED_AT_ONCE = 4096  # rows given to the queue in one call
QUEUE_STATS = "queue_stats"


class RowTask:
    """The function that Spark applies to record batches.

    Args:
        spec: the settings of the task.
        schema: of the resulting rows, a ``StructType``.
        rows: tuples or records.
        run: turns record batches, or lists of rows, into rows.
    """

    def __init__(
        self, spec: Spec, schema: Any, rows: Rows, run: Callable[[Spec, Iterable[Any]], Iterator[Any]]
    ) -> None:
        self._spec, self._schema, self._rows, self._run = spec, schema, rows, run

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        target = to_arrow_schema(self._schema)
        spec = self._spec
        if spec.items is None and spec.dispatch_key is None and spec.len_of is None:
            results = self._run(dataclasses.replace(spec, form=self._rows), batches)
        else:
            results = self._run(spec, (self._rows.listed(batch) for batch in batches))
        if self._rows is Rows.RECORDS:
            results = (_ordered(row, target.names) for row in results)
        for chunk in chunks(results):
            columns = list(zip(*chunk))
            yield pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, target)], schema=target)


def _ordered(row: dict[str, Any], names: list[str]) -> tuple[Any, ...]:
    """Return the values of a record in the order of the schema.

    Raises:
        ValueError: the record has other names.
    """
    if row.keys() != set(names):
        raise ValueError(f"result() gave a record with {sorted(row)}, and the schema has {sorted(names)}")
    return tuple(row[name] for name in names)


def with_queue_stats(schema: Any, spec: Spec, rows: Rows) -> tuple[Any, Spec]:
    """Add the column ``queue_stats`` to a schema, and its row to a task.

    Raises:
        ValueError: the schema has such a column.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    if QUEUE_STATS in schema.names:
        raise ValueError(f"stats=True adds a column {QUEUE_STATS!r}, and the schema has one: {schema.names}")
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in schema.fields]
    names = [field.name for field in fields]

    def row(values: list[Any], said: str | None) -> Any:
        return dict(zip((*names, QUEUE_STATS), (*values, said))) if rows is Rows.RECORDS else (*values, said)

    def stats(queue_stats: Any, handlers: dict[Any, Any]) -> Iterable[Any]:
        counts = {name: count for name, count in queue_stats.as_dict().items() if isinstance(count, int)}
        return [row([None] * len(names), json.dumps(counts))]

    widened = StructType([*fields, StructField(QUEUE_STATS, StringType(), True)])
    return widened, dataclasses.replace(spec, stats=stats, make_handlers=_widened(spec.make_handlers, rows))


def _widened(make_handlers: Callable[[Any], Any], rows: Rows) -> Callable[[Any], Any]:
    """Wrap handlers so that their rows get one more column, which is null."""

    def wide(result: Iterable[Any]) -> Iterator[Any]:
        for row in result:
            yield {**row, QUEUE_STATS: None} if rows is Rows.RECORDS else (*row, None)

    def make(info: Any) -> dict[Any, Any]:
        return {key: _Widened(handler, wide) for key, handler in make_handlers(info).items()}

    return make


class _Widened:
    """A handler whose rows have one more column."""

    def __init__(self, handler: Any, wide: Callable[[Iterable[Any]], Iterator[Any]]) -> None:
        self._handler, self._wide = handler, wide
        if hasattr(handler, "ready"):
            self.ready = lambda: wide(handler.ready())

    def consume(self, batch: list[Any]) -> object:
        """Pass the batch to the handler."""
        return self._handler.consume(batch)

    def result(self) -> Iterator[Any]:
        """Return the handler's rows with the column."""
        return self._wide(self._handler.result())


def chunks(elements: Iterable[Any], size: int = PRODUCED_AT_ONCE) -> Iterator[list[Any]]:
    """Yield lists of ``size`` elements. The last list may be shorter."""
    chunk: list[Any] = []
    for element in elements:
        chunk.append(element)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
