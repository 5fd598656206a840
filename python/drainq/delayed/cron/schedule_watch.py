"""Watch: reads a queue's clock and wakes each schedule whose time has come.

A schedule waits in real time, but the queue's clock can run ahead (a test moves it, a laptop slept). The watch notices
that for all schedules at once, so no schedule has to read the clock repeatedly.

# Invariants

1. The watch repeats only while a schedule is open.
2. No user code (the clock's ``now``) runs under the lock.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from drainq.arguments import Seconds
from drainq.clock import Clock, SystemClock
from drainq.fork import renew_in_child
from drainq.timer import Repeat, Timer

_log = logging.getLogger("drainq")

TIMER = Timer(most=16)
"""Runs the checks of all schedules of this process: two threads if they are quick, one more for each that hangs.

Leases have another timer: a user's functions run here, and 16 functions that hang must not cost a lease.
"""

_OWN_SLICE, _OTHER_SLICE = 1.0, 0.05  # seconds between two readings: of the machine's clock, of another clock
_AT_ONCE = 64
"""The most checks that have been started and not ended. Other due schedules wait, and their ticks are looked up again:
another process with the same schedules may make these ticks meanwhile.
"""
_SOON = 0.02  # seconds until the watch handles the waiting schedules
_PASSES, _PASS = 3, 1.0
"""How often, and for how many seconds, a schedule is skipped while another process makes ticks. That process will make
this schedule's tick, too, and two processes that make the same ticks wait for each other's locks.
"""


class Watched(Protocol):
    """The interface of a watched schedule."""

    due_at: float
    """The time of the next check, on the queue's clock; infinite during a check."""

    def wake(self) -> None:
        """Start a check as soon as possible."""

    def planned(self, now: float) -> tuple[list[str], float] | None:
        """Return the keys of the ticks to plan, and the seconds until the next check. None: only a check knows."""

    def put_off(self, now: float, seconds: float) -> None:
        """Start the next check ``seconds`` after ``now``, because all ticks are there, or will be."""

    def close(self, timeout: Seconds | None = 10.0) -> bool:
        """End the schedule. Return whether it has ended."""


class Watch:
    """Wakes schedules when their time has come by the clock, and closes them together.

    Args:
        clock: the queue's clock.
        made: returns which of some ticks are in the ledger. One call for all schedules saves most checks if other
            processes have the same schedules.
    """

    def __init__(self, clock: Clock, made: Callable[[Sequence[str]], AbstractSet[str]]) -> None:
        self._clock = clock
        self._made = made
        self._slice = _OWN_SLICE if isinstance(clock, SystemClock) else _OTHER_SLICE
        self._renew_in_child()
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        self._lock = threading.Lock()
        self._watched: set[Watched] = set()
        self._passed: dict[Watched, int] = {}  # how often schedules without ticks were passed over
        self._repeat: Repeat | None = None

    def add(self, schedule: Watched) -> None:
        """Begin to watch a schedule."""
        with self._lock:
            self._watched.add(schedule)
            if self._repeat is not None:
                return
            repeat = self._repeat = Repeat(self._turn, timer=TIMER)
        repeat.wake_after(self._slice)

    def discard(self, schedule: Watched) -> None:
        """Watch a schedule no longer."""
        with self._lock:
            self._watched.discard(schedule)
            self._passed.pop(schedule, None)
            if self._watched or self._repeat is None:
                return
            repeat, self._repeat = self._repeat, None
        repeat.stop(0)

    def close_all(self, timeout: float | None) -> bool:
        """Close every schedule. ``timeout`` is for all of them together.

        Returns:
            True if all have ended.
        """
        closing = self._all()
        deadline = None if timeout is None else time.monotonic() + timeout
        for schedule in closing:
            schedule.close(0)  # so that no schedule begins a check while others are waited for
        ended = True
        for schedule in closing:
            ended &= schedule.close(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return ended

    def _all(self) -> list[Watched]:
        with self._lock:
            return list(self._watched)

    def _turn(self) -> float:
        try:
            now = self._clock.now()
        except Exception:
            _log.exception("a schedule's clock could not be read; next try in %g s", self._slice)
            return self._slice
        watched = self._all()
        due = [schedule for schedule in watched if schedule.due_at <= now]
        room = max(0, _AT_ONCE - sum(schedule.due_at == math.inf for schedule in watched))
        for schedule in self._without_ticks(due[:room], now):
            schedule.wake()
        return min(_SOON, self._slice) if due[room:] else self._slice

    def _without_ticks(self, due: Sequence[Watched], now: float) -> list[Watched]:
        """Put off the checks of schedules whose ticks other processes have made, or are about to make. Return the other
        schedules."""
        plans = [(schedule, schedule.planned(now)) for schedule in due]
        keys = [key for _, plan in plans if plan is not None for key in plan[0]]
        try:
            made = self._made(keys) if keys else frozenset()
        except Exception:  # the checks will report it
            return list(due)
        left: list[Watched] = []
        for schedule, plan in plans:
            passes = self._passed.pop(schedule, 0)
            if plan is not None and made >= set(plan[0]):
                schedule.put_off(now, plan[1])
            elif plan is not None and made and passes < _PASSES:
                self._passed[schedule] = passes + 1
                schedule.put_off(now, min(_PASS, plan[1] / 10))
            else:
                left.append(schedule)
        return left


class Jumps:
    """Detects a clock that diverges from real time between two readings.

    Args:
        most: the most seconds by which the two may differ.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._last: tuple[float, float] | None = None

    def since_last(self, now: float) -> float | None:
        """Return the seconds by which the clock has jumped since the last call; None if it has not.

        ``now``: the time on the clock."""
        real = time.monotonic()
        last, self._last = self._last, (now, real)
        if last is None:
            return None
        jumped = (now - last[0]) - (real - last[1])
        return jumped if abs(jumped) > self._most else None
