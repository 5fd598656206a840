"""What an operator asks of a back end, beside what producers and consumers do: the second half of the protocol.

A back end implements it beside the first half, :class:`drainq.delayed.storage.protocol.Storage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from drainq.delayed.storage.records import DeadLetter, Fetched, Held


class Tick(NamedTuple):
    """One message of a schedule.

    ``nominal_at`` (microseconds since the epoch) is the moment that the key names; ``scheduled_at`` (milliseconds) is
    when the message is delivered.
    """

    key: str
    payload: bytes
    nominal_at: int
    scheduled_at: int


class ScheduleRow(NamedTuple):
    """A schedule as it is stored; ``installed_at`` is in milliseconds, ``last_tick`` in microseconds."""

    key_prefix: str
    config_hash: str
    description: str
    installed_at: int
    last_tick: int | None


class ScheduleState(NamedTuple):
    """What a scheduler checks when it plans a new tick.

    ``config_hash`` is the configuration that was installed last under the prefix, None if the prefix is unknown;
    ``floor`` (microseconds) belongs to the configuration that was asked for.
    """

    config_hash: str | None
    floor: int | None


class QueueRow(NamedTuple):
    """A queue as it is stored: what its kind stands for, and whether it is paused."""

    kind: str
    name: str
    type_name: str
    paused: bool


class FinishedMessage(NamedTuple):
    """A message that was acknowledged; times are in milliseconds."""

    key: str
    scheduled_at: int
    attempts: int
    finished_at: int


class Operator(Protocol):
    """The part of a storage that an operator needs. Methods may be called from many threads at once."""

    # --- queues

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        """Write down what ``kind`` stands for, unless that is known."""
        ...

    def queues(self) -> list[QueueRow]:
        """The queues of this table that were ever opened or paused, by name."""
        ...

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool) -> bool:
        """Pause a queue, so that nothing is acquired from it, or resume it; return whether that changed anything."""
        ...

    def is_paused(self, kind: str) -> bool:
        """Whether the queue is paused."""
        ...

    def mark_ranked(self, kind: str, *, name: str, type_name: str, connection: Any = None) -> None:
        """Have the queue delivered by priority from now on; ``connection``: the caller's own, as for an offer."""
        ...

    def database_time(self) -> float:
        """Seconds since the epoch by the clock of the database, or of this machine if the database has none."""
        ...

    # --- consumers

    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        """Delete ``done`` and take up to ``limit`` due messages, but none that is beyond a limit in flight.

        ``limits``: by key prefix; ``""`` is the whole queue. A message that finds no room is stepped over.

        Exact among all that call it: they take turns.
        """
        ...

    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        """Delete what is still ours and enter it into the history, of which ``keep`` entries stay; return how many."""
        ...

    def history(self, kind: str, limit: int) -> list[FinishedMessage]:
        """The messages that were acknowledged, the latest first."""
        ...

    # --- dead letters

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        """The dead letters whose keys begin with ``prefix``, the latest first."""
        ...

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        """The keys of dead letters that begin with ``prefix``, each once."""
        ...

    def purge_dead(self, kind: str, before: int) -> int:
        """Delete the dead letters that died before a time; return how many."""
        ...

    # --- schedules

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        """Write down that this configuration is installed under ``prefix``, in place of any other."""
        ...

    def schedules(self, kind: str) -> list[ScheduleRow]:
        """The schedules that were installed, by prefix, each with the latest tick that its configuration created."""
        ...

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        """The configuration that ``prefix`` has now, and the floor of ``config_hash``."""
        ...

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        """Delete the prefix from the schedules and its ticks and floors from the ledger; return how many entries.

        Messages stay.
        """
        ...

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        """Create the ticks that the ledger does not hold, those below the floor too; return how many.

        No other configuration's ticks are deleted.
        """
        ...
