"""The delayed queue in PostgreSQL: many processes on many machines, with the database that is there already.

Consumers take different rows because ``FOR UPDATE SKIP LOCKED`` steps over what another one is taking. Nothing is
locked while a handler works: a lease is a time in the row, not a transaction.

# Invariant

Every method may be called again after a lost connection: what was already done counts as done (an offer is then
ignored, an acknowledgement finds nothing).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from drainq.delayed.cron.tick_key import escape_hash, hash_in, key_range
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage import postgres_sql as sql
from drainq.delayed.storage.migrate import Migration, as_script, pending
from drainq.delayed.storage.postgres_listen import Listener
from drainq.delayed.storage.postgres_pool import PostgresPool, in_transaction_of
from drainq.delayed.storage.protocol import (
    LONG_AGO,
    TICK_MEMORY_MS,
    Counts,
    DeadLetter,
    Fetched,
    Held,
    Offer,
    Row,
    Tick,
)
from drainq.delayed.storage.scan_floor import LOWEST, ScanFloor
from drainq.delayed.storage.table_names import TableNames
from drainq.sql.errors import passes
from drainq.sql.names import quote
from drainq.sql.url import DatabaseUrl

_CHUNK = 1000


class PostgresStorage:
    """A :class:`~drainq.delayed.storage.protocol.Storage` in a PostgreSQL database.

    Args:
        url: the database.
        table: the table's name, in the first schema of the search path.
        poll_period: seconds; see :mod:`drainq.delayed.storage.scan_floor`.
        try_timeout: seconds that one statement, or waiting for a connection, may take; None for no limit.
        max_connections: the size of the pool.
    """

    def __init__(
        self,
        url: DatabaseUrl,
        *,
        table: str,
        poll_period: float = 3.0,
        try_timeout: float | None = 10.0,
        max_connections: int = 10,
    ) -> None:
        self._url = url
        self._pool = PostgresPool(url, try_timeout=try_timeout, max_connections=max_connections)
        self._names = TableNames(table)
        self._poll_period = poll_period
        texts = {name: text for name, text in vars(sql).items() if name[0].isupper() and isinstance(text, str)}
        self._sql = {name: self._fill(text) for name, text in texts.items()}
        self._acquire_sql = lru_cache(64)(lambda limit: self._names.fill(sql.ACQUIRE, percent="%%", limit=limit))
        self._fused_sql = lru_cache(64)(lambda limit: self._names.fill(sql.ACK_AND_ACQUIRE, percent="%%", limit=limit))
        self._marks: dict[str, ScanFloor] = {}

    def _fill(self, text: str) -> str:
        return self._names.fill(text, percent="%%")

    # --- schema

    def migrate(self) -> list[str]:
        with self._pool.patient() as cursor:
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
        return pending(sql.MIGRATIONS, applied, self._fill, holds)

    # --- producers

    def offer(
        self, kind: str, offers: Sequence[Offer], now: int, *, connection: Any = None, announce: bool = False
    ) -> list[OfferOutcome]:
        if not offers:
            return []
        self._mark(kind).offered(min(offer.scheduled_at for offer in offers))
        if len(offers) == 1:
            statement, values = self._one_offer(kind, offers[0], now, announce=announce)
            if connection is None:
                return [_outcome(self._pool.run(statement, values).fetchone())]
            with in_transaction_of(connection) as cursor:
                return [_outcome(cursor.execute(statement, values).fetchone())]
        with self._pool.transaction() if connection is None else in_transaction_of(connection) as cursor:
            outcomes = self._offer_all(cursor, kind, offers, now)
            if announce:
                self._execute(cursor, "ANNOUNCE", {"channel": channel(kind)})
            return outcomes

    def _one_offer(self, kind: str, offer: Offer, now: int, *, announce: bool) -> tuple[str, dict[str, Any]]:
        values = {"key": offer.key, "kind": kind, "payload": offer.payload, "at": offer.scheduled_at, "now": now}
        name = "OFFER" if offer.can_update else "OFFER_NEW"
        if announce:
            name += "_ANNOUNCED"
            values["channel"] = channel(kind)
        return self._sql[name], values

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
        with self._pool.transaction() as cursor:
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
        with self._pool.transaction() as cursor:
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
            self._execute(cursor, "DELETE_TICKS", {"ids": _ids([number for number, _ in doomed])})
            self._execute(cursor, "FORGET_TICKS", {"kind": kind, "keys": [key for _, key in doomed]})
        return len(doomed)

    def last_tick(self, kind: str, *, prefix: str, config_hash: str) -> int | None:
        latest: int | None = self._one("LAST_TICK", {"kind": kind, "prefix": prefix, "hash": config_hash})[0]
        return latest

    # --- the connection

    def listen(self, kind: str, wake: Callable[[], None]) -> Listener:
        return Listener(self._url, channel(kind), wake)

    def is_transient(self, error: BaseException) -> bool:
        return passes(error)

    def close(self) -> None:
        self._pool.close()

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
    return sorted((Row(*columns) for columns in found), key=lambda row: (row.scheduled_at, row.id))


def _held(held: Held) -> dict[str, Any]:
    return {"lock": held.lock, "ids": _ids(held.ids)}


def _ids(ids: Sequence[int]) -> str:
    """A bigint[] as text: one type of parameter, so one prepared statement, however large the numbers are."""
    return f"{{{','.join(map(str, ids))}}}"


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
