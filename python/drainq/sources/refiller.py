"""The thread behind a prefetching source: runs its refills, and looks again when a back-off ends.

It is a daemon, so a source that hangs never holds up the interpreter's exit; and it knows its owner by a weak
reference only, so an owner that nobody holds any more is collected and the thread ends.

Invariants:
    1. At most one thread per refiller; it starts when there is first something for it to do.
    2. The lock is never held while foreign code runs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from drainq.clock import Clock

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Refiller:
    """Runs ``refill`` in the background when asked, and ``look`` when a given time has come.

    Args:
        refill: a bound method; run on the executor, or else on the refiller's own thread.
        look: a bound method, short; run on the refiller's own thread.
        name: of the thread.
        executor: where refills run; None is the refiller's own thread.
        clock: decides when a time has come; the waiting itself uses real time.
    """

    def __init__(
        self,
        refill: Callable[[], None],
        look: Callable[[], None],
        *,
        name: str,
        executor: Executor | None,
        clock: Clock,
    ) -> None:
        self._refill = weakref.WeakMethod(refill, self._owner_is_gone)
        self._look = weakref.WeakMethod(look)
        self._name = name
        self._executor = executor
        self._clock = clock
        self._changed = threading.Condition()  # on an RLock: a collection may call _owner_is_gone while it is held
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._look_at: float | None = None
        self._closed = False

    def refill_now(self) -> None:
        """Have ``refill`` run as soon as possible.

        Raises:
            RuntimeError: the executor takes no more work.
        """
        refill = self._refill()
        if self._executor is not None and refill is not None:
            self._executor.submit(refill)
            return
        with self._changed:
            self._wanted = True
            self._wake()

    def look_at(self, time: float) -> None:
        """Have ``look`` run at ``time``, unless an earlier look is set."""
        with self._changed:
            if self._look_at is None or time < self._look_at:
                self._look_at = time
                self._wake()

    def close(self) -> None:
        """End the thread once what it runs has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._changed.notify()

    def _owner_is_gone(self, _: object) -> None:
        self.close()

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            work = job()
            if work is not None:
                work()
            del work  # or the thread would keep its owner alive while it waits

    def _next_job(self) -> weakref.WeakMethod[Callable[[], None]] | None:
        with self._changed:
            while True:
                if self._wanted:  # also when closed: the owner waits for what it asked for
                    self._wanted = False
                    return self._refill
                if self._closed:
                    return None
                wait = None if self._look_at is None else self._look_at - self._clock.now()
                if wait is not None and wait <= 0:
                    self._look_at = None
                    return self._look
                self._changed.wait(wait if wait is None else min(wait, threading.TIMEOUT_MAX))
