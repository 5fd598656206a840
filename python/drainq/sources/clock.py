"""The clock of what lasts no longer than the process."""

from __future__ import annotations

import time


class MonotonicClock:
    """The machine's monotonic clock: a correction of the calendar's time moves no back-off."""

    def now(self) -> float:
        """Return the seconds since some moment in the past."""
        return time.monotonic()
