"""Storage: the abstract class of all back ends, which SQLite (in a file or in memory) and PostgreSQL extend.

A storage gets encoded values: payloads are bytes, times are milliseconds since the epoch (UTC), and ``kind`` (md5 of
queue name and codec) separates the queues of one table. Calls for messages read no clock: ``now`` is an argument.

A back end has its statements in files of its folder (``messages_sql``, ``ticks_sql``, ``schema_sql``), with the same
names, parameters and columns in every back end. So a method that only runs one of them is written here once. A method
that differs by more than SQL is abstract here, and implemented in another file of the back end's folder:

| file | what it holds |
| --- | --- |
| ``statements`` | the connections, and methods to run a statement |
| ``offer`` | stores messages |
| ``ticks`` | stores the ticks of schedules |
| ``migrate`` | creates tables and brings them up to date |
| ``storage`` | joins the others, with the methods for consumers and operators |

# Invariants

1. A row with a ``lockUuid`` belongs to one acquisition. It is *in flight* until its ``scheduledAt`` (the end of the
   lease) passes. After that it still belongs to the acquisition until another one takes it over.
2. Every change by a consumer names the lock it holds. A row that was updated or taken over carries another lock, or
   none, so a stale call changes nothing and counts 0.
3. A method is one transaction: all of it happens, or none.
4. A tick of a schedule is created at most once: the key of each tick ever created stays in the tick ledger until its
   schedule's floor has passed it, and nothing at or below the floor is created again.
5. The floor is a delivered tick that became due, and was recorded, longer than ``TICK_MEMORY_MS`` ago. So a clock that
   was ahead for less than that raises no floor above future ticks.

Source: the schema and statements of funfix ``delayedqueue``; attempts, dead letters and the ledger are drainq's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from drainq.delayed.cron.tick_key import hash_in
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.operator_calls import OperatorCalls
from drainq.delayed.storage.records import (
    Closeable,
    Fetched,
    Held,
    Offer,
    Past,
    Row,
    ScheduleRow,
    ScheduleState,
    Tick,
    TickRange,
    taken_at_or_none,
)
from drainq.sql.driver_errors import passes

_OUTCOMES = {"ACK": "acknowledged", "NACK": "given back", "BURY": "dead"}


class Storage(OperatorCalls):
    """Stores messages. Several threads may call the methods at once."""

    worth_prefetching: bool
    """Whether a consumer should prefetch: if a statement costs a round trip and never waits for another transaction of
    the same program."""

    marks_apart = False
    """Whether :meth:`mark_ranked` runs outside the transaction of a caller's offer. If the mark locked a row until the
    caller's commit, callers of one queue would take turns."""

    is_shared: bool
    """Whether other processes can use this storage, too."""

    holder = ""
    """Stored with each message that is taken: the host, process and name of the consumer."""

    most_calls = 10
    """The most calls that may run at once."""

    @abstractmethod
    def _in_transaction_of(self, connection: Any) -> AbstractContextManager[Any]:
        """Return a cursor in the transaction of the caller's own connection."""

    @abstractmethod
    def _ids(self, ids: Sequence[int]) -> str:
        """Write ids as the value of one parameter."""

    def _row(self, found: Sequence[Any]) -> Row:
        return Row._make(found)

    def _in_order(self, found: Iterable[Sequence[Any]]) -> list[Row]:
        """Return rows in the order of delivery, which an UPDATE does not keep."""
        return sorted(map(self._row, found), key=lambda row: (row.priority, row.scheduled_at, row.id))

    def _held(self, held: Held) -> dict[str, Any]:
        return {"lock": held.lock, "ids": self._ids(held.ids)}

    # --- the connection

    @abstractmethod
    def connect(self) -> None:
        """Open the first connection, or raise the driver's error. Every other method connects if necessary."""

    @abstractmethod
    def migrate(self) -> list[str]:
        """Bring the tables up to date, also those of another implementation. Return the names of the steps."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the tables are up to date. An index that only makes a queue faster may be missing."""

    @abstractmethod
    def migration_sql(self) -> str:
        """Return the statements that :meth:`migrate` would run now; empty if the tables are up to date."""

    @abstractmethod
    def listen(self, kind: str, wake: Callable[[str], None]) -> Closeable | None:
        """Call ``wake`` with each announced text, and with the empty text if some may have been missed.

        Returns None if the storage has no announcements.
        """

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the same call may succeed later: after a deadlock, a busy file or a lost connection."""
        return passes(error)

    @abstractmethod
    def close(self) -> None:
        """Close connections and end threads."""

    @abstractmethod
    def database_time(self) -> float:
        """Return seconds since the epoch by the clock of the database, or of this machine if the database has none."""

    # --- producers

    @abstractmethod
    def offer(
        self,
        kind: str,
        offers: Sequence[Offer],
        now: int,
        *,
        connection: Any = None,
        announce: str | None = None,
        again: bool = False,
    ) -> list[OfferOutcome]:
        """Insert or update messages in order. Return the outcome of each.

        ``connection``: the caller's own, which the caller commits. ``announce``: the text for consumers elsewhere.
        ``again``: the same offers, with the same ``now``, were made before and the answer was lost. Rows that equal an
        offer were stored by that try, so the offer does not count as ignored.
        """

    # --- consumers

    @abstractmethod
    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str, *, done: Held | None = None) -> Fetched:
        """Delete ``done``, then take up to ``limit`` due messages in the order of delivery, leased until ``until``."""

    @abstractmethod
    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        """Delete ``done``, then take up to ``limit`` due messages, within the limits in flight.

        ``limits``: by key prefix; ``""`` is the whole queue. A message without room is skipped.

        The limits are exact, because callers take turns.
        """

    def ack(self, kind: str, done: Held, *, past: Past | None = None, connection: Any = None) -> int:
        """Delete messages that are still leased. Return how many. ``past``: the history that records the attempts.
        ``connection``: the caller's own, which the caller commits."""
        if connection is None:
            return self._end("ACK", kind, done, {}, past)
        with self._in_transaction_of(connection) as cursor:
            acked: int = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            return acked

    def nack(self, kind: str, held: Held, due_at: int, error: str | None, past: Past | None = None) -> int:
        """Release messages that are still leased, to be delivered again at ``due_at``. Return how many."""
        return self._end("NACK", kind, held, {"due": due_at, "error": error}, past)

    def release(self, kind: str, held: Held, due_at: int | None = None) -> int:
        """Release messages that are still leased as if they had never been fetched. Return how many.

        ``due_at``: their new due time; None: the former one.
        """
        return self._do("RELEASE", {**self._held(held), "due": due_at})

    def release_taken(self, kind: str, lock: str) -> int:
        """Release all messages of an acquisition as if they had never been fetched. Return how many."""
        return self._do("RELEASE_TAKEN", {"lock": lock, "due": None})

    def extend(self, kind: str, held: Held, until: int) -> int:
        """Move the end of messages' leases. Return how many were still leased."""
        return self._do("EXTEND", {**self._held(held), "until": until})

    def bury(self, kind: str, held: Held, now: int, error: str, past: Past | None = None) -> int:
        """Make messages that are still leased dead letters. Return how many."""
        return self._end("BURY", kind, held, {"now": now, "error": error}, past)

    def _end(self, name: str, kind: str, held: Held, values: dict[str, Any], past: Past | None) -> int:
        """End attempts by a statement, and enter them in the history if there is one. Return how many."""
        values = {"error": None, **self._held(held), **values}
        if past is None:
            return self._end_only(name, values)
        values |= {"outcome": _OUTCOMES[name], "started": taken_at_or_none(held.lock), "finished": past.now}
        return self._end_and_remember(name, values, kind, past.keep)

    @abstractmethod
    def _end_only(self, name: str, values: dict[str, Any]) -> int:
        """End attempts by a statement. Return how many."""

    @abstractmethod
    def _end_and_remember(self, name: str, values: dict[str, Any], kind: str, keep: int) -> int:
        """End attempts by a statement, enter them in the history, and trim it to ``keep`` entries. Return how many."""

    def next_due(self, kind: str, after: int) -> int | None:
        """Return the earliest time later than ``after`` at which a message becomes due."""
        due: int | None = self._ask("NEXT_DUE", {"kind": kind, "after": after})[0][0]
        return due

    # --- reading and removing

    def read(self, kind: str, key: str) -> Row | None:
        """Return the message of this key, without taking it."""
        found = self._ask("READ", {"kind": kind, "key": key})
        return self._row(found[0]) if found else None

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        """Delete the message if payload, time and creation are still those of ``row``."""
        what = {"id": row.id, "created": row.created_at, "at": row.scheduled_at, "payload": row.payload}
        return self._do("DELETE_UNCHANGED", {**what, "kind": kind, "key": row.key}) > 0

    @abstractmethod
    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        """Make dead letters messages again, due now. Skip keys of live messages. Return how many."""

    # --- queues

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        """Record the name and codec of ``kind``, unless they are recorded."""
        if not any(row.kind == kind for row in self.queues()):  # a read-only database is not written to
            self._do("NAME_QUEUE", {"kind": kind, "name": name, "type": type_name})

    def mark_ranked(self, kind: str, *, name: str, type_name: str, connection: Any = None) -> None:
        """Deliver the queue by priority from now on. ``connection``: the caller's own, as for an offer."""
        values = {"kind": kind, "name": name, "type": type_name}
        if connection is None:
            self._do("MARK_RANKED", values)
            return
        with self._in_transaction_of(connection) as cursor:
            cursor.execute(self._sql["MARK_RANKED"], values)

    @abstractmethod
    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool, by: str | None = None) -> bool:
        """Pause a queue, so that no message is acquired from it, or resume it. Return whether its state changed.
        ``by``: who paused the queue, when and why."""

    # --- schedules

    @abstractmethod
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
        """Make ``config_hash`` the configuration of ``prefix`` and create its new ticks, in one transaction.

        First every tick of ``prefix`` with another configuration that was never delivered and is not yet due is deleted
        and forgotten (a tick that is due, in flight, expired or released with :meth:`nack` stays). Then each of
        ``ticks`` that was never created before is created. With ``update`` a tick that was created, but never
        delivered, takes the new payload and time. With a ``description`` the schedule is first named by it, as by
        :meth:`name_schedule`.

        ``prefix`` may hold any character. Keys are those of :func:`drainq.delayed.cron.tick_key.tick_key`.

        Returns:
            How many ticks were created.
        """

    @abstractmethod
    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        """Delete and forget the ticks of this prefix and configuration that were never delivered. Return how many."""

    @abstractmethod
    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        """Create the ticks that the ledger does not hold, also those below the floor. Return how many.

        No other configuration's ticks are deleted.
        """

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        """Return the latest ``nominal_at`` (microseconds, at most ``until``) that this configuration created."""
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "until": until}
        latest: int | None = self._ask_for_schedules("LAST_TICK", values)[0][0]
        return latest

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        """Record that this configuration is installed under ``prefix``, in place of any other."""
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "description": description, "now": now}
        self._do_for_schedules("NAME_SCHEDULE", values)

    def schedules(self, kind: str) -> list[ScheduleRow]:
        """Return the installed schedules by prefix, each with the latest tick that its configuration created."""
        return [ScheduleRow(*found) for found in self._ask("SCHEDULES", {"kind": kind})]

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str, keys: Sequence[str]) -> ScheduleState:
        """Return the present configuration of ``prefix``, the floor of ``config_hash``, and how many ticks of ``keys``
        were made."""
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "keys": self._keys(keys)}
        return ScheduleState(*self._ask_for_schedules("SCHEDULE_STATE", values)[0])

    def made_ticks(self, kind: str, keys: Sequence[str]) -> set[str]:
        """Return which of the ticks ``keys`` are in the ledger."""
        return {key for (key,) in self._ask_for_schedules("MADE_TICKS", {"kind": kind, "keys": self._keys(keys)})}

    @abstractmethod
    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        """Delete the prefix from the schedules, and its ticks and floors from the ledger. Return how many ledger
        entries. Messages stay.
        """

    @abstractmethod
    def _undelivered(
        self, cursor: Any, kind: str, ranges: Sequence[TickRange], after: int
    ) -> list[tuple[int, str, str]]:
        """Find, and lock, the ticks in some ranges that were never delivered and are due later than ``after``.

        Return the id, key and prefix of each. A key may belong to a longer prefix.
        """

    def _forget(self, cursor: Any, kind: str, ranges: Sequence[TickRange], *, after: int) -> int:
        """Delete the ticks that were never delivered, from the ledger too. Return how many.

        ``after``: keep ticks that are due at this time or before.
        """
        found = self._undelivered(cursor, kind, ranges, after)
        doomed = [(number, key) for number, key, prefix in found if hash_in(key, prefix) is not None]
        if doomed:
            cursor.execute(self._sql["DELETE_TICKS"], {"ids": self._ids([number for number, _ in doomed])})
            cursor.execute(self._sql["FORGET_TICKS"], {"kind": kind, "keys": self._keys([key for _, key in doomed])})
        return len(doomed)
