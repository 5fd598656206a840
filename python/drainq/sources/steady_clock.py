"""The steady clock: wraps a user's clock, for the back-off of a source, so that it neither goes back nor fails.

A user's clock may jump, raise, or return something that is no number. A refill would then wait for too long, or never
run.

Invariants:
    1. The time never goes back. A jump back by more than ``_JITTER`` is added to all later times, so a wait keeps its
       remaining length. After a smaller jump, as between two threads that read at once, the time stands still.
    2. :meth:`SteadyClock.now` raises no Exception: a failure is reported, and the machine's own clock continues from
       the last good time. :meth:`SteadyClock.certain` raises nothing at all.
    3. The user's clock is called without a lock.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable

from drainq.clock import Clock

_JITTER = 1.0
"""Seconds by which the reading of a second thread may lie before that of the first."""


class SteadyClock:
    """A clock that neither goes back nor fails.

    Args:
        clock: an object with ``now() -> float`` in seconds.
        report: a bound method, held weakly. Called with the clock's exception, or a ValueError for a wrong result.

    Example:
        >>> from drainq.testing import ManualClock
        >>> manual = ManualClock(1_000.0)
        >>> from drainq.sources.prefetch_reports import Reports
        >>> reports = Reports("example", "log", threading.Condition())
        >>> steady = SteadyClock(manual, reports.report)
        >>> steady.now()
        1000.0
        >>> manual.advance(-600)
        >>> steady.now()
        1000.0
        >>> manual.advance(5)
        >>> steady.now()
        1005.0
    """

    def __init__(self, clock: Clock, report: Callable[[BaseException], object]) -> None:
        self._clock = clock
        self._reporter = weakref.WeakMethod(report)
        self._lock = threading.Lock()
        self._last = 0.0
        self._last_read = time.monotonic()
        self._added = 0.0

    def now(self) -> float:
        """Return the time in seconds, which is never less than before."""
        try:
            read = float(self._clock.now())
            if not 0 <= read < math.inf:
                raise ValueError(f"clock.now() must be a number of seconds >= 0, got {read!r}")
        except Exception as error:
            self._report(error)
            return self._go_on()
        with self._lock:
            now = read + self._added
            if now < self._last - _JITTER:
                self._added += self._last - now
            self._last, self._last_read = max(self._last, now), time.monotonic()
            return self._last

    def certain(self) -> float:
        """Return the time in seconds even if the clock raises, for a background thread that must continue."""
        try:
            return self.now()
        except BaseException as error:
            self._report(error)
            return self._go_on()

    def _report(self, error: BaseException) -> None:
        report = self._reporter()
        if report is not None:
            report(error)

    def _go_on(self) -> float:
        with self._lock:
            now = time.monotonic()
            self._last, self._last_read = self._last + now - self._last_read, now
            return self._last
