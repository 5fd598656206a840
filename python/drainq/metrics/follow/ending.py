"""SIGTERM ends the following between two rounds, so that nothing is broken off; Ctrl-C breaks the round off.

1. The handler only puts into a queue that may be put into from a signal handler, whatever lock the thread holds.
"""

from __future__ import annotations

import contextlib
import queue
import signal
from typing import Any, Protocol


class Ended(Protocol):
    """Says when the following ends."""

    def wait(self, seconds: float) -> bool:
        """Wait, at most so long; whether it is to end."""


class Ending:
    """Waits for SIGTERM; a context manager, for the main thread."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._ended = False
        self._before: Any = None

    def wait(self, seconds: float) -> bool:
        """Wait, at most so long; whether the signal came."""
        with contextlib.suppress(queue.Empty):
            self._ended = self._ended or self._asked.get(timeout=seconds)
        return self._ended

    def __enter__(self) -> Ending:
        self._before = signal.signal(signal.SIGTERM, lambda *_: self._asked.put(True))
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)
