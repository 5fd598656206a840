"""Messages that a consumer takes together and gives to its handler one by one.

Why: a message that is fetched by itself costs a round trip and a commit. A handler that needs less time than those
two waits for the database most of the time. So for a handler that is quick, the next few messages come with one
statement, and the acknowledgement of all of them travels with the fetch that follows. For any other handler nothing is
taken ahead.

# Invariants

1. A call through the same queue object, on any thread, finds the database as if nothing were taken ahead: before it
   goes on, what was handled is acknowledged and what waits is given back, and for a while nothing is taken ahead.
2. What waits behind a handler that turns out to be slow is given back by the lease keeper, within a second; what was
   handled before it is acknowledged then.
3. A message that was delivered before is handled with nothing taken ahead. So a handler that ends its process spoils at
   most one delivery of the messages that waited behind it.
4. No message is handed over after half of its lease has passed.

Source: the prefetch count of AMQP's ``basic.qos``; that it adapts itself, and the first three invariants, are ours.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from drainq.delayed.storage.records import Held, Row

_log = logging.getLogger("drainq")
_BUDGET = 0.005
"""Seconds of a handler's work that may be taken ahead."""
_ENOUGH = 10
"""How many quick calls of the handler are enough to take something ahead."""
_MOST_CREDIT = 20
_COST = 5
"""Quick calls that a slow one outweighs: one now and then may be the machine's fault, many are the handler's nature."""
_REST = 100
"""Calls for which nothing is taken ahead after something went another way than expected."""


class Pace:
    """Decides how many messages the next fetch takes: each quick call of the handler is to its credit.

    Args:
        most: how many at most; 1: never more than one.

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
        """How many messages to take."""
        return self._most if self._credit >= _ENOUGH else 1

    def handled(self, seconds: float) -> None:
        """Note a call of the handler."""
        if seconds <= self._quick_enough:
            self._credit = min(self._credit + 1, _MOST_CREDIT)
        else:
            self._credit = max(self._credit - _COST, min(self._credit, 0))

    def disturbed(self) -> None:
        """Note that taking ahead was of no use, or may do harm: not for a while."""
        self._credit = _ENOUGH - _REST


class Prefetched:
    """The messages of one fetch: those that wait for the handler, and those that it is done with.

    Args:
        rows, payloads: what was fetched, in the order of delivery.
        lock: what they are held by.
        now: tells the time in milliseconds.
        ack: deletes what is handled, given the time, and returns how many were still ours; may be called again.
        release: gives back what waits; may be called again.
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
        self._mutex = threading.Lock()  # held during the calls of the database: a message is handed over or given back
        self.was_settled = False
        """Whether a call of another part of the program settled them before their consumer did."""

    def next(self) -> tuple[Row, Any] | None:
        """The next message for the handler; None: none is left here."""
        with self._mutex:
            return self._waiting.popleft() if self._waiting else None

    def handled(self, held: Held) -> None:
        """Note that the handler is done with a message, which is to be acknowledged."""
        with self._mutex:
            self._handled.extend(held.ids)

    def settle(self) -> None:
        """Acknowledge what was handled and give back what waits; a try that fails leaves both as they are.

        Raises:
            Exception: what the storage raises.
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
        """What is still to be acknowledged, and what is still to be given back; it is the caller's to do so now."""
        with self._mutex:
            handled, waiting = tuple(self._handled), tuple(row.id for row, _ in self._waiting)
            self._handled.clear()
            self._waiting.clear()
        return Held(self._lock, handled) if handled else None, Held(self._lock, waiting) if waiting else None


def report_lost(acked: int, done: Held) -> None:
    """Say in the log how many messages of ``done`` were no longer ours."""
    if acked < len(done.ids):
        _log.warning(
            "%d handled messages were updated or taken over before they were acknowledged", len(done.ids) - acked
        )
