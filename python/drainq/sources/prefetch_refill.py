"""The refill's side of a prefetching source: starts, runs and ends refills.

Invariants:
    1. One refill at a time: ``_refill`` is set under the lock when a refill starts, and cleared under the lock by
       ``_finish``, or by ``close`` if the refill has not begun. ``_finish`` raises nothing and runs however it ends.
    2. Only a refill puts items into the buffer, by the rules of ``prefetch_read``; once closed, a pull adds held items.
    3. No foreign code (source, key, callbacks, clock, executor, ``__eq__``) runs under the lock.
    4. A consumer that found nothing sets ``hungry`` and then takes again; a refill reads ``hungry`` after it has put
       something, and again when it ends. So either sees the other, and no consumer sleeps while an item is there.

Source: ``QueueingLimitedSource`` of "Fast Critical Path with Async Queueing". drainq adds a schedule for the retries of
failing and empty sources.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from drainq.clock import MonotonicClock
from drainq.fork import leave_to_parent, renew_in_child
from drainq.sources.async_source import AskOnLoop
from drainq.sources.prefetch_options import PrefetchOptions
from drainq.sources.prefetch_read import Intake, Refill
from drainq.sources.prefetch_reports import Reports
from drainq.sources.source_shapes import Ask, AskIterator
from drainq.sources.steady_clock import SteadyClock
from drainq.timer import Timer

T = TypeVar("T")

TIMER = Timer(most=1000)
"""Runs the refills of all sources. Nothing else uses it, because a source that hangs keeps its thread."""


class Replenisher(Generic[T]):
    """The buffer of a :class:`~drainq.sources.PrefetchSource`, with its refills.

    Args:
        ask: the source.
        name: for logs.
        options: the parts' options.
    """

    def __init__(self, ask: Ask[T], name: str, options: PrefetchOptions[T]) -> None:
        self._ask = ask
        self.name = name
        self._options = options
        self._executor = options.executor
        self._taking_forgets = options.in_flight == "forget"
        self._closed = False
        self._begin()
        renew_in_child(self)

    def _begin(self, *, ended: bool = False, listeners: tuple[Callable[[], object], ...] = ()) -> None:
        """Make the parts that a forked child must not share with its parent: buffer, lock and counters."""
        self._state = threading.Condition()
        options = self._options
        self._reports = Reports(self.name, options.on_error, self._state, listeners)
        self._clock = SteadyClock(options.clock or MonotonicClock(), self._reports.report)
        self._size = options.new_size()
        self._schedule = options.new_schedule()
        self._buffer = options.new_buffer(self._clock)
        self._intake = Intake(
            self._ask, self._buffer, key=options.key, size=self._size, ended=ended,
            report=self._reports.report, arrived=self._feed_the_hungry,
        )  # fmt: skip
        self._intake.closed = self._closed
        self._given_back: deque[T] = deque()
        self._refill: Refill | None = None
        self._refills = self._fetched = self._empty_refills = self._starved = 0
        self._wakes_at: float | None = None

    def _renew_in_child(self) -> None:
        """Start empty. Fetched items, the rest of an iterator and an event loop stay with the parent."""
        leave_to_parent(self._buffer, self._intake, self._given_back)
        self._executor = None  # its threads are in the parent
        ended = self._intake.ended or isinstance(self._ask, (AskIterator, AskOnLoop))
        self._begin(ended=ended, listeners=self._reports.listeners)

    # -- a refill starts -----------------------------------------------------------------------

    def _replenish(self, *, forgotten: bool = False, now: float | None = None) -> None:
        """Start a refill if few items are left, no refill is running, and the schedule allows a refill.

        Args:
            forgotten: whether items may be fetched now that would have been duplicates before.
            now: the time; None asks the clock.
        """
        if now is None:
            now = self._clock.now()
        with self._state:
            if self._refill is not None or self._closed or len(self._buffer) > self._size.threshold:
                return
            if self._intake.ended:
                return
            if forgotten:
                self._schedule.forgotten()
            due = self._schedule.not_before
            if now >= due:
                refill = self._refill = Refill()
        if now < due:
            self._wake_at(due, now)
            return
        try:
            self._submit(refill)
        except BaseException as error:
            self._drop(refill, error)
            if not isinstance(error, Exception):
                raise

    def _submit(self, refill: Refill) -> None:
        """Run a refill as soon as possible. If the executor raises, so does this call, and the refill never begins."""
        if self._executor is None:
            _run_after(0.0, partial(self._run, refill))
            return
        future = self._executor.submit(partial(self._run, refill))
        when_done = getattr(future, "add_done_callback", None)
        if when_done is not None:
            when_done(partial(self._given_up, refill))

    def _given_up(self, refill: Refill, future: Any) -> None:
        """End a refill that never ran although its future is done: it was cancelled, or its executor broke."""
        error = None if future.cancelled() else future.exception()
        self._drop(refill, error or RuntimeError("the executor gave the refill up before it ran"))

    def _wake_at(self, due: float, now: float) -> None:
        """Replenish at ``due``, unless an earlier time is set."""
        with self._state:
            if self._wakes_at is not None and self._wakes_at <= due:
                return
            self._wakes_at = due
        try:
            _run_after(min(threading.TIMEOUT_MAX, due - now), partial(_wake, weakref.ref(self), due))
        except RuntimeError as error:  # the next pull tries again
            self._wakes_at = None
            self._reports.report(error)

    def _woken(self, due: float) -> None:
        with self._state:
            if self._wakes_at == due:
                self._wakes_at = None
        self._replenish(now=self._clock.certain())

    def _drop(self, refill: Refill, error: BaseException) -> None:
        """End a refill that nothing will run."""
        if self._claim(refill):
            refill.error = error
            self._finish(refill)

    def _claim(self, refill: Refill) -> bool:
        """Make the calling thread the only one that runs or ends a refill. Return whether that succeeded."""
        with self._state:
            free = self._refill is refill and refill.thread is None
            if free:
                refill.thread = threading.get_ident()
            return free

    # -- a refill runs, in the background ------------------------------------------------------

    def _run(self, refill: Refill) -> None:
        if not self._claim(refill):
            return
        put_before = self._buffer.stats().put
        try:
            self._schedule.begun(self._clock.now())
            self._intake.fill(refill)
        except BaseException as error:
            refill.error = error
        refill.added = self._buffer.stats().put - put_before
        self._finish(refill)

    def _finish(self, refill: Refill) -> None:
        """End a refill; raises nothing."""
        if refill.error is not None:
            self._reports.report(refill.error)
        now = self._clock.certain()
        with self._state:
            self._refill = None
            ended = self._intake.ended
            brought = self._schedule.ended(refill, now, stream_ended=ended)
            self._refills += refill.asked
            self._fetched += refill.found
            self._empty_refills += refill.asked and not refill.found and refill.error is None and not ended
            self._size.refilled()
        self._reports.tell()
        if self._closed:
            self._intake.let_go()
        elif self._intake.hungry or not brought:
            with contextlib.suppress(BaseException):  # it has been reported
                self._replenish(now=now)

    def _feed_the_hungry(self) -> None:
        """Notify the consumers that found no item, now that there are items."""
        if self._intake.hungry and len(self._buffer):
            self._intake.hungry = False
            self._reports.tell()


def _run_after(seconds: float, work: Callable[[], object]) -> None:
    """Have a thread of the timer run ``work``. Raise RuntimeError if it has no thread and cannot start a thread."""
    alarm = TIMER.after(seconds, work)
    if not TIMER.has_threads and alarm.cancel():
        raise RuntimeError("can't start a thread for a source")


def _wake(owner: weakref.ref[Replenisher[Any]], due: float) -> None:
    """Wake a source, unless it was collected: an alarm does not keep it alive."""
    replenisher = owner()
    if replenisher is not None:
        replenisher._woken(due)
