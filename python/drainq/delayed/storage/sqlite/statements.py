"""SQLite: the connection of a delayed queue, and the methods that run its statements.

Each open queue has one connection, which one thread at a time uses. Other processes can read during a write (WAL).

# Invariants

1. The connection is in autocommit mode: a single statement is its own transaction, and several are inside ``BEGIN
   IMMEDIATE`` and ``COMMIT``. A deferred transaction would read first, then find the file changed (BUSY).
2. A forked child opens its own connection, because SQLite forbids it to use its parent's.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from drainq.delayed.deadline import seconds_left
from drainq.delayed.storage import operator_sql
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.records import Row
from drainq.delayed.storage.sqlite import messages_sql, schema_sql, ticks_sql
from drainq.delayed.storage.table_names import TableNames, statements_of
from drainq.fork import leave_to_parent, renew_in_child
from drainq.sql.connect import connect_sqlite


@contextmanager
def in_transaction_of(connection: Any) -> Iterator[sqlite3.Cursor]:
    """Yield a cursor in the caller's transaction, which is begun if necessary. The caller ends the transaction."""
    if not isinstance(connection, sqlite3.Connection):
        raise TypeError(
            f"connection must be a sqlite3.Connection to this queue's file, got {type(connection).__name__}"
        )
    cursor = connection.cursor()
    try:
        if not connection.in_transaction and connection.isolation_level is not None:
            cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("SAVEPOINT offer")
        try:
            yield cursor
        except BaseException:
            if connection.in_transaction:
                cursor.execute("ROLLBACK TO offer")
            raise
        finally:
            if connection.in_transaction:
                cursor.execute("RELEASE offer")
    finally:
        cursor.close()


class SQLiteStatements(Storage):
    """The connection to one file. ``SQLiteStorage`` in ``storage.py`` explains the arguments."""

    def __init__(self, path: str, *, table: str, busy_timeout: float | None, write_ahead: bool = True) -> None:
        if sqlite3.sqlite_version_info < (3, 35):
            raise RuntimeError(
                f"the delayed queue needs SQLite 3.35 or later (RETURNING), this is {sqlite3.sqlite_version}"
            )
        self._path = path
        self._write_ahead = write_ahead
        self._busy_timeout = 30.0 if busy_timeout is None else busy_timeout
        names = TableNames(table)
        self._names = names
        self._sql = statements_of((operator_sql, messages_sql, ticks_sql, schema_sql), names.fill)
        self._by_priority: set[str] = set()  # kinds known to be delivered by priority, which is for ever
        self._lock = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._lock_timeout = self._busy_timeout  # the lock timeout that the connection has now
        self._closed = False
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        leave_to_parent(self._opened)
        self._opened, self._lock = None, threading.RLock()

    def connect(self) -> None:
        with self._cursor():
            pass

    def _connect(self) -> sqlite3.Connection:
        connection = connect_sqlite(
            self._path, lock_timeout=self._busy_timeout, write_ahead=self._write_ahead, cached_statements=256
        )
        connection.execute("PRAGMA cache_size = -65536")  # KiB
        self._lock_timeout = self._busy_timeout
        return connection

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()

    @contextmanager
    def _cursor(self) -> Iterator[sqlite3.Cursor]:
        if not self._lock.acquire(timeout=seconds_left(threading.TIMEOUT_MAX)):
            raise sqlite3.OperationalError("database is locked by another thread of this process")
        try:
            if self._opened is None:
                if self._closed:
                    raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
                self._opened = self._connect()
            self._wait_for_locks_until_the_deadline(self._opened)
            cursor = self._opened.cursor()
            try:
                yield cursor
            finally:
                cursor.close()
        finally:
            self._lock.release()

    def _wait_for_locks_until_the_deadline(self, connection: sqlite3.Connection) -> None:
        """Limit SQLite's wait for a lock to the rest of the current try."""
        left = seconds_left(self._busy_timeout)
        if left > self._busy_timeout - 0.05:
            left = self._busy_timeout  # the common case: the try has just begun
        if left != self._lock_timeout:
            connection.execute(f"PRAGMA busy_timeout = {max(1, round(left * 1000))}")
            self._lock_timeout = left

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        with self._cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if cursor.connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    def _ask(self, name: str, values: dict[str, Any]) -> list[Any]:
        with self._cursor() as cursor:
            return cursor.execute(self._sql[name], values).fetchall()

    def _do(self, name: str, values: dict[str, Any]) -> int:
        with self._cursor() as cursor:
            return cursor.execute(self._sql[name], values).rowcount

    def _in_transaction_of(self, connection: Any) -> AbstractContextManager[sqlite3.Cursor]:
        return in_transaction_of(connection)

    def _ids(self, ids: Sequence[int]) -> str:
        return json.dumps(ids)

    def _keys(self, keys: Sequence[str]) -> str:
        return json.dumps(keys)

    def _row(self, found: Sequence[Any]) -> Row:
        row = Row._make(found)
        return row._replace(locked=bool(row.locked))
