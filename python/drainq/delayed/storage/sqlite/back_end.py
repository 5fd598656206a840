"""Opens a storage in an SQLite file."""

from __future__ import annotations

from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.options import StorageOptions
from drainq.delayed.storage.sqlite.storage import SQLiteStorage
from drainq.sql.url import DatabaseUrl


def open_at(url: DatabaseUrl, options: StorageOptions) -> Storage:
    """Return the storage in a file."""
    return SQLiteStorage(
        url.target, table=options.table, busy_timeout=options.try_timeout, write_ahead=not options.as_it_is
    )
