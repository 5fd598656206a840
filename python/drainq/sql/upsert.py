"""Upsert: inserts rows or merges them into those of the same key, by one atomic statement.

Two processes that read, merge and write in three steps can interleave and lose a count. ``INSERT ... ON CONFLICT DO
UPDATE SET n = n + excluded.n`` is one step in both databases.

1. The database decides which keys are equal: ``1`` and ``"1"`` are equal in a text column, NULL never equals NULL. Rows
   whose keys are surely equal are merged beforehand. SQLite merges the rest. PostgreSQL refuses to touch a row twice in
   one statement (21000), so :func:`drainq.sql.row_by_row.write_each` writes such a batch.
2. PostgreSQL gets the same texts of a row in a small batch, in a large one or alone (:mod:`drainq.sql.postgres_text`),
   so the stored values do not depend on the batch.
3. PostgreSQL gets a batch in the order of its keys, so two writers that touch the same rows do not deadlock.
4. SQLite gets up to sixteen rows per statement, and merges them in their order, as if one by one.
5. NULL means "no value yet": merged with a value it gives the value. Only ``last`` takes a new NULL like any value.

Source: SkyWalking's ``MetricsPersistentWorker``, which reads, merges and writes. Here the database merges.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from drainq.sql.database import Database, Row
from drainq.sql.dialect import Dialect
from drainq.sql.postgres_text import copied, texts_of
from drainq.sql.quoting import quote as quoted

SMALL = 200  # rows up to which PostgreSQL gets one statement with values instead of a COPY
MOST_VALUES = 65_535  # bound values of a statement
TOGETHER = 16  # rows of a statement in SQLite, which copies their values while it runs
SQLITE_VALUES = 999  # bound values of a statement; later versions take more


class Merge(enum.Enum):
    """The rule that merges a stored value and a new one of the same key."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    LAST = "last"
    FIRST = "first"

    def expression(self, dialect: Dialect, stored: str, new: str) -> str:
        """Return the SQL expression of the merged value."""
        if self is Merge.LAST:
            return new
        if self is Merge.FIRST:
            return f"CASE WHEN {stored} IS NULL THEN {new} ELSE {stored} END"
        if self is Merge.SUM:
            both = f"{stored} + {new}"
        else:
            both = f"{dialect.larger if self is Merge.MAX else dialect.smaller}({stored}, {new})"
        return f"CASE WHEN {stored} IS NULL THEN {new} WHEN {new} IS NULL THEN {stored} ELSE {both} END"


def _null_is_nothing(merge: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda stored, new: new if stored is None else stored if new is None else merge(stored, new)


_FUNCTIONS: dict[Merge, Callable[[Any, Any], Any]] = {  # (stored, new) -> merged
    Merge.SUM: _null_is_nothing(lambda stored, new: stored + new),
    Merge.MAX: _null_is_nothing(max),
    Merge.MIN: _null_is_nothing(min),
    Merge.LAST: lambda stored, new: new,
    Merge.FIRST: lambda stored, new: new if stored is None else stored,
}


class Upsert:
    """Writes rows into one table, merging by key.

    Args:
        table: the name of an existing table with a primary key or unique index on ``key``.
        columns: the names of a row's values, in order.
        key: the columns that identify a row; empty: every row is inserted.
        merge: column -> :class:`Merge` or its value. Any other column outside ``key`` takes the last value.
    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: ``key`` or ``merge`` names an unknown column or rule, or a merged column is part of the key.

    Example:
        >>> upsert = Upsert("hits", ["page", "n"], key=["page"], merge={"n": "sum"})
        >>> print(upsert.statement(Dialect.SQLITE))
        INSERT INTO "hits" ("page", "n") VALUES (?, ?) ON CONFLICT ("page") DO UPDATE SET "n" = CASE \
WHEN "hits"."n" IS NULL THEN excluded."n" WHEN excluded."n" IS NULL THEN "hits"."n" ELSE "hits"."n" + excluded."n" END
    """

    def __init__(
        self,
        table: str,
        columns: Sequence[str],
        *,
        key: Sequence[str] = (),
        merge: Mapping[str, Merge | str] | None = None,
    ) -> None:
        if not isinstance(table, str):
            raise TypeError(f"table must be the name of a table, got {table!r}")
        if not isinstance(merge, Mapping | None):
            raise TypeError(f"merge must map columns to rules, such as {{'n': 'sum'}}, got {merge!r}")
        for option, names in (("columns", columns), ("key", key)):
            if (
                isinstance(names, (str, bytes))
                or not isinstance(names, Iterable)
                or not all(isinstance(name, str) for name in names)
            ):
                raise TypeError(f"{option} must be a list of names, such as ['id', 'name'], got {names!r}")
        self.table, self.columns, self.key = table, tuple(columns), tuple(key)
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError(f"columns must be names, each once, got {list(columns)!r}")
        self.merge = {column: Merge(rule) for column, rule in (merge or {}).items()}
        for column in (*self.key, *self.merge):
            if column not in self.columns:
                raise ValueError(f"no column {column!r} among {list(self.columns)!r}")
        if (not self.key and self.merge) or any(column in self.key for column in self.merge):
            raise ValueError(f"merge {list(self.merge)!r} needs a key that it is not part of, got {list(self.key)!r}")
        self._key_places = tuple(self.columns.index(column) for column in self.key)
        self._functions = [
            (place, _FUNCTIONS[self.merge.get(column, Merge.LAST)])
            for place, column in enumerate(self.columns)
            if column not in self.key
        ]

    def statement(self, dialect: Dialect, source: str | None = None) -> str:
        """Return the statement for one row of bound values, or for all rows of the query ``source``."""
        quote = dialect.quote
        names = ", ".join(map(quote, self.columns))
        rows = source or self._bound(dialect, 1)
        insert = f"INSERT INTO {quote(self.table)} ({names}) {rows}"
        if not self.key:
            return insert
        updates = ", ".join(
            f"{quote(column)} = "
            + self.merge.get(column, Merge.LAST).expression(
                dialect, f"{quote(self.table)}.{quote(column)}", f"excluded.{quote(column)}"
            )
            for column in self.columns
            if column not in self.key
        )
        target = f" ON CONFLICT ({', '.join(map(quote, self.key))}) DO "
        return insert + target + (f"UPDATE SET {updates}" if updates else "NOTHING")

    def _bound(self, dialect: Dialect, rows: int) -> str:
        one = f"({', '.join([dialect.placeholder] * len(self.columns))})"
        return f"VALUES {', '.join([one] * rows)}"

    def index(self) -> str:
        """Return the statement that makes the unique index which the upsert needs, to show to a person."""
        name, columns = quoted("_".join((self.table, *self.key, "key"))), ", ".join(map(quoted, self.key))
        return f"CREATE UNIQUE INDEX {name} ON {quoted(self.table)} ({columns})"

    def check(self, database: Database) -> None:
        """Plan the statement without running it. A server waits a second at most for a lock on the table.

        Raises:
            sqlite3.Error, psycopg.Error: a table, column, right, or unique index on the key is missing; or the table
                is locked.
        """
        nothing = f"VALUES ({', '.join(['NULL'] * len(self.columns))})"
        database.dialect.plan(database.connection, self.statement(database.dialect, nothing))

    def merged(self, rows: Iterable[Row]) -> list[Row]:
        """Return one row for each key, in the order of the keys. Without a key the rows are unchanged.

        Keys are surely equal if their values have equal types, and are equal ints, strs or bytes, or have the same
        repr. A key with NULL equals no other key. The database merges keys that only a column's type makes equal
        (``1`` and ``"1"``, upper and lower case). Keys of several types have no order.
        """
        return self._in_order(self._distinct(list(rows)))

    def _distinct(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return one row for each key, in the order in which the keys last appear."""
        if not self.key:
            return rows
        keys = self._plain_keys(rows)
        by_key: dict[Any, Row] = {}
        if not self.merge:
            if len(set(keys)) == len(rows):
                return rows
            for key, row in zip(keys, rows):
                by_key.pop(key, None)
                by_key[key] = row
            return list(by_key.values())
        for key, row in zip(keys, rows):
            stored = by_key.pop(key, None)
            if stored is None:
                by_key[key] = row
            else:
                both = list(stored)
                for place, function in self._functions:
                    both[place] = function(stored[place], row[place])
                by_key[key] = both
        return list(by_key.values())

    def _plain_keys(self, rows: Sequence[Row]) -> list[Any]:
        """Return an object for each row; two are equal if the rows' keys are surely equal."""
        columns = [[row[place] for row in rows] for place in self._key_places]
        if all(_PLAIN.issuperset(map(type, column)) for column in columns):
            return columns[0] if len(columns) == 1 else list(zip(*columns))
        return [object() if None in values else tuple([_plain(value) for value in values]) for values in zip(*columns)]

    def are_rows(self, items: Sequence[Any]) -> bool:
        """Return whether each item is a tuple or a list with a value for every column."""
        return {tuple, list}.issuperset(map(type, items)) and {len(self.columns)}.issuperset(map(len, items))

    def write(self, database: Database, rows: Sequence[Row]) -> int:
        """Write a batch inside the caller's transaction. Return how many rows the database got.

        Raises:
            sqlite3.Error, psycopg.Error: the database refuses the batch, and none of it may be committed.
        """
        if not rows:
            return 0
        if database.dialect.merges_row_by_row:
            batch = self._distinct(rows) if self.merge else rows  # written in order, so the last of a key wins
            self._insert_in_turn(database, batch)
            return len(batch)
        batch = self.merged(rows)
        if not self.key and len(batch) > SMALL:
            self._copy(database, database.dialect.quote(self.table), batch)
        elif len(batch) <= SMALL:
            self._insert(database, batch)
        else:
            self._copy_and_merge(database, batch)
        return len(batch)

    def _in_order(self, rows: Sequence[Row]) -> list[Row]:
        """Sort rows by key, so that two writers of the same rows do not deadlock."""
        if not self.key:
            return list(rows)
        try:
            return sorted(rows, key=itemgetter(*self._key_places))
        except TypeError:  # keys of several types, or with NULL, have no order; a deadlock costs a further try
            return list(rows)

    def _insert_in_turn(self, database: Database, rows: Sequence[Row]) -> None:
        """Insert rows, several per statement. The database takes them in order."""
        together = max(1, min(TOGETHER, SQLITE_VALUES // len(self.columns)))
        several = len(rows) - len(rows) % together if self.are_rows(rows) else 0  # the driver refuses other items
        if several:
            values, size = list(chain.from_iterable(rows[:several])), together * len(self.columns)
            statement = self.statement(database.dialect, self._bound(database.dialect, together))
            database.execute_many(statement, [values[at : at + size] for at in range(0, len(values), size)])
        database.execute_many(self.statement(database.dialect), rows[several:])

    def _insert(self, database: Database, rows: Sequence[Row]) -> None:
        texts = list(zip(*texts_of(database.connection, rows)))
        for start in range(0, len(texts), most := MOST_VALUES // len(self.columns)):
            chunk = texts[start : start + most]
            statement = self.statement(database.dialect, self._bound(database.dialect, len(chunk)))
            database.connection.execute(statement, list(chain.from_iterable(chunk)))

    def _copy(self, database: Database, table: str, batch: Sequence[Row]) -> None:
        names = ", ".join(map(database.dialect.quote, self.columns))
        pieces = list(copied(database.connection, batch))  # before COPY: psycopg logs the rows of a COPY that fails
        with database.connection.cursor() as cursor:
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN", ()) as copy:
                for piece in pieces:
                    copy.write(piece)

    def _copy_and_merge(self, database: Database, batch: Sequence[Row]) -> None:
        """COPY rows into a temporary table of this connection, then merge them by one upsert."""
        quote = database.dialect.quote
        name = hashlib.sha256(repr((self.table, self.columns)).encode()).hexdigest()[:16]
        staged = quote(f"drainq_staged_{name}")
        names = ", ".join(map(quote, self.columns))
        like = f"SELECT {names} FROM {quote(self.table)} LIMIT 0"
        database.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {staged} ON COMMIT DROP AS {like}")
        self._copy(database, staged, batch)
        database.execute(self.statement(database.dialect, f"SELECT {names} FROM {staged}"))
        database.execute(f"TRUNCATE {staged}")


_PLAIN = frozenset((int, str, bytes))


def _plain(value: Any) -> Any:
    kind = type(value)
    return (kind, value if kind in _PLAIN else repr(value))
