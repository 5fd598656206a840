"""The delayed queue in an SQLite file: durable, no server, several processes may share it.

One connection a process, used by one thread at a time; readers of other processes go on beside the one writer (WAL).

# Invariants

1. The connection is in autocommit mode: a single statement is its own transaction, several stand in
   ``BEGIN IMMEDIATE`` ... ``COMMIT``. A deferred transaction would read first, then find the file changed (BUSY).
2. A child of ``fork`` never touches its parent's connection (SQLite forbids it); it opens its own.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drainq.delayed.cron.tick_key import escape_hash, hash_in, key_range
from drainq.delayed.deadline import seconds_left
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage import sqlite_sql as sql
from drainq.delayed.storage.migrate import Migration, as_script, pending
from drainq.delayed.storage.operator import Tick
from drainq.delayed.storage.protocol import LONG_AGO, TICK_MEMORY_MS, Counts, Offer
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row
from drainq.delayed.storage.sqlite_caller import in_transaction_of
from drainq.delayed.storage.sqlite_operator import SQLiteOperator
from drainq.delayed.storage.table_names import TableNames
from drainq.fork import leave_to_parent, renew_in_child
from drainq.sql.connect import connect_sqlite
from drainq.sql.errors import passes


class SQLiteStorage(SQLiteOperator):
    """A :class:`~drainq.delayed.storage.protocol.Storage` in an SQLite file.

    Args:
        path: the file; it is created if it is not there.
        table: the table's name.
        busy_timeout: seconds to wait for another process's transaction.
    """

    def __init__(self, path: str, *, table: str, busy_timeout: float | None) -> None:
        if sqlite3.sqlite_version_info < (3, 35):
            raise RuntimeError(
                f"the delayed queue needs SQLite 3.35 or later (RETURNING), this is {sqlite3.sqlite_version}"
            )
        self._path = path
        self._busy_timeout = 30.0 if busy_timeout is None else busy_timeout
        names = TableNames(table)
        self._names = names
        self._sql = {
            name: names.fill(text) for name, text in vars(sql).items() if name[0].isupper() and isinstance(text, str)
        }
        self._lock = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._lock_timeout = self._busy_timeout  # what the connection is set to
        self._closed = False
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        leave_to_parent(self._opened)
        self._opened, self._lock = None, threading.RLock()

    def connect(self) -> None:
        with self._cursor():
            pass

    def _connect(self) -> sqlite3.Connection:
        connection = connect_sqlite(
            self._path, lock_timeout=self._busy_timeout, write_ahead=True, cached_statements=256
        )
        connection.execute("PRAGMA cache_size = -65536")  # KiB
        self._lock_timeout = self._busy_timeout
        return connection

    # --- schema

    def migrate(self) -> list[str]:
        with self._transaction() as cursor:
            missing = self._pending(cursor)
            if missing:
                cursor.execute(self._sql["CREATE_LEDGER"])
            for migration in missing:
                for statement in migration.statements:
                    cursor.execute(statement)
                cursor.execute(
                    self._sql["RECORD"],
                    {"number": migration.number, "name": migration.name, "now": int(time.time() * 1000)},
                )
            return [migration.name for migration in missing]

    def migration_sql(self) -> str:
        def record(migration: Migration) -> str:
            name = migration.name.replace("'", "''")
            return self._names.fill(
                f"INSERT INTO {{migrations}} VALUES ({migration.number}, '{name}', strftime('%s', 'now') * 1000)"
            )

        with self._cursor() as cursor:
            return as_script(self._pending(cursor), self._sql["CREATE_LEDGER"], record)

    def _pending(self, cursor: sqlite3.Cursor) -> list[Migration]:
        cursor.execute(self._sql["HAS_LEDGER"], {"table": self._names.table + "__migrations"})
        applied: set[int] = set()
        if cursor.fetchone()[0]:
            applied = {number for (number,) in cursor.execute(self._sql["APPLIED"])}
        return pending(sql.MIGRATIONS, applied, self._names.fill)

    # --- producers

    def offer(
        self,
        kind: str,
        offers: Sequence[Offer],
        now: int,
        *,
        connection: Any = None,
        announce: bool = False,
        again: bool = False,
    ) -> list[OfferOutcome]:
        if connection is not None:
            with in_transaction_of(connection) as cursor:
                return self._offer_each(cursor, kind, offers, now)
        if len(offers) == 1:  # a new key is the common case, and one statement
            with self._cursor() as cursor:
                if cursor.execute(self._sql["INSERT_NEW"], _values(kind, offers[0], now)).rowcount:
                    return [OfferOutcome.CREATED]
            if not offers[0].can_update:
                return [OfferOutcome.IGNORED]
        else:
            try:
                return self._offer_new(kind, offers, now)
            except sqlite3.IntegrityError:
                pass  # a key is there, or twice in the batch; nothing was done. Any other violation comes back below
        with self._transaction() as cursor:
            return self._offer_each(cursor, kind, offers, now)

    def _offer_new(self, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        """Insert all of them; if one is not new, insert none and raise IntegrityError."""
        with self._transaction() as cursor:
            cursor.executemany(
                self._sql["INSERT"], ((key, kind, payload, at, now, rank) for key, payload, at, _, rank in offers)
            )
        return [OfferOutcome.CREATED] * len(offers)

    def _offer_each(self, cursor: sqlite3.Cursor, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        outcomes = []
        for offer in offers:
            values = _values(kind, offer, now)
            if cursor.execute(self._sql["INSERT_NEW"], values).rowcount:
                outcomes.append(OfferOutcome.CREATED)
            elif offer.can_update and cursor.execute(self._sql["UPDATE"], values).rowcount:
                outcomes.append(OfferOutcome.UPDATED)
            else:
                outcomes.append(OfferOutcome.IGNORED)
        return outcomes

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        with self._cursor() as cursor:
            return self._acquire(cursor, kind, limit, now, until, lock)

    def _acquire(self, cursor: sqlite3.Cursor, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        cursor.execute(self._sql["ACQUIRE"], {"kind": kind, "limit": limit, "now": now, "until": until, "lock": lock})
        return sorted(map(_row, cursor.fetchall()), key=lambda row: (row.priority, row.scheduled_at, row.id))

    def ack_and_acquire(self, kind: str, done: Held, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._transaction() as cursor:
            acked = cursor.execute(self._sql["ACK"], _held(done)).rowcount
            return Fetched(acked, self._acquire(cursor, kind, limit, now, until, lock))

    def ack(self, kind: str, done: Held) -> int:
        return self._change("ACK", _held(done))

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        return self._change("NACK", {**_held(held), "due": due_at, "error": error})

    def release(self, kind: str, held: Held) -> int:
        return self._change("RELEASE", _held(held))

    def extend(self, kind: str, held: Held, until: int) -> int:
        return self._change("EXTEND", {**_held(held), "until": until})

    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["BURY"], {**_held(held), "now": now, "error": error})
            return cursor.execute(self._sql["ACK"], _held(held)).rowcount

    def next_due(self, kind: str, after: int) -> int | None:
        due: int | None = self._one("NEXT_DUE", {"kind": kind, "after": after})[0]
        return due

    # --- looking and removing

    def read(self, kind: str, key: str) -> Row | None:
        found = self._one("READ", {"kind": kind, "key": key})
        return _row(found) if found else None

    def contains(self, kind: str, key: str) -> bool:
        return bool(self._one("CONTAINS", {"kind": kind, "key": key})[0])

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        what = {"id": row.id, "created": row.created_at, "at": row.scheduled_at, "payload": row.payload}
        return self._change("DELETE_UNCHANGED", {**what, "kind": kind, "key": row.key}) > 0

    def drop(self, kind: str, key: str) -> bool:
        return self._change("DROP", {"kind": kind, "key": key}) > 0

    def drop_all(self, kind: str) -> int:
        return self._change("DROP_ALL", {"kind": kind})

    def peek(self, kind: str, limit: int) -> list[Row]:
        return [_row(found) for found in self._all("PEEK", {"kind": kind, "limit": limit})]

    def counts(self, kind: str, now: int) -> Counts:
        return Counts(*self._one("COUNTS", {"kind": kind, "now": now}))

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        return [DeadLetter(*found) for found in self._all("DEAD", {"kind": kind, "limit": limit})]

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._sql["REDRIVABLE"], {"kind": kind, "keys": _json(keys)})
            ids = _json([number for (number,) in cursor.fetchall()])
            cursor.execute(self._sql["REDRIVE"], {"ids": ids, "now": now})
            return cursor.execute(self._sql["DELETE_DEAD"], {"ids": ids}).rowcount

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        return self._change("DROP_DEAD", {"kind": kind, "keys": _json(keys)})

    # --- schedules

    def install_ticks(
        self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int, update: bool = False
    ) -> int:
        schedule = {"kind": kind, "prefix": prefix, "hash": config_hash}
        ours = f"{prefix}/{escape_hash(config_hash)}"
        created = 0
        with self._transaction() as cursor:
            self._forget(cursor, kind, prefix, key_range(prefix), but=key_range(ours), after=now)
            for tick in ticks:
                value = (tick.key, kind, tick.payload, tick.scheduled_at, now, 0)
                entry = {**schedule, "key": tick.key, "nominal": tick.nominal_at, "now": now}
                if cursor.execute(self._sql["RECORD_TICK"], entry).rowcount:
                    made = cursor.execute(self._sql["INSERT_NEW"], value).rowcount
                    created += made
                    if made:
                        continue
                if update:
                    cursor.execute(self._sql["UPDATE_TICK"], value)
            until = now - TICK_MEMORY_MS
            cursor.execute(self._sql["MARK_FLOOR"], {**schedule, "until": until})
            cursor.execute(self._sql["DELETE_BELOW_FLOOR"], {**schedule, "until": until})
        return created

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        ours = f"{prefix}/{escape_hash(config_hash)}"
        with self._transaction() as cursor:
            return self._forget(cursor, kind, prefix, key_range(ours), but=("", ""), after=LONG_AGO)

    def _forget(
        self,
        cursor: sqlite3.Cursor,
        kind: str,
        prefix: str,
        within: tuple[str, str],
        *,
        but: tuple[str, str],
        after: int,
    ) -> int:
        """Delete the ticks of ``prefix`` that were never delivered, from the ledger too.

        Args:
            within: the range of keys to look at; ``but``: the part of it to leave alone.
            after: leave what is due at this time or before.
        """
        values = {
            "kind": kind,
            "low": within[0],
            "high": within[1],
            "but_low": but[0],
            "but_high": but[1],
            "after": after,
        }
        cursor.execute(self._sql["UNDELIVERED_TICKS"], values)
        doomed = [(number, key) for number, key in cursor.fetchall() if hash_in(key, prefix) is not None]
        if doomed:
            cursor.execute(self._sql["DELETE_TICKS"], {"ids": _json([number for number, _ in doomed])})
            cursor.execute(self._sql["FORGET_TICKS"], {"kind": kind, "keys": _json([key for _, key in doomed])})
        return len(doomed)

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "until": until}
        latest: int | None = self._one("LAST_TICK", values)[0]
        return latest

    # --- the connection

    def listen(self, kind: str, wake: Callable[[], None]) -> None:
        """Offers of this process wake by themselves; of others the poll period tells."""

    def is_transient(self, error: BaseException) -> bool:
        return passes(error)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()

    @contextmanager
    def _cursor(self) -> Iterator[sqlite3.Cursor]:
        if not self._lock.acquire(timeout=seconds_left(threading.TIMEOUT_MAX)):
            raise sqlite3.OperationalError("database is locked by another thread of this process")
        try:
            if self._opened is None:
                if self._closed:
                    raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
                self._opened = self._connect()
            self._wait_for_locks_until_the_deadline(self._opened)
            cursor = self._opened.cursor()
            try:
                yield cursor
            finally:
                cursor.close()
        finally:
            self._lock.release()

    def _wait_for_locks_until_the_deadline(self, connection: sqlite3.Connection) -> None:
        """Let SQLite wait for a foreign lock no longer than the current try may last."""
        left = seconds_left(self._busy_timeout)
        if left > self._busy_timeout - 0.05:
            left = self._busy_timeout  # the common case: the try has just begun
        if left != self._lock_timeout:
            connection.execute(f"PRAGMA busy_timeout = {max(1, round(left * 1000))}")
            self._lock_timeout = left

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        with self._cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if cursor.connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    def _change(self, name: str, values: dict[str, Any]) -> int:
        with self._cursor() as cursor:
            return cursor.execute(self._sql[name], values).rowcount

    def _one(self, name: str, values: dict[str, Any]) -> Any:
        with self._cursor() as cursor:
            return cursor.execute(self._sql[name], values).fetchone()

    def _all(self, name: str, values: dict[str, Any]) -> list[Any]:
        with self._cursor() as cursor:
            return cursor.execute(self._sql[name], values).fetchall()


def _values(kind: str, offer: Offer, now: int) -> tuple[str, str, bytes, int, int, int]:
    """A message as INSERT, INSERT_NEW, UPDATE and UPDATE_TICK number its parts."""
    return offer.key, kind, offer.payload, offer.scheduled_at, now, offer.priority


def _row(found: tuple[Any, ...]) -> Row:
    row = Row._make(found)
    return row._replace(locked=bool(row.locked))


def _held(held: Held) -> dict[str, Any]:
    return {"lock": held.lock, "ids": json.dumps(held.ids)}


def _json(values: Sequence[Any] | None) -> str | None:
    return None if values is None else json.dumps(values)
