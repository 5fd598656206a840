"""The delayed queue in an SQLite file: durable, no server, several processes may share it.

The whole storage: what it consists of is said in :mod:`drainq.delayed.storage.statements`, and how its connection is
used in :mod:`drainq.delayed.storage.sqlite_statements`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence

from drainq.delayed.storage.records import Fetched, Held, Row
from drainq.delayed.storage.sqlite_migrate import SQLiteMigration
from drainq.delayed.storage.sqlite_offer import SQLiteOffers
from drainq.delayed.storage.sqlite_ticks import SQLiteTicks
from drainq.sql.errors import passes


class SQLiteStorage(SQLiteOffers, SQLiteTicks, SQLiteMigration):
    """A :class:`~drainq.delayed.storage.protocol.Storage` in an SQLite file.

    Args:
        path: the file; it is created if it is not there.
        table: the table's name.
        busy_timeout: seconds to wait for another process's transaction.
    """

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        with self._cursor() as cursor:
            return self._acquire(cursor, kind, limit, now, until, lock)

    def _acquire(self, cursor: sqlite3.Cursor, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        cursor.execute(self._sql["ACQUIRE"], {"kind": kind, "limit": limit, "now": now, "until": until, "lock": lock})
        return self._in_order(cursor.fetchall())

    def ack_and_acquire(self, kind: str, done: Held, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._transaction() as cursor:
            acked = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            return Fetched(acked, self._acquire(cursor, kind, limit, now, until, lock))

    def acquire_within(self, kind: str, done: Held, most: int, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._transaction() as cursor:
            acked = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            taken = cursor.execute(self._sql["IN_FLIGHT"], {"kind": kind, "now": now}).fetchone()[0]
            room = min(limit, most - taken)
            return Fetched(acked, self._acquire(cursor, kind, room, now, until, lock) if room > 0 else [])

    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["REMEMBER"], {**self._held(done), "now": now})
            cursor.execute(self._sql["TRIM_HISTORY"], {"kind": kind, "keep": keep})
            return cursor.execute(self._sql["ACK"], self._held(done)).rowcount

    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["BURY"], {**self._held(held), "now": now, "error": error})
            return cursor.execute(self._sql["ACK"], self._held(held)).rowcount

    # --- dead letters

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["REDRIVABLE"], {"kind": kind, "keys": None if keys is None else self._keys(keys)})
            ids = self._ids([number for (number,) in cursor.fetchall()])
            cursor.execute(self._sql["REDRIVE"], {"ids": ids, "now": now})
            return cursor.execute(self._sql["DELETE_DEAD"], {"ids": ids}).rowcount

    # --- the queue

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool) -> bool:
        with self._transaction() as cursor:
            before = bool(cursor.execute(self._sql["PAUSED"], {"kind": kind}).fetchone()[0])
            values = {"kind": kind, "name": name, "type": type_name, "paused": paused}
            cursor.execute(self._sql["SET_PAUSED"], values)
            return before != paused

    def database_time(self) -> float:
        return time.time()

    def listen(self, kind: str, wake: Callable[[], None]) -> None:
        """Offers of this process wake by themselves; of others the poll period tells."""

    def is_transient(self, error: BaseException) -> bool:
        return passes(error)
