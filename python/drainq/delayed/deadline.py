"""The deadline of the current try of a database call, kept for each thread.

It is not an argument, because the try begins in :mod:`drainq.delayed.database_retry` and the waiting happens deep
inside a storage. The methods in between do not deal with time.
"""

from __future__ import annotations

import threading
import time


class _Current(threading.local):
    until: float | None = None


_current = _Current()


def set_deadline(until: float | None) -> float | None:
    """Set the deadline (``time.monotonic()``) of this thread's try, None for no limit. Return the previous one, to
    restore it."""
    before = _current.until
    _current.until = until
    return before


def deadline() -> float | None:
    """Return the deadline of this thread's try, None for no limit."""
    return _current.until


def seconds_left(most: float) -> float:
    """Return the seconds until the deadline, at least 0 and at most ``most``."""
    until = _current.until
    return most if until is None else max(0.0, min(most, until - time.monotonic()))
