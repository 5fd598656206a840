"""What an operator asks of PostgreSQL; a part of :class:`~drainq.delayed.storage.postgres.PostgresStorage`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage import postgres_operator_sql as sql
from drainq.delayed.storage.operator import ScheduleRow, ScheduleState, Tick
from drainq.delayed.storage.postgres_pool import PostgresPool
from drainq.delayed.storage.protocol import Offer
from drainq.delayed.storage.scan_floor import ScanFloor


class PostgresOperator:
    """Uses the storage's connections: those of the schedules for what a scheduler asks."""

    _pool: PostgresPool
    _schedules: PostgresPool
    _sql: dict[str, str]

    def _fill(self, text: str) -> str:
        raise NotImplementedError

    def _mark(self, kind: str) -> ScanFloor:
        raise NotImplementedError

    def _lock_schedules(self, cursor: Any, kind: str) -> None:
        raise NotImplementedError

    def _offer_all(self, cursor: Any, kind: str, offers: Sequence[Offer], now: int) -> list[OfferOutcome]:
        raise NotImplementedError

    @cached_property
    def _operator_sql(self) -> dict[str, str]:
        texts = {name: text for name, text in vars(sql).items() if name[0].isupper() and isinstance(text, str)}
        return {name: self._fill(text) for name, text in texts.items()}

    def _ask(self, name: str, values: dict[str, Any]) -> list[Any]:
        return list(self._pool.run(self._operator_sql[name], values).fetchall())

    def _do(self, name: str, values: dict[str, Any]) -> int:
        return int(self._pool.run(self._operator_sql[name], values).rowcount)

    # --- schedules

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "description": description, "now": now}
        self._schedules.run(self._operator_sql["NAME_SCHEDULE"], values)

    def schedules(self, kind: str) -> list[ScheduleRow]:
        return [ScheduleRow(*found) for found in self._ask("SCHEDULES", {"kind": kind})]

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash}
        return ScheduleState(*self._schedules.run(self._operator_sql["SCHEDULE_STATE"], values).fetchone())

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        which = {"kind": kind, "prefix": prefix}
        with self._schedules.transaction() as cursor:
            self._lock_schedules(cursor, kind)
            cursor.execute(self._operator_sql["UNNAME_SCHEDULE"], which)
            return int(cursor.execute(self._operator_sql["FORGET_SCHEDULE"], which).rowcount)

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
            cursor.execute(self._operator_sql["BACKFILL_TICKS"], values)
            new = {key for (key,) in cursor.fetchall()}
            offers = [Offer(t.key, t.payload, t.scheduled_at, can_update=False) for t in first.values() if t.key in new]
            return self._offer_all(cursor, kind, offers, now).count(OfferOutcome.CREATED)
