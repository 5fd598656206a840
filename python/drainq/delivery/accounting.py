"""The books of a worker: its counters, in which each item that reached the worker has exactly one outcome.

1. ``accepted = sent + refused + dead_lettered + lost + pending`` at every moment. An item moves between these outcomes
   under one lock. If the sink answers late, the item moves from ``lost`` to ``sent``.
2. ``retried``, ``resent``, ``expired`` and ``unknown`` count events and are in no sum.
3. No count is ever negative: a worker never subtracts items that another worker gave up on.

Source: SkyWalking's workers count items before they are sent; drainq counts the outcome of each item.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drainq.statistics import BatchQueueStats, Statistics


class Outcome(enum.Enum):
    """The outcomes under which :class:`Books` counts items."""

    PENDING = "pending"
    SENT = "sent"
    REFUSED = "refused"
    DEAD_LETTERED = "dead_lettered"
    LOST = "lost"


@dataclass(frozen=True)
class WorkerStats(Statistics):
    """Counts of items by outcome: ``accepted = sent + refused + dead_lettered + lost + pending``.

    Args:
        sent: taken by the sink.
        retried: failed tries that were repeated, one for each item and try; in no sum.
        refused: not accepted by the sink because of their values.
        dead_lettered: given to a delayed queue.
        lost: given up; they become sent if the sink answers late.
        pending: queued, being sent, or held until the next flush.
        queue: the batch queue's own counters; None if :meth:`Books.stats` got none.
        accepted: accepted by ``produce`` or by a call of the worker as a handler.
        resent: sent from the delayed queue for another worker, which counts them as dead-lettered; in no sum.
        expired: refused items that were too old.
        per_type: items accepted, by their class.
        unknown: items that were given up or sent once more although they may have arrived; in no sum.
    """

    sent: int
    retried: int
    refused: int
    dead_lettered: int
    lost: int
    pending: int
    queue: BatchQueueStats | None
    accepted: int = 0
    resent: int = 0
    expired: int = 0
    per_type: Mapping[Any, int] = field(default_factory=dict)
    unknown: int = 0


class Books:
    """The counters of one worker.

    Example:
        >>> books = Books()
        >>> books.arrive(3)
        >>> books.move(2, Outcome.PENDING, Outcome.SENT)
        >>> books.count(Outcome.SENT), books.count(Outcome.PENDING)
        (2, 1)
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset all counts to zero, at the start or in a forked child."""
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(Outcome, 0)
        self._retried = self._resent = self._expired = self._unknown = 0

    def arrive(self, count: int) -> None:
        """Count items as pending."""
        with self._lock:
            self._counts[Outcome.PENDING] += count

    def move(self, count: int, before: Outcome, after: Outcome) -> None:
        """Move items from one outcome to another."""
        with self._lock:
            self._counts[before] -= count
            self._counts[after] += count

    def note(self, *, retried: int = 0, resent: int = 0, expired: int = 0, unknown: int = 0) -> None:
        """Count events."""
        with self._lock:
            self._retried += retried
            self._resent += resent
            self._expired += expired
            self._unknown += unknown

    def count(self, outcome: Outcome) -> int:
        """Return the number of items with an outcome."""
        with self._lock:
            return self._counts[outcome]

    def stats(
        self, queue: BatchQueueStats | None = None, *, on_the_way: int = 0, per_type: Mapping[Any, int] | None = None
    ) -> WorkerStats:
        """Return a snapshot.

        Args:
            queue: the batch queue's counters.
            on_the_way: items that the queue has accepted and not yet handed to the worker.
            per_type: items accepted, by their class.
        """
        with self._lock:
            of = self._counts
            return WorkerStats(
                of[Outcome.SENT],
                self._retried,
                of[Outcome.REFUSED],
                of[Outcome.DEAD_LETTERED],
                of[Outcome.LOST],
                of[Outcome.PENDING] + on_the_way,
                queue,
                accepted=sum(of.values()) + on_the_way,
                resent=self._resent,
                expired=self._expired,
                per_type=dict(per_type or {}),
                unknown=self._unknown,
            )
