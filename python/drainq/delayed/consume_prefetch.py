"""Prefetch: messages that a consumer takes together and passes to its handler one by one.

Fetching each message by itself costs a round trip and a commit, which a quick handler would mostly wait for. So for a
quick handler, one statement takes several messages, and the next fetch acknowledges all of them. For any other handler
no message is prefetched.

# Invariants

1. A call of the same queue object, on any thread, never sees the prefetch: first the handled messages are acknowledged
   and the waiting ones released, and for a while no message is prefetched.
2. If a handler turns out to be slow, the lease keeper releases the waiting messages within a second, and acknowledges
   the handled ones.
3. A redelivered message, and one with ``max_attempts=1``, is handled without a prefetch. So a handler that kills its
   process costs each message behind it at most one delivery, and never its only one.
4. A prefetched message is passed to the handler before half of its lease has passed, or not at all.

Source: the prefetch count of AMQP's ``basic.qos``; the adapting size and the first three invariants are drainq's.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from drainq.delayed.storage.records import Held, Row

_log = logging.getLogger("drainq")
_BUDGET = 0.0125
"""Seconds of a handler's work that may be prefetched."""
_ENOUGH = 10
"""Quick calls of the handler after which messages are prefetched."""
_MOST_CREDIT = 20
_COST = 5
"""Quick calls that one slow call cancels: a rare one may be the machine's fault, but many are the handler's."""
_REST = 100
"""Quick calls without a prefetch after one was settled or failed, or messages of too few groups were found."""


class Pace:
    """Decides how many messages the next fetch takes. Enough quick calls of the handler raise it from 1 to ``most``.

    Args:
        most: the largest number; 1: no prefetch.

    Example:
        >>> pace = Pace(4)
        >>> for _ in range(10):
        ...     pace.handled(0.0001)
        >>> pace.size()
        4
        >>> pace.handled(0.1), pace.size()
        (None, 1)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._quick_enough = _BUDGET / most
        self._credit = 0

    def size(self) -> int:
        """Return how many messages to take."""
        return self._most if self._credit >= _ENOUGH else 1

    def handled(self, seconds: float) -> None:
        """Record how long a call of the handler took."""
        if seconds <= self._quick_enough:
            self._credit = min(self._credit + 1, _MOST_CREDIT)
        else:
            self._credit = max(self._credit - _COST, min(self._credit, 0))

    def disturbed(self) -> None:
        """Stop the prefetch for a while, because it did not help, or may do harm."""
        self._credit = _ENOUGH - _REST


class Prefetched:
    """The messages of one fetch: those that wait for the handler, and the handled ones.

    Args:
        rows, payloads: the fetched messages, in the order of delivery.
        lock: the lock of their lease.
        now: tells the time in milliseconds.
        ack: deletes handled messages, given the time, and returns how many were still leased; may be called again.
        release: releases waiting messages; may be called again.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        payloads: Sequence[Any],
        lock: str,
        *,
        now: Callable[[], int],
        ack: Callable[[Held, int], int],
        release: Callable[[Held], object],
    ) -> None:
        self._waiting = deque(zip(rows, payloads))
        self._handled: list[int] = []
        self._lock = lock
        self._now, self._ack, self._release = now, ack, release
        self._mutex = threading.Lock()  # held during database calls, so no message is both handed over and released
        self.was_settled = False
        """Whether another part of the program settled the messages before their consumer did."""

    def next(self) -> tuple[Row, Any] | None:
        """Return the next message for the handler, or None if none is left."""
        with self._mutex:
            return self._waiting.popleft() if self._waiting else None

    def handled(self, held: Held) -> None:
        """Note that a message is handled and must be acknowledged."""
        with self._mutex:
            self._handled.extend(held.ids)

    def swap(self, handled: int) -> tuple[Row, Any] | None:
        """Note the id of a handled message and return the next one.

        Returns None, and notes nothing, if no message is left, or if another call is settling the messages.
        """
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            if not self._waiting:
                return None
            self._handled.append(handled)
            return self._waiting.popleft()
        finally:
            self._mutex.release()

    def settle(self) -> None:
        """Acknowledge the handled messages and release the waiting ones. A failed try leaves both unchanged.

        Raises:
            Exception: the storage's error.
        """
        now = self._now()
        with self._mutex:
            if self._handled:
                held = Held(self._lock, tuple(self._handled))
                report_lost(self._ack(held, now), held)
                self._handled.clear()
            if self._waiting:
                self._release(Held(self._lock, tuple(row.id for row, _ in self._waiting)))
                self._waiting.clear()
            self.was_settled = True

    def rest(self) -> tuple[Held | None, Held | None]:
        """Return the messages to acknowledge and the messages to release. The caller must do both."""
        with self._mutex:
            handled, waiting = tuple(self._handled), tuple(row.id for row, _ in self._waiting)
            self._handled.clear()
            self._waiting.clear()
        return Held(self._lock, handled) if handled else None, Held(self._lock, waiting) if waiting else None


def report_lost(acked: int, done: Held) -> None:
    """Log how many messages of ``done`` were no longer leased."""
    if acked < len(done.ids):
        _log.warning(
            "%d handled messages were updated or taken over before they were acknowledged", len(done.ids) - acked
        )
