"""PostgresPool: the connections of one queue, or of several. If a connection is dead, its *round* is closed.

A common pool returns another dead connection at each try, so a call may need as many tries as there are connections.
Here the first dead connection ends the *round*: every connection that was opened in it is closed. So after a restart of
the server, a fail-over or a kill of all sessions at most one try of a call fails. Mostly no try fails, because a server
announces that it closes a connection, and the pool reads that before using the connection. Connecting happens on the
caller's thread, so the caller gets the error in time.

# Invariants

1. At most ``max_connections`` connections of the pool are open at once.
2. A connection is used by one thread at a time. It returns to the pool only outside a transaction, in the current
   round, and younger than ``_LONGEST_LIFE``. Otherwise it is closed.
3. Statements run in autocommit mode at READ COMMITTED. Several statements use one transaction block.
4. A forked child never uses its parent's connections and opens its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from drainq.delayed.deadline import seconds_left
from drainq.delayed.storage.postgres.connection import BoundedConnection, Opener, PoolExhausted
from drainq.delayed.storage.postgres.direct_libpq import Statement
from drainq.errors import ShutDown
from drainq.fork import leave_to_parent, renew_in_child
from drainq.sql.driver_errors import connection_is_gone
from drainq.sql.url import DatabaseUrl

_LONGEST_IDLE = 600.0  # seconds after which a connection that is not needed is closed
_LONGEST_LIFE = 3600.0  # seconds after which a connection is closed, so that a change of the address is noticed
_LONGEST_WAIT = 30.0  # seconds to wait for a connection if the call has no limit of its own


_PATIENT = (
    "SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; SET LOCAL plan_cache_mode = force_custom_plan"
)


class PostgresPool:
    """Keeps connections and opens them when they are needed.

    Args:
        url: the database.
        try_timeout: seconds for one statement; None for no limit.
        max_connections: the most connections; at least 1.
        prepare: whether statements are prepared; None: yes, unless there is a pooler.
    """

    def __init__(
        self, url: DatabaseUrl, *, try_timeout: float | None, max_connections: int, prepare: bool | None = None
    ) -> None:
        if not isinstance(max_connections, int) or isinstance(max_connections, bool) or max_connections < 1:
            raise ValueError(f"max_connections must be a whole number of at least 1, got {max_connections!r}")
        if prepare is not None and not isinstance(prepare, bool):
            raise TypeError(f"prepare must be True, False or None, got {prepare!r}")
        self.opener = Opener(url, try_timeout=try_timeout, prepare=prepare)
        self._max_connections = max_connections
        self._idle: list[BoundedConnection] = []  # the last one given back is the next one taken
        self._round = 0
        self._tidy_at = 0.0
        self._closed = False
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._room: SimpleQueue[None] = SimpleQueue()  # an entry for each connection that may still be used
        for _ in range(self._max_connections):
            self._room.put(None)
        self._lock = threading.Lock()

    def _renew_in_child(self) -> None:
        leave_to_parent(*self._idle)
        self._idle = []
        self._begin()

    def close(self) -> None:
        """Close every idle connection at once, and each one in use when it is returned."""
        self._closed = True
        self._close_idle()

    # --- what storages call

    def run(self, statement: str, values: dict[str, Any], *, binary: bool = False) -> Any:
        """Run one statement in its own transaction. Return its cursor with the result."""
        connection = self._take()
        try:
            if connection.behind_a_pooler:
                return self._run_among_others(connection, statement, values, binary=binary)
            prepare = connection.prepare_threshold is not None
            return connection.cursor(binary=binary).execute(statement, values, prepare=prepare)
        except BaseException as error:
            self._note(connection, error)
            raise
        finally:
            self._give_back(connection)

    def ask(self, statement: Statement, values: dict[str, Any]) -> Any:
        """Run a direct statement in its own transaction. Return libpq's result."""
        connection = self._take()
        try:
            if not connection.behind_a_pooler:
                return connection.ask(statement, values)
            with self._among_others(connection):
                return connection.ask(statement, values)
        except BaseException as error:
            self._note(connection, error)
            raise
        finally:
            self._give_back(connection)

    def ask_both(
        self, first: Statement, values: dict[str, Any], second: Statement, more: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Run two direct statements in one transaction, and in one round trip if possible."""
        connection = self._take()
        try:
            if not connection.behind_a_pooler and psycopg.Pipeline.is_supported():
                return connection.ask_both(first, values, second, more)
            with self._among_others(connection):
                return connection.ask(first, values), connection.ask(second, more)
        except BaseException as error:
            self._note(connection, error)
            raise
        finally:
            self._give_back(connection)

    def _run_among_others(
        self, connection: BoundedConnection, statement: str, values: dict[str, Any], *, binary: bool
    ) -> Any:
        prepare = connection.prepare_threshold is not None
        with self._among_others(connection):
            return connection.cursor(binary=binary).execute(statement, values, prepare=prepare)

    @contextmanager
    def _among_others(self, connection: BoundedConnection) -> Iterator[None]:
        """Apply drainq's settings to a pooler's connection until the commit."""
        connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {self.opener.set_local}", prepare=False)
        try:
            yield
        except psycopg.Error:
            if not connection.closed:
                connection.execute("ROLLBACK", prepare=False)
            raise
        connection.execute("COMMIT", prepare=False)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor in one transaction, which the end of the block commits."""
        with self._borrowed() as connection, connection.transaction(), connection.cursor() as cursor:
            if connection.behind_a_pooler:
                cursor.execute(self.opener.set_local, prepare=False)
            yield cursor

    @contextmanager
    def patient(self) -> Iterator[Any]:
        """Yield a cursor in a transaction without time limit. Its BEGIN must be answered in time.

        A statement is planned for its values, because an operator's NULLs switch conditions off.
        """
        with self.transaction() as cursor:
            cursor.execute(_PATIENT, prepare=False)
            cursor.connection.patient = True
            yield cursor

    @contextmanager
    def cursor(self, *, patient: bool = False) -> Iterator[Any]:
        """Yield a cursor outside a transaction, also for statements that refuse to be in one. ``patient``: without time
        limit."""
        with self._borrowed() as connection, connection.cursor() as cursor:
            connection.patient = patient
            yield cursor

    @contextmanager
    def alone(self, **settings: int) -> Iterator[Any]:
        """Yield a cursor on a connection for this work only, with its own settings and no time limit. Yield None
        behind a pooler, which has no such connections."""
        connection = self.opener.open(settings)
        try:
            if connection.behind_a_pooler:
                yield None
            else:
                connection.patient = True
                with connection.cursor() as cursor:
                    yield cursor
        finally:
            _close(connection)

    # --- inside

    @contextmanager
    def _borrowed(self) -> Iterator[BoundedConnection]:
        """Yield a connection of the pool, and note its failures. At the end its waits have a deadline again."""
        connection = self._take()
        try:
            yield connection
        except BaseException as error:
            self._note(connection, error)
            if not connection.behind_a_pooler:
                connection.forget_prepared()
            raise
        finally:
            connection.patient = False
            self._give_back(connection)

    def _take(self) -> BoundedConnection:
        try:
            self._room.get(timeout=seconds_left(_LONGEST_WAIT))
        except Empty:
            raise PoolExhausted(f"all {self._max_connections} connections were in use; see max_connections") from None
        try:
            while True:
                try:
                    connection = self._idle.pop()
                except IndexError:
                    break
                if connection.round == self._round and not connection.closed and not connection.was_spoken_to():
                    return connection
                _close(connection)
            if self._closed:
                raise ShutDown("the connections of this queue are closed")
            opened_in = self._round
            connection = self.opener.open()
            connection.round = opened_in
            return connection
        except BaseException:
            self._room.put(None)
            raise

    def _give_back(self, connection: BoundedConnection) -> None:
        try:
            now = time.monotonic()
            connection.used_at = now
            reusable = connection.pgconn.transaction_status == TransactionStatus.IDLE
            if reusable and connection.round == self._round:
                if now - connection.opened_at < _LONGEST_LIFE:
                    self._idle.append(connection)
                    if now >= self._tidy_at or self._closed:
                        self._tidy_at = now + _LONGEST_IDLE / 10
                        self._close_idle(float("inf") if self._closed else now - _LONGEST_IDLE)
                    return
            _close(connection)
        finally:
            self._room.put(None)

    def _note(self, connection: BoundedConnection, error: BaseException) -> None:
        """End the round if the connection is dead, because the others of its round probably are, too."""
        if not (isinstance(error, psycopg.Error) and (connection.closed or connection_is_gone(error))):
            return
        with self._lock:
            if connection.round == self._round:
                self._round += 1
        connection.round = -1

    def _close_idle(self, unused_since: float = float("inf")) -> None:
        """Close the connections that were last used before a time. The oldest come first."""
        while True:
            try:
                connection = self._idle.pop(0)
            except IndexError:
                return
            if connection.used_at >= unused_since:
                self._idle.insert(0, connection)
                return
            _close(connection)


def _close(connection: BoundedConnection) -> None:
    with suppress(psycopg.Error):
        connection.close()


@contextmanager
def in_transaction_of(connection: Any) -> Iterator[Any]:
    """Yield a cursor in the caller's transaction or, on a connection in autocommit mode, in a new one.

    Raises:
        TypeError: the argument is no connection of psycopg.
        ValueError: the connection does not send UTF-8, and the server does not convert text (SQL_ASCII).
    """
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(
            f"connection must be a psycopg.Connection to this queue's database, got {type(connection).__name__}: "
            "with an AsyncConnection await the call's twin, whose name ends in _async"
        )
    sent_as = connection.info.parameter_status("client_encoding")
    if sent_as != "UTF8" and "SQL_ASCII" in (sent_as, connection.info.parameter_status("server_encoding")):
        raise ValueError(
            f"connection= sends text as {sent_as}, which the server does not convert: connect with "
            "client_encoding='utf8', or execute \"SET client_encoding TO 'UTF8'\" on it first"
        )
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if connection.autocommit:
            with connection.transaction():
                yield cursor
        else:
            yield cursor
