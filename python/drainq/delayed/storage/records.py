"""Records: the types of a storage's arguments and results: messages, acquisitions, dead letters, schedules."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import NamedTuple, Protocol

TICK_MEMORY_MS = 2 * 24 * 3600 * 1000
"""How long the ledger keeps single ticks, far longer than two clocks differ. Older ticks fall below the floor."""

LONG_AGO = -(2**62)
"""A time (milliseconds) before every other."""


def new_lock() -> str:
    """Return a name for one acquisition that no other acquisition ever has."""
    return secrets.token_hex(16)  # as random as a UUID, and made in a fifth of the time


class Offer(NamedTuple):
    """A message to be stored."""

    key: str
    payload: bytes
    scheduled_at: int
    can_update: bool
    priority: int = 0


class Row(NamedTuple):
    """A stored message. ``scheduled_at`` is the offered due time, ``due_at`` the next one."""

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
    """The result of taking messages.

    ``acked`` counts the messages that were acknowledged with it and were still leased. ``next_due`` is known only
    without ``rows``: the earliest later due time (milliseconds), None if there is none.
    """

    acked: int
    rows: list[Row]
    next_due: int | None = None


class StoredMessage(NamedTuple):
    """A message of a queue, in any state. Times are aware datetimes in UTC; the payload is not decoded.

    Attributes:
        key, payload, priority: as they were offered; the payload in the codec's bytes.
        scheduled_at: the offered due time.
        due_at: the next due time; of a message in flight, the end of its lease.
        created_at: when it was offered.
        attempts: how often it was delivered.
        in_flight: whether a consumer holds it.
    """

    key: str
    payload: bytes
    scheduled_at: datetime
    due_at: datetime
    created_at: datetime
    attempts: int
    in_flight: bool
    priority: int = 0


class DeadLetter(NamedTuple):
    """A message that was given up on, with the reason. Times are aware datetimes in UTC.

    Attributes:
        id: names the row, for as long as it is there.
        key, payload, priority: as they were offered; the payload in the codec's bytes.
        scheduled_at: the offered due time.
        attempts: how often it was delivered.
        error: the reason: the handler's error, or the argument ``error`` of ``nack``.
        died_at: when it was given up on.
    """

    id: int
    key: str
    payload: bytes
    scheduled_at: datetime
    attempts: int
    error: str
    died_at: datetime
    priority: int = 0


class Counts(NamedTuple):
    """The number of messages in each state. ``oldest_ready`` is the earliest due time, None if no message is due."""

    ready: int
    scheduled: int
    in_flight: int
    oldest_ready: int | None
    redelivered: int
    dead: int


class Tick(NamedTuple):
    """One message of a schedule.

    ``nominal_at`` (microseconds since the epoch) is the time in the key. ``scheduled_at`` (milliseconds) is the due
    time of the message.
    """

    key: str
    payload: bytes
    nominal_at: int
    scheduled_at: int


class ScheduleRow(NamedTuple):
    """A stored schedule. ``installed_at`` is in milliseconds, ``last_tick`` in microseconds."""

    key_prefix: str
    config_hash: str
    description: str
    installed_at: int
    last_tick: int | None


class ScheduleState(NamedTuple):
    """The state that a scheduler checks before it plans a new tick.

    ``config_hash`` is the last installed configuration of the prefix, None if the prefix is unknown. ``floor``
    (microseconds) belongs to the requested configuration. ``made`` of the requested ticks are in the ledger.
    """

    config_hash: str | None
    floor: int | None
    made: int


class QueueRow(NamedTuple):
    """A stored queue: the name and codec of its kind, and whether it is paused."""

    kind: str
    name: str
    type_name: str
    paused: bool


class FinishedMessage(NamedTuple):
    """An acknowledged message. Times are aware datetimes in UTC.

    Attributes:
        key: as it was offered.
        scheduled_at: the offered due time.
        attempts: how often it was delivered.
        finished_at: when it was acknowledged.
    """

    key: str
    scheduled_at: datetime
    attempts: int
    finished_at: datetime


class Closeable(Protocol):
    """An object that works until it is closed."""

    def close(self) -> None:
        """End the work. Return when it has ended."""
        ...
