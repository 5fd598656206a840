"""PostgreSQL: creates each tick of a schedule once, and deletes ticks.

Schedulers of one queue take turns and use a separate connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drainq.delayed.cron.tick_key import escape_hash, key_range
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.postgres.offer import PostgresOffers
from drainq.delayed.storage.postgres.statements import LOCK_TIMEOUT_MS
from drainq.delayed.storage.records import LONG_AGO, TICK_MEMORY_MS, Offer, Tick


class PostgresTicks(PostgresOffers):
    """The methods of a storage for the ticks of schedules."""

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
        """Enter ticks into the ledger. Return the new ones, the first of each key."""
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

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        which = {"kind": kind, "prefix": prefix}
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind)
            cursor.execute(self._sql["UNNAME_SCHEDULE"], which)
            return int(cursor.execute(self._sql["FORGET_SCHEDULE"], which).rowcount)

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        first: dict[str, Tick] = {}
        for tick in ticks:
            first.setdefault(tick.key, tick)
        if not first:
            return 0
        self._mark(kind).offered(min(tick.scheduled_at for tick in ticks))
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "now": now, "keys": list(first)}
        values["nominals"] = [tick.nominal_at for tick in first.values()]
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind)
            cursor.execute(self._sql["BACKFILL_TICKS"], values)
            new = {key for (key,) in cursor.fetchall()}
            offers = [Offer(t.key, t.payload, t.scheduled_at, can_update=False) for t in first.values() if t.key in new]
            return self._offer_all(cursor, kind, offers, now).count(OfferOutcome.CREATED)

    def _lock_schedules(self, cursor: Any, kind: str) -> None:
        """Take a turn among schedulers. Raise an error if the turn does not come, to try again later."""
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}", prepare=False)
        self._execute(cursor, "LOCK_SCHEDULE", {"name": f"drainq schedule {kind}"})
