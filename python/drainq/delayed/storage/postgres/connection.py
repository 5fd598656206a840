"""Connections to PostgreSQL whose waits have a deadline, and which leave no settings on the server.

# Invariants

1. A wait for the server ends ``GRACE`` seconds after the deadline of the calling thread's try, even if the server fell
   silent with the connection open (a frozen backend, a network partition). The connection is then unusable.
2. No setting outlives a transaction on a shared connection. Without a pooler the settings are startup options of the
   connection. A pooler shares connections among programs, so behind one each transaction uses ``SET LOCAL``.
3. Behind a pooler in transaction mode no statement is prepared, because another program's statement could have the same
   name. The user can declare that the pooler tracks prepared statements.

A pooler is recognised because it refuses startup options, or reports another process number than the server's process.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any

import psycopg

from drainq.delayed.deadline import deadline, seconds_left
from drainq.delayed.storage.postgres.direct_libpq import GRACE, DirectConnection, TryTimedOut
from drainq.sql.connect import CONNECT_TIMEOUT, connect_postgres
from drainq.sql.url import DatabaseUrl

_IDLE_IN_TRANSACTION = 10_000
"""Milliseconds after which the server ends a session that hangs inside a transaction, and frees its locks."""


class PoolExhausted(psycopg.OperationalError):
    """Raised if every connection is in use and none was returned in time."""


class BoundedConnection(DirectConnection):
    """A connection whose waits end at the deadline of the calling thread's try.

    Attributes:
        round: the pool's round in which it was opened; see :mod:`drainq.delayed.storage.postgres.pool`.
        opened_at, used_at: monotonic times.
        behind_a_pooler: whether another program may get the server's connection after a transaction.
    """

    round = 0
    opened_at = 0.0
    used_at = 0.0
    behind_a_pooler = False

    def wait(self, gen: Any, *arguments: Any, **more: Any) -> Any:
        """Wait for the server, at most until the deadline."""
        until = None if self.patient else deadline()
        if until is None:
            return super().wait(gen, *arguments, **more)
        try:
            return super().wait(_until(until + GRACE, gen), *arguments, **more)
        except TryTimedOut:
            self.pgconn.finish()  # a late answer must not be read as the answer to the next statement
            raise


def _until(until: float, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run the steps of ``gen`` until ``until``, then give up. Without data a step comes each 0.1 s."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= until:
                raise TryTimedOut("the server did not answer in time; the connection was closed")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


class Opener:
    """Opens connections to one database, and remembers whether a pooler is in front of it.

    Args:
        url: the database.
        try_timeout: seconds for a statement; None for no limit.
        prepare: whether statements are prepared; None: yes, unless there is a pooler.
    """

    def __init__(self, url: DatabaseUrl, *, try_timeout: float | None, prepare: bool | None) -> None:
        self._url = url
        self._prepare = prepare
        self._options_refused = False
        self.settings = {
            "statement_timeout": str(int((try_timeout or 0) * 1000)),
            "idle_in_transaction_session_timeout": str(_IDLE_IN_TRANSACTION),
            # Every statement here can use an index. With one plan for all values, it takes a third of the time.
            # Without sequential scans, a plan made for a small table also suits a large one.
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "jit": "off",
        }
        self.set_local = "; ".join(f"SET LOCAL {name} = {value}" for name, value in self.settings.items())

    def open(self, more: Mapping[str, int] | None = None) -> BoundedConnection:
        """Open a connection with ``more`` settings. Raises psycopg's errors."""
        connection = self._open({**self.settings, **(more or {})})
        try:
            connection.opened_at = connection.used_at = time.monotonic()
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # the level of drainq's BEGIN
            if self._options_refused:
                connection.behind_a_pooler = True
            else:
                (server_process,) = connection.execute(
                    "SELECT pg_catalog.pg_backend_pid()", prepare=False
                ).fetchone() or (0,)
                connection.behind_a_pooler = server_process != connection.info.backend_pid
            if self._prepare is False or (self._prepare is None and connection.behind_a_pooler):
                connection.prepare_threshold = None
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, settings: Mapping[str, object]) -> BoundedConnection:
        timeout = seconds_left(CONNECT_TIMEOUT)
        if not self._options_refused:
            options = " ".join(f"-c {name}={value}" for name, value in settings.items())
            options += r" -c default_transaction_isolation=read\ committed"
            try:
                opened: BoundedConnection = connect_postgres(
                    self._url, timeout=timeout, options=options, connection_class=BoundedConnection
                )
                return opened
            except psycopg.OperationalError as error:
                if "unsupported startup parameter" not in str(error):
                    raise
                self._options_refused = True
        plain: BoundedConnection = connect_postgres(self._url, timeout=timeout, connection_class=BoundedConnection)
        return plain
