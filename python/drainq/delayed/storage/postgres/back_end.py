"""Opens a storage on a PostgreSQL server."""

from __future__ import annotations

from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.options import StorageOptions
from drainq.sql.connect import postgres_driver
from drainq.sql.url import DatabaseUrl


def open_at(url: DatabaseUrl, options: StorageOptions) -> Storage:
    """Return the storage on a server."""
    postgres_driver()  # refuses with the name of the extra; the storage imports the driver by its name
    from drainq.delayed.storage.postgres.storage import PostgresStorage

    return PostgresStorage(
        url,
        table=options.table,
        poll_period=options.poll_period,
        try_timeout=options.try_timeout,
        max_connections=options.max_connections,
        prepare=options.prepare,
    )
