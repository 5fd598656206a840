"""Opens the storage of a URL: ``memory:`` for this process alone, or a database's URL.

It imports a driver when a URL needs it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.connection_pool import ConnectionPool
from drainq.delayed.database_retry import RareWarning, with_retries
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.table_names import TableNames
from drainq.sql.connect import postgres_driver
from drainq.sql.url import DatabaseUrl, shown


def open_storage(
    url: str | ConnectionPool,
    *,
    table: str,
    time: TimeConfig,
    retry: RetryConfig,
    max_connections: int = 10,
    prepare: bool | None = None,
    as_it_is: bool = False,
) -> tuple[Storage, Hashable]:
    """Return the storage of ``url``, and an address that is equal for all URLs of it; None for memory.

    This does not connect: see :func:`reach`. ``as_it_is``: connecting changes nothing in the database.

    Raises:
        ValueError: the URL names no back end, or an option belongs to the pool.
        ShutDown: the pool is closed.
        ImportError: the back end's driver is not installed.
    """
    TableNames(table)  # a bad name is the same error on every back end
    shared = None
    if isinstance(url, ConnectionPool):
        if max_connections != 10 or prepare is not None:
            raise ValueError("max_connections and prepare belong to the pool: pass them to ConnectionPool")
        shared, url = url.shared(), url.url
    if url == "memory:":
        from drainq.delayed.storage.sqlite.storage import MemoryStorage  # SQLite is imported when it is asked for

        return MemoryStorage(), None
    if isinstance(url, str) and url.partition(":")[0] == "memory":
        raise ValueError(f"url must be 'memory:' for a queue in memory, which has no address, got {shown(url)!r}")
    where = DatabaseUrl.parse(url)
    address = (where.dialect.name, where.dialect.address(where.target), table)
    if where.dialect.name == "postgresql":
        postgres_driver()  # refuses with the name of the extra; the storage imports the driver by its name
        from drainq.delayed.storage.postgres.connections import PostgresConnections
        from drainq.delayed.storage.postgres.storage import PostgresStorage

        connections = shared or PostgresConnections(
            where, try_timeout=retry.try_timeout, max_connections=max_connections, prepare=prepare
        )
        period, is_shared = time.poll_period, shared is not None
        return PostgresStorage(connections, table=table, poll_period=period, shared=is_shared), address
    if where.dialect.name != "sqlite":
        raise ValueError(f"no storage of a delayed queue is known for {where.dialect.name}")
    from drainq.delayed.storage.sqlite.storage import SQLiteStorage

    return SQLiteStorage(where.target, table=table, busy_timeout=retry.try_timeout, write_ahead=not as_it_is), address


def open_empty(*, table: str) -> Storage:
    """Return an empty storage without tables, in place of a missing SQLite file."""
    from drainq.delayed.storage.sqlite.storage import SQLiteStorage

    return SQLiteStorage(":memory:", table=table, busy_timeout=None, write_ahead=False)


def reach(storage: Storage, retry: RetryConfig, *, migrate: bool, of: str = "the queue") -> list[str]:
    """Connect, and bring the tables up to date if ``migrate``. Try again while the database starts or is locked.

    Returns:
        The names of the migrations that were applied.

    Raises:
        QueueUnavailable: the database kept failing for the time of ``retry``.
        QueueBroken: the database refuses for a reason that waiting does not change.
    """
    with_retries(storage.connect, retry, storage.is_transient, of=of)
    if not migrate:
        return []
    # A try waits for a lock for a second at most, to let others pass. So the number of tries has no limit.
    patient = retry if retry.max_retries == 0 or retry.total_timeout is None else replace(retry, max_retries=None)
    return with_retries(storage.migrate, patient, storage.is_transient, warn=RareWarning(), of=of)
