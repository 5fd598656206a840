"""Time as an object handed in, so that a test can move it by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that tells the time."""

    def now(self) -> float:
        """Return the time in seconds; it never goes back."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Return the seconds since some moment in the past."""
        return time.monotonic()


class WallClock:
    """The machine's calendar clock: for times that outlast the process."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()
