"""What a back end must do, in one abstract class, which SQLite (in a file or in memory) and PostgreSQL extend.

A storage knows bytes and integers only: payloads are encoded, times are milliseconds since the epoch (UTC), and
``kind`` (md5 of queue name and codec) tells the queues of one table apart. It reads no clock: ``now`` is handed in.

A back end writes its statements in files of its own folder (``messages_sql``, ``ticks_sql``, ``schema_sql``), under the
same names, with the same parameters and the same columns in the answer. So a method that only runs one of them is
written once, here; a method that differs by more than SQL is abstract, and in another file of the back end's folder:

| file | what it holds |
| --- | --- |
| ``statements`` | the connections, and how a statement is run on them |
| ``offer`` | how messages are stored |
| ``ticks`` | the ticks of schedules |
| ``migrate`` | how tables are made and brought up to date |
| ``storage`` | the storage: all of these, with what consumers and operators do |

# Invariants

1. A row is *in flight* while ``lockUuid`` is set: one acquisition owns it until its ``scheduledAt`` (the end of the
   lease) passes, and still owns it after that as long as no other acquisition takes it over.
2. Every change by a consumer names the lock it holds. A row that was updated or taken over carries another lock, or
   none, so a stale call changes nothing and counts 0.
3. A method is one transaction: it happened whole or not at all.
4. A tick of a schedule is created at most once: the key of each tick ever created stays in the tick ledger until its
   schedule's floor has passed it, and nothing at or below the floor is created again.
5. The floor is a tick that was due, was recorded and was delivered, and all that longer than ``TICK_MEMORY_MS`` ago. So
   a clock that was ahead for less than that raises no floor over ticks that are still to come.

Source: the schema and statements of funfix ``delayedqueue``; attempts, dead letters and the ledger are ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from drainq.delayed.cron.tick_key import hash_in
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.records import (
    Closeable,
    Counts,
    DeadLetter,
    Fetched,
    FinishedMessage,
    Held,
    Offer,
    QueueRow,
    Row,
    ScheduleRow,
    ScheduleState,
    Tick,
)
from drainq.sql.driver_errors import passes


class Storage(ABC):
    """Keeps messages. Methods may be called from many threads at once."""

    worth_prefetching: bool
    """Whether a consumer is to take messages ahead: each statement costs a round trip, and none waits for a transaction
    of the same program's that has touched other rows."""

    is_shared: bool
    """Whether other processes can use this storage, too."""

    _sql: dict[str, str]

    # --- how statements run

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
        """Return a cursor in the transaction of the caller's own connection."""

    @abstractmethod
    def _ids(self, ids: Sequence[int]) -> str:
        """Write ids as the value of one parameter."""

    @abstractmethod
    def _keys(self, keys: Sequence[str]) -> Any:
        """Write message keys as the value of one parameter."""

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
        """Open the first connection; raise the driver's error if that fails. Every other method does it, too."""

    @abstractmethod
    def migrate(self) -> list[str]:
        """Bring the tables up to date, also those that another implementation made; return the names of the steps."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the tables are up to date; an index that only makes a queue quicker may be missing."""

    @abstractmethod
    def migration_sql(self) -> str:
        """Return the statements that :meth:`migrate` would run now; empty if the tables are up to date."""

    @abstractmethod
    def listen(self, kind: str, wake: Callable[[str], None]) -> Closeable | None:
        """Call ``wake`` with what is announced, and with the empty text if something may have been missed.

        None: nothing is ever heard here.
        """

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the same call may succeed if it is made again: a deadlock, a busy file, a lost connection."""
        return passes(error)

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and threads."""

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
        """Insert or update, one after the other in the order given, with an outcome for each.

        ``connection``: the caller's own, which the caller commits. ``announce``: what consumers elsewhere hear.
        ``again``: the same offers, with the same ``now``, were made before and the answer was lost; what is found
        stored just so was stored by that try, and is not called ignored.
        """

    # --- consumers

    @abstractmethod
    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str, *, done: Held | None = None) -> Fetched:
        """Take up to ``limit`` due messages, earliest first, and delete ``done``; what came is ours until ``until``."""

    @abstractmethod
    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        """Delete ``done`` and take up to ``limit`` due messages, but none that is beyond a limit in flight.

        ``limits``: by key prefix; ``""`` is the whole queue. A message that finds no room is stepped over.

        Exact among all that call it: they take turns.
        """

    def ack(self, kind: str, done: Held, *, connection: Any = None) -> int:
        """Delete what is still ours; return how many. ``connection``: the caller's own, which the caller commits."""
        if connection is None:
            return self._do("ACK", self._held(done))
        with self._in_transaction_of(connection) as cursor:
            acked: int = cursor.execute(self._sql["ACK"], self._held(done)).rowcount
            return acked

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        """Give back what is still ours, to be delivered again at ``due_at``; return how many."""
        return self._do("NACK", {**self._held(held), "due": due_at, "error": error})

    def release(self, kind: str, held: Held) -> int:
        """Give back what is still ours as if it had never been fetched; return how many."""
        return self._do("RELEASE", self._held(held))

    def extend(self, kind: str, held: Held, until: int) -> int:
        """Move the end of the lease of what is still ours; return how many."""
        return self._do("EXTEND", {**self._held(held), "until": until})

    @abstractmethod
    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        """Move what is still ours to the dead letters; return how many."""

    @abstractmethod
    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        """Delete what is still ours and enter it into the history, of which ``keep`` entries stay; return how many."""

    def next_due(self, kind: str, after: int) -> int | None:
        """Return the earliest time later than ``after`` at which a message becomes due."""
        due: int | None = self._ask("NEXT_DUE", {"kind": kind, "after": after})[0][0]
        return due

    def history(self, kind: str, limit: int) -> list[FinishedMessage]:
        """Return the messages that were acknowledged, the latest first."""
        return [FinishedMessage(*found) for found in self._ask("HISTORY", {"kind": kind, "limit": limit})]

    # --- reading and removing

    def read(self, kind: str, key: str) -> Row | None:
        """Return the message of this key, without taking it."""
        found = self._ask("READ", {"kind": kind, "key": key})
        return self._row(found[0]) if found else None

    def contains(self, kind: str, key: str) -> bool:
        """Return whether there is a message of this key; its payload stays where it is."""
        return bool(self._ask("CONTAINS", {"kind": kind, "key": key})[0][0])

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        """Delete the message if payload, time and creation are still those of ``row``."""
        what = {"id": row.id, "created": row.created_at, "at": row.scheduled_at, "payload": row.payload}
        return self._do("DELETE_UNCHANGED", {**what, "kind": kind, "key": row.key}) > 0

    def drop(self, kind: str, key: str) -> bool:
        """Delete the message of this key, in flight or not."""
        return self._do("DROP", {"kind": kind, "key": key}) > 0

    def drop_all(self, kind: str) -> int:
        """Delete every message of the queue; return how many."""
        return self._do_patiently("DROP_ALL", {"kind": kind})

    def peek(self, kind: str, limit: int) -> list[Row]:
        """Return the first messages by due time, without taking them."""
        return [self._row(found) for found in self._ask("PEEK", {"kind": kind, "limit": limit})]

    def counts(self, kind: str, now: int) -> Counts:
        """Count the messages in each state."""
        return Counts(*self._ask_patiently("COUNTS", {"kind": kind, "now": now})[0])

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        """Return the dead letters, the latest first."""
        return [DeadLetter(*found) for found in self._ask("DEAD", {"kind": kind, "limit": limit})]

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        """Return the dead letters whose keys begin with ``prefix``, the latest first."""
        values = {"kind": kind, "prefix": prefix, "limit": limit}
        return [DeadLetter(*found) for found in self._ask("DEAD_OF", values)]

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        """Return the keys of dead letters that begin with ``prefix``, each once."""
        return [key for (key,) in self._ask("DEAD_KEYS", {"kind": kind, "prefix": prefix})]

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        """Delete dead letters for good; return how many."""
        return self._do_patiently("DROP_DEAD", {"kind": kind, "keys": None if keys is None else self._keys(keys)})

    def purge_dead(self, kind: str, before: int) -> int:
        """Delete the dead letters that died before a time; return how many."""
        return self._do_patiently("PURGE_DEAD", {"kind": kind, "before": before})

    @abstractmethod
    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        """Put dead letters back, due now; one whose key is taken by a live message stays. Return how many went back."""

    # --- queues

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        """Write down what ``kind`` stands for, unless that is known."""
        if not any(row.kind == kind for row in self.queues()):  # a database that may only be read is not written to
            self._do("NAME_QUEUE", {"kind": kind, "name": name, "type": type_name})

    def queues(self) -> list[QueueRow]:
        """Return the queues of this table that were ever opened or paused, by name."""
        return [QueueRow(*found)._replace(paused=bool(found[3])) for found in self._ask("QUEUES", {})]

    def is_paused(self, kind: str) -> bool:
        """Return whether the queue is paused."""
        return bool(self._ask("PAUSED", {"kind": kind})[0][0])

    def mark_ranked(self, kind: str, *, name: str, type_name: str, connection: Any = None) -> None:
        """Have the queue delivered by priority from now on; ``connection``: the caller's own, as for an offer."""
        values = {"kind": kind, "name": name, "type": type_name}
        if connection is None:
            self._do("MARK_RANKED", values)
            return
        with self._in_transaction_of(connection) as cursor:
            cursor.execute(self._sql["MARK_RANKED"], values)

    @abstractmethod
    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool) -> bool:
        """Pause a queue, so that nothing is acquired from it, or resume it; return whether that changed anything."""

    # --- schedules

    @abstractmethod
    def install_ticks(
        self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int, update: bool = False
    ) -> int:
        """Make ``config_hash`` the configuration of ``prefix`` and create its new ticks, in one transaction.

        First every tick of ``prefix`` with another configuration that was never delivered and is not yet due is deleted
        and forgotten (a tick that is due, in flight, expired or given back with :meth:`nack` stays). Then each of
        ``ticks`` that was never created before is created. With ``update`` a tick that was created, but never
        delivered, takes the new payload and time.

        ``prefix`` may hold any character. Keys are those of :func:`drainq.delayed.cron.tick_key.tick_key`.

        Returns:
            How many ticks were created.
        """

    @abstractmethod
    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        """Delete and forget the ticks of this prefix and configuration that were never delivered; return how many."""

    @abstractmethod
    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        """Create the ticks that the ledger does not hold, those below the floor too; return how many.

        No other configuration's ticks are deleted.
        """

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        """Return the latest ``nominal_at`` (microseconds, at most ``until``) that this configuration created."""
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "until": until}
        latest: int | None = self._ask_for_schedules("LAST_TICK", values)[0][0]
        return latest

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        """Write down that this configuration is installed under ``prefix``, in place of any other."""
        values = {"kind": kind, "prefix": prefix, "hash": config_hash, "description": description, "now": now}
        self._do_for_schedules("NAME_SCHEDULE", values)

    def schedules(self, kind: str) -> list[ScheduleRow]:
        """Return the installed schedules by prefix, each with the latest tick that its configuration created."""
        return [ScheduleRow(*found) for found in self._ask("SCHEDULES", {"kind": kind})]

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        """Return the configuration that ``prefix`` has now, and the floor of ``config_hash``."""
        values = {"kind": kind, "prefix": prefix, "hash": config_hash}
        return ScheduleState(*self._ask_for_schedules("SCHEDULE_STATE", values)[0])

    @abstractmethod
    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        """Delete the prefix from the schedules and its ticks and floors from the ledger; return how many entries.

        Messages stay.
        """

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
