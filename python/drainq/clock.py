"""The time that decides: what is due, what is leased, what fires.

Waiting itself always takes real time; a clock only says what time it is. So a test hands in a clock that it
moves by hand (:class:`drainq.testing.ManualClock`) and waits for nothing.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything with ``now() -> float``, in seconds since 1970-01-01 UTC."""

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        ...


class SystemClock:
    """The clock of this machine.

    Example:
        >>> SystemClock().now() > 1.7e9
        True
    """

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return time.time()


class MonotonicClock:
    """The machine's monotonic clock, for what lasts no longer than the process: a correction of the calendar's time
    moves no back-off."""

    def now(self) -> float:
        """The time, in seconds since some moment in the past."""
        return time.monotonic()
