"""What an operator asks of an SQLite file; a part of :class:`~drainq.delayed.storage.sqlite.SQLiteStorage`."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from drainq.delayed.storage import sqlite_operator_sql as sql
from drainq.delayed.storage.operator import FinishedMessage, QueueRow, ScheduleRow, ScheduleState, Tick
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row
from drainq.delayed.storage.sqlite_caller import in_transaction_of
from drainq.delayed.storage.table_names import TableNames


class SQLiteOperator:
    """Uses the storage's connection and transactions."""

    _names: TableNames
    _sql: dict[str, str]

    def _cursor(self) -> AbstractContextManager[sqlite3.Cursor]:
        raise NotImplementedError

    def _transaction(self) -> AbstractContextManager[sqlite3.Cursor]:
        raise NotImplementedError

    def _acquire(self, cursor: sqlite3.Cursor, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        raise NotImplementedError

    @cached_property
    def _operator_sql(self) -> dict[str, str]:
        texts = {name: text for name, text in vars(sql).items() if name[0].isupper() and isinstance(text, str)}
        return {name: self._names.fill(text) for name, text in texts.items()}

    def _ask(self, name: str, values: dict[str, Any]) -> list[Any]:
        with self._cursor() as cursor:
            return cursor.execute(self._operator_sql[name], values).fetchall()

    def _do(self, name: str, values: dict[str, Any]) -> int:
        with self._cursor() as cursor:
            return cursor.execute(self._operator_sql[name], values).rowcount

    # --- queues

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        if not any(row.kind == kind for row in self.queues()):  # a file that can only be read need not be written
            self._do("NAME_QUEUE", {"kind": kind, "name": name, "type": type_name})

    def queues(self) -> list[QueueRow]:
        return [QueueRow(*found)._replace(paused=bool(found[3])) for found in self._ask("QUEUES", {})]

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool) -> bool:
        with self._transaction() as cursor:
            before = bool(cursor.execute(self._operator_sql["PAUSED"], {"kind": kind}).fetchone()[0])
            values = {"kind": kind, "name": name, "type": type_name, "paused": paused}
            cursor.execute(self._operator_sql["SET_PAUSED"], values)
            return before != paused

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
        return time.time()

    # --- consumers

    def acquire_within(self, kind: str, done: Held, most: int, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._transaction() as cursor:
            acked = cursor.execute(self._sql["ACK"], _held(done)).rowcount
            taken = cursor.execute(self._operator_sql["IN_FLIGHT"], {"kind": kind, "now": now}).fetchone()[0]
            room = min(limit, most - taken)
            return Fetched(acked, self._acquire(cursor, kind, room, now, until, lock) if room > 0 else [])

    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        with self._transaction() as cursor:
            cursor.execute(self._operator_sql["REMEMBER"], {**_held(done), "now": now})
            cursor.execute(self._operator_sql["TRIM_HISTORY"], {"kind": kind, "keep": keep})
            return cursor.execute(self._sql["ACK"], _held(done)).rowcount

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
        self._do("NAME_SCHEDULE", values)

    def schedules(self, kind: str) -> list[ScheduleRow]:
        return [ScheduleRow(*found) for found in self._ask("SCHEDULES", {"kind": kind})]

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        return ScheduleState(*self._ask("SCHEDULE_STATE", {"kind": kind, "prefix": prefix, "hash": config_hash})[0])

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        which = {"kind": kind, "prefix": prefix}
        with self._transaction() as cursor:
            cursor.execute(self._operator_sql["UNNAME_SCHEDULE"], which)
            return cursor.execute(self._operator_sql["FORGET_SCHEDULE"], which).rowcount

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        schedule = {"kind": kind, "prefix": prefix, "hash": config_hash, "now": now}
        created = 0
        with self._transaction() as cursor:
            for tick in ticks:
                entry = {**schedule, "key": tick.key, "nominal": tick.nominal_at}
                if cursor.execute(self._operator_sql["BACKFILL_TICK"], entry).rowcount:
                    value = (tick.key, kind, tick.payload, tick.scheduled_at, now, 0)
                    created += cursor.execute(self._sql["INSERT_NEW"], value).rowcount
        return created


def _held(held: Held) -> dict[str, Any]:
    return {"lock": held.lock, "ids": json.dumps(held.ids)}
