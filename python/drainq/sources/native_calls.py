"""Keeps the interpreter's exit from ending a daemon thread inside a native call.

Before Python 3.14, a daemon thread that wants the GIL while the interpreter shuts down is ended by ``pthread_exit``.
That unwinds its stack; if there is a Rust frame on it (a queue that calls back a ``key`` or a ``__hash__``), the whole
process aborts. A thread that waits in Python or C alone (for a source, for a lock) is ended without harm.

So a daemon thread holds a lock around each native call that may run Python code, and the exit takes these locks, at
most ``_PATIENCE`` seconds in all, and keeps them: a thread that is inside comes out, and none goes in again.
No one else ever waits for such a lock, so that Python code under it can block nothing.

Source: ``_PyThreadState_MustExit`` in CPython; 3.14 lets such threads hang instead.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref

from drainq.fork import renew_in_child

_PATIENCE = 1.0
"""Seconds for the threads to come out; a key that takes longer is ended where it is."""


class _Locks:
    """The locks of this process, held weakly."""

    def __init__(self) -> None:
        self._renew_in_child()

    def _renew_in_child(self) -> None:
        self._all: list[weakref.ref[_NativeCalls]] = []

    def add(self, lock: _NativeCalls) -> None:
        self._all = [known for known in self._all if known() is not None]
        self._all.append(weakref.ref(lock))

    def take(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        for known in self._all:
            lock = known()
            if lock is not None:
                lock.acquire(timeout=max(0.0, deadline - time.monotonic()))


class _NativeCalls:
    """A lock that its own thread may take again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


_locks = _Locks()
renew_in_child(_locks)
atexit.register(_locks.take)


def native_calls() -> _NativeCalls:
    """Return a lock to hold around native calls that may run Python code, on a daemon thread."""
    lock = _NativeCalls()
    _locks.add(lock)
    return lock
