"""Activity: what this process has done with a delayed queue since it opened it, for rates and alarms.

``stats()`` counts the messages that the database holds now, for all processes together. The counters here are those of
one process, cost no query, and only grow.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

from drainq.delayed.storage.records import Row
from drainq.statistics import Statistics

BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
"""Upper bounds (seconds) of the histograms."""


@dataclass(frozen=True)
class TimeHistogram(Statistics):
    """Times by upper bound.

    Attributes:
        up_to: for each bound in seconds, rising, the number of times that were not longer.
        sum: seconds of all times.
        count: the number of all times.
    """

    up_to: tuple[tuple[float, int], ...]
    sum: float
    count: int


@dataclass(frozen=True)
class DelayedQueueActivity(Statistics):
    """Counts of messages that this process handled, since it opened the queue.

    Attributes:
        offered: messages that offers and schedules stored, replacements included.
        replaced: of these, the messages that an offer gave a new payload or time.
        delivered: deliveries to a poll or a handler. A delivery that is given back unhandled counts too.
        acknowledged: messages deleted by an acknowledgement.
        failed: deliveries given back with an error, as when a handler raises.
        retried: deliveries given back to be tried again, with or without an error.
        buried: messages that became dead letters.
        lost: acknowledgements that came too late: the message was replaced, dropped or released, or its lease had
            ended and another consumer took it.
        schedule_errors: checks of schedules that raised, in their function or in the database.
        lateness: seconds from a message's due time, or from its offer if that came later, to its first delivery.
        handler_time: seconds that calls of ``consume``'s handler took.
    """

    offered: int
    replaced: int
    delivered: int
    acknowledged: int
    failed: int
    retried: int
    buried: int
    lost: int
    schedule_errors: int
    lateness: TimeHistogram
    handler_time: TimeHistogram


COUNTERS = tuple(field.name for field in fields(DelayedQueueActivity) if field.type == "int")


class _Times:
    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def read(self) -> TimeHistogram:
        up_to = [*accumulate(self.counts)]
        return TimeHistogram(tuple(zip(BOUNDS, up_to)), self.sum, up_to[-1])


class Activity:
    """Counts what a queue object does. Its methods may be called on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._lateness, self._handler_time = _Times(), _Times()

    def add(self, counter: str, messages: int) -> None:
        """Add to one of the :data:`COUNTERS`."""
        if messages:
            with self._lock:
                self._counts[counter] += messages

    def acknowledged(self, messages: int, deleted: int) -> None:
        """Count an acknowledgement of some messages, ``deleted`` of which were still leased."""
        self.add("acknowledged", deleted)
        self.add("lost", messages - deleted)

    def delivered(self, rows: Sequence[Row], now: int) -> None:
        """Count deliveries at ``now`` (milliseconds), and the lateness of first deliveries."""
        with self._lock:
            self._counts["delivered"] += len(rows)
            for row in rows:
                if row.attempts == 1:
                    self._lateness.add(max(0, now - max(row.scheduled_at, row.created_at)) / 1000)

    def handled(self, seconds: float) -> None:
        """Count a call of the handler."""
        with self._lock:
            self._handler_time.add(seconds)

    def read(self) -> DelayedQueueActivity:
        """Return the current counters."""
        with self._lock:
            return DelayedQueueActivity(
                **self._counts, lateness=self._lateness.read(), handler_time=self._handler_time.read()
            )
