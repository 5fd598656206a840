"""Works in a transaction of the caller's own SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def in_transaction_of(connection: Any) -> Iterator[sqlite3.Cursor]:
    """Yield a cursor in the caller's transaction. It is begun if necessary, and the caller ends it."""
    if not isinstance(connection, sqlite3.Connection):
        raise TypeError(
            f"connection must be a sqlite3.Connection to this queue's file, got {type(connection).__name__}"
        )
    cursor = connection.cursor()
    cursor.row_factory = None  # the caller's may return anything
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
