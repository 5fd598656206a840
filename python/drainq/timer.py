"""The timer: runs work at a time, or when it is woken. Leases, schedules, refills and back-offs wait here.

2,000 schedules with a thread each would be 2,000 sleeping threads. Here one thread sleeps until the earliest alarm is
due, however many alarms there are.

How it works: the threads take turns. One thread at a time is *the watch*: it sleeps until the earliest alarm is due.
Then it first hands the watch to another thread, a spare one or a new one, and only then runs the work of its alarm. So
slow or hanging work keeps one thread busy and delays no other alarm. While all work is quick, two threads are enough.

With one timer thread in front of a thread pool, all work would wait in a queue between the two.

# Invariants

1. An alarm rings once or is cancelled, never both: its cell has one entry, and the thread that pops it decides.
2. No work runs and nothing is logged under the lock. Cancelling takes no lock, so a finaliser may cancel.
3. While there are alarms and fewer than ``most`` works run, exactly one thread is the watch, or is being started or
   woken to become the watch. While ``most`` works run, further alarms wait, and the log says so, at most once a minute,
   when an alarm is more than a second late.
4. A child of fork starts without alarms and without threads: the parent's alarms ring in the parent.

The threads are daemons: hanging work never delays the interpreter's exit. A spare thread ends after ``linger`` seconds.

Source: the heap and the single sleeping thread are those of ``sched.py`` in ``psycopg_pool``. That the threads take
turns is the pattern "Leader/Followers" (Schmidt et al., 2000).
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from drainq.fork import renew_in_child
from drainq.threads import start_thread

_log = logging.getLogger("drainq")
_SAY_AGAIN = 60.0  # seconds between two warnings that all threads are busy
_LATE = 1.0  # seconds by which an alarm must be late for that warning
_BUSY = "all %d threads of a drainq timer are busy; an alarm is %.1f s late"

FOREVER = math.inf
"""A :class:`Repeat`'s answer: sleep until woken."""


class Alarm:
    """Work that runs at a set time. Made by :meth:`Timer.after`."""

    __slots__ = ("_cell", "_timer")

    def __init__(self, timer: Timer, work: Callable[[], object]) -> None:
        self._timer = timer
        self._cell = [work]

    def cancel(self) -> bool:
        """Keep the work from running.

        Returns:
            True if it will not run; False if it has begun, has ended, or was cancelled before.
        """
        if self._take() is None:
            return False
        self._timer._cancelled += 1  # not exact if two threads count at once; decides only when to tidy up
        return True

    def _take(self) -> Callable[[], object] | None:
        try:
            return self._cell.pop()
        except IndexError:
            return None


class Timer:
    """Runs work when its time has come.

    Args:
        most: the most threads, and so the most calls of ``work`` at a time.
        linger: seconds that a spare thread waits for work.
        now: returns the time in seconds.

    Example:
        >>> rang = threading.Event()
        >>> alarm = Timer().after(0, rang.set)
        >>> rang.wait(10)
        True
    """

    def __init__(self, *, most: int = 32, linger: float = 10.0, now: Callable[[], float] = time.monotonic) -> None:
        if most < 1:
            raise ValueError(f"most must be at least 1, got {most!r}")
        self._most = most
        self._linger = linger
        self._now = now
        self._numbers = itertools.count()
        self._renew_in_child()
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        # Reentrant: a garbage collection under the lock may run a finaliser that sets an alarm. The lock is entered
        # directly: its conditions' __enter__ and __exit__ are Python code, in which Ctrl-C would leave the lock locked.
        self._lock = threading.RLock()
        self._earlier = threading.Condition(self._lock)  # the watch waits for it
        self._wanted = threading.Condition(self._lock)  # the spare threads wait for it
        self._heap: list[tuple[float, int, Alarm]] = []
        self._cancelled = 0
        self._threads = self._spare = 0
        self._watched = False
        self._said_busy = -math.inf

    def after(self, seconds: float, work: Callable[[], object]) -> Alarm:
        """Run ``work`` on one of the timer's threads, ``seconds`` from now.

        Args:
            seconds: 0 or less for as soon as possible.
            work: takes no argument. Its result is ignored, and its exception is logged.
        """
        if seconds != seconds or seconds == FOREVER:
            raise ValueError(f"seconds must be a finite number, got {seconds!r}")
        alarm = Alarm(self, work)
        at = self._now() + max(0.0, seconds)
        with self._lock:
            self._tidy_up()
            heapq.heappush(self._heap, (at, next(self._numbers), alarm))
            is_first, is_full = self._heap[0][2] is alarm, not self._watched and self._threads == self._most
            call = self._call_the_watch() if is_first or is_full or not self._threads else None
        if call is not None:
            call()
        return alarm

    @property
    def has_threads(self) -> bool:
        """Whether a thread runs. If none runs, alarms wait until a further alarm is set and a thread can be started."""
        return self._threads > 0

    def _call_the_watch(self) -> Callable[[], None] | None:
        """Notify a thread that can become the watch. Called with the lock held. Call the result without the lock."""
        if self._watched:
            self._earlier.notify()
        elif self._spare:
            self._wanted.notify()
        elif self._threads < self._most:
            self._threads += 1
            return self._start_thread
        else:
            self._drop_cancelled()
            now = self._now()
            late = now - self._heap[0][0] if self._heap else 0.0
            if late > _LATE and now - self._said_busy > _SAY_AGAIN:
                self._said_busy = now
                return partial(_log.warning, _BUSY, self._most, late)
        return None

    def _start_thread(self) -> None:
        if sys.is_finalizing():  # no thread would begin any more
            with self._lock:
                self._threads -= 1
            return
        try:
            start_thread(self._run, name="drainq-timer")
        except RuntimeError:  # no more threads, or the interpreter is ending
            with self._lock:
                self._threads -= 1
            _log.warning("a drainq timer could not start a thread; alarms wait for the ones that there are")

    def _run(self) -> None:
        while True:
            with self._lock:
                alarm = self._next_alarm()
                if alarm is None:
                    self._threads -= 1
                    return
                call = self._call_the_watch() if self._heap else None
            if call is not None:
                call()
            work = alarm._take()
            try:
                if work is not None:
                    work()
            except BaseException:  # such as SystemExit of a source: the thread continues
                _log.exception("work of a drainq timer failed")
            del alarm, work  # else the waiting thread would keep the owner of the work alive

    def _next_alarm(self) -> Alarm | None:
        """Wait, as the watch or a spare thread. Return the due alarm, or None to end. Called with the lock held."""
        while True:
            self._drop_cancelled()
            if self._heap and not self._watched:
                wait = self._heap[0][0] - self._now()
                if wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._watched = True
                try:
                    self._earlier.wait(min(wait, threading.TIMEOUT_MAX))
                finally:
                    self._watched = False
                continue
            self._spare += 1
            try:
                called = self._wanted.wait(self._linger)
            finally:
                self._spare -= 1
            if not called and (self._watched or not self._heap):
                return None

    def _drop_cancelled(self) -> None:
        """Drop cancelled alarms from the front."""
        while self._heap and not self._heap[0][2]._cell:
            heapq.heappop(self._heap)
            self._cancelled = max(0, self._cancelled - 1)

    def _tidy_up(self) -> None:
        """Drop cancelled alarms once they are most of the heap."""
        if self._cancelled > 64 + len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2]._cell]
            heapq.heapify(self._heap)
            self._cancelled = 0


SHARED = Timer()
"""The timer of this process. It has no thread until there is an alarm."""


class Repeat:
    """Work that runs again and again, one turn at a time, on a timer's threads.

    Args:
        turn: does the work once. Returns the seconds until the next turn, ``FOREVER`` to sleep until woken, or None to
            end. An exception is logged, and ends the repetition.
        timer: the timer whose threads run the turns.

    Example:
        >>> left, done = [3, 2, 1], threading.Event()
        >>> def turn():
        ...     left.pop()
        ...     return 0 if left else done.set()
        >>> repeat = Repeat(turn, timer=Timer())
        >>> repeat.wake()
        >>> done.wait(10), repeat.stop(10)
        (True, True)
    """

    def __init__(self, turn: Callable[[], float | None], *, timer: Timer = SHARED) -> None:
        self._turn = turn
        self._timer = timer
        self._alarm: Alarm | None = None
        self._stopped = False
        self._renew()
        renew_in_child(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()  # entered directly, as the timer's lock is
        self._ended = threading.Condition(self._lock)
        self._turning: int | None = None  # the thread that runs the turn
        self._woken = False

    def _renew_in_child(self) -> None:
        self._renew()
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """Whether there will be no further turn."""
        return self._stopped

    def wake(self) -> None:
        """Begin a turn as soon as possible, or after the current one. The first call begins the repetition.

        Nothing happens after :meth:`stop`.
        """
        with self._lock:
            if self._turning is not None:
                self._woken = True
            else:
                self._turn_after(0)

    def wake_after(self, seconds: float) -> None:
        """Begin the next turn after ``seconds``. Nothing happens while a turn runs, or after :meth:`stop`."""
        with self._lock:
            if self._turning is None:
                self._turn_after(seconds)

    def stop(self, timeout: float | None = None) -> bool:
        """Begin no further turn, and wait for the running one.

        Returns:
            True if no turn is running any more; False if the time ran out, or when called by the turn itself.
        """
        with self._lock:
            self._stopped = True
            if self._alarm is not None:
                self._alarm.cancel()
            if self._turning == threading.get_ident():
                return False
            return self._ended.wait_for(
                lambda: self._turning is None, None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            )

    def _turn_after(self, seconds: float) -> None:
        if not self._stopped and (self._alarm is None or self._alarm.cancel()):
            self._alarm = self._timer.after(seconds, self._run_turn)

    def _run_turn(self) -> None:
        with self._lock:
            self._alarm = None
            if self._stopped:
                return
            self._turning, self._woken = threading.get_ident(), False
        pause: float | None = None
        try:
            pause = self._turn()
        finally:
            with self._lock:
                self._turning = None
                if pause is None:
                    self._stopped = True
                elif self._woken:
                    self._turn_after(0)
                elif pause != FOREVER:
                    self._turn_after(pause)
                self._ended.notify_all()
