"""The loop of one installed schedule: look, wait, look again, until closed.

Waiting takes real time and re-reads the clock: the next look comes once the interval has passed, by either of the two.
So a clock that is moved by hand, or one that jumps (a laptop that slept), is noticed soon, and one that stands still
stops nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from drainq.clock import Clock, SystemClock

_log = logging.getLogger("drainq")

_FIRST_LOOK = 1.0  # seconds that start() waits at most for the first look to be over
_LONGEST_RETRY = 60.0  # seconds until the look after one that failed, at most
_OWN_SLICE, _OTHER_SLICE = 1.0, 0.05  # seconds between two readings of the machine's clock, of one that was handed in


class CronHandle:
    """An installed schedule; ``close()``, or the end of a ``with`` block, ends it. What it scheduled stays."""

    def __init__(
        self,
        name: str,
        look: Callable[[], float],
        *,
        clock: Clock,
        retry: float,
        on_close: Callable[[CronHandle], object],
    ) -> None:
        """Made by the ``install_...`` methods.

        Args:
            name: of the schedule, for the log.
            look: looks at the schedule once and returns the seconds until it wants to look again.
            retry: seconds until the look after one that failed; a minute at most.
            on_close: told when the handle is closed.
        """
        self._name = name
        self._look = look
        self._clock = clock
        self._slice = _OWN_SLICE if isinstance(clock, SystemClock) else _OTHER_SLICE
        self._retry = min(retry, _LONGEST_RETRY)
        self._on_close = on_close
        self._one_look_at_a_time = threading.RLock()
        self._closed = threading.Event()
        self._looked = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"drainq-cron-{name}", daemon=True)

    def start(self) -> None:
        """Start the loop; return once it has looked for the first time, or after a second if that takes long."""
        self._thread.start()
        self._looked.wait(_FIRST_LOOK)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed.is_set()

    def look(self) -> None:
        """Look at the schedule now, on this thread, whatever the interval; nothing happens after :meth:`close`.

        Raises:
            Exception: what the generator or the database raised.
        """
        with self._one_look_at_a_time:
            if not self.closed:
                self._look()

    def close(self, timeout: float | None = 10.0) -> bool:
        """End the loop; what is scheduled stays in the queue.

        Args:
            timeout: seconds to wait for a look that is running; None for as long as it takes.

        Returns:
            True if the loop has ended; False if a look was still running at the end of the timeout, or is what calls
            this.
        """
        self._closed.set()
        self._on_close(self)
        if threading.current_thread() is self._thread:
            return False
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self.closed:
            started = self._clock.now()
            wait = self._retry
            try:
                with self._one_look_at_a_time:
                    if not self.closed:
                        wait = self._look()
            except Exception:
                _log.exception("the schedule %r could not be looked at; next try in %g s", self._name, wait)
            self._looked.set()
            self._wait(wait, started)

    def _wait(self, seconds: float, started: float) -> None:
        """Wait until ``seconds`` have passed, in real time or since ``started`` on the clock, or until closed."""
        deadline = time.monotonic() + seconds
        while not self.closed and self._clock.now() - started < seconds:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._closed.wait(min(left, self._slice))

    def __enter__(self) -> CronHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
