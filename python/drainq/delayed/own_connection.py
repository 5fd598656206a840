"""The connection that a caller passes as ``connection=``: the driver's, or SQLAlchemy's.

# Invariant

While a thread of the queue uses an async connection, no other task uses it: the caller's task holds the connection's
lock until that thread is done, even if the task is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


def driver_connection(connection: Any) -> Any:
    """Return the driver's connection of a SQLAlchemy Session or Connection, whose transaction is begun if necessary.

    Any other object is returned as it is. SQLAlchemy is not imported: its objects are known by their methods.
    """
    if connection is None:
        return None
    if callable(getattr(connection, "connection", None)):  # a Session
        connection = connection.connection()
    elif callable(getattr(connection, "in_transaction", None)) and not connection.in_transaction():
        connection.begin()  # else its commit would do nothing
    return getattr(getattr(connection, "connection", None), "driver_connection", connection)


@asynccontextmanager
async def lent(connection: Any) -> AsyncIterator[Any]:
    """Lend a connection to a call on another thread until the end of the block.

    An async connection of psycopg, or of SQLAlchemy with psycopg, is lent as a synchronous one that shares its session.
    Any other object is lent as it is.
    """
    if hasattr(connection, "sync_session"):  # an AsyncSession
        connection = await connection.connection()
    if hasattr(connection, "get_raw_connection"):  # SQLAlchemy's AsyncConnection
        if not connection.in_transaction():
            await connection.begin()
        connection = (await connection.get_raw_connection()).driver_connection
    lock = getattr(connection, "lock", None)
    if not isinstance(lock, asyncio.Lock):
        yield connection
        return
    async with lock:
        yield _synchronous(connection)


def _synchronous(connection: Any) -> Any:
    """Return a synchronous connection of psycopg with the session of an asynchronous one."""
    import psycopg

    class Lent(psycopg.Connection[Any]):
        def __del__(self, *_: object) -> None:
            """Do not warn that it is open: its session is the caller's."""

    session = connection.pgconn
    notices = session.notice_handler, session.notify_handler  # the next line would replace them
    synchronous = Lent(session)
    session.notice_handler, session.notify_handler = notices
    if connection.autocommit and session.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        synchronous.autocommit = True
    return synchronous
