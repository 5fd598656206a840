"""Where a poll of PostgreSQL may begin, so that it does not walk over dead rows.

A message that was delivered leaves dead index entries at its old due time. While some other transaction holds an old
snapshot (a backup, a forgotten ``BEGIN``) vacuum cannot remove them, and a poll for the earliest message walks over
all of them: 60,000 make it twenty times slower. So when polls have become slow, the next ones begin at the earliest
due time that was seen alive.

The price: while it is on, a message that another process offers for a time before the mark is found up to one poll
period late. Hence it is off until polls are slow, and once every period one poll looks at everything.

# Invariants

1. The mark is never later than the due time of any message that this process has offered since it was set.
2. At most ``period`` seconds pass between two polls without the mark, as long as there are polls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from drainq.delayed.storage import Row

LOWEST = -(2**63)
SLOW = 0.005
"""Seconds that a poll must take to be called slow, whatever the quickest one took."""
TIMES_SLOWER = 5.0
"""How many times longer than the quickest one a slow poll takes."""
IN_A_ROW = 3
"""Slow polls, one after the other, that turn the mark on."""
SLACK_MS = 1000
"""How far behind the earliest live message the mark stays: offers commit out of order."""


class Watermark:
    """The lower end of the due times that a poll looks at.

    Args:
        period: most seconds between two polls that look at everything.
        monotonic: the clock for that.
    """

    def __init__(self, period: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._period = period
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._mark = LOWEST
        self._quickest = float("inf")
        self._slow_polls = 0
        self._looked_at_all = monotonic()

    def start(self) -> int:
        """Where the next poll begins: the mark, or the lowest number there is."""
        with self._lock:
            if self._mark == LOWEST or self._monotonic() - self._looked_at_all >= self._period:
                return LOWEST
            return self._mark

    def polled(self, start: int, seconds: float, rows: Sequence[Row], now: int) -> None:
        """Tell of a poll that began at ``start``, took ``seconds`` and returned ``rows``."""
        with self._lock:
            if start != LOWEST:
                if rows and self._mark != LOWEST:
                    self._mark = max(self._mark, min(row.scheduled_at for row in rows) - SLACK_MS)
                return
            self._looked_at_all = self._monotonic()
            self._quickest = min(self._quickest, seconds)
            if seconds <= max(SLOW, TIMES_SLOWER * self._quickest):
                self._slow_polls, self._mark = 0, LOWEST
                return
            self._slow_polls += 1
            if self._slow_polls >= IN_A_ROW:
                self._mark = min((row.scheduled_at for row in rows), default=now) - SLACK_MS

    def offered(self, due_at: int) -> None:
        """Tell of an offer by this process; the mark never hides it."""
        if due_at < self._mark:  # a racing poll that misses it is one that began before the offer ended
            with self._lock:
                self._mark = min(self._mark, due_at)
