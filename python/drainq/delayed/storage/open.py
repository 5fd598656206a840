"""From a URL to the storage that it names: ``memory:`` for this process alone, else a database's URL.

The drivers are imported here, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.storage.memory import MemoryStorage
from drainq.delayed.storage.protocol import Storage
from drainq.delayed.storage.table_names import TableNames
from drainq.sql.connect import postgres_driver
from drainq.sql.url import DatabaseUrl, Dialect


def open_storage(url: str, *, table: str, time: TimeConfig, retry: RetryConfig) -> tuple[Storage, Hashable]:
    """Return the storage that ``url`` names, and an address that two names of the same one have in common.

    Raises:
        ValueError: the URL names no back end.
        ImportError: the back end's driver is not installed.
    """
    TableNames(table)  # a bad name is the same error on every back end
    if url == "memory:":
        memory = MemoryStorage()
        return memory, id(memory)
    where = DatabaseUrl.parse(url)
    if where.dialect is Dialect.SQLITE:
        from drainq.delayed.storage.sqlite import SQLiteStorage

        file = SQLiteStorage(where.target, table=table, busy_timeout=retry.try_timeout)
        return file, ("sqlite", str(Path(where.target).resolve()), table)
    _check_driver()
    from drainq.delayed.storage.postgres import PostgresStorage

    server = PostgresStorage(where, table=table, poll_period=time.poll_period, try_timeout=retry.try_timeout)
    return server, ("postgresql", where.target, table)


def _check_driver() -> None:
    """Refuse with the name of the extra if psycopg or its pool is missing."""
    postgres_driver()
    try:
        import psycopg_pool  # noqa: F401
    except ImportError as missing:
        raise ImportError(f"PostgreSQL needs a driver: pip install 'drainq[postgres]' ({missing})") from missing
