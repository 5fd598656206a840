"""Loop thread: runs turns of some work, and sleeps between them until it is woken or stopped.

It does not use the shared timer (``drainq.timer``): a turn may block while the target's queue is full, and would occupy
a thread that leases and schedules need.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from drainq.threads import start_thread

FOREVER = math.inf
"""A turn's answer: sleep until woken."""


class Loop:
    """Runs turns on a daemon thread.

    Args:
        turn: called with the number of turns in a row that had nothing to do; returns the seconds to sleep after it,
            0 for none, ``FOREVER`` until woken, or None to end the loop.
        name: the thread's name.
        begin: called on the thread before the first turn.
        end: called on the thread after the last turn.
    """

    def __init__(
        self, turn: Callable[[int], float | None], *, name: str, begin: Callable[[], None], end: Callable[[], None]
    ) -> None:
        self._turn = turn
        self._name = name
        self._begin = begin
        self._end = end
        self._news = threading.Event()
        self._stopped = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, if it is not running."""
        with self._starting:
            if not self.running:
                self._stopped.clear()
                self._thread = start_thread(self._run, name=self._name)

    def wake(self) -> None:
        """End a sleep, or prevent the next."""
        self._news.set()

    def stop(self, timeout: float | None) -> bool:
        """End the loop after the current turn, and wait for its end. Return whether it has ended."""
        self._stopped.set()
        self.wake()
        return self.join(timeout)

    def join(self, timeout: float | None) -> bool:
        """Wait for the end. Return False if the time ran out, or if called on the loop's own thread."""
        thread = self._thread
        if thread is None:
            return True
        if thread is threading.current_thread():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        self._thread = threading.current_thread()  # a turn may stop the loop before ``start`` has returned
        self._begin()
        try:
            idle_turns = 0
            while not self._stopped.is_set():
                self._news.clear()  # before the turn, so that news during it prevents the sleep
                nap = self._turn(idle_turns)
                if nap is None:
                    return
                if nap:
                    self._news.wait(None if nap == FOREVER else nap)
                idle_turns = idle_turns + 1 if nap else 0
        finally:
            self._end()
