"""ScanFloor: decides at which due time a poll of PostgreSQL begins, so that it skips dead rows.

A delivered message leaves dead index entries at its old due time. While another transaction holds an old snapshot (a
backup, a forgotten ``BEGIN``) vacuum cannot remove them, and a poll for the earliest message reads all of them: 60,000
make it twenty times slower. So when polls are slow, the next ones begin at the earliest due time of a live message, the
*mark*.

In a queue with groups only the search for messages without a group has a mark, and it is always on.

A message that another process offers for a time before the mark may be delivered late, by up to one poll period. So the
mark is off until polls are slow, and off again for a while if it makes them no faster. A poll that returns many rows is
slow by itself, and shows nothing about dead rows, so its time is not judged. Three kinds of polls ignore the
mark: one after a poll that found no message, so that a consumer can empty a queue; one in every poll period; and the
first after an offer by another process.

# Invariants

1. The mark is never later than the due time of any message that this process has offered since the mark was set.
2. At most ``period`` seconds pass between two polls without the mark, as long as there are polls.
3. A poll without messages proves an empty queue if it searched everything, or if the latest full search, and each poll
   since then, found no message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from drainq.delayed.storage.records import LONG_AGO, Row

LOWEST = -(2**63)
SLOW = 0.001
"""Seconds from which a poll is slow: ten times the duration of a poll without dead rows."""
IN_A_ROW = 3
"""Consecutive slow polls that turn the mark on."""
IN_VAIN = 10
"""Consecutive polls without a gain that turn the mark off. More than ``IN_A_ROW``, because a busy machine makes polls
slow, too."""
MANY = 50
"""The time of a poll that returns at least this many rows is not judged."""
HELPS = 2.0
"""How many times faster a poll with the mark must be. Otherwise the time is lost elsewhere, such as in the network."""
REST = 20
"""Periods for which a mark that did not help stays off."""
SLACK_MS = 1000
"""Milliseconds by which the mark stays behind the earliest live message, because offers commit out of order."""


class ScanFloor:
    """The lower end of the due times that a poll searches.

    Args:
        period: the most seconds between two polls that search everything.
        monotonic: the clock that measures this time.
    """

    def __init__(self, period: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._period = period
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._mark = LOWEST
        self._slow_polls = 0
        self._slow = 0.0
        self._useless = 0
        self._rests_until = monotonic()
        self._looked_at_all = monotonic()
        self._empty = self._always = False

    def pass_over_groups(self) -> None:
        """Keep the mark on, because a poll for messages without a group also reads those that wait for a group."""
        self._always = True

    def start(self) -> int:
        """Return where the next poll begins: at the mark, or at the lowest number."""
        with self._lock:
            if self._mark == LOWEST or self._monotonic() - self._looked_at_all >= self._period:
                return LOWEST
            return self._mark

    def polled(self, start: int, seconds: float, rows: Sequence[Row], now: int) -> None:
        """Note a poll that began at ``start``, took ``seconds`` and returned ``rows``."""
        with self._lock:
            self._empty = not rows and (self._empty or start == LOWEST)
            if start == LOWEST:
                self._polled_all(seconds, rows, now)
            elif self._mark != LOWEST:
                self._polled_from_the_mark(seconds, rows)

    def _polled_all(self, seconds: float, rows: Sequence[Row], now: int) -> None:
        self._looked_at_all = self._monotonic()
        if len(rows) >= MANY:
            if self._mark != LOWEST:
                self._set(rows, now)
            return
        if self._always:
            self._set(rows, now)
            return
        if seconds <= SLOW or self._looked_at_all < self._rests_until:
            self._slow_polls, self._mark = 0, LOWEST
            return
        self._slow = seconds if self._slow_polls == 0 else min(seconds, self._slow)
        self._slow_polls += 1
        if self._slow_polls >= IN_A_ROW:
            self._set(rows, now)

    def _set(self, rows: Sequence[Row], now: int) -> None:
        self._mark = max(LOWEST, min((row.scheduled_at for row in rows), default=now) - SLACK_MS)

    def _polled_from_the_mark(self, seconds: float, rows: Sequence[Row]) -> None:
        if rows:
            self._mark = max(self._mark, min(row.scheduled_at for row in rows) - SLACK_MS)
        if len(rows) >= MANY or self._always:
            return
        self._useless = 0 if seconds * HELPS <= self._slow else self._useless + 1
        if self._useless >= IN_VAIN:
            self._useless, self._mark = 0, LOWEST
            self._rests_until = self._monotonic() + REST * self._period

    def is_empty(self) -> bool:
        """Return whether the last poll proves that no message is due."""
        return self._empty

    def heard(self) -> None:
        """Make the next poll search everything, because another process has offered a message."""
        with self._lock:
            self._looked_at_all = float("-inf")

    def offered(self, due_at: int) -> None:
        """Note an offer by this process, so that the mark never hides its message."""
        if due_at < self._mark:  # a racing poll that misses it began before the offer ended
            with self._lock:
                self._mark = LOWEST if due_at <= LONG_AGO else min(self._mark, due_at)
