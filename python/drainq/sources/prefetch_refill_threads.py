"""Where refills run: on an executor, or on one daemon thread that also wakes the source when a back-off ends.

The thread is a daemon, so a source that hangs never holds up the interpreter's exit; and it knows its owner by weak
references only, so an owner without other references is collected and the thread ends.

Why not the shared timer (``drainq.timer``): a refill lasts as long as its source takes, and a source may hang for ever.
On the timer a few hanging sources would hold all of its threads, and leases and schedules would wait. The thread that
refills can also wait for the end of a back-off, so a timer would not save it.

Invariants:
    1. At most one thread per refiller; it starts when there is first something for it to do, and it ends only when
       the refiller is closed or its owner is gone, whatever the work raises.
    2. No foreign code (the owner's work, a clock) runs while the lock is held.
    3. A refill ends exactly once: by what runs it, or, before it has begun, by whatever keeps it from running.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from drainq.sources.steady_clock import SteadyClock
from drainq.threads import DaemonThread

_log = logging.getLogger("drainq")


class Refill:
    """One refill: what is known of it while it waits, runs and ends."""

    def __init__(self) -> None:
        self.thread: int | None = None
        """The thread that runs it, or that ends it unrun; None while it waits."""
        self.asked = False
        """Whether the source was asked."""
        self.found = 0
        """Items that the source gave."""
        self.added = 0
        """Items that went into the buffer."""
        self.outdated = False
        """Whether items were forgotten since it began: what was a duplicate then may be none now."""
        self.error: BaseException | None = None
        """What the source, or the executor, raised."""


class Refiller:
    """Runs a refill when asked, and ``wake`` when a given time has come.

    Args:
        run: a bound method that takes the refill; it runs on the executor, or else on the refiller's own thread.
        drop: a bound method that takes a refill and an error; called if the executor gives the refill up.
        wake: a bound method, short; it runs on the refiller's own thread.
        name: of the thread.
        executor: an object with ``submit(function)``; None is the refiller's own thread.
        clock: decides when a time has come; the waiting itself uses real time.
    """

    def __init__(
        self,
        run: Callable[[Refill], None],
        drop: Callable[[Refill, BaseException], None],
        wake: Callable[[], None],
        *,
        name: str,
        executor: Any,
        clock: SteadyClock,
    ) -> None:
        self._run = weakref.WeakMethod(run, self._owner_is_gone)
        self._drop = weakref.WeakMethod(drop)
        self._wake = weakref.WeakMethod(wake)
        self._name = name
        self._executor = executor
        self._clock = clock
        self._changed = threading.Condition()  # on an RLock: a collection may call _owner_is_gone while it is held
        self._thread: threading.Thread | None = None
        self._refill: Refill | None = None
        self._wake_at: float | None = None
        self._closed = False

    def submit(self, refill: Refill) -> None:
        """Have a refill run as soon as possible.

        Raises:
            BaseException: the executor refuses, or the thread cannot be started; the refill has not begun.
        """
        if self._executor is None:
            with self._changed:
                self._refill = refill
                self._notify()
            return
        run = self._run()
        if run is None:
            return
        future = self._executor.submit(partial(run, refill))
        when_done = getattr(future, "add_done_callback", None)
        if when_done is not None:
            when_done(lambda done: self._given_up(refill, done))

    def wake_at(self, time: float) -> None:
        """Have ``wake`` run at ``time``, unless it is to run earlier.

        Raises:
            RuntimeError: the thread cannot be started.
        """
        with self._changed:
            if self._wake_at is None or time < self._wake_at:
                self._wake_at = time
            elif self._thread is not None:
                return
            self._notify()  # also where the thread could not be started before

    def close(self) -> None:
        """End the thread once what it runs has ended."""
        with self._changed:
            self._closed = True
            self._refill = None
            self._changed.notify()

    def _notify(self) -> None:
        if self._thread is None and not self._closed:
            thread = DaemonThread(self._serve, name=self._name)
            thread.start()
            self._thread = thread
        self._changed.notify()

    def _owner_is_gone(self, _: object) -> None:
        self.close()

    def _given_up(self, refill: Refill, future: Any) -> None:
        """End a refill whose future is done although nothing ran it: cancelled, or its executor broke."""
        drop = self._drop()
        if drop is None:
            return
        error = None if future.cancelled() else future.exception()
        drop(refill, error or RuntimeError("the executor gave the refill up before it ran"))

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except BaseException:  # the owner reports what concerns it; this is what must not end the thread
                _log.exception("%s: its work raised; it goes on", self._name)
            work = None  # or the thread would keep its owner alive while it waits

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next thing to do; None once there will be none."""
        while True:
            now = self._clock.certain()
            with self._changed:
                if self._closed:
                    return None
                if self._refill is not None:
                    refill, self._refill = self._refill, None
                    run = self._run()
                    return None if run is None else partial(run, refill)
                if self._wake_at is not None and self._wake_at <= now:
                    self._wake_at = None
                    return self._wake()
                wait = None if self._wake_at is None else min(self._wake_at - now, threading.TIMEOUT_MAX)
                self._changed.wait(wait)
