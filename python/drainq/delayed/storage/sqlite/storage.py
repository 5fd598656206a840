"""SQLiteStorage: the delayed queue in an SQLite file, which is durable, needs no server, and can be shared by
processes.

:mod:`drainq.delayed.storage.base` describes the parts of a storage, and :mod:`drainq.delayed.storage.sqlite.statements`
the use of its connection.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn

from drainq.delayed.message import MIN_PRIORITY
from drainq.delayed.storage.in_flight_limits import Room
from drainq.delayed.storage.records import Fetched, Held, Row
from drainq.delayed.storage.sqlite.migrate import SQLiteMigration
from drainq.delayed.storage.sqlite.offer import SQLiteOffers
from drainq.delayed.storage.sqlite.ticks import SQLiteTicks


class SQLiteStorage(SQLiteOffers, SQLiteTicks, SQLiteMigration):
    """A :class:`~drainq.delayed.storage.base.Storage` in an SQLite file.

    Args:
        path: the file, which is created if it is missing.
        table: the table's name.
        busy_timeout: seconds to wait for another process's transaction.
        write_ahead: whether to give the file a write-ahead log, which it keeps.
    """

    worth_prefetching = False
    is_shared = True

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str, *, done: Held | None = None) -> Fetched:
        take = {"kind": kind, "limit": limit, "now": now, "until": until, "lock": lock, "holder": self.holder}
        if done is None and kind not in self._by_priority:  # the common case, and one statement
            with self._cursor() as cursor:
                found = cursor.execute(self._sql["ACQUIRE"], take).fetchall()
                if found:
                    return Fetched(0, self._in_order(found))
                if not self._is_by_priority(cursor, kind):
                    return Fetched(0, [], self._next_due(cursor, kind, now))
        with self._transaction() as cursor:
            acked = 0 if done is None else cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            rows = self._acquire(cursor, take)
            return Fetched(acked, rows, None if rows else self._next_due(cursor, kind, now))

    def _next_due(self, cursor: sqlite3.Cursor, kind: str, after: int) -> int | None:
        due: int | None = cursor.execute(self._sql["NEXT_DUE"], {"kind": kind, "after": after}).fetchone()[0]
        return due

    def _acquire(self, cursor: sqlite3.Cursor, take: dict[str, Any]) -> list[Row]:
        """Take messages, in a transaction."""
        if take["kind"] not in self._by_priority:
            found = cursor.execute(self._sql["ACQUIRE"], take).fetchall()
            if found:
                return self._in_order(found)
        if not self._is_by_priority(cursor, take["kind"]):
            return []
        return self._acquire_these(cursor, take, self._due_by_priority(cursor, take["kind"], take["now"]))

    def _acquire_these(self, cursor: sqlite3.Cursor, take: dict[str, Any], ids: Iterator[tuple[int, str]]) -> list[Row]:
        values = {**take, "ids": self._ids([number for number, _ in islice(ids, take["limit"])])}
        return self._in_order(cursor.execute(self._sql["ACQUIRE_THESE"], values).fetchall())

    def _is_by_priority(self, cursor: sqlite3.Cursor, kind: str) -> bool:
        """Return whether more messages may be taken by priority, which is False while the queue is paused."""
        paused, ranked = cursor.execute(self._sql["STATE"], {"kind": kind}).fetchone() or (False, False)
        if ranked:
            self._by_priority.add(kind)
        return bool(ranked and not paused)

    def _due_by_priority(self, cursor: sqlite3.Cursor, kind: str, now: int) -> Iterator[tuple[int, str]]:
        """Return the ids and keys of due messages in a queue with priorities, one priority after the other."""
        values = {"kind": kind, "now": now, "after": MIN_PRIORITY - 1}
        while found := cursor.execute(self._sql["NEXT_PRIORITY"], values).fetchone():
            values |= {"priority": found[0], "after": found[0]}
            yield from cursor.connection.execute(self._sql["DUE_OF_PRIORITY"], values)

    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        with self._transaction() as cursor:
            acked = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            flying = cursor.execute(self._sql["IN_FLIGHT"], {"kind": kind, "now": now})
            room = Room(limits, [key for (key,) in flying])
            paused, ranked = cursor.execute(self._sql["STATE"], {"kind": kind}).fetchone() or (False, False)
            if paused or "" in room.full():
                return Fetched(acked, [])
            if ranked:
                due = self._due_by_priority(cursor, kind, now)
            else:
                due = cursor.connection.execute(self._sql["DUE"], {"kind": kind, "now": now})
            take = {"kind": kind, "limit": limit, "now": now, "until": until, "lock": lock, "holder": self.holder}
            rows = self._acquire_these(cursor, take, (message for message in due if room.take(message[1])))
            return Fetched(acked, rows)

    def _end_only(self, name: str, values: dict[str, Any]) -> int:
        if name != "BURY":
            return self._do(name, values)
        with self._transaction() as cursor:
            return self._end_within(cursor, name, values)

    def _end_and_remember(self, name: str, values: dict[str, Any], kind: str, keep: int) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["REMEMBER"], values)
            cursor.execute(self._sql["TRIM_HISTORY"], {"kind": kind, "keep": keep})
            return self._end_within(cursor, name, values)

    def _end_within(self, cursor: sqlite3.Cursor, name: str, values: dict[str, Any]) -> int:
        if name == "BURY":
            cursor.execute(self._sql["BURY"], values)
            name = "ACK"
        return cursor.execute(self._sql[name], values).rowcount

    # --- dead letters

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["REDRIVABLE"], {"kind": kind, "keys": None if keys is None else self._keys(keys)})
            ids = self._ids([number for (number,) in cursor.fetchall()])
            cursor.execute(self._sql["REDRIVE"], {"ids": ids, "now": now})
            return cursor.execute(self._sql["DELETE_DEAD"], {"ids": ids}).rowcount

    # --- the queue

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool, by: str | None = None) -> bool:
        with self._transaction() as cursor:
            before = bool(cursor.execute(self._sql["PAUSED"], {"kind": kind}).fetchone()[0])
            values = {"kind": kind, "name": name, "type": type_name, "paused": paused, "by": by}
            cursor.execute(self._sql["SET_PAUSED"], values)
            return before != paused

    def database_time(self) -> float:
        return time.time()

    def listen(self, kind: str, wake: Callable[[str], None]) -> None:
        """Return None: this process's offers wake its consumers, and the poll period covers other processes."""


class MemoryStorage(SQLiteStorage):
    """Stores messages in this process until the storage is closed, in an SQLite database without a file.

    It is for tests, and for messages that may be lost with the process. A forked child starts with an empty database.
    """

    is_shared = False

    def __init__(self) -> None:
        super().__init__(":memory:", table="delayed_queue", busy_timeout=None, write_ahead=False)

    def _connect(self) -> sqlite3.Connection:
        self._opened = super()._connect()
        self.migrate()
        return self._opened

    def _in_transaction_of(self, connection: Any) -> NoReturn:
        raise ValueError("a queue in memory has no connection to share; leave out connection=")
