"""The delayed queue in PostgreSQL: many processes on many machines, with the database that is there already.

Consumers take different rows because ``FOR UPDATE SKIP LOCKED`` steps over what another one is taking. Nothing is
locked while a handler works: a lease is a time in the row, not a transaction.

# Invariant

Every method may be called again after a lost connection: what was already done counts as done (an offer is then
ignored, an acknowledgement finds nothing).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import psycopg

from drainq.delayed.cron.tick_key import escape_hash, hash_in, key_range
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage import postgres_sql as sql
from drainq.delayed.storage.migrate import Index, Migration, as_script, pending
from drainq.delayed.storage.operator import Tick
from drainq.delayed.storage.postgres_listen import Listener
from drainq.delayed.storage.postgres_operator import PostgresOperator
from drainq.delayed.storage.postgres_pool import PostgresPool, in_transaction_of
from drainq.delayed.storage.protocol import LONG_AGO, TICK_MEMORY_MS, Counts, Offer
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row
from drainq.delayed.storage.scan_floor import LOWEST, ScanFloor
from drainq.delayed.storage.table_names import TableNames
from drainq.sql.errors import one_line, passes
from drainq.sql.names import quote
from drainq.sql.url import DatabaseUrl

_log = logging.getLogger("drainq")
_CHUNK = 1000
_BUILD_LOCK_TIMEOUT_MS = 5000
"""Milliseconds that the build of an index waits for older transactions to end; it holds up nobody meanwhile."""
_LOCK_TIMEOUT_MS = 1000
"""Milliseconds to wait for a lock that others may hold for long. Who waits for a table's lock holds up everybody who
comes later, so the wait is short, and made again after a pause."""


class PostgresStorage(PostgresOperator):
    """A :class:`~drainq.delayed.storage.protocol.Storage` in a PostgreSQL database.

    Args:
        url: the database.
        table: the table's name, in the first schema of the search path.
        poll_period: seconds; see :mod:`drainq.delayed.storage.scan_floor`.
        try_timeout: seconds that one statement, or waiting for a connection, may take; None for no limit.
        max_connections: how many connections at most, beside one for schedules.
        prepare: whether statements are prepared; None: yes, unless there is a pooler before the server.
    """

    def __init__(
        self,
        url: DatabaseUrl,
        *,
        table: str,
        poll_period: float = 3.0,
        try_timeout: float | None = 10.0,
        max_connections: int = 10,
        prepare: bool | None = None,
    ) -> None:
        self._pool = PostgresPool(url, try_timeout=try_timeout, max_connections=max_connections, prepare=prepare)
        # A connection apart: a schedule that waits for the lock of a frozen scheduler keeps no consumer waiting.
        self._schedules = PostgresPool(url, try_timeout=try_timeout, max_connections=1, prepare=prepare)
        self._names = TableNames(table)
        self._poll_period = poll_period
        texts = {name: text for name, text in vars(sql).items() if name[0].isupper() and isinstance(text, str)}
        self._sql = {name: self._fill(text) for name, text in texts.items()}
        self._acquire_sql = lru_cache(64)(lambda limit: self._names.fill(sql.ACQUIRE, percent="%%", limit=limit))
        self._fused_sql = lru_cache(64)(lambda limit: self._names.fill(sql.ACK_AND_ACQUIRE, percent="%%", limit=limit))
        self._marks: dict[str, ScanFloor] = {}

    def _fill(self, text: str) -> str:
        return self._names.fill(text, percent="%%")

    def connect(self) -> None:
        with self._pool.cursor():
            pass

    # --- schema

    def migrate(self) -> list[str]:
        with self._pool.cursor() as cursor:
            if not self._pending(cursor):  # the common case asks for no lock and no right
                return []
        with self._pool.patient() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}", prepare=False)
            self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq migrate {self._names.table}"})
            missing = self._pending(cursor)
            together = [migration for migration in missing if migration.apart is None]
            if together:
                cursor.execute(self._sql["CREATE_LEDGER"], {})
            for migration in together:
                for statement in migration.statements:
                    cursor.execute(statement, {}, prepare=False)
                self._record_migration(cursor, migration)
        done = [migration.name for migration in together]
        return done + [m.name for m in missing if m.apart is not None and self._build(m, m.apart)]

    def _build(self, migration: Migration, index: Index) -> bool:
        """Build an index beside running programs; False if it has to wait for another time."""
        name = quote(self._names.name(index.token))
        try:
            with self._pool.alone(lock_timeout=_BUILD_LOCK_TIMEOUT_MS, statement_timeout=0) as cursor:
                if cursor is None:
                    _log.warning(
                        "the index %s is not built through a pooler; run 'drainq delayed migrate' without", name
                    )
                    return False
                if self._says(cursor, "BROKEN_INDEX", index=name):
                    cursor.execute(sql.drop_index(name))
                for statement in migration.statements:
                    cursor.execute(statement, {}, prepare=False)
                if not self._says(cursor, "INDEX_IS_VALID", index=name):
                    return False  # another process is building it
                self._record_migration(cursor, migration)
        except psycopg.Error as error:
            if not passes(error):
                raise
            _log.warning("the index %s could not be built now (%s); the next open() tries again", name, one_line(error))
            return False
        return True

    def _record_migration(self, cursor: Any, migration: Migration) -> None:
        entry = {"number": migration.number, "name": migration.name, "now": int(time.time() * 1000)}
        self._execute(cursor, "RECORD", entry)

    def _says(self, cursor: Any, name: str, **values: Any) -> bool:
        return bool(cursor.execute(self._sql[name], values, prepare=False).fetchone()[0])

    def migration_sql(self) -> str:
        def record(migration: Migration) -> str:
            name = migration.name.replace("'", "''")
            now = "(extract(epoch FROM now()) * 1000)::bigint"
            return self._names.fill(f"INSERT INTO {{migrations}} VALUES ({migration.number}, '{name}', {now})")

        with self._pool.cursor() as cursor:
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
        if len(applied) == len(sql.MIGRATIONS):
            return []
        return pending(sql.MIGRATIONS, applied, self._fill, holds, in_use=self._says(cursor, "TABLE_EXISTS"))

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
        if not offers:
            return []
        self._mark(kind).offered(min(offer.scheduled_at for offer in offers))
        if len(offers) == 1 and not again:
            statement, values = self._one_offer(kind, offers[0], now, announce=announce)
            if connection is None:
                return [_outcome(self._pool.run(statement, values).fetchone())]
            with in_transaction_of(connection) as cursor:
                return [_outcome(cursor.execute(statement, values).fetchone())]
        with self._pool.transaction() if connection is None else in_transaction_of(connection) as cursor:
            stored = self._stored(cursor, kind, offers, now) if again else {}
            outcomes = self._offer_all(cursor, kind, offers, now)
            if stored:
                outcomes = [
                    stored.get((offer.key, offer.payload, offer.scheduled_at), outcome)
                    if outcome is OfferOutcome.IGNORED
                    else outcome
                    for offer, outcome in zip(offers, outcomes)
                ]
            if announce:
                self._execute(cursor, "ANNOUNCE", {"channel": channel(kind)})
            return outcomes

    def _one_offer(self, kind: str, offer: Offer, now: int, *, announce: bool) -> tuple[str, dict[str, Any]]:
        values = {"key": offer.key, "kind": kind, "payload": offer.payload, "at": offer.scheduled_at, "now": now}
        values["priority"] = offer.priority
        name = "OFFER" if offer.can_update else "OFFER_NEW"
        if announce:
            name += "_ANNOUNCED"
            values["channel"] = channel(kind)
        return self._sql[name], values

    def _offer_all(self, cursor: Any, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        """Offer any number of messages, rows locked in the order of their keys, so that two batches cannot deadlock."""
        outcomes: dict[int, OfferOutcome] = {}
        may_update = {offer.can_update for offer in offers}
        statement = (
            "OFFER_MANY_MIXED" if len(may_update) > 1 else "OFFER_MANY" if True in may_update else "OFFER_MANY_NEW"
        )
        for places in _rounds(offers):
            ids: dict[int, int] = {}
            if len(places) > _CHUNK:  # ids follow the input; within one statement they do so by themselves
                numbers = cursor.execute(self._sql["RESERVE"], {"n": len(places)}).fetchall()
                ids = {place: number for place, (number,) in zip(places, numbers)}
                places = sorted(places, key=lambda place: offers[place].key)
            for start in range(0, len(places), _CHUNK):
                chunk = places[start : start + _CHUNK]
                values = {
                    "keys": [offers[place].key for place in chunk],
                    "payloads": [offers[place].payload for place in chunk],
                    "times": [offers[place].scheduled_at for place in chunk],
                    "ranks": [offers[place].priority for place in chunk],
                    "ids": [ids[place] for place in chunk] if ids else None,
                    "kind": kind,
                    "now": now,
                }
                if statement == "OFFER_MANY_MIXED":
                    values["may"] = [offers[place].can_update for place in chunk]
                self._execute(cursor, statement, values)
                changed = {key: (created,) for key, created in cursor.fetchall()}
                outcomes.update((place, _outcome(changed.get(offers[place].key))) for place in chunk)
        return [outcomes[place] for place in range(len(offers))]

    def _stored(
        self, cursor: Any, kind: str, offers: Sequence[Offer], now: int
    ) -> dict[tuple[str, bytes, int], OfferOutcome]:
        """What an earlier try of the same call at ``now`` stored: key, payload and time, and what it was to say.

        It is read before the offers are repeated, for a row that conflicts with one is marked as if it were updated.
        """
        cursor.execute(self._sql["STORED"], {"kind": kind, "keys": [offer.key for offer in offers], "now": now})
        return {
            (key, payload, at): OfferOutcome.CREATED if created else OfferOutcome.UPDATED
            for key, payload, at, created in cursor.fetchall()
        }

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        start = self._mark(kind).start()
        rows = self._acquire_from(start, kind, limit, now, until, lock)
        if not rows and start != LOWEST:  # nothing due must mean nothing: look below the mark, too
            rows = self._acquire_from(LOWEST, kind, limit, now, until, lock)
        return rows

    def _acquire_from(self, start: int, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        started = time.monotonic()
        values = {"kind": kind, "now": now, "until": until, "lock": lock, "start": start}
        rows = _sorted(self._pool.run(self._acquire_sql(limit), values, binary=True).fetchall())
        self._mark(kind).polled(start, time.monotonic() - started, rows, now)
        return rows

    def ack_and_acquire(self, kind: str, done: Held, limit: int, now: int, until: int, lock: str) -> Fetched:
        mark = self._mark(kind)
        start, started = mark.start(), time.monotonic()
        values = {"kind": kind, "now": now, "until": until, "lock": lock, "start": start}
        values |= {"done": _ids(done.ids), "held": done.lock}
        found = self._pool.run(self._fused_sql(limit), values, binary=True).fetchall()
        rows = _sorted([columns[1:] for columns in found if columns[1] is not None])
        mark.polled(start, time.monotonic() - started, rows, now)
        if not rows and start != LOWEST:
            rows = self._acquire_from(LOWEST, kind, limit, now, until, lock)
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

    def contains(self, kind: str, key: str) -> bool:
        return bool(self._one("CONTAINS", {"kind": kind, "key": key})[0])

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        what = {"id": row.id, "created": row.created_at, "at": row.scheduled_at, "payload": row.payload}
        return self._change("DELETE_UNCHANGED", what) > 0

    def drop(self, kind: str, key: str) -> bool:
        return self._change("DROP", {"kind": kind, "key": key}) > 0

    def drop_all(self, kind: str) -> int:
        with self._pool.patient() as cursor:
            return self._count(cursor, "DROP_ALL", {"kind": kind})

    def peek(self, kind: str, limit: int) -> list[Row]:
        return [Row(*found) for found in self._all("PEEK", {"kind": kind, "limit": limit})]

    def counts(self, kind: str, now: int) -> Counts:
        with self._pool.patient() as cursor:
            return Counts(*cursor.execute(self._sql["COUNTS"], {"kind": kind, "now": now}).fetchone())

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        return [DeadLetter(*found) for found in self._all("DEAD", {"kind": kind, "limit": limit})]

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        self._mark(kind).offered(now)
        with self._pool.patient() as cursor:
            return self._count(cursor, "REDRIVE", {"kind": kind, "now": now, "keys": _list(keys)})

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        with self._pool.patient() as cursor:
            return self._count(cursor, "DROP_DEAD", {"kind": kind, "keys": _list(keys)})

    # --- schedules

    def install_ticks(
        self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int, update: bool = False
    ) -> int:
        schedule = {"kind": kind, "prefix": prefix, "hash": config_hash}
        ours = f"{prefix}/{escape_hash(config_hash)}"
        if ticks:
            self._mark(kind).offered(min(tick.scheduled_at for tick in ticks))
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind)
            self._forget(cursor, kind, prefix, key_range(prefix), but=key_range(ours), after=now)
            new = self._record(cursor, schedule, ticks, now)
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
            self._execute(cursor, "RAISE_FLOOR", {**schedule, "until": now - TICK_MEMORY_MS})
            return made.count(OfferOutcome.CREATED)

    def _record(self, cursor: Any, schedule: dict[str, str], ticks: Sequence[Tick], now: int) -> dict[str, Tick]:
        """Enter ticks into the ledger; return those that were never there, the first of each key."""
        first: dict[str, Tick] = {}
        for tick in ticks:
            first.setdefault(tick.key, tick)
        if not first:
            return {}
        nominals = [tick.nominal_at for tick in first.values()]
        self._execute(cursor, "RECORD_TICKS", {**schedule, "keys": list(first), "nominals": nominals, "now": now})
        created = {key for (key,) in cursor.fetchall()}
        return {key: tick for key, tick in first.items() if key in created}

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        ours = f"{prefix}/{escape_hash(config_hash)}"
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind)
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
            self._execute(cursor, "DELETE_TICKS", {"ids": _ids([number for number, _ in doomed])})
            self._execute(cursor, "FORGET_TICKS", {"kind": kind, "keys": [key for _, key in doomed]})
        return len(doomed)

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "until": until}
        latest: int | None = self._schedules.run(self._sql["LAST_TICK"], values, binary=True).fetchone()[0]
        return latest

    def _lock_schedules(self, cursor: Any, kind: str) -> None:
        """Take turns with other schedulers; give up on a turn that does not come, to try again later."""
        cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}", prepare=False)
        self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq schedule {kind}"})

    # --- the connection

    def listen(self, kind: str, wake: Callable[[], None]) -> Listener:
        return Listener(self._pool.opener, channel(kind), wake)

    def is_transient(self, error: BaseException) -> bool:
        return passes(error)

    def close(self) -> None:
        self._pool.close()
        self._schedules.close()

    def _mark(self, kind: str) -> ScanFloor:
        mark = self._marks.get(kind)
        return mark or self._marks.setdefault(kind, ScanFloor(self._poll_period))

    def _execute(self, cursor: Any, name: str, values: dict[str, Any]) -> None:
        cursor.execute(self._sql[name], values)

    def _count(self, cursor: Any, name: str, values: dict[str, Any]) -> int:
        """Run a statement; return how many rows it changed."""
        changed: int = cursor.execute(self._sql[name], values).rowcount
        return changed

    def _change(self, name: str, values: dict[str, Any]) -> int:
        return int(self._pool.run(self._sql[name], values).rowcount)

    def _one(self, name: str, values: dict[str, Any]) -> Any:
        return self._pool.run(self._sql[name], values, binary=True).fetchone()

    def _all(self, name: str, values: dict[str, Any]) -> list[Any]:
        return list(self._pool.run(self._sql[name], values, binary=True).fetchall())


def channel(kind: str) -> str:
    """The name that consumers of this queue LISTEN to."""
    return f"drainq_{kind}"


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


def _outcome(created: tuple[bool | None, ...] | None) -> OfferOutcome:
    if created is None or created[0] is None:
        return OfferOutcome.IGNORED
    return OfferOutcome.CREATED if created[0] else OfferOutcome.UPDATED


def _sorted(found: list[Any]) -> list[Row]:
    return sorted((Row(*columns) for columns in found), key=lambda row: (row.priority, row.scheduled_at, row.id))


def _held(held: Held) -> dict[str, Any]:
    return {"lock": held.lock, "ids": _ids(held.ids)}


def _ids(ids: Sequence[int]) -> str:
    """A bigint[] as text: one type of parameter, so one prepared statement, however large the numbers are."""
    return f"{{{','.join(map(str, ids))}}}"


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
