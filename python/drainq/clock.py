"""Clock: tells which messages are due, which leases have ended, and which schedules fire.

Waiting always takes real time. A clock only tells the time: with a clock that a test moves by hand
(:class:`drainq.testing.ManualClock`), things become due without waiting.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Any object with ``now() -> float``, in seconds since 1970-01-01 UTC."""

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        ...


class SystemClock:
    """The clock of this machine.

    Example:
        >>> SystemClock().now() > 1.7e9
        True
    """

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return time.time()


class MonotonicClock:
    """The machine's monotonic clock, for times within one process. No change of the system clock affects it."""

    def now(self) -> float:
        """Return the seconds since some moment in the past."""
        return time.monotonic()
