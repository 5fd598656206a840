"""When a source is asked again: at once, not before an interval is over, or after a delay that grows.

Source: ours. ``QueueingLimitedSource`` in "Fast Critical Path with Async Queueing" asks at every pull, a source that
fails or has nothing too.
"""

from __future__ import annotations

import random  # noqa: F401  (Backoff.delay imports it late: on a background thread, a fork could catch it half imported)
from collections.abc import Callable

from drainq.backoff import Backoff
from drainq.sources.prefetch_read import Refill

DEFAULT_RETRY = Backoff()


class Schedule:
    """The earliest time of the next refill; not locked.

    Args:
        retry: the delays after refills that brought nothing new.
        min_interval: seconds from the start of one refill to the next at least.
        report: called with what ``retry`` raises.
    """

    def __init__(self, retry: Backoff, min_interval: float, report: Callable[[BaseException], None]) -> None:
        self._retry = retry
        self._min_interval = min_interval
        self._report = report
        self._earliest = -float("inf")
        self._in_vain = 0
        self.not_before = -float("inf")
        """Seconds of the clock before which no refill starts."""
        self.only_duplicates = False
        """Whether the last refill found items, all of them known: once one is forgotten, asking again may help."""

    def delay(self) -> float:
        """The seconds to wait if the refill that ends now was in vain; asks foreign code, and raises nothing."""
        try:
            return self._retry.delay(self._in_vain)
        except BaseException as error:  # of a subclass
            self._report(error)
            return DEFAULT_RETRY.delay(self._in_vain)

    def begun(self, now: float) -> None:
        """A refill begins."""
        self._earliest = now + self._min_interval

    def ended(self, refill: Refill, now: float, delay: float, *, stream_ended: bool) -> bool:
        """A refill has ended; returns whether it brought something."""
        brought = refill.added > 0 and refill.error is None
        self.only_duplicates = refill.error is None and refill.found > 0 and not refill.added
        if brought or (self.only_duplicates and refill.outdated):
            self._in_vain = 0
            self.not_before = self._earliest
        elif refill.error is not None or not stream_ended:
            self._in_vain += 1
            self.not_before = max(self._earliest, now + delay)
        return brought

    def forgotten(self) -> None:
        """Items were forgotten: what was a duplicate may be none any more."""
        if self.only_duplicates:
            self.not_before = self._earliest
