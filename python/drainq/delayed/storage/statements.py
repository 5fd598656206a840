"""What SQLite and PostgreSQL share: the methods of a storage that are one named statement each.

A back end writes its statements in files of its own folder (``messages_sql``, ``ticks_sql``, ``schema_sql``), under the
same names, with the same parameters and the same columns in the answer. So a method that only runs one of them is
written once, here. What differs by more than SQL is in other files of the back end's folder:

| file | what it holds |
| --- | --- |
| ``statements`` | the connections, and how a statement is run on them |
| ``offer`` | how messages are stored |
| ``ticks`` | the ticks of schedules |
| ``migrate`` | how tables are made and brought up to date |
| ``storage`` | the storage: all of these, with what consumers and operators do |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from drainq.delayed.cron.tick_key import hash_in
from drainq.delayed.storage.operator_protocol import FinishedMessage, QueueRow, ScheduleRow, ScheduleState
from drainq.delayed.storage.protocol import Counts
from drainq.delayed.storage.records import DeadLetter, Held, Row


def statements_of(modules: Iterable[ModuleType], fill: Callable[[str], str]) -> dict[str, str]:
    """The statements of some modules by name, with the names of the tables filled in."""
    texts = {name: text for module in modules for name, text in vars(module).items() if name[0].isupper()}
    return {name: fill(text) for name, text in texts.items() if isinstance(text, str)}


class StatementStorage(ABC):
    """The methods of a :class:`~drainq.delayed.storage.protocol.Storage` that are one statement each."""

    _sql: dict[str, str]

    # --- what a back end says

    @abstractmethod
    def _ask(self, name: str, values: dict[str, Any]) -> list[Any]:
        """Run a statement; return its rows."""

    @abstractmethod
    def _do(self, name: str, values: dict[str, Any]) -> int:
        """Run a statement; return how many rows it changed."""

    def _ask_patiently(self, name: str, values: dict[str, Any]) -> list[Any]:
        """Run a statement that may read a whole queue."""
        return self._ask(name, values)

    def _do_patiently(self, name: str, values: dict[str, Any]) -> int:
        """Run a statement that may change a whole queue."""
        return self._do(name, values)

    def _ask_for_schedules(self, name: str, values: dict[str, Any]) -> list[Any]:
        """Run a statement of a scheduler."""
        return self._ask(name, values)

    def _do_for_schedules(self, name: str, values: dict[str, Any]) -> int:
        """Run a statement of a scheduler; return how many rows it changed."""
        return self._do(name, values)

    @abstractmethod
    def _in_transaction_of(self, connection: Any) -> AbstractContextManager[Any]:
        """A cursor in the transaction of the caller's own connection."""

    @abstractmethod
    def _ids(self, ids: Sequence[int]) -> str:
        """Ids as the value of one parameter."""

    @abstractmethod
    def _keys(self, keys: Sequence[str]) -> Any:
        """Message keys as the value of one parameter."""

    def _row(self, found: Sequence[Any]) -> Row:
        return Row._make(found)

    def _in_order(self, found: Iterable[Sequence[Any]]) -> list[Row]:
        """Rows in the order of delivery, which an UPDATE does not keep."""
        return sorted(map(self._row, found), key=lambda row: (row.priority, row.scheduled_at, row.id))

    def _held(self, held: Held) -> dict[str, Any]:
        return {"lock": held.lock, "ids": self._ids(held.ids)}

    # --- consumers

    def ack(self, kind: str, done: Held, *, connection: Any = None) -> int:
        if connection is None:
            return self._do("ACK", self._held(done))
        with self._in_transaction_of(connection) as cursor:
            acked: int = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            return acked

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        return self._do("NACK", {**self._held(held), "due": due_at, "error": error})

    def release(self, kind: str, held: Held) -> int:
        return self._do("RELEASE", self._held(held))

    def extend(self, kind: str, held: Held, until: int) -> int:
        return self._do("EXTEND", {**self._held(held), "until": until})

    def next_due(self, kind: str, after: int) -> int | None:
        due: int | None = self._ask("NEXT_DUE", {"kind": kind, "after": after})[0][0]
        return due

    def history(self, kind: str, limit: int) -> list[FinishedMessage]:
        return [FinishedMessage(*found) for found in self._ask("HISTORY", {"kind": kind, "limit": limit})]

    # --- reading and removing

    def read(self, kind: str, key: str) -> Row | None:
        found = self._ask("READ", {"kind": kind, "key": key})
        return self._row(found[0]) if found else None

    def contains(self, kind: str, key: str) -> bool:
        return bool(self._ask("CONTAINS", {"kind": kind, "key": key})[0][0])

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        what = {"id": row.id, "created": row.created_at, "at": row.scheduled_at, "payload": row.payload}
        return self._do("DELETE_UNCHANGED", {**what, "kind": kind, "key": row.key}) > 0

    def drop(self, kind: str, key: str) -> bool:
        return self._do("DROP", {"kind": kind, "key": key}) > 0

    def drop_all(self, kind: str) -> int:
        return self._do_patiently("DROP_ALL", {"kind": kind})

    def peek(self, kind: str, limit: int) -> list[Row]:
        return [self._row(found) for found in self._ask("PEEK", {"kind": kind, "limit": limit})]

    def counts(self, kind: str, now: int) -> Counts:
        return Counts(*self._ask_patiently("COUNTS", {"kind": kind, "now": now})[0])

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        return [DeadLetter(*found) for found in self._ask("DEAD", {"kind": kind, "limit": limit})]

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        values = {"kind": kind, "prefix": prefix, "limit": limit}
        return [DeadLetter(*found) for found in self._ask("DEAD_OF", values)]

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        return [key for (key,) in self._ask("DEAD_KEYS", {"kind": kind, "prefix": prefix})]

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        return self._do_patiently("DROP_DEAD", {"kind": kind, "keys": None if keys is None else self._keys(keys)})

    def purge_dead(self, kind: str, before: int) -> int:
        return self._do_patiently("PURGE_DEAD", {"kind": kind, "before": before})

    # --- queues

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        if not any(row.kind == kind for row in self.queues()):  # a database that may only be read is not written to
            self._do("NAME_QUEUE", {"kind": kind, "name": name, "type": type_name})

    def queues(self) -> list[QueueRow]:
        return [QueueRow(*found)._replace(paused=bool(found[3])) for found in self._ask("QUEUES", {})]

    def is_paused(self, kind: str) -> bool:
        return bool(self._ask("PAUSED", {"kind": kind})[0][0])

    def mark_ranked(self, kind: str, *, name: str, type_name: str, connection: Any = None) -> None:
        values = {"kind": kind, "name": name, "type": type_name}
        if connection is None:
            self._do("MARK_RANKED", values)
            return
        with self._in_transaction_of(connection) as cursor:
            cursor.execute(self._sql["MARK_RANKED"], values)

    # --- schedules

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "until": until}
        latest: int | None = self._ask_for_schedules("LAST_TICK", values)[0][0]
        return latest

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "description": description, "now": now}
        self._do_for_schedules("NAME_SCHEDULE", values)

    def schedules(self, kind: str) -> list[ScheduleRow]:
        return [ScheduleRow(*found) for found in self._ask("SCHEDULES", {"kind": kind})]

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        values = {"kind": kind, "prefix": prefix, "hash": config_hash}
        return ScheduleState(*self._ask_for_schedules("SCHEDULE_STATE", values)[0])

    def _forget(
        self, cursor: Any, kind: str, prefix: str, within: tuple[str, str], *, but: tuple[str, str], after: int
    ) -> int:
        """Delete the ticks of ``prefix`` that were never delivered, from the ledger too; return how many.

        Args:
            within: the range of keys to search; ``but``: the part of it to leave alone.
            after: leave what is due at this time or before.
        """
        keys = {"low": within[0], "high": within[1], "but_low": but[0], "but_high": but[1]}
        cursor.execute(self._sql["UNDELIVERED_TICKS"], {"kind": kind, "after": after, **keys})
        doomed = [(number, key) for number, key in cursor.fetchall() if hash_in(key, prefix) is not None]
        if doomed:
            cursor.execute(self._sql["DELETE_TICKS"], {"ids": self._ids([number for number, _ in doomed])})
            cursor.execute(self._sql["FORGET_TICKS"], {"kind": kind, "keys": self._keys([key for _, key in doomed])})
        return len(doomed)
