"""The time by which the current try of a database call must be over, for the thread that makes it.

Why not an argument: the try begins in :mod:`drainq.delayed.database_retry` and the waiting happens deep below a
storage, and between them stand methods that have nothing to do with time.
"""

from __future__ import annotations

import threading
import time


class _Current(threading.local):
    until: float | None = None


_current = _Current()


def set_deadline(until: float | None) -> float | None:
    """Set the time (``time.monotonic()``) by which this thread's try must be over, None for no limit; return the
    one before, to be put back."""
    before = _current.until
    _current.until = until
    return before


def deadline() -> float | None:
    """The time by which this thread's try must be over, None for no limit."""
    return _current.until


def seconds_left(most: float) -> float:
    """Seconds until the deadline, at least 0 and at most ``most``."""
    until = _current.until
    return most if until is None else max(0.0, min(most, until - time.monotonic()))
