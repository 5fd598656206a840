"""Messages: the key, payload and time that are offered, and the outcome of an offer."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from drainq.arguments import kind_of
from drainq.errors import UnfitItem

T = TypeVar("T")

#: When: an aware datetime, or seconds since the epoch.
When = datetime | float | int

MAX_KEY_LENGTH = 200
"""Characters in a key; the column is as wide."""

_ERROR_LENGTH = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z, the first that a datetime can hold
_LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last that a datetime can hold


class OfferOutcome(enum.Enum):
    """The outcome of an offer."""

    CREATED = "created"
    UPDATED = "updated"
    IGNORED = "ignored"

    @property
    def is_ignored(self) -> bool:
        """True if the offer changed nothing. A repeated offer that finds its own message, because its first answer was
        lost, is not ignored."""
        return self is OfferOutcome.IGNORED


class DeliveryType(enum.Enum):
    """The kind of a delivery: the first, or a later one, before which another consumer may have handled the message."""

    FIRST_DELIVERY = "first_delivery"
    REDELIVERY = "redelivery"


@dataclass(frozen=True)
class ScheduledMessage(Generic[T]):
    """One message of an :meth:`~drainq.delayed.DelayedQueue.offer_batch`.

    Args:
        key: names the message in its queue; 1 to 200 characters.
        payload: a value that the queue's codec can encode.
        schedule_at: when it becomes due: an aware datetime, or seconds since the epoch. Kept to the millisecond. None:
            at once.
        can_update: whether an existing message gets this payload and time.
        priority: of the due messages, those with a lower number are delivered first.
        max_attempts: how often it is delivered before it becomes a dead letter; None: as the queue and its consumer set
            it.
        group: messages of one group are delivered by due time, one at a time; 1 to 200 characters. None: no group.
    """

    key: str
    payload: T
    schedule_at: When | None = None
    can_update: bool = True
    priority: int = 0
    max_attempts: int | None = None
    group: str | None = None


def check_key(key: object, what: str = "a key") -> str:
    """Return ``key``, or raise an error if it cannot be one. The rules are the same for every back end, and for groups.

    ``what`` names the value in the error.
    """
    if not isinstance(key, str):
        raise UnfitItem(f"{what} must be a str, got {kind_of(key)}")
    if not 1 <= len(key) <= MAX_KEY_LENGTH:
        raise UnfitItem(f"{what} must have 1 to {MAX_KEY_LENGTH} characters, got {len(key)}")
    check_text(key, what, is_value=True)
    return key


NUL = "\x00"
_SURROGATE = re.compile("[\ud800-\udfff]")

MIN_PRIORITY = -(2**31)
"""The lowest number that a priority may be, which is served first."""


def check_priority(priority: object) -> int:
    """Return ``priority``, or raise an error if it cannot be one."""
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise TypeError(f"a priority must be an int, got {priority!r}")
    if not MIN_PRIORITY <= priority < -MIN_PRIORITY:
        raise ValueError(f"a priority must fit into 32 bits, got {priority!r}")
    return priority


def check_text(text: str, what: str, *, is_value: bool = False) -> None:
    """Refuse text that no database stores: NUL and lone surrogates. The error does not show a value's text."""
    if NUL in text:
        got = f"one at place {text.index(NUL)}" if is_value else repr(text)
        raise UnfitItem(f"{what} must not contain a NUL character, got {got}")
    check_unicode(text, what, is_value=is_value)


def check_unicode(text: str, what: str, *, is_value: bool = True) -> None:
    """Refuse lone surrogates, which UTF-8 does not have."""
    found = None if text.isascii() else _SURROGATE.search(text)
    if found:
        shown = "" if is_value else f"{text!r} with "
        raise UnfitItem(f"{what} must be valid Unicode, got {shown}a lone surrogate at place {found.start()}")


def in_range(seconds: float) -> bool:
    """Return whether a number of seconds since the epoch can be a message's time."""
    return _FIRST_MS < seconds * 1000 < _LAST_MS


def to_ms(at: object, what: str = "schedule_at") -> int:
    """Convert a time to milliseconds since the epoch, rounded down."""
    if type(at) is float and _FIRST_MS < at * 1000 < _LAST_MS:  # the common case, a million times a minute
        return round(at * 1_000_000) // 1000  # the float nearest to .123 is below it
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{what} needs a zone, got the naive datetime {at!r}: add tzinfo=timezone.utc")
        ms = (at - _EPOCH) // timedelta(milliseconds=1)
    elif isinstance(at, (int, float)) and not isinstance(at, bool):
        if at != at or at in (float("inf"), float("-inf")):
            raise ValueError(f"{what} must be finite, got {at!r}")
        # Rounded to microseconds first: the float nearest to .123 lies below it. Clamped, so that it cannot overflow.
        ms = at * 1000 if isinstance(at, int) else round(min(max(at, _FIRST_MS), _LAST_MS) * 1_000_000) // 1000
    else:
        raise TypeError(f"{what} must be an aware datetime or seconds since the epoch, got {at!r}")
    if not _FIRST_MS <= ms <= _LAST_MS:
        raise ValueError(f"{what} must lie in the years 1 to 9999, got {at!r}")
    return ms


MOST_MESSAGES = 2**31 - 1
"""The largest number of messages that a call may ask for: more than any database returns at once."""


def check_count(name: str, value: object) -> int:
    """Raise an error unless the value is a whole number from 1 to :data:`MOST_MESSAGES`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_MESSAGES:
        raise ValueError(f"{name} must be a whole number of at least 1 and at most {MOST_MESSAGES}, got {value!r}")
    return value


def from_ms(ms: int) -> datetime:
    """Convert milliseconds since the epoch to the nearest aware datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=min(max(ms, _FIRST_MS), _LAST_MS))


def error_text(error: BaseException | str) -> str:
    """Return a reason as text of at most 2,000 characters, without NUL or lone surrogates."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")[:_ERROR_LENGTH]
