"""What an operator asks of an SQLite file; a part of :class:`~drainq.delayed.storage.sqlite.SQLiteStorage`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from drainq.delayed.storage import sqlite_operator_sql as sql
from drainq.delayed.storage.operator import ScheduleRow, ScheduleState, Tick
from drainq.delayed.storage.table_names import TableNames


class SQLiteOperator:
    """Uses the storage's connection and transactions."""

    _names: TableNames
    _sql: dict[str, str]

    def _cursor(self) -> AbstractContextManager[sqlite3.Cursor]:
        raise NotImplementedError

    def _transaction(self) -> AbstractContextManager[sqlite3.Cursor]:
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
                    value = (tick.key, kind, tick.payload, tick.scheduled_at, now)
                    created += cursor.execute(self._sql["INSERT_NEW"], value).rowcount
        return created
