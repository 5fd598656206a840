"""CronMessage: a payload and the tick that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from drainq.delayed.message import When, to_ms

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class CronMessage(Generic[T]):
    """A payload and the tick that it belongs to.

    Args:
        payload: the payload of the message.
        schedule_at: the tick, an aware datetime or seconds since the epoch; it makes the key.
        schedule_at_actual: the time of delivery, if not the tick itself (to spread a load, for example). The key is
            still the tick's.

    Both times are kept as aware datetimes in UTC.

    Example:
        >>> CronMessage("hello", 1735732800).delivered_at.isoformat()
        '2025-01-01T12:00:00+00:00'

    Source: ``CronMessage.kt`` of funfix ``delayedqueue``.
    """

    payload: T
    schedule_at: datetime
    schedule_at_actual: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule_at", in_utc(self.schedule_at, "schedule_at"))
        if self.schedule_at_actual is not None:
            object.__setattr__(self, "schedule_at_actual", in_utc(self.schedule_at_actual, "schedule_at_actual"))

    @property
    def delivered_at(self) -> datetime:
        """The due time of the message."""
        return self.schedule_at if self.schedule_at_actual is None else self.schedule_at_actual


def in_utc(at: When, what: str) -> datetime:
    """Convert an aware datetime or seconds since the epoch to a datetime in UTC. ``what`` names it in errors."""
    to_ms(at, what)  # raises an error if it is no time
    return at.astimezone(timezone.utc) if isinstance(at, datetime) else _EPOCH + timedelta(seconds=at)


def microseconds(at: datetime) -> int:
    """Return the microseconds since the epoch."""
    return (at - _EPOCH) // _MICROSECOND
