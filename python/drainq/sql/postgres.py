"""The dialect of PostgreSQL. ``postgres_url.py`` reads its URLs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from drainq.sql.connect import connect_postgres, postgres_driver
from drainq.sql.dialect import Dialect, Failure, UrlParts, register
from drainq.sql.driver_errors import connection_is_gone, failure_of_postgres
from drainq.sql.postgres_url import read_postgres_url
from drainq.sql.quoting import literal, quote
from drainq.sql.url import DatabaseUrl, without_password


class PostgresDialect(Dialect):
    """PostgreSQL: a server, many writers."""

    name = "postgresql"
    schemes = ("postgresql", "postgres", "postgresql+psycopg")
    forms = ("postgresql://user@host/db",)
    placeholder = "%s"
    types: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "int": "BIGINT",
        "float": "DOUBLE PRECISION",
        "number": "NUMERIC",
        "bytes": "BYTEA",
    }
    byte_order = ' COLLATE "C"'
    is_server = True
    keeps_transaction = False
    merges_row_by_row = False

    def quote(self, identifier: str) -> str:
        return super().quote(identifier).replace("%", "%%")

    def fill(self, template: str, names: Mapping[str, str]) -> str:
        return super().fill(template.replace("%", "%%"), names)

    def read_url(self, scheme: str, rest: str) -> UrlParts | None:
        return read_postgres_url(rest) if rest else None

    def shown(self, target: str) -> str:
        return without_password(target)

    def connect(self, target: str, secrets: Sequence[tuple[str, str]], *, write_ahead: bool = False) -> Any:
        return connect_postgres(DatabaseUrl(self, target, tuple(secrets)))

    @property
    def errors(self) -> type[Exception]:
        errors: type[Exception] = postgres_driver().Error
        return errors

    def failure_of(self, error: BaseException) -> Failure | None:
        return failure_of_postgres(error)

    def is_lost(self, error: BaseException) -> bool:
        return connection_is_gone(error)

    def stream(self, connection: Any, statement: str, values: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows by a cursor of the server, inside a transaction."""
        with connection.cursor(name="drainq_stream") as cursor:
            cursor.itersize = size
            cursor.execute(statement, values)
            yield from cursor

    def execute_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def cancel(self, connection: Any, seconds: float) -> None:
        with contextlib.suppress(self.errors):  # it may be silent, or have no way to be asked: see cut
            connection.cancel_safe(timeout=seconds)

    def cut(self, connection: Any) -> None:
        connection.cut()

    def lock_table(self, connection: Any, table: str) -> None:
        connection.execute(f"LOCK TABLE {self.quote(table)} IN EXCLUSIVE MODE")

    def lock_creation(self, connection: Any, what: str) -> None:
        connection.execute(f"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended({literal(what)}, 0))")

    def tables_among(self, connection: Any, names: Iterable[str]) -> set[str]:
        asked = "SELECT pg_catalog.to_regclass(%s) IS NOT NULL"
        return {name for name in names if connection.execute(asked, (quote(name),)).fetchone()[0]}


POSTGRESQL = Dialect.POSTGRESQL = register(PostgresDialect())
