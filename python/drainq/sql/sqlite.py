"""The dialect of SQLite. ``connect.py`` opens the connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from drainq.sql.connect import connect_sqlite
from drainq.sql.dialect import Dialect, Failure, UrlParts, register
from drainq.sql.driver_errors import failure_of_sqlite


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
    begin = "BEGIN IMMEDIATE"  # the write lock is taken at once: a transaction cannot fail half-way for want of it
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

    def cancel(self, connection: Any, seconds: float) -> None:
        connection.interrupt()

    def limit_lock_wait(self, connection: Any, milliseconds: int) -> None:
        connection.execute(f"PRAGMA busy_timeout = {milliseconds}")

    def tables_among(self, connection: Any, names: Iterable[str]) -> set[str]:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name for (name,) in found}.intersection(names)


SQLITE = Dialect.SQLITE = register(SQLiteDialect())
