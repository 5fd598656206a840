"""The dialect of PostgreSQL: its URLs, whose passwords are kept apart, its connections and its errors."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote as percent_encoded

from drainq.sql.connect import connect_postgres, postgres_driver
from drainq.sql.dialect import Dialect, Failure, UrlParts, register
from drainq.sql.driver_errors import connection_is_gone, failure_of_postgres
from drainq.sql.quoting import literal, quote
from drainq.sql.url import SECRET, DatabaseUrl, decoded, without_password

GRACE = 1.0  # seconds for which a connection waits beyond the server's own limit for a statement
IDLE = 30.0  # seconds after which the server ends a transaction whose program has gone

_HISTORY = "pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)"
"""The timeline: a replica that takes over begins another, in which a transaction's number may be used again."""

_ROWS_AT_ONCE = 10_000  # of a query that is streamed
_SETTINGS = ("statement_timeout", "idle_in_transaction_session_timeout")


def read_postgres_url(rest: str) -> UrlParts:
    """Read what follows ``postgresql://``.

    Raises:
        ValueError: it can be read in more than one way, or has a port that no server can have.
    """
    user_part, _, place = rest.rpartition("@")
    if rest.count("@") > 1 or re.search("[/?]", user_part):
        raise ValueError(
            "this URL can be read in more than one way: write '/', '?' and '@' in a user's name, a password or a "
            "parameter as %2F, %3F and %40"
        )
    user, _, password = user_part.partition(":")
    secrets = {"password": decoded(password)} if password else {}
    host_and_database, _, query = place.partition("?")
    _check_ports(host_and_database.partition("/")[0])
    kept, shown = [], []
    for name, value in _parameters(query):
        if SECRET.fullmatch(name):
            secrets[name.lower()] = decoded(value)
            shown.append(f"{name}=***")
        else:
            kept.append(f"{name}={value}")
            shown.append(f"{name}={value}")
    who = percent_encoded(decoded(user), safe="")
    at, hidden = "@" if user_part else "", ":***" if password else ""
    target = f"postgresql://{who}{at}{host_and_database}{'?' if kept else ''}{'&'.join(kept)}"
    text = f"postgresql://{who}{hidden}{at}{host_and_database}{'?' if shown else ''}{'&'.join(shown)}"
    return UrlParts(target, tuple(secrets.items()), text)


def _check_ports(hosts: str) -> None:
    """Refuse a port that no server can have. libpq would notice it only when connecting, as an unreachable server."""
    for host in hosts.split(","):
        port = re.fullmatch(r"[^:]*:(.+)", re.sub(r"^\[[^\]]*\]", "", host))
        if port and not (re.fullmatch(r"[0-9]{1,5}", port[1]) and 1 <= int(port[1]) <= 65535):
            raise ValueError(f"the port of a PostgreSQL server is a number from 1 to 65535, got {port[1]!r}")


def _parameters(query: str) -> list[tuple[str, str]]:
    """Return the parameters of a query, names decoded.

    Raises:
        ValueError: a part has no ``=``.
    """
    parts = [part.partition("=") for part in query.split("&")] if query else []
    if not all(equals for _, equals, _ in parts):
        raise ValueError("a parameter of this URL has no value: write '&' in a value as %26")
    return [(decoded(name), value) for name, _, value in parts]


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

    def stream(self, connection: Any, statement: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield rows through a server-side cursor, which needs a transaction."""
        with connection.cursor(name="drainq_stream") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            cursor.execute(statement, values)
            yield from cursor

    def execute_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def plan(self, connection: Any, statement: str) -> None:
        with connection.transaction():
            connection.execute("SET LOCAL lock_timeout = '1s'")
            super().plan(connection, statement)

    def limit_waits(self, connection: Any, seconds: float | None) -> None:
        connection.patience = math.inf if seconds is None else seconds + GRACE

    def begin_marked(self, connection: Any) -> str | None:
        """Begin a transaction whose statements the server itself ends in time. Shorter limits of the session stay.

        A database that only imitates PostgreSQL gets no limits, and the mark is empty: it proves nothing.
        """
        if connection.limits is None:
            connection.limits = self._limits(connection)
        if not connection.limits:
            connection.execute(self.begin)
            return ""
        wanted = (max(0.01, connection.patience - GRACE), IDLE)
        limits = [min(each) for each in zip(wanted, connection.limits)]
        settings = "".join(
            f"SET LOCAL {name} = {math.ceil(limit * 1000)}; "
            for name, limit in zip(_SETTINGS, limits)
            if limit < math.inf
        )
        cursor = connection.execute(
            f"{self.begin}; {settings}SELECT {_HISTORY} || ':' || pg_catalog.txid_current()", prepare=False
        )
        while cursor.nextset():
            pass
        mark: str = cursor.fetchone()[0]
        return mark

    def _limits(self, connection: Any) -> tuple[float, ...]:
        """Return the limits of the session in seconds. Empty if the database lacks what :meth:`begin_marked` needs."""
        seconds = ", ".join(
            f"extract(epoch FROM pg_catalog.current_setting('{name}')::interval)::float8" for name in _SETTINGS
        )
        try:
            *limits, _ = connection.execute(f"SELECT {seconds}, pg_catalog.txid_status(NULL) || {_HISTORY}").fetchone()
        except self.errors:
            return ()
        return tuple(limit or math.inf for limit in limits)

    def was_committed(self, connection: Any, mark: str) -> bool | None:
        history, _, number = mark.partition(":")
        asked = f"SELECT CASE WHEN {_HISTORY} = %s THEN pg_catalog.txid_status(%s) END"
        status = connection.execute(asked, (history, int(number))).fetchone()[0] if number else None
        if status == "in progress":
            raise postgres_driver().OperationalError("the server has not ended the transaction that it did not answer")
        return None if status is None else status == "committed"

    def cancel(self, connection: Any, seconds: float) -> None:
        with contextlib.suppress(self.errors):  # the server may be silent or unreachable: see cut
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
