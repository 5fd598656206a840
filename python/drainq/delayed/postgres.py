"""The delayed queue in PostgreSQL: many processes on many machines, with the database that is there already.

Consumers take different rows because ``FOR UPDATE SKIP LOCKED`` steps over what another one is taking. Nothing is
locked while a handler works: a lease is a time in the row, not a transaction.

# Invariants

1. Pool connections are in autocommit mode at READ COMMITTED; several statements stand in one transaction block.
2. A child of ``fork`` never touches its parent's pool; it opens its own.
3. Every method may be called again after a lost connection: what was already done counts as done (an offer is then
   ignored, an acknowledgement finds nothing).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.migrate import Migration, as_script, pending
from drainq.delayed.sql import postgres as sql
from drainq.delayed.sql.names import Names, quote
from drainq.delayed.storage import LONG_AGO, TICK_MEMORY_MS, Counts, DeadLetter, Fetched, Held, Offer, Row, Tick
from drainq.delayed.tick_key import escape_hash, hash_in, key_range
from drainq.delayed.watermark import Watermark

try:
    import psycopg
    import psycopg_pool
except ImportError as missing:
    raise ImportError(
        f"a delayed queue in PostgreSQL needs psycopg: pip install 'drainq[postgres]' ({missing})"
    ) from missing

from drainq.delayed.listen import Listener  # noqa: E402 - after the message about what is missing

_CHUNK = 1000
_RECONNECT_TIMEOUT = 2.0
"""Seconds that the pool goes on by itself with one attempt to connect, at growing intervals. Short: after a long outage
the next call begins a new attempt at once, instead of waiting for the old one's next turn."""
_DEADLOCK, _SERIALIZATION, _LOCK_NOT_AVAILABLE, _CANCELED = "40P01", "40001", "55P03", "57014"
_ADMIN_SHUTDOWN, _CRASH_SHUTDOWN, _CANNOT_CONNECT_NOW, _TOO_MANY = "57P01", "57P02", "57P03", "53300"
_TRANSIENT = {_DEADLOCK, _SERIALIZATION, _LOCK_NOT_AVAILABLE, _CANCELED}
_TRANSIENT |= {_ADMIN_SHUTDOWN, _CRASH_SHUTDOWN, _CANNOT_CONNECT_NOW, _TOO_MANY}


class PostgresStorage:
    """A :class:`~drainq.delayed.storage.Storage` in a PostgreSQL database.

    Args:
        url: ``postgresql://user@host/db`` or anything else that libpq takes.
        table: the table's name, in the first schema of the search path.
        poll_period: seconds; see :mod:`drainq.delayed.watermark`.
        try_timeout: seconds that one statement, or waiting for a connection, may take; None for no limit.
        max_connections: the size of the pool.
    """

    def __init__(
        self,
        url: str,
        *,
        table: str,
        poll_period: float = 3.0,
        try_timeout: float | None = 10.0,
        max_connections: int = 10,
    ) -> None:
        self.url = url
        self._names = Names(table)
        self._poll_period = poll_period
        self._try_timeout = try_timeout
        self._max_connections = max_connections
        texts = {name: text for name, text in vars(sql).items() if name[0].isupper() and isinstance(text, str)}
        self._sql = {name: self._fill(text) for name, text in texts.items()}
        self._acquire_sql = lru_cache(64)(lambda limit: self._names.fill(sql.ACQUIRE, percent="%%", limit=limit))
        self._fused_sql = lru_cache(64)(lambda limit: self._names.fill(sql.ACK_AND_ACQUIRE, percent="%%", limit=limit))
        self._marks: dict[str, Watermark] = {}
        self._lock = threading.Lock()
        self._pool: psycopg_pool.ConnectionPool | None = None
        self._pid = os.getpid()
        with psycopg.connect(url, autocommit=True):
            pass  # a wrong address or password is an error now, not a pool that keeps trying

    def _fill(self, text: str) -> str:
        return self._names.fill(text, percent="%%")

    # --- schema

    def migrate(self) -> list[str]:
        with self._patient() as cursor:
            self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq migrate {self._names.table}"})
            missing = self._pending(cursor)
            if missing:
                cursor.execute(self._sql["CREATE_LEDGER"], {})
            for migration in missing:
                for statement in migration.statements:
                    cursor.execute(statement, {})
                entry = {"number": migration.number, "name": migration.name, "now": int(time.time() * 1000)}
                cursor.execute(self._sql["RECORD"], entry)
            return [migration.name for migration in missing]

    def migration_sql(self) -> str:
        def record(migration: Migration) -> str:
            name = migration.name.replace("'", "''")
            now = "(extract(epoch FROM now()) * 1000)::bigint"
            return self._names.fill(f"INSERT INTO {{migrations}} VALUES ({migration.number}, '{name}', {now})")

        with self._cursor() as cursor:
            missing = self._pending(cursor)
        shown = [m._replace(statements=[text.replace("%%", "%") for text in m.statements]) for m in missing]
        return as_script(shown, self._names.fill(sql.CREATE_LEDGER), record)

    def _pending(self, cursor: Any) -> list[Migration]:
        def holds(condition: str) -> bool:
            return bool(cursor.execute(condition, {}).fetchone()[0])

        ledger = quote(self._names.table + "__migrations")
        applied: set[int] = set()
        if cursor.execute(self._sql["HAS_LEDGER"], {"table": ledger}).fetchone()[0]:
            applied = {number for (number,) in cursor.execute(self._sql["APPLIED"], {})}
        return pending(sql.MIGRATIONS, applied, self._fill, holds)

    # --- producers

    def offer(
        self, kind: str, offers: Sequence[Offer], now: int, *, connection: Any = None, announce: bool = False
    ) -> list[OfferOutcome]:
        if not offers:
            return []
        self._mark(kind).offered(min(offer.scheduled_at for offer in offers))
        if connection is not None:
            context = _in_transaction_of(connection)
        elif len(offers) == 1 and not announce:
            context = self._cursor()
        else:
            context = self._transaction()
        with context as cursor:
            outcomes = (
                [self._offer_one(cursor, kind, offers[0], now)]
                if len(offers) == 1
                else self._offer_all(cursor, kind, offers, now)
            )
            if announce:
                self._execute(cursor, "ANNOUNCE", {"channel": channel(kind)})
            return outcomes

    def _offer_one(self, cursor: Any, kind: str, offer: Offer, now: int) -> OfferOutcome:
        values = {"key": offer.key, "kind": kind, "payload": offer.payload, "at": offer.scheduled_at, "now": now}
        self._execute(cursor, "OFFER" if offer.can_update else "OFFER_NEW", values)
        return _outcome(cursor.fetchone())

    def _offer_all(self, cursor: Any, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        outcomes: dict[int, OfferOutcome] = {}
        for places in _rounds(offers):
            for start in range(0, len(places), _CHUNK):
                outcomes.update(
                    self._offer_chunk(
                        cursor, kind, [(place, offers[place]) for place in places[start : start + _CHUNK]], now
                    )
                )
        return [outcomes[place] for place in range(len(offers))]

    def _offer_chunk(
        self, cursor: Any, kind: str, chunk: list[tuple[int, Offer]], now: int
    ) -> Iterator[tuple[int, OfferOutcome]]:
        """Offer messages with distinct keys, those that may update and those that may not each in one statement."""
        if len({offer.can_update for _, offer in chunk}) == 1:
            parts: list[tuple[list[tuple[int, Offer]], list[int] | None]] = [(chunk, None)]
        else:
            ids = [number for (number,) in cursor.execute(self._sql["RESERVE"], {"n": len(chunk)})]
            numbered = list(zip(chunk, ids))
            halves = ([pair for pair in numbered if pair[0][1].can_update is may] for may in (False, True))
            parts = [([placed for placed, _ in half], [number for _, number in half]) for half in halves]
        for placed, numbers in parts:
            values = {
                "keys": [offer.key for _, offer in placed],
                "payloads": [offer.payload for _, offer in placed],
                "times": [offer.scheduled_at for _, offer in placed],
                "ids": numbers,
                "kind": kind,
                "now": now,
            }
            self._execute(cursor, "OFFER_MANY" if placed[0][1].can_update else "OFFER_MANY_NEW", values)
            changed = {key: (created,) for key, created in cursor.fetchall()}
            for place, offer in placed:
                yield place, _outcome(changed.get(offer.key))

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        mark = self._mark(kind)
        start, started = mark.start(), time.monotonic()
        values = {"kind": kind, "now": now, "until": until, "lock": lock, "start": start}
        with self._cursor() as cursor:
            cursor.execute(self._acquire_sql(limit), values, prepare=True, binary=True)
            rows = _sorted(cursor.fetchall())
        mark.polled(start, time.monotonic() - started, rows, now)
        return rows

    def ack_and_acquire(self, kind: str, done: Held, limit: int, now: int, until: int, lock: str) -> Fetched:
        mark = self._mark(kind)
        start, started = mark.start(), time.monotonic()
        values = {"kind": kind, "now": now, "until": until, "lock": lock, "start": start}
        values |= {"done": list(done.ids), "held": done.lock}
        with self._cursor() as cursor:
            cursor.execute(self._fused_sql(limit), values, prepare=True, binary=True)
            found = cursor.fetchall()
        rows = _sorted([columns[1:] for columns in found if columns[1] is not None])
        mark.polled(start, time.monotonic() - started, rows, now)
        return Fetched(found[0][0], rows)

    def ack(self, kind: str, done: Held) -> int:
        return self._change("ACK", _held(done))

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        self._mark(kind).offered(due_at)
        return self._change("NACK", {**_held(held), "due": due_at, "error": error})

    def release(self, kind: str, held: Held) -> int:
        self._mark(kind).offered(LONG_AGO)
        return self._change("RELEASE", _held(held))

    def extend(self, kind: str, held: Held, until: int) -> int:
        self._mark(kind).offered(until)
        return self._change("EXTEND", {**_held(held), "until": until})

    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        return self._change("BURY", {**_held(held), "now": now, "error": error})

    def next_due(self, kind: str, after: int) -> int | None:
        due: int | None = self._one("NEXT_DUE", {"kind": kind, "after": after})[0]
        return due

    # --- looking and removing

    def read(self, kind: str, key: str) -> Row | None:
        found = self._one("READ", {"kind": kind, "key": key})
        return Row(*found) if found else None

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        what = {"id": row.id, "created": row.created_at, "at": row.scheduled_at, "payload": row.payload}
        return self._change("DELETE_UNCHANGED", what) > 0

    def drop(self, kind: str, key: str) -> bool:
        return self._change("DROP", {"kind": kind, "key": key}) > 0

    def drop_all(self, kind: str) -> int:
        with self._patient() as cursor:
            return self._count(cursor, "DROP_ALL", {"kind": kind})

    def peek(self, kind: str, limit: int) -> list[Row]:
        return [Row(*found) for found in self._all("PEEK", {"kind": kind, "limit": limit})]

    def counts(self, kind: str, now: int) -> Counts:
        with self._patient() as cursor:
            return Counts(*cursor.execute(self._sql["COUNTS"], {"kind": kind, "now": now}).fetchone())

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        return [DeadLetter(*found) for found in self._all("DEAD", {"kind": kind, "limit": limit})]

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        self._mark(kind).offered(now)
        with self._patient() as cursor:
            return self._count(cursor, "REDRIVE", {"kind": kind, "now": now, "keys": _list(keys)})

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        with self._patient() as cursor:
            return self._count(cursor, "DROP_DEAD", {"kind": kind, "keys": _list(keys)})

    # --- schedules

    def install_ticks(
        self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int, update: bool = False
    ) -> int:
        schedule = {"kind": kind, "prefix": prefix, "hash": config_hash}
        ours = f"{prefix}/{escape_hash(config_hash)}"
        if ticks:
            self._mark(kind).offered(min(tick.scheduled_at for tick in ticks))
        with self._transaction() as cursor:
            self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq schedule {kind}"})
            self._forget(cursor, kind, prefix, key_range(prefix), but=key_range(ours), after=now)
            new = self._record(cursor, schedule, ticks)
            fresh = [Offer(tick.key, tick.payload, tick.scheduled_at, can_update=False) for tick in new.values()]
            made = self._offer_all(cursor, kind, fresh, now)
            if update:
                for tick in ticks:
                    if tick.key not in new:
                        values = {
                            "kind": kind,
                            "key": tick.key,
                            "payload": tick.payload,
                            "at": tick.scheduled_at,
                            "now": now,
                        }
                        self._execute(cursor, "UPDATE_TICK", values)
            self._execute(cursor, "RAISE_FLOOR", {**schedule, "bound": (now - TICK_MEMORY_MS) * 1000})
            return made.count(OfferOutcome.CREATED)

    def _record(self, cursor: Any, schedule: dict[str, str], ticks: Sequence[Tick]) -> dict[str, Tick]:
        """Enter ticks into the ledger; return those that were never there, the first of each key."""
        first: dict[str, Tick] = {}
        for tick in ticks:
            first.setdefault(tick.key, tick)
        if not first:
            return {}
        nominals = [tick.nominal_at for tick in first.values()]
        self._execute(cursor, "RECORD_TICKS", {**schedule, "keys": list(first), "nominals": nominals})
        created = {key for (key,) in cursor.fetchall()}
        return {key: tick for key, tick in first.items() if key in created}

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        ours = f"{prefix}/{escape_hash(config_hash)}"
        with self._transaction() as cursor:
            self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq schedule {kind}"})
            return self._forget(cursor, kind, prefix, key_range(ours), but=("", ""), after=LONG_AGO)

    def _forget(
        self, cursor: Any, kind: str, prefix: str, within: tuple[str, str], *, but: tuple[str, str], after: int
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
        self._execute(cursor, "UNDELIVERED_TICKS", values)
        doomed = [(number, key) for number, key in cursor.fetchall() if hash_in(key, prefix) is not None]
        if doomed:
            self._execute(cursor, "DELETE_TICKS", {"ids": [number for number, _ in doomed]})
            self._execute(cursor, "FORGET_TICKS", {"kind": kind, "keys": [key for _, key in doomed]})
        return len(doomed)

    def last_tick(self, kind: str, *, prefix: str, config_hash: str) -> int | None:
        latest: int | None = self._one("LAST_TICK", {"kind": kind, "prefix": prefix, "hash": config_hash})[0]
        return latest

    # --- the connection

    def listen(self, kind: str, wake: Callable[[], None]) -> Listener:
        return Listener(self.url, channel(kind), wake)

    def is_transient(self, error: BaseException) -> bool:
        if isinstance(error, psycopg.Error):
            if error.sqlstate is not None:
                return error.sqlstate in _TRANSIENT or error.sqlstate.startswith("08")
            return isinstance(error, psycopg.OperationalError)  # the connection went, or none could be had
        return False

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    def _mark(self, kind: str) -> Watermark:
        mark = self._marks.get(kind)
        return mark or self._marks.setdefault(kind, Watermark(self._poll_period))

    def _open_pool(self) -> psycopg_pool.ConnectionPool:
        with self._lock:
            if self._pid != os.getpid():
                self._pool, self._pid = None, os.getpid()
            if self._pool is None:
                self._pool = psycopg_pool.ConnectionPool(
                    self.url,
                    min_size=1,
                    max_size=self._max_connections,
                    timeout=self._try_timeout or 30.0,
                    reconnect_timeout=_RECONNECT_TIMEOUT,
                    kwargs={"autocommit": True},
                    configure=self._configure,
                    open=True,
                    name="drainq-delayed",
                )
            return self._pool

    def _configure(self, connection: Any) -> None:
        timeout = int((self._try_timeout or 0) * 1000)
        connection.execute(f"SET default_transaction_isolation = 'read committed'; SET statement_timeout = {timeout}")
        # Every statement here has an index to go by. Planned once for all values it costs a third of the time, and
        # without sequential scans the plan that was made while the table was small is right when it is large.
        connection.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off")

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            pool = self._open_pool()
        with pool.connection() as connection, connection.cursor() as cursor:
            yield cursor

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._cursor() as cursor, cursor.connection.transaction():
            yield cursor

    @contextmanager
    def _patient(self) -> Iterator[Any]:
        """A transaction of work that may take as long as it takes."""
        with self._transaction() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on")
            yield cursor

    def _execute(self, cursor: Any, name: str, values: dict[str, Any]) -> None:
        cursor.execute(self._sql[name], values)

    def _count(self, cursor: Any, name: str, values: dict[str, Any]) -> int:
        """Run a statement; return how many rows it changed."""
        changed: int = cursor.execute(self._sql[name], values).rowcount
        return changed

    def _change(self, name: str, values: dict[str, Any]) -> int:
        with self._cursor() as cursor:
            return self._count(cursor, name, values)

    def _one(self, name: str, values: dict[str, Any]) -> Any:
        with self._cursor() as cursor:
            return cursor.execute(self._sql[name], values, binary=True).fetchone()

    def _all(self, name: str, values: dict[str, Any]) -> list[Any]:
        with self._cursor() as cursor:
            found: list[Any] = cursor.execute(self._sql[name], values, binary=True).fetchall()
            return found


def channel(kind: str) -> str:
    """The name that consumers of this queue LISTEN to."""
    return f"drainq_{kind}"


@contextmanager
def _in_transaction_of(connection: Any) -> Iterator[Any]:
    """A cursor in the caller's transaction; on a connection in autocommit mode, in one of its own."""
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(
            f"connection must be a psycopg.Connection to this queue's database, got {type(connection).__name__}"
        )
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if connection.autocommit:
            with connection.transaction():
                yield cursor
        else:
            yield cursor


def _rounds(offers: Sequence[Offer]) -> list[list[int]]:
    """The places of the offers, split so that no round has a key twice and each key's offers keep their order.

    One statement cannot touch a row twice; one after the other they can, as if offered one by one.
    """
    rounds: list[list[int]] = []
    seen: dict[str, int] = {}
    for place, offer in enumerate(offers):
        nth = seen.get(offer.key, 0)
        seen[offer.key] = nth + 1
        if nth == len(rounds):
            rounds.append([])
        rounds[nth].append(place)
    return rounds


def _outcome(created: tuple[bool] | None) -> OfferOutcome:
    if created is None:
        return OfferOutcome.IGNORED
    return OfferOutcome.CREATED if created[0] else OfferOutcome.UPDATED


def _sorted(found: list[Any]) -> list[Row]:
    return sorted((Row(*columns) for columns in found), key=lambda row: (row.scheduled_at, row.id))


def _held(held: Held) -> dict[str, Any]:
    return {"lock": held.lock, "ids": list(held.ids)}


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
