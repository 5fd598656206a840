"""What a test of a program that uses drainq needs: a clock that the test moves."""

from __future__ import annotations

import math
import threading
from datetime import datetime, timedelta


class ManualClock:
    """A clock that stands still until it is moved; safe to share between threads.

    Args:
        start: the first time: seconds since the epoch, or an aware datetime.

    Example:
        >>> clock = ManualClock(1_000.0)
        >>> clock.advance(2.5)
        >>> clock.now()
        1002.5
    """

    def __init__(self, start: float | datetime = 1_700_000_000.0) -> None:
        self._lock = threading.Lock()
        self._now = _seconds("start", start)

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        with self._lock:
            return self._now

    def advance(self, by: float | timedelta) -> None:
        """Move the clock by ``by`` seconds; a negative number moves it back, as a corrected clock does."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else _number("by", by)
        with self._lock:
            self._now += seconds

    def set(self, to: float | datetime) -> None:
        """Move the clock to a time: seconds since the epoch, or an aware datetime."""
        with self._lock:
            self._now = _seconds("to", to)


def _seconds(name: str, at: float | datetime) -> float:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{name} needs a zone, got the naive datetime {at!r}: add tzinfo=timezone.utc")
        return at.timestamp()
    return _number(name, at, " since the epoch, or an aware datetime")


def _number(name: str, value: object, more: str = ", or a timedelta") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds{more}, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number of seconds{more}, got {value!r}")
    return float(value)
