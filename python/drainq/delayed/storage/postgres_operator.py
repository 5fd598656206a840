"""What an operator asks of PostgreSQL; a part of :class:`~drainq.delayed.storage.postgres.PostgresStorage`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage import postgres_operator_sql as sql
from drainq.delayed.storage.operator import FinishedMessage, QueueRow, ScheduleRow, ScheduleState, Tick
from drainq.delayed.storage.postgres_pool import PostgresPool, in_transaction_of
from drainq.delayed.storage.protocol import Offer
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row
from drainq.delayed.storage.scan_floor import LOWEST, ScanFloor


class PostgresOperator:
    """Uses the storage's connections: those of the schedules for what a scheduler asks."""

    _pool: PostgresPool
    _schedules: PostgresPool
    _sql: dict[str, str]
    _acquire_sql: Callable[[int], str]

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

    # --- queues

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        if not any(row.kind == kind for row in self.queues()):  # a server that can only be read need not be written
            self._do("NAME_QUEUE", {"kind": kind, "name": name, "type": type_name})

    def queues(self) -> list[QueueRow]:
        return [QueueRow(*found) for found in self._ask("QUEUES", {})]

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool) -> bool:
        found = self._ask("SET_PAUSED", {"kind": kind, "name": name, "type": type_name, "paused": paused})
        return bool(found) and (paused or not found[0][0])  # a new row that is not paused changes nothing

    def is_paused(self, kind: str) -> bool:
        return bool(self._ask("PAUSED", {"kind": kind})[0][0])

    def mark_ranked(self, kind: str, *, name: str, type_name: str, connection: Any = None) -> None:
        values = {"kind": kind, "name": name, "type": type_name}
        if connection is None:
            self._do("MARK_RANKED", values)
            return
        with in_transaction_of(connection) as cursor:
            cursor.execute(self._operator_sql["MARK_RANKED"], values)

    def database_time(self) -> float:
        return float(self._ask("DATABASE_TIME", {})[0][0])

    # --- consumers

    def acquire_within(self, kind: str, done: Held, most: int, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._pool.transaction() as cursor:
            cursor.execute(self._operator_sql["LOCK_FLIGHT"], {"name": f"drainq flight {kind}"})
            acked = cursor.execute(self._sql["ACK"], _held(done)).rowcount
            taken = cursor.execute(self._operator_sql["IN_FLIGHT"], {"kind": kind, "now": now}).fetchone()[0]
            room = min(limit, most - taken)
            if room <= 0:
                return Fetched(acked, [])
            values = {"kind": kind, "now": now, "until": until, "lock": lock, "start": LOWEST}
            rows = [Row(*found) for found in cursor.execute(self._acquire_sql(room), values).fetchall()]
            return Fetched(acked, sorted(rows, key=lambda row: (row.priority, row.scheduled_at, row.id)))

    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        with self._pool.transaction() as cursor:
            acked = cursor.execute(self._operator_sql["ACK_AND_REMEMBER"], {**_held(done), "now": now}).rowcount
            cursor.execute(self._operator_sql["TRIM_HISTORY"], {"kind": kind, "keep": keep})
            return int(acked)

    def history(self, kind: str, limit: int) -> list[FinishedMessage]:
        return [FinishedMessage(*found) for found in self._ask("HISTORY", {"kind": kind, "limit": limit})]

    # --- dead letters

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        values = {"kind": kind, "prefix": prefix, "limit": limit}
        return [DeadLetter(*found) for found in self._ask("DEAD_OF", values)]

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        return [key for (key,) in self._ask("DEAD_KEYS", {"kind": kind, "prefix": prefix})]

    def purge_dead(self, kind: str, before: int) -> int:
        return self._do("PURGE_DEAD", {"kind": kind, "before": before})

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


def _held(held: Held) -> dict[str, Any]:
    return {"lock": held.lock, "ids": f"{{{','.join(map(str, held.ids))}}}"}
