"""Records: the types of a storage's arguments and results: messages, acquisitions, dead letters, schedules."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import NamedTuple, Protocol

from drainq.delayed.message import from_ms

TICK_MEMORY_MS = 2 * 24 * 3600 * 1000
"""How long the ledger keeps single ticks, far longer than two clocks differ. Older ticks fall below the floor."""

LONG_AGO = -(2**62)
"""A time (milliseconds) before every other."""


_TIME_DIGITS = 12
"""Hexadecimal digits of the time in a lock, so that locks sort by their time."""


def lock_prefix(now: int) -> str:
    """Return the beginning of the locks that are made at a time (milliseconds)."""
    return f"{max(0, now):012x}-"


def new_lock(now: int) -> str:
    """Return a unique name for one acquisition. It begins with the acquisition's time."""
    return lock_prefix(now) + secrets.token_hex(11)


def taken_at(lock: str) -> int:
    """Return the time (milliseconds) of an acquisition."""
    return int(lock[:_TIME_DIGITS], 16)


def leased_at(lock: str | None) -> datetime | None:
    """Return when a message was taken. None if it is not leased, or another library or an older version leased it."""
    return None if (at := taken_at_or_none(lock)) is None else from_ms(at)


def taken_at_or_none(lock: str | None) -> int | None:
    """Return the time (milliseconds) of an acquisition; None in the cases of :func:`leased_at`."""
    return taken_at(lock) if lock and lock[_TIME_DIGITS : _TIME_DIGITS + 1] == "-" else None


class Offer(NamedTuple):
    """A message to be stored."""

    key: str
    payload: bytes
    scheduled_at: int
    can_update: bool
    priority: int = 0
    max_attempts: int | None = None
    group: str | None = None


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
    max_attempts: int | None = None
    group: str | None = None


class Chosen(NamedTuple):
    """The messages that an operator means: those that meet every condition that is not None.

    ``key``: the message's key. ``prefix``: the beginning of its key. ``holder``: the host, process or name of the
    consumer that holds it. ``before``: it was taken before that time (milliseconds).
    """

    key: str | None = None
    prefix: str | None = None
    holder: str | None = None
    before: int | None = None

    def values(self, kind: str) -> dict[str, str | bool | None]:
        """Return the parameters of a statement for these messages."""
        before = None if self.before is None else lock_prefix(self.before)
        low = self.prefix or "" if self.key is None else self.key
        return {"kind": kind, "low": low, "exact": self.key is not None, "holder": self.holder, "before": before}


class Held(NamedTuple):
    """Messages that one acquisition owns (invariants 1 and 2 of ``base.py``)."""

    lock: str
    ids: tuple[int, ...]


class Past(NamedTuple):
    """A history that keeps ``keep`` entries. An attempt that ends now (milliseconds) is entered."""

    now: int
    keep: int


class Fetched(NamedTuple):
    """The result of taking messages.

    ``acked`` counts the messages that the same call acknowledged and that were still leased. ``next_due`` is known only
    without ``rows``: the earliest later due time (milliseconds), None if there is none.
    """

    acked: int
    rows: list[Row]
    next_due: int | None = None


class StoredMessage(NamedTuple):
    """A message of a queue, in any state. Times are aware datetimes in UTC; the payload is not decoded.

    Attributes:
        key, payload, priority, max_attempts, group: as they were offered; the payload in the codec's bytes.
        scheduled_at: the offered due time.
        due_at: the next due time; of a message in flight, the end of its lease.
        created_at: when it was offered.
        attempts: how often it was delivered.
        in_flight: whether a consumer holds it.
        last_error: the reason of the last ``nack``, or the handler's last error; None if there was none.
        holder: the consumer that holds it, as ``host/process`` or ``host/process/name``; None if nothing holds it, or
            the consumer is of another library or an older version.
        leased_at: when the consumer took it.
    """

    key: str
    payload: bytes
    scheduled_at: datetime
    due_at: datetime
    created_at: datetime
    attempts: int
    in_flight: bool
    priority: int = 0
    last_error: str | None = None
    holder: str | None = None
    leased_at: datetime | None = None
    max_attempts: int | None = None
    group: str | None = None


class DeadLetter(NamedTuple):
    """A message that was given up on, with the reason. Times are aware datetimes in UTC.

    Attributes:
        id: names the row, for as long as it is there.
        key, payload, priority, max_attempts, group: as they were offered; the payload in the codec's bytes.
        scheduled_at: the offered due time.
        attempts: how often it was delivered.
        error: the handler's error, the argument ``error`` of ``nack``, or drainq's (too many deliveries, undecodable).
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
    max_attempts: int | None = None
    group: str | None = None


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


TickRange = tuple[str, tuple[str, str], tuple[str, str]]
"""A prefix, the range of keys to search for its ticks, and the part of that range to leave out."""


class ScheduleState(NamedTuple):
    """The state that a scheduler checks before it plans a new tick.

    ``config_hash`` and ``description`` are those of the last installed configuration of the prefix, None if the prefix
    is unknown. ``floor`` (microseconds) belongs to the requested configuration. ``made`` is the number of requested
    ticks in the ledger.
    """

    config_hash: str | None
    description: str | None
    floor: int | None
    made: int


class QueueRow(NamedTuple):
    """A stored queue: the name and codec of its kind, and whether it is paused."""

    kind: str
    name: str
    type_name: str
    paused: bool


class QueueInfo(NamedTuple):
    """A queue of a table, as :meth:`DelayedQueue.queues` lists it.

    Attributes:
        name: the queue's name.
        codec: the ``type_name`` of its codec. Queues of one name with different codecs are separate.
        paused: whether it is paused.
        paused_by: who paused it, when and why; None if it is not paused, or an older version paused it.
        ready, scheduled, in_flight, oldest_ready_age, dead: as in :class:`DelayedQueueStats`.
    """

    name: str
    codec: str
    paused: bool
    paused_by: str | None
    ready: int
    scheduled: int
    in_flight: int
    oldest_ready_age: float
    dead: int


class FinishedAttempt(NamedTuple):
    """An ended delivery of a message. Times are aware datetimes in UTC.

    Attributes:
        key: as it was offered.
        scheduled_at: the offered due time.
        attempt: which delivery of the message it was, from 1.
        finished_at: when it ended.
        outcome: ``"acknowledged"``; ``"given back"``, to be delivered again, with or without an error; ``"dead"``, it
            became a dead letter.
        started_at: when the consumer took the message; None in an entry of an older version.
        error: the handler's error, or the reason of ``nack`` or of the dead letter; None if there was none.
        holder: the consumer, as ``host/process`` or ``host/process/name``; None in an entry of an older version.
    """

    key: str
    scheduled_at: datetime
    attempt: int
    finished_at: datetime
    outcome: str = "acknowledged"
    started_at: datetime | None = None
    error: str | None = None
    holder: str | None = None


class Closeable(Protocol):
    """An object that works until it is closed."""

    def close(self) -> None:
        """End the work. Return when it has ended."""
        ...
