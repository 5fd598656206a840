"""Threads that wait in a set queue, and the patience of the tests with them; nothing here sleeps."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from drainq import SetQueue

PATIENCE = 25.0
"""Seconds after which a test that waits has failed."""


def waits(waiting: SetQueue, getters: int = 0, putters: int = 0) -> None:
    """Yield to other threads until so many of them wait in the queue."""
    end = time.monotonic() + PATIENCE
    while (blocked := (waiting.stats().blocked_getters, waiting.stats().blocked_putters)) != (getters, putters):
        assert time.monotonic() < end, f"{blocked} getters and putters wait, not {(getters, putters)}"
        os.sched_yield()


def blocked(call: Callable[[], object], outcome: list) -> threading.Thread:
    """Start a thread in a call of the queue; its answer, or the class of its error, goes into the outcome."""

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(type(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
