"""A timer's signal that raises in the main thread, within a call that expects it, as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupted(BaseException):
    """Raised by the signal handler, as KeyboardInterrupt is."""


class Signals:
    """Interrupts calls made by :meth:`call`, while the block runs.

    Args:
        also: what the signal handler does besides, each time.
        interval: seconds between two signals; 0: none comes.
    """

    def __init__(self, interval: float, also: Callable[[], object] | None = None) -> None:
        self.interval, self._also, self._armed, self._inside = interval, also, False, False

    def call(self, call: Callable[[], Any]) -> Any:
        """Return what `call` returns. Raises Interrupted if the signal came first, or so late that nobody knows."""
        try:
            self._armed = self.interval > 0
            return call()
        finally:
            self._armed = False

    def _hit(self, _: int, frame: FrameType | None) -> None:
        if self._inside:  # a signal within the handler
            return
        self._inside = True
        try:
            if self._also is not None:
                self._also()
        finally:
            self._inside = False
        if self._armed and not _is_logging(frame):
            self._armed = False
            raise Interrupted

    def __enter__(self) -> Signals:
        if self.interval:
            signal.signal(signal.SIGALRM, self._hit)
            signal.setitimer(signal.ITIMER_REAL, self.interval, self.interval)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.interval:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _is_logging(frame: FrameType | None) -> bool:
    """Return whether the signal came in a call of the standard logging, which an exception may leave locked."""
    while frame is not None and frame.f_globals.get("__name__") != "logging":
        frame = frame.f_back
    return frame is not None


QUIET = Signals(0.0)
"""No signal comes: for the threads that no signal reaches."""
