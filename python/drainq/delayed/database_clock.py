"""DatabaseClock: the database's clock, for programs on machines whose clocks differ.

The database is queried every ten seconds, because a query at each call would double the round trips. In between, the
machine's monotonic clock continues the database's time.

# Invariant

The time is never ahead of the database's, except for the drift of two quartzes since the last answer. It is behind by
at most the time that this answer took. So no message is taken before it is due.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from drainq.clock import SystemClock
from drainq.fork import renew_in_child

_ASK_AGAIN = 10.0  # seconds between two questions to the database


class DatabaseClock(SystemClock):
    """A :class:`~drainq.clock.Clock` that follows a database.

    Args:
        ask: asks the database for its time, in seconds since the epoch.
        monotonic: the clock between two queries.
    """

    def __init__(self, ask: Callable[[], float], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._ahead: float | None = None  # seconds by which the database is ahead of the monotonic clock
        self._ask_at = 0.0
        self._renew_in_child()
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        self._asking = threading.Lock()

    def now(self) -> float:
        """Return the time in seconds since the epoch.

        Raises:
            DrainqError: the database has never answered.
        """
        ahead = self._ahead
        if ahead is None:
            ahead = self._asked()
        elif self._monotonic() >= self._ask_at and self._asking.acquire(blocking=False):
            try:
                ahead = self._asked()
            except Exception:
                pass  # the time continues from the last answer, and the caller's own statement reports the error
            finally:
                self._asking.release()
        return self._monotonic() + ahead

    def _asked(self) -> float:
        self._ask_at = self._monotonic() + _ASK_AGAIN
        ahead = self._ask() - self._monotonic()
        self._ahead = ahead
        return ahead
