"""CronMessage: a payload and the tick that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from drainq.delayed.cron.tick_key import tick_key
from drainq.delayed.message import ScheduledMessage, When, to_ms

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
        >>> from datetime import datetime, timezone
        >>> noon = datetime(2025, 1, 1, 12, tzinfo=timezone.utc)
        >>> CronMessage("hello", noon).to_scheduled("abc", "daily-report").key
        'daily-report/abc/20250101-120000.000000000'

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

    @staticmethod
    def key(config_hash: str, key_prefix: str, schedule_at: When) -> str:
        """Return the key of one tick's message: ``{key_prefix}/{config_hash}/{yyyyMMdd-HHmmss.nnnnnnnnn}`` in UTC."""
        return tick_key(key_prefix, config_hash, microseconds(in_utc(schedule_at, "schedule_at")))

    @staticmethod
    def static(payload: T) -> Callable[[datetime], T]:
        """Return a ``payload_of`` that gives every tick the same payload."""
        return lambda at: payload

    def to_scheduled(self, config_hash: str, key_prefix: str, can_update: bool = False) -> ScheduledMessage[T]:
        """Convert this message for :meth:`~drainq.delayed.DelayedQueue.offer_batch`."""
        key = self.key(config_hash, key_prefix, self.schedule_at)
        return ScheduledMessage(key, self.payload, self.delivered_at, can_update)


def in_utc(at: When, what: str) -> datetime:
    """Convert an aware datetime or seconds since the epoch to a datetime in UTC. ``what`` names it in errors."""
    to_ms(at, what)  # raises an error if it is no time
    return at.astimezone(timezone.utc) if isinstance(at, datetime) else _EPOCH + timedelta(seconds=at)


def microseconds(at: datetime) -> int:
    """Return the microseconds since the epoch."""
    return (at - _EPOCH) // _MICROSECOND
