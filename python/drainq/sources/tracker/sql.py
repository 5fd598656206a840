"""The item tracker in SQLite and PostgreSQL: one table, one statement per call.

Identifiers are quoted, values bound. Each call is its own transaction and may be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from drainq.fork import leave_to_parent, renew_in_child
from drainq.sources.tracker.store import ItemState
from drainq.sql.url import DatabaseUrl

_CREATE = """
    CREATE TABLE IF NOT EXISTS {table} (
        "source" TEXT NOT NULL,
        "item" TEXT NOT NULL,
        "state" TEXT NOT NULL,
        "attempts" BIGINT NOT NULL,
        "changedAt" DOUBLE PRECISION NOT NULL,
        PRIMARY KEY ("source", "item")
    )"""

_CREATE_INDEX = """
    CREATE INDEX IF NOT EXISTS {index} ON {table} ("state") WHERE "state" IN ('scheduled', 'sent')"""

_MARK = """
    INSERT INTO {table} AS old ("source", "item", "state", "attempts", "changedAt") {rows}
    ON CONFLICT ("source", "item") DO UPDATE SET
        "state" = excluded."state",
        "attempts" = old."attempts" + excluded."attempts",
        "changedAt" = excluded."changedAt"
    WHERE excluded."state" <> 'sent' OR old."state" = 'scheduled'"""

_READ = 'SELECT "state", "attempts" FROM {table} WHERE "source" = {mark} AND "item" = {mark}'
_COUNT = 'SELECT "source", "state", count(*) FROM {table} GROUP BY "source", "state"'
_IN_FLIGHT = """SELECT count(*) FROM {table} WHERE "state" IN ('scheduled', 'sent')"""  # reads only the index
_PURGE = """DELETE FROM {table} WHERE "state" IN ('done', 'failed') AND "changedAt" < {mark}"""


@dataclass(frozen=True)
class _Binding:
    """The form in which a database gets the keys of one call of ``mark``."""

    rows: str
    """The SQL for one row per key, with the placeholders for what :attr:`bind` returns."""
    bind: Callable[[str, str, int, float, Sequence[str]], Any]
    """Makes the parameters of a mark."""
    many: bool
    """Whether a mark runs once per row."""


_BINDINGS: dict[bool, _Binding] = {  # by whether the database is a server
    False: _Binding(
        rows="VALUES (?, ?, ?, ?, ?)",
        bind=lambda source, state, attempts, now, keys: [(source, key, state, attempts, now) for key in keys],
        many=True,
    ),
    True: _Binding(
        rows="SELECT %s, key, %s, %s, %s FROM unnest(%s::text[]) AS keys(key)",
        bind=lambda source, state, attempts, now, keys: (source, state, attempts, now, list(keys)),
        many=False,
    ),
}


class SqlStore:
    """A store in a database; processes may share it."""

    def __init__(self, url: DatabaseUrl, *, table: str) -> None:
        dialect, self._binding = url.dialect, _BINDINGS[url.dialect.is_server]
        names = {
            "table": dialect.quote(table),
            "index": dialect.quote(f"{table}_unfinished"),
            "mark": dialect.placeholder,
            "rows": self._binding.rows,
        }
        self._mark, self._read, self._count, self._in_flight, self._purge = (
            statement.format_map(names) for statement in (_MARK, _READ, _COUNT, _IN_FLIGHT, _PURGE)
        )
        self._url = url
        self._lock = threading.Lock()
        self._connection: Any = self._connect()
        with self._lock:
            for statement in (_CREATE, _CREATE_INDEX):
                self._connection.execute(statement.format_map(names))
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        """Use a connection of this process, opened when it is needed."""
        leave_to_parent(self._connection)
        self._lock = threading.Lock()
        self._connection = None

    def mark(self, source: str, keys: Sequence[str], state: ItemState, now: float) -> None:
        """Set the state of items."""
        attempts = int(state is ItemState.SCHEDULED)
        self._run(self._write, self._binding.bind(source, state.value, attempts, now, keys))

    def read(self, source: str, key: str) -> tuple[ItemState, int] | None:
        """Return an item's state and attempts."""
        rows = self._run(self._rows, self._read, (source, key))
        return (ItemState(rows[0][0]), int(rows[0][1])) if rows else None

    def counts(self) -> Iterator[tuple[str, ItemState, int]]:
        """Yield source, state and number of items."""
        for source, state, count in self._run(self._rows, self._count, ()):
            yield source, ItemState(state), count

    def in_flight(self) -> int:
        """Return the number of items scheduled or sent."""
        return int(self._run(self._rows, self._in_flight, ())[0][0])

    def purge(self, before: float) -> int:
        """Forget items done or failed before a time; return how many."""
        return int(self._run(self._delete, (before,)))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _connect(self) -> Any:
        return self._url.dialect.connect(self._url.target, self._url.secrets, write_ahead=True)

    def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``work`` on the connection, and if that is lost, on a new connection. An attempt may then count twice."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            try:
                return work(*arguments)
            except Exception as error:
                if not self._url.dialect.is_lost(error):
                    raise
                self._connection.close()
                self._connection = self._connect()
                return work(*arguments)

    def _write(self, parameters: Any) -> None:
        if not self._binding.many:
            self._connection.execute(self._mark, parameters)
            return
        self._connection.execute(self._url.dialect.begin)
        try:
            self._connection.executemany(self._mark, parameters)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _rows(self, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(statement, parameters).fetchall())

    def _delete(self, parameters: tuple[Any, ...]) -> int:
        return int(self._connection.execute(self._purge, parameters).rowcount)
