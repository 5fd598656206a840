"""What goes into storages and comes out of them: messages, what an acquisition owns, dead letters, schedules."""

from __future__ import annotations

import secrets
from typing import NamedTuple, Protocol

TICK_MEMORY_MS = 2 * 24 * 3600 * 1000
"""How long the ledger remembers single ticks; older ones fall below the floor. Far more than two clocks differ."""

LONG_AGO = -(2**62)
"""A time (milliseconds) before every other."""


def new_lock() -> str:
    """Return a name for one acquisition that no other acquisition ever has."""
    return secrets.token_hex(16)  # as random as a UUID, and made in a fifth of the time


class Offer(NamedTuple):
    """A message on its way in."""

    key: str
    payload: bytes
    scheduled_at: int
    can_update: bool
    priority: int = 0


class Row(NamedTuple):
    """A message as it is stored; ``scheduled_at`` is the time it was offered for, ``due_at`` when it is due next."""

    id: int
    key: str
    payload: bytes
    scheduled_at: int
    created_at: int
    attempts: int
    due_at: int
    locked: bool
    priority: int = 0


class Held(NamedTuple):
    """Messages that one acquisition owns (invariant 2)."""

    lock: str
    ids: tuple[int, ...]


class Fetched(NamedTuple):
    """What came of taking messages.

    ``acked`` says how many of those that were to be acknowledged with it were still ours. ``next_due`` is known only if
    there are no ``rows``: the earliest later time (milliseconds) at which a message becomes due, None if none will.
    """

    acked: int
    rows: list[Row]
    next_due: int | None = None


class DeadLetter(NamedTuple):
    """A message that was given up on, with the reason."""

    id: int
    key: str
    payload: bytes
    scheduled_at: int
    attempts: int
    error: str
    died_at: int
    priority: int = 0


class Counts(NamedTuple):
    """How many messages are in each state; ``oldest_ready`` is the earliest due time, None if nothing is due."""

    ready: int
    scheduled: int
    in_flight: int
    oldest_ready: int | None
    redelivered: int
    dead: int


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


class Closeable(Protocol):
    """Something that goes on until it is closed."""

    def close(self) -> None:
        """End it; return when it has ended."""
        ...
