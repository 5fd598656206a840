"""The task for rows that are Python objects. Its input and output are record batches."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drainq.arguments import kind_of
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


def unchanged(origin: str, rows: Iterable[Any]) -> Iterable[Any]:
    """Return the rows."""
    return rows


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
    changed: Callable[[str, Iterable[Any]], Iterable[Any]] = unchanged
    """Changes or notes the rows of a handler. The first argument names what returned them."""
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
        from pyspark.sql.pandas.types import to_arrow_schema

        target, spec = to_arrow_schema(self._schema), self._spec
        origins: list[str] = []

        def noted(origin: str, rows: Iterable[Any]) -> Iterator[Any]:
            for row in rows:
                origins.append(origin)
                yield row

        widened, extra = spec.changed, spec.stats
        spec = dataclasses.replace(
            spec,
            changed=lambda origin, rows: noted(origin, widened(origin, rows)),
            stats=extra and (lambda stats, handlers: noted("stats", extra(stats, handlers))),
        )
        if spec.items is None and spec.dispatch_key is None and spec.len_of is None:
            results = self._run(dataclasses.replace(spec, form=self._rows), batches)
        else:
            results = self._run(spec, (self._rows.listed(batch) for batch in batches))
        for chunk in chunks(results):
            yield record_batch(chunk, target, self._rows, origins)
            origins.clear()


def record_batch(rows: list[Any], schema: Any, form: Rows, origins: list[str]) -> Any:
    """Return rows as a record batch.

    Args:
        rows: tuples in the order of the schema, or dictionaries.
        schema: a ``pyarrow.Schema``.
        form: the form of the rows.
        origins: for each row, what returned it.

    Raises:
        ValueError: a row has other columns than the schema.
        TypeError: a row has a wrong type, or a value does not fit its column. The text names the type, not the value.
    """
    import pyarrow as pa

    names = schema.names
    is_row: Callable[[Any], bool] = (
        (lambda row: isinstance(row, dict)) if form is Rows.RECORDS else (lambda row: hasattr(row, "__len__"))
    )
    for row, origin in zip(rows, origins):
        if not is_row(row):
            raise TypeError(f"{origin} returned {kind_of(row)} instead of a row; it returns an iterable of rows")
        if form is Rows.RECORDS and row.keys() != set(names):
            raise ValueError(f"{origin} returned a record with {sorted(row)}, and the schema has {sorted(names)}")
        if len(row) != len(names):
            raise ValueError(f"{origin} returned a row of {len(row)} columns, and the schema has {len(names)}: {names}")
    columns: Iterable[Any] = zip(*rows) if form is Rows.TUPLES else ([row[name] for row in rows] for name in names)
    return pa.RecordBatch.from_arrays(
        [_array(column, field, origins) for column, field in zip(columns, schema)], schema=schema
    )


def _array(column: Sequence[Any], field: Any, origins: list[str]) -> Any:
    import pyarrow as pa

    try:
        array = pa.array(column, field.type)
        if not pa.types.is_integer(field.type) or set(map(type, column)) <= {int, type(None)}:
            return array
        # Arrow would silently cut off a fraction.
        wrong = [place for place, (value, stored) in enumerate(zip(column, array.to_pylist())) if value != stored]
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        wrong = [place for place, value in enumerate(column) if not _fits(value, field.type)]
    if not wrong:
        return array
    value = column[wrong[0]]
    kind = "a float that is no whole number" if isinstance(value, float) else kind_of(value)
    raise TypeError(
        f"{origins[wrong[0]]} returned a value that does not fit the column {field.name!r} of type {field.type}: "
        f"{kind}; return what the schema says, or change the schema"
    ) from None


def _fits(value: Any, kind: Any) -> bool:
    import pyarrow as pa

    try:
        pa.array([value], kind)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return False
    return True


def with_queue_stats(schema: Any, spec: Spec, rows: Rows) -> tuple[Any, Spec]:
    """Add the column ``queue_stats`` to a schema, and a row with the queue's counts to a task's results.

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

    def wide(origin: str, result: Iterable[Any]) -> Iterator[Any]:
        for row in result:
            yield {**row, QUEUE_STATS: None} if rows is Rows.RECORDS else (*row, None)

    widened = StructType([*fields, StructField(QUEUE_STATS, StringType(), True)])
    return widened, dataclasses.replace(spec, stats=stats, changed=wide)


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
