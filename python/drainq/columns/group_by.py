"""Aggregation by key over pyarrow's group-by, batch by batch.

1. ``_waiting`` holds rows, ``_parts`` partial results. Rows are grouped once there are enough of them. Parts are merged
   once they have over ``PARTIAL_ROWS`` more rows than twice the rows of the last merge.
2. A refused batch changes nothing, because a batch is kept only after all checks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from drainq._native import DDSketch
from drainq.arguments import whole
from drainq.columns.aggregate import FUNCTIONS, Aggregate
from drainq.columns.arrow_buffers import one, plain, table_of
from drainq.errors import TooManyGroups
from drainq.pickling import refuse

try:  # pyarrow.acero has the same classes, and imports pandas, which is slow
    from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions
except ImportError:
    from pyarrow.acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

__all__ = ["GroupBy"]

ROWS = 1 << 17  # rows that wait to be grouped together
PARTIAL_ROWS = 1 << 20  # rows of partial results that wait, besides twice the number of groups


class GroupBy:
    """Aggregates columns by key: SQL's ``GROUP BY``, fed batch by batch, without the GIL.

    ``merge`` adds the ``result`` of another ``GroupBy``, of another thread, task or machine. One thread at a time may
    call an instance. The rows of a batch may be read until the next result, so its memory must not change.

    Args:
        keys: the name of a column, or a sequence of names. Their types: whole numbers, strings, bytes, dates, times,
            timestamps, truth values, dictionaries of these. Rows whose key is null are a group, as in SQL.
        aggregates: name of the result -> function, or (column, function) if the column has another name. The
            functions: ``"sum"`` (whole numbers: exact; floats), ``"count"`` (of the values; of the rows if the
            batches have no such column), ``"min"``, ``"max"`` (numbers, dates, times; NaN counts as null),
            ``"sketch"`` (the bytes of a ``DDSketch``). Nulls are ignored. Without values the sum, minimum and maximum
            are null, the count is 0 and the sketch is empty.
        max_groups: the most groups to hold; ``None`` is unbounded. A batch that would add more is refused with
            ``TooManyGroups`` and not added: pass on ``take()`` and add the batch again.
        relative_accuracy: of the sketches.
    Raises:
        ValueError: an argument is empty, has a name twice, names no function, or is out of range.

    Example:
        >>> import pyarrow as pa
        >>> from drainq.columns import GroupBy
        >>> groups = GroupBy("path", {"bytes": "sum", "requests": "count", "slowest": ("ms", "max")})
        >>> groups.add(pa.record_batch({"path": ["/", "/a", "/"], "bytes": [1, 2, 3], "ms": [0.5, 9.0, 7.5]}))
        >>> groups.result().to_pylist()
        [{'path': '/', 'bytes': 4, 'requests': 2, 'slowest': 7.5}, {'path': '/a', 'bytes': 2, 'requests': 1, 'slowest': 9.0}]
    """  # noqa: E501

    def __init__(
        self,
        keys: str | Sequence[str],
        aggregates: Mapping[str, str | tuple[str, str]],
        *,
        max_groups: int | None = None,
        relative_accuracy: float = 0.01,
    ) -> None:
        DDSketch(relative_accuracy)  # checks it
        self._keys = _names(keys)
        self._aggregates = _aggregates(aggregates, relative_accuracy)
        names = [*self._keys, *aggregates]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'keys and aggregates must have names of their own, got "{name}" twice')
        if max_groups is not None:
            max_groups = whole("max_groups", max_groups, least=1, what="None (unbounded) or a whole number (int)")
        self._max_groups = max_groups
        self._types: list[pa.DataType] | None = None
        self._present: list[bool] | None = None
        self._lock = threading.Lock()
        self._forget()

    def add(self, batch: Any) -> None:
        """Add the rows of a batch or a table: all, or none if it is refused.

        Args:
            batch: has Arrow's PyCapsule interface, and the columns of the keys and aggregates. Other columns are
                ignored.
        Raises:
            TooManyGroups: there would be more than ``max_groups``.
            KeyError: a column is missing.
            TypeError: a column has a type that its key or aggregate does not accept, or another type than before.
            ValueError: a sketch gets NaN or infinity, a column comes twice, or only some batches have a counted column.
            RuntimeError: another thread is using these groups.
        """
        with self._alone():
            self._take_in("batch", batch, False)

    def merge(self, partial: Any) -> None:
        """Add a partial result: a ``GroupBy`` of the same keys and aggregates, or its ``result``.

        Args:
            partial: a ``GroupBy``, or the columns of its result with Arrow's PyCapsule interface. It is not changed.
        Raises:
            As ``add``, and ValueError if bytes are no sketch, or a sketch has another accuracy.
        """
        result = partial.result() if isinstance(partial, GroupBy) else partial
        with self._alone():
            self._take_in("partial", result, True)

    def result(self) -> pa.RecordBatch:
        """Return the keys and aggregates of all groups, in no particular order, and keep the groups.

        Returns:
            A ``pyarrow.RecordBatch``: keys in their own type, sums as 64-bit numbers, counts as int64, sketches as
            binary.
        Raises:
            OverflowError: a sum does not fit in 64 bits (it is kept exactly, so later rows may reduce it), or the
                count of a sketch does not.
        """
        with self._alone():
            return self._result()

    def take(self) -> pa.RecordBatch:
        """Return the same as ``result``, and remove the groups."""
        with self._alone():
            result = self._result()
            self._forget()
            return result

    @property
    def max_groups(self) -> int | None:
        """The most groups to hold; None is unbounded."""
        return self._max_groups

    def __len__(self) -> int:
        with self._alone():
            return len(self._merged())

    def __repr__(self) -> str:
        return f"<GroupBy {', '.join(self._keys)}>"

    def __reduce__(self) -> NoReturn:
        refuse(self, "its groups are memory of this process", "groups.result(), and merge() that there")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "another thread is using these groups, or was when this process was forked: give each thread a GroupBy "
                "of its own, and merge() them"
            )
        try:
            yield
        finally:
            self._lock.release()

    def _forget(self) -> None:
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._set_parts([], distinct=True)

    def _set_parts(self, parts: list[pa.Table], *, distinct: bool) -> None:
        """Set the parts. ``distinct``: they have each group once."""
        self._parts, self._part_rows, self._distinct = parts, sum(map(len, parts)), distinct
        if distinct:
            self._merged_rows = self._part_rows

    def _take_in(self, name: str, batch: Any, partial: bool) -> None:
        table = table_of(name, batch)
        if not table.num_rows:
            return
        types, present, rows = self._read(table, partial)
        if self._max_groups is None or self._held_rows() + rows.num_rows <= self._max_groups:
            self._keep(rows, partial)
        else:
            self._keep_if_few(rows, partial)
        self._types = types
        if not partial:
            self._present = present

    def _held_rows(self) -> int:
        return self._waiting_rows + self._part_rows

    def _keep(self, rows: pa.Table, partial: bool) -> None:
        if partial:
            self._set_parts([*self._parts, rows], distinct=False)
        else:
            self._waiting.append(rows)
            self._waiting_rows += rows.num_rows
        if self._waiting_rows > ROWS:
            self._group_waiting()
        if self._part_rows > 2 * self._merged_rows + PARTIAL_ROWS:
            self._merged()

    def _keep_if_few(self, rows: pa.Table, partial: bool) -> None:
        """Keep rows unless they add too many groups."""
        merged = self._grouped([rows], partial)
        if self._held_rows():
            merged = self._grouped([self._merged(), merged], True)
        if merged.num_rows > (self._max_groups or 0):
            raise TooManyGroups(
                f"more than {self._max_groups} groups, which is max_groups: pass on what take() returns and add the "
                "batch again; nothing of it was added"
            )
        self._set_parts([merged], distinct=True)

    def _group_waiting(self) -> None:
        if self._waiting:
            parts = [*self._parts, self._grouped(self._waiting, False)]
            self._set_parts(parts, distinct=len(parts) == 1)
            self._waiting, self._waiting_rows = [], 0

    def _merged(self) -> pa.Table:
        """Merge the parts, so that each group occurs once."""
        self._group_waiting()
        if not self._distinct:
            self._set_parts([self._grouped(self._parts, True)], distinct=True)
        if self._parts:
            return self._parts[0]
        return pa.table({str(place): pa.nulls(0, kind) for place, kind in enumerate(self._types or ())})

    def _read(self, table: pa.Table, partial: bool) -> tuple[list[pa.DataType], list[bool], pa.Table]:
        """Return the types of the results, whether each aggregate has a column, and a table of the columns, which
        are named by their places."""
        labels = [*self._keys, *((a.name if partial else a.column) for a in self._aggregates)]
        names = table.column_names
        columns, types, present = {}, [], []
        for place, label in enumerate(labels):
            found = names.count(label)
            aggregate = self._aggregates[place - len(self._keys)] if place >= len(self._keys) else None
            if aggregate is not None:
                present.append(found > 0)
            if found == 0 and aggregate is not None and aggregate.function == "count" and not partial:
                types.append(pa.int64())
                continue
            if found != 1:
                error = ValueError if found else KeyError
                raise error(f'batch has {"more than one" if found else "no"} column "{label}"')
            values = plain(table.column(label))
            if aggregate is None:
                types.append(_key_type(label, values.type))
            else:
                types.append(aggregate.type_for(values.type, partial))
                values = aggregate.taken(values, partial)
            columns[str(place)] = values
        for label, now, before in zip(labels, types, self._types or types):
            if now != before:
                raise TypeError(f'column "{label}" is of type {now}, and was {before} in the batches before')
        for aggregate, is_there, was_there in zip(self._aggregates, present, self._present or present):
            if is_there != was_there and not partial:
                raise ValueError(
                    f'column "{aggregate.column}" is in some batches and not in others: a count of a column that is '
                    "missing counts rows"
                )
        return types, present, pa.table(columns)

    def _grouped(self, tables: list[pa.Table], partial: bool) -> pa.Table:
        """Group rows, or partial results."""
        rows = pa.concat_tables(tables, promote_options="permissive")  # a sum may be a decimal in one table only
        keys = [str(place) for place in range(len(self._keys))]
        asked: list[tuple[Any, ...]] = []
        for place, aggregate in enumerate(self._aggregates, len(keys)):
            name = str(place)
            if name not in rows.column_names:
                asked.append(([], "hash_count_all", None, name))
                continue
            values = aggregate.added(rows.column(name))
            rows = rows.set_column(rows.column_names.index(name), name, values)
            asked.append(([name], *aggregate.asked(partial), name))
        plan = [
            Declaration("table_source", TableSourceNodeOptions(rows)),
            Declaration("aggregate", AggregateNodeOptions(asked, keys=keys)),
        ]
        found = Declaration.from_sequence(plan).to_table(use_threads=False)
        for aggregate, (*_, name) in zip(self._aggregates, asked):
            values = aggregate.made(found.column(name), partial)
            found = found.set_column(found.column_names.index(name), name, values)
        return found

    def _result(self) -> pa.RecordBatch:
        names = [*self._keys, *(aggregate.name for aggregate in self._aggregates)]
        if self._types is None:
            return pa.RecordBatch.from_arrays([pa.nulls(0)] * len(names), names=names)
        merged = self._merged()
        columns = [merged.column(str(place)) for place in range(len(names))]
        for place, aggregate in enumerate(self._aggregates, len(self._keys)):
            columns[place] = aggregate.whole(columns[place], self._types[place])
        return pa.RecordBatch.from_arrays([one(column) for column in columns], names=names)


def _key_type(name: str, kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind) or pa.types.is_nested(kind):
        raise TypeError(
            f'column "{name}" is of type {kind}: keys are whole numbers, texts, days and times, because equal floats '
            "may look different"
        )
    return kind


def _names(keys: Any) -> tuple[str, ...]:
    names = (keys,) if isinstance(keys, str) else tuple(keys) if isinstance(keys, Sequence) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"keys must be the name of a column or a sequence of names, got {keys!r}")
    if not names:
        raise ValueError("keys must name at least one column, got none")
    return names


def _aggregates(aggregates: Mapping[str, Any], relative_accuracy: float) -> list[Aggregate]:
    found = []
    for name, asked in aggregates.items():
        column, function = asked if isinstance(asked, tuple) and len(asked) == 2 else (name, asked)
        if not all(isinstance(text, str) for text in (name, column, function)):
            raise TypeError(f"aggregates must map names to functions or to (column, function), got {name!r}: {asked!r}")
        if function not in FUNCTIONS:
            raise ValueError(f'aggregates["{name}"] must be one of {", ".join(FUNCTIONS)}, got "{function}"')
        found.append(Aggregate(name, function, column, relative_accuracy))
    return found
