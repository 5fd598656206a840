"""SQLite: creates each tick of a schedule once, and deletes ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drainq.delayed.cron.tick_key import escape_hash, key_range
from drainq.delayed.storage.records import LONG_AGO, TICK_MEMORY_MS, Offer, Tick, TickRange
from drainq.delayed.storage.sqlite.offer import values_of
from drainq.delayed.storage.sqlite.statements import SQLiteStatements


class SQLiteTicks(SQLiteStatements):
    """The methods of a storage for the ticks of schedules."""

    def install_ticks(
        self,
        kind: str,
        *,
        prefix: str,
        config_hash: str,
        ticks: Sequence[Tick],
        now: int,
        update: bool = False,
        description: str | None = None,
    ) -> int:
        schedule = {"kind": kind, "prefix": prefix, "hash": config_hash}
        ours = f"{prefix}/{escape_hash(config_hash)}"
        created = 0
        with self._transaction() as cursor:
            if description is not None:
                cursor.execute(self._sql["NAME_SCHEDULE"], {**schedule, "description": description, "now": now})
            self._forget(cursor, kind, [(prefix, key_range(prefix), key_range(ours))], after=now)
            for tick in ticks:
                value = values_of(kind, Offer(tick.key, tick.payload, tick.scheduled_at, can_update=False), now)
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

    def _undelivered(
        self, cursor: Any, kind: str, ranges: Sequence[TickRange], after: int
    ) -> list[tuple[int, str, str]]:
        found: list[tuple[int, str, str]] = []
        for prefix, (low, high), (but_low, but_high) in ranges:
            values = {"kind": kind, "after": after, "low": low, "high": high, "but_low": but_low, "but_high": but_high}
            found += [(*row, prefix) for row in cursor.execute(self._sql["UNDELIVERED_TICKS"], values).fetchall()]
        return found

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        ours = f"{prefix}/{escape_hash(config_hash)}"
        with self._transaction() as cursor:
            return self._forget(cursor, kind, [(prefix, key_range(ours), ("", ""))], after=LONG_AGO)

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        which = {"kind": kind, "prefix": prefix}
        with self._transaction() as cursor:
            cursor.execute(self._sql["UNNAME_SCHEDULE"], which)
            return cursor.execute(self._sql["FORGET_SCHEDULE"], which).rowcount

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        schedule = {"kind": kind, "prefix": prefix, "hash": config_hash, "now": now}
        created = 0
        with self._transaction() as cursor:
            for tick in ticks:
                entry = {**schedule, "key": tick.key, "nominal": tick.nominal_at}
                if cursor.execute(self._sql["BACKFILL_TICK"], entry).rowcount:
                    value = values_of(kind, Offer(tick.key, tick.payload, tick.scheduled_at, can_update=False), now)
                    created += cursor.execute(self._sql["INSERT_NEW"], value).rowcount
        return created
