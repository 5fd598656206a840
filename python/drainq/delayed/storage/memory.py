"""MemoryStorage: an SQLite database without a file, in the memory of this process.

It is for tests, and for messages that may be lost with the process. A forked child starts with an empty one.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NoReturn

from drainq.delayed.storage.sqlite.storage import SQLiteStorage


class MemoryStorage(SQLiteStorage):
    """Stores messages in this process until it is closed."""

    is_shared = False

    def __init__(self) -> None:
        super().__init__(":memory:", table="delayed_queue", busy_timeout=None, write_ahead=False)

    def _connect(self) -> sqlite3.Connection:
        self._opened = super()._connect()
        self.migrate()
        return self._opened

    def _in_transaction_of(self, connection: Any) -> NoReturn:
        raise ValueError("a queue in memory has no connection to share; leave out connection=")
