"""CronHandle: one installed schedule, which is checked again and again until it is closed.

The next check comes when the interval has passed, either in real time or by the queue's clock. So a clock that is moved
or jumps (after a laptop slept) is noticed soon, and a clock that stands still does not stop the schedule. One timer
waits for all schedules: see :mod:`drainq.delayed.cron.schedule_watch`.

# Invariants

1. One check of a schedule runs at a time.
2. After :meth:`CronHandle.close` no check begins, and a check that still computes ticks installs none.
3. A forked child's schedules are closed. The parent's continue.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from drainq.arguments import Seconds, seconds_or_none
from drainq.clock import Clock
from drainq.delayed.cron.schedule_watch import TIMER, Jumps, Watch
from drainq.errors import ShutDown
from drainq.fork import renew_in_child
from drainq.pickling import refuse
from drainq.sql.error_text import to_show
from drainq.threads import ClosedByBlock
from drainq.timer import Repeat

_log = logging.getLogger("drainq")

_FIRST_CHECK = 1.0  # seconds that start() waits at most for the first check to be over
_LONGEST_RETRY = 60.0  # the most seconds until the check after a failed one
_LATER = 5.0  # seconds by which a schedule's own timer comes after the watch, which asks for many schedules at once
_DUE = -math.inf  # due, whatever the time is
_SAY_AGAIN = 60.0  # seconds between two log entries about a schedule that keeps failing
_JUMP = 24 * 3600.0  # seconds between clock and real time above which a warning is logged


class CronHandle(ClosedByBlock):
    """An installed schedule. ``close()``, or the end of a ``with`` block, ends it. Its messages stay."""

    def __init__(
        self,
        name: str,
        check: Callable[[CronHandle], float],
        *,
        clock: Clock,
        retry: float,
        watch: Watch,
        plan: Callable[[float], tuple[list[str], float] | None] | None = None,
        log_values: bool = False,
    ) -> None:
        """Create a handle. Only the ``install_...`` methods call this.

        Args:
            name: the name of the schedule, for the log.
            check: checks the schedule once and returns the seconds until the next check.
            retry: seconds until the check after a failed one; a minute at most.
            watch: wakes the schedule when the clock runs ahead of real time.
            plan: returns the result of :meth:`planned`; None: only a check knows the ticks.
            log_values: show whole texts of errors in log lines.
        """
        self._name = name
        self._check = check
        self._clock = clock
        self._retry = min(retry, _LONGEST_RETRY)
        self._watch = watch
        self._plan = plan
        self._log_values = log_values
        self._jumps = Jumps(_JUMP)
        self._closed = False
        self._said = -_SAY_AGAIN
        self.due_at = math.inf
        self._is_called = True
        """Whether the next turn checks the schedule itself, like the first turn, without waiting for the watch."""
        self._repeat = Repeat(self._turn, timer=TIMER)
        self._renew()
        renew_in_child(self)

    def _renew(self) -> None:
        self._one_check_at_a_time = threading.RLock()
        self._checking: int | None = None  # the thread that is in a check
        self._checked = threading.Event()

    def _renew_in_child(self) -> None:
        self._renew()
        self._closed = True

    def start(self) -> None:
        """Start the schedule. Return after its first check, or after a second if that takes longer."""
        self._watch.add(self)
        self._repeat.wake()
        self._checked.wait(_FIRST_CHECK)

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._closed

    def wake(self) -> None:
        """Start a check as soon as possible, on a thread of the timer."""
        self.due_at = math.inf  # unknown until this check has returned the time of the next
        self._is_called = True
        self._repeat.wake()

    def planned(self, now: float) -> tuple[list[str], float] | None:
        """Return the keys of the ticks to plan, and the seconds until the next check. None: only a check knows."""
        return None if self._plan is None or self._closed else self._plan(now)

    def put_off(self, now: float, seconds: float) -> None:
        """Start the next check ``seconds`` after ``now``, because all ticks are there."""
        self.due_at = now + seconds
        self._repeat.wake_after(seconds + _LATER)

    def look(self) -> None:
        """Check the schedule now, on this thread, before the interval has passed. Does nothing after :meth:`close`.

        Raises:
            Exception: the error of the generator or the database.
        """
        self._run_check()

    def close(self, timeout: Seconds | None = None) -> bool:
        """End the schedule. Its messages stay in the queue.

        Args:
            timeout: seconds to wait for a check that is running; None for as long as it takes.

        Returns:
            True if the schedule has ended. False if a check was still running after the timeout, or if the check itself
            calls this method.
        """
        timeout = seconds_or_none("timeout", timeout)
        self._closed = True
        self._watch.discard(self)
        ended = self._checking != threading.get_ident() and self._one_check_at_a_time.acquire(
            timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        )
        if ended:  # no check is running
            self._one_check_at_a_time.release()
        return self._repeat.stop(timeout if ended else 0) and ended

    def _run_check(self) -> float:
        with self._one_check_at_a_time:
            if self._closed:
                return self._retry
            outer, self._checking = self._checking, threading.get_ident()
            try:
                self._say_if_the_clock_jumped()
                return self._check(self)
            finally:
                self._checking = outer

    def _say_if_the_clock_jumped(self) -> None:
        jumped = self._jumps.since_last(self._clock.now())
        if jumped is not None:
            _log.warning(
                "schedule %r: the clock jumped by %+.0f s; if it is wrong now, ticks are offered for wrong times",
                self._name,
                jumped,
            )

    def _turn(self) -> float | None:
        called, self._is_called = self._is_called, False
        if not called and self._plan is not None and self.due_at != _DUE:
            self.due_at = _DUE
            return _LATER  # if the watch has not handled the schedule by then, the next turn checks it
        started, wait, later = 0.0, self._retry, 0.0
        try:
            started = self._clock.now()
            wait = self._run_check()
            later = 0.0 if self._plan is None else _LATER
            self._said = -_SAY_AGAIN
        except BaseException as error:  # SystemExit too: it would end the timer's thread and not the program
            if isinstance(error, ShutDown) and self._closed:
                return None
            if time.monotonic() - self._said >= _SAY_AGAIN:
                self._said = time.monotonic()
                shown = to_show(error, values=self._log_values)
                _log.error("the schedule %r could not be checked; next try in %g s", self._name, wait, exc_info=shown)
        self._checked.set()
        self.due_at = started + wait
        return None if self._closed else wait + later

    def __reduce__(self) -> NoReturn:
        refuse(self, "its timer belongs to this process", "the schedule, and install it where it is to run")
