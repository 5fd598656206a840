"""How a storage on a PostgreSQL server is opened."""

from __future__ import annotations

from drainq.delayed.storage.options import StorageOptions
from drainq.delayed.storage.protocol import Storage
from drainq.sql.connect import postgres_driver
from drainq.sql.url import DatabaseUrl


def open_at(url: DatabaseUrl, options: StorageOptions) -> Storage:
    """The storage on a server."""
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


def open_empty(options: StorageOptions) -> Storage:
    """Never needed: a server says by itself that a database is not there."""
    raise NotImplementedError("a server's database is not opened in place of one that is not there")
