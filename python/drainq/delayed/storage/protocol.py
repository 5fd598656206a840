"""What a back end must do, in one protocol: memory, SQLite and PostgreSQL each implement it.

A storage knows bytes and integers only: payloads are encoded, times are milliseconds since the epoch (UTC), and
``kind`` (md5 of queue name and codec) tells the queues of one table apart. It reads no clock: ``now`` is handed in.

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

import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.operator_protocol import Operator, Tick
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row

TICK_MEMORY_MS = 2 * 24 * 3600 * 1000
"""How long the ledger remembers single ticks; older ones fall below the floor. Far more than two clocks differ."""

LONG_AGO = -(2**62)
"""A time (milliseconds) before every other."""


class Offer(NamedTuple):
    """A message on its way in."""

    key: str
    payload: bytes
    scheduled_at: int
    can_update: bool
    priority: int = 0


def new_lock() -> str:
    """A name for one acquisition that no other acquisition ever has."""
    return secrets.token_hex(16)  # as random as a UUID, and made in a fifth of the time


class Counts(NamedTuple):
    """How many messages are in each state; ``oldest_ready`` is the earliest due time, None if nothing is due."""

    ready: int
    scheduled: int
    in_flight: int
    oldest_ready: int | None
    redelivered: int
    dead: int


class Closeable(Protocol):
    """Something that goes on until it is closed."""

    def close(self) -> None:
        """End it; return when it has ended."""
        ...


class Storage(Operator, Protocol):
    """Where messages live. Methods may be called from many threads at once."""

    worth_prefetching: bool
    """Whether a consumer is to take messages ahead: each statement costs a round trip, and none waits for a transaction
    of the same program's that has touched other rows."""

    is_shared: bool
    """Whether other processes can use this storage, too."""

    def connect(self) -> None:
        """Open the first connection; raise the driver's error if that fails. Every other method does it, too."""
        ...

    def migrate(self) -> list[str]:
        """Bring the tables up to date, also those that another implementation made; return the names of the steps."""
        ...

    def is_ready(self) -> bool:
        """Whether the tables are there and up to date; an index that only makes a queue quicker may be missing."""
        ...

    def migration_sql(self) -> str:
        """The statements that :meth:`migrate` would run now; empty if the tables are up to date."""
        ...

    # --- producers

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
        ...

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str, *, done: Held | None = None) -> Fetched:
        """Take up to ``limit`` due messages, earliest first, and delete ``done``; what came is ours until ``until``."""
        ...

    def ack(self, kind: str, done: Held, *, connection: Any = None) -> int:
        """Delete what is still ours; return how many. ``connection``: the caller's own, which the caller commits."""
        ...

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        """Give back what is still ours, to be delivered again at ``due_at``; return how many."""
        ...

    def release(self, kind: str, held: Held) -> int:
        """Give back what is still ours as if it had never been fetched; return how many."""
        ...

    def extend(self, kind: str, held: Held, until: int) -> int:
        """Move the end of the lease of what is still ours; return how many."""
        ...

    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        """Move what is still ours to the dead letters; return how many."""
        ...

    def next_due(self, kind: str, after: int) -> int | None:
        """The earliest time later than ``after`` at which a message becomes due."""
        ...

    # --- looking and removing

    def read(self, kind: str, key: str) -> Row | None:
        """The message of this key, without taking it."""
        ...

    def contains(self, kind: str, key: str) -> bool:
        """Whether there is a message of this key; its payload stays where it is."""
        ...

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        """Delete the message if payload, time and creation are still those of ``row``."""
        ...

    def drop(self, kind: str, key: str) -> bool:
        """Delete the message of this key, in flight or not."""
        ...

    def drop_all(self, kind: str) -> int:
        """Delete every message of the queue; return how many."""
        ...

    def peek(self, kind: str, limit: int) -> list[Row]:
        """The first messages by due time, without taking them."""
        ...

    def counts(self, kind: str, now: int) -> Counts:
        """How many messages are in each state."""
        ...

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        """The dead letters, the latest first."""
        ...

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        """Put dead letters back, due now; one whose key is taken by a live message stays. Return how many went back."""
        ...

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        """Delete dead letters for good; return how many."""
        ...

    # --- schedules

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
        ...

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        """Delete and forget the ticks of this prefix and configuration that were never delivered; return how many."""
        ...

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        """The latest ``nominal_at`` (microseconds), at most ``until``, that was created for this configuration."""
        ...

    # --- the connection

    def listen(self, kind: str, wake: Callable[[str], None]) -> Closeable | None:
        """Call ``wake`` with what is announced, and with the empty text if something may have been missed.

        None: nothing is ever heard here.
        """
        ...

    def is_transient(self, error: BaseException) -> bool:
        """Whether the same call may succeed if it is made again: a deadlock, a busy file, a lost connection."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...
