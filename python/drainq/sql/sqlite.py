"""The dialect of SQLite. ``connect.py`` opens the connections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from drainq.sql.connect import connect_sqlite
from drainq.sql.dialect import Dialect, Failure, UrlParts, register
from drainq.sql.driver_errors import failure_of_sqlite

LOCK_WAIT = 0.5  # seconds that the driver waits for a lock by itself


class SQLiteDialect(Dialect):
    """SQLite: a file, one writer at a time."""

    name = "sqlite"
    schemes = ("sqlite",)
    forms = ("sqlite:///relative.db", "sqlite:////absolute.db")
    placeholder = "?"
    types: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "int": "INTEGER",
        "float": "REAL",
        "number": "NUMERIC",
        "bytes": "BLOB",
    }
    begin = "BEGIN IMMEDIATE"  # takes the write lock at once, so no transaction fails half-way because it cannot get it
    larger, smaller = "max", "min"
    rows_in_key = " WITHOUT ROWID"

    def read_url(self, scheme: str, rest: str) -> UrlParts | None:
        """Read a path without escapes and options, so that any file name can be written."""
        if rest in ("", "/", "/:memory:"):
            raise ValueError(
                f"{f'{scheme}://{rest}'!r} would be another database on each connection: name a file "
                f"({' or '.join(self.forms)}); a queue or a tracker of this process alone is 'memory:'"
            )
        return UrlParts(rest[1:], (), "") if rest.startswith("/") else None

    def shown(self, target: str) -> str:
        return f"sqlite:///{target}"

    def why_missing(self, target: str) -> str | None:
        return None if Path(target).exists() else f"there is no file {target!r}"

    def address(self, target: str) -> str:
        return str(Path(target).resolve())

    def connect(self, target: str, secrets: Sequence[tuple[str, str]], *, write_ahead: bool = False) -> Any:
        return connect_sqlite(target, write_ahead=write_ahead)

    @property
    def errors(self) -> type[Exception]:
        import sqlite3

        return sqlite3.Error

    def failure_of(self, error: BaseException) -> Failure | None:
        return failure_of_sqlite(error)

    def execute_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        texts = _texts_of_dates()
        kinds = frozenset(texts)
        if isinstance(rows, Iterator) or _some_are(kinds, rows):
            rows = (
                [texts[type(value)](value) if type(value) in texts else value for value in row]
                if _some_are(kinds, [row])
                else row
                for row in rows
            )
        connection.executemany(statement, rows)

    def cancel(self, connection: Any, seconds: float) -> None:
        connection.interrupt()

    def limit_waits(self, connection: Any, seconds: float | None) -> None:
        """Let the driver wait at most 0.5 s for a lock, so that a caller that tries again can be stopped in between."""
        wait = LOCK_WAIT if seconds is None else min(seconds, LOCK_WAIT)
        connection.execute(f"PRAGMA busy_timeout = {math.ceil(wait * 1000)}")

    def tables_among(self, connection: Any, names: Iterable[str]) -> set[str]:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name for (name,) in found}.intersection(names)


_TEXTS: dict[type, Callable[[Any], str]] = {datetime: lambda at: at.isoformat(" "), date: date.isoformat}


def _texts_of_dates() -> dict[type, Callable[[Any], str]]:
    """Return the writer of each date type, without the types for which the program has registered an adapter.

    The driver writes the same text, but from Python 3.12 on it warns that this is deprecated.
    """
    import sqlite3

    ours, protocol = sqlite3.dbapi2.__name__, sqlite3.PrepareProtocol
    return {
        kind: text
        for kind, text in _TEXTS.items()
        if getattr(sqlite3.adapters.get((kind, protocol)), "__module__", ours) == ours
    }


def _some_are(kinds: frozenset[type], rows: Iterable[Sequence[Any]]) -> bool:
    try:
        return not kinds.isdisjoint(map(type, chain.from_iterable(rows)))
    except TypeError:  # one of the rows is no sequence; the driver will refuse it
        return False


SQLITE = Dialect.SQLITE = register(SQLiteDialect())
