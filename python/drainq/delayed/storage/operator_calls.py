"""The calls of a storage that list, count, move and delete messages: those of operators.

Each runs one statement. All but ``DROP_DEAD`` are those of ``operator_sql``, which are the same in every back end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from drainq.delayed.message import from_ms
from drainq.delayed.storage.records import (
    Chosen,
    DeadLetter,
    FinishedAttempt,
    QueueInfo,
    QueueRow,
    StoredMessage,
    leased_at,
    taken_at_or_none,
)


def dead_letter(found: Sequence[Any]) -> DeadLetter:
    """Return the dead letter of a row, whose times are milliseconds."""
    row = DeadLetter(*found)
    return row._replace(scheduled_at=from_ms(found[3]), died_at=from_ms(found[6]))


def stored_message(found: Sequence[Any]) -> StoredMessage:
    """Return the message of a row that has times in milliseconds, and the lock in place of the time of the lease."""
    key, payload, scheduled, due, created, attempts, priority, error, holder, lock, *more = found
    taken = leased_at(lock)
    times = from_ms(scheduled), from_ms(due), from_ms(created)
    holder = None if taken is None else holder
    return StoredMessage(key, payload, *times, attempts, lock is not None, priority, error, holder, taken, *more)


def age_of(oldest: int | None, now: int) -> float:
    """Return the seconds for which the oldest message has been due; 0.0 without one, or if it is due after ``now``."""
    return 0.0 if oldest is None else max(0.0, (now - oldest) / 1000)


def finished(
    key: str, scheduled: int, attempt: int, finished: int, outcome: str, started: int | None, *more: str | None
) -> FinishedAttempt:
    """Return the ended attempt of a row, whose times are milliseconds."""
    started_at = None if started is None else from_ms(started)
    return FinishedAttempt(key, from_ms(scheduled), attempt, from_ms(finished), outcome, started_at, *more)


class OperatorCalls(ABC):
    """The part of a :class:`~drainq.delayed.storage.base.Storage` that operators use, and how statements run."""

    _sql: dict[str, str]

    # --- how statements run

    @abstractmethod
    def _ask(self, name: str, values: dict[str, Any]) -> list[Any]:
        """Run a statement. Return its rows."""

    @abstractmethod
    def _do(self, name: str, values: dict[str, Any]) -> int:
        """Run a statement. Return how many rows it changed."""

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
        """Run a statement of a scheduler. Return how many rows it changed."""
        return self._do(name, values)

    @abstractmethod
    def _keys(self, keys: Sequence[str]) -> Any:
        """Write message keys as the value of one parameter."""

    # --- messages

    def contains(self, kind: str, key: str) -> bool:
        """Return whether there is a message of this key, without reading its payload."""
        return bool(self._ask("CONTAINS", {"kind": kind, "key": key})[0][0])

    def drop(self, kind: str, key: str) -> bool:
        """Delete the message of this key, in flight or not."""
        return self._do("DROP", {"kind": kind, "key": key}) > 0

    def drop_all(self, kind: str, chosen: Chosen) -> int:
        """Delete messages, in flight or not. Return how many."""
        return self._do_patiently("DROP_ALL", chosen.values(kind))

    def free(self, kind: str, chosen: Chosen, now: int) -> int:
        """Take leased messages from their consumers, and make them due now. Return how many."""
        return self._do_patiently("FREE", {**chosen.values(kind), "now": now})

    def reschedule(self, kind: str, chosen: Chosen, at: int, now: int) -> int:
        """Give messages that no consumer holds another due time. Return how many.

        A message that is already due keeps its place if ``at`` is not later than now.
        """
        return self._do_patiently("RESCHEDULE", {**chosen.values(kind), "at": at, "now": now})

    def peek(self, kind: str, chosen: Chosen, limit: int) -> list[StoredMessage]:
        """Return the first of these messages by due time, without taking them."""
        found = self._ask_patiently("PEEK", {**chosen.values(kind), "limit": limit})
        return [stored_message(columns) for columns in found]

    def counts(self, kind: str, now: int) -> Sequence[Any]:
        """Return the values of :class:`~drainq.delayed.DelayedQueueStats`, in its order."""
        found = [*self._ask_patiently("COUNTS", {"kind": kind, "now": now})[0]]
        found[3], found[6], found[9] = age_of(found[3], now), bool(found[6]), age_of(taken_at_or_none(found[9]), now)
        return found

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        """Return the dead letters, the latest first."""
        return [dead_letter(found) for found in self._ask("DEAD", {"kind": kind, "limit": limit})]

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        """Return the dead letters whose keys begin with ``prefix``, the latest first."""
        values = {"kind": kind, "prefix": prefix, "limit": limit}
        return [dead_letter(found) for found in self._ask("DEAD_OF", values)]

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        """Return the keys of dead letters that begin with ``prefix``, each once."""
        return [key for (key,) in self._ask("DEAD_KEYS", {"kind": kind, "prefix": prefix})]

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        """Delete dead letters. Return how many."""
        return self._do_patiently("DROP_DEAD", {"kind": kind, "keys": None if keys is None else self._keys(keys)})

    def purge_dead(self, kind: str, before: int) -> int:
        """Delete the dead letters that died before a time. Return how many."""
        return self._do_patiently("PURGE_DEAD", {"kind": kind, "before": before})

    # --- ended attempts, and queues

    def history(self, kind: str, limit: int, key: str | None = None) -> list[FinishedAttempt]:
        """Return the attempts that were entered in the history, of a message or of all, the latest first."""
        return [finished(*found) for found in self._ask("HISTORY", {"kind": kind, "limit": limit, "key": key})]

    def queues(self) -> list[QueueRow]:
        """Return the queues of this table that were ever opened or paused, by name."""
        return [QueueRow(*found)._replace(paused=bool(found[3])) for found in self._ask("QUEUES", {})]

    def overview(self, now: int) -> list[QueueInfo]:
        """Return the queues of this table by name, each with the number of its messages, in one statement."""
        return [
            QueueInfo(name, codec, bool(paused), by, ready, later, held, age_of(oldest, now), dead)
            for name, codec, paused, by, ready, later, held, oldest, dead in self._ask_patiently(
                "OVERVIEW", {"now": now}
            )
        ]

    def is_paused(self, kind: str) -> bool:
        """Return whether the queue is paused."""
        return bool(self._ask("PAUSED", {"kind": kind})[0][0])
