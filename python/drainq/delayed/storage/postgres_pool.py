"""Connections to PostgreSQL: the pool, what every connection is set to.

# Invariants

1. Pool connections are in autocommit mode at READ COMMITTED; several statements stand in one transaction block.
2. A child of ``fork`` never touches its parent's pool; it opens its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import psycopg_pool

from drainq.sql.connect import connect_postgres
from drainq.sql.url import DatabaseUrl

_RECONNECT_TIMEOUT = 2.0
"""Seconds that the pool goes on by itself with one attempt to connect, at growing intervals. Short: after a long outage
the next call begins a new attempt at once, instead of waiting for the old one's next turn."""


class PostgresPool:
    """The connections of one storage; opened when the first is needed.

    Args:
        url: the database.
        try_timeout: seconds that one statement, or waiting for a connection, may take; None for no limit.
        max_connections: how many at most.
    """

    def __init__(self, url: DatabaseUrl, *, try_timeout: float | None, max_connections: int) -> None:
        self._url = url
        self._try_timeout = try_timeout
        self._max_connections = max_connections
        self._lock = threading.Lock()
        self._pool: psycopg_pool.ConnectionPool | None = None
        self._pid = os.getpid()
        connect_postgres(url).close()  # a wrong address or password is an error now, not a pool that keeps trying

    def close(self) -> None:
        """Close every connection, and end the pool's threads."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    def _open_pool(self) -> psycopg_pool.ConnectionPool:
        with self._lock:
            if self._pid != os.getpid():
                self._pool, self._pid = None, os.getpid()
            if self._pool is None:
                self._pool = psycopg_pool.ConnectionPool(
                    self._url.target,
                    min_size=1,
                    max_size=self._max_connections,
                    timeout=self._try_timeout or 30.0,
                    reconnect_timeout=_RECONNECT_TIMEOUT,
                    kwargs={"autocommit": True, **dict(self._url.secrets)},
                    configure=self._configure,
                    open=True,
                    name="drainq-delayed",
                )
                with suppress(psycopg_pool.PoolTimeout):  # whoever asks for a connection will hear of it
                    # A thread that asks before the first is there makes a second, and the pool then takes turns.
                    self._pool.wait(self._try_timeout or 30.0)
            return self._pool

    def _configure(self, connection: Any) -> None:
        timeout = int((self._try_timeout or 0) * 1000)
        connection.execute(f"SET default_transaction_isolation = 'read committed'; SET statement_timeout = {timeout}")
        # Every statement here has an index to go by. Planned once for all values it costs a third of the time, and
        # without sequential scans the plan that was made while the table was small is right when it is large.
        connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")

    def _our_pool(self) -> psycopg_pool.ConnectionPool:
        pool = self._pool
        return self._open_pool() if pool is None or self._pid != os.getpid() else pool

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor on a connection of the pool; each statement is its own transaction."""
        with self._our_pool().connection() as connection, connection.cursor() as cursor:
            yield cursor

    def run(self, statement: str, values: dict[str, Any], *, binary: bool = False) -> Any:
        """Run one statement, which is its own transaction, and return its cursor with the result.

        The pool's context managers take a third of the time of a statement, and do nothing for a single one.
        """
        pool = self._our_pool()
        connection = pool.getconn()
        try:
            return connection.cursor(binary=binary).execute(statement, values, prepare=True)
        finally:
            pool.putconn(connection)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor in one transaction, which the block's end commits."""
        with self.cursor() as cursor, cursor.connection.transaction():
            yield cursor

    @contextmanager
    def patient(self) -> Iterator[Any]:
        """A transaction of work that may take as long as it takes."""
        with self.transaction() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on")
            yield cursor


@contextmanager
def in_transaction_of(connection: Any) -> Iterator[Any]:
    """A cursor in the caller's transaction; on a connection in autocommit mode, in one of its own."""
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(
            f"connection must be a psycopg.Connection to this queue's database, got {type(connection).__name__}"
        )
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if connection.autocommit:
            with connection.transaction():
                yield cursor
        else:
            yield cursor
