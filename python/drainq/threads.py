"""Daemon threads whose ``start`` does not wait for them: what all of drainq starts.

``threading.Thread.start`` waits until the new thread has begun. On its way to that point the new thread may collect
garbage, and so run finalisers of any objects, each of which may wait for a lock: a line of the log waits for the
handler of the log, say. If the thread that called ``start`` holds this lock, both wait for ever. The caller cannot know
which locks its own callers hold: a handler of the log may put an item into a queue.

# Invariants

1. Nothing that the new thread does is waited for between the call of ``start`` and its return.
2. From the return of ``start`` until its end the thread is alive and can be joined, also before it has begun. A join is
   the caller's own wait.
3. In the child of a fork a thread of the parent that had not begun is not alive; ``threading`` says so of the others.

``Thread.start`` waits by ``self._started.wait()``, which is private. A Python whose ``start`` waits in another way
fails ``tests/test_threads.py``; threads would still start there.

Source: ``Thread.start``, ``Thread._bootstrap_inner`` and ``Thread._after_fork`` in CPython 3.10 to 3.14.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from drainq.errors import DrainqError


class _Begun(threading.Event):
    """Set by the new thread; ``Thread.start`` alone calls ``wait``."""

    def wait(self, timeout: float | None = None) -> bool:
        return True

    wait_for_it = threading.Event.wait


def refuse_green_threads() -> None:
    """Refuse a ``threading`` that gevent or eventlet has patched: a native wait in their threads would stop them all.

    They replace ``get_ident``, which no debugger and no profiler does.
    """
    if not isinstance(threading.get_ident, BuiltinFunctionType):
        patched_by = str(getattr(threading.get_ident, "__module__", "another library")).partition(".")[0]
        raise DrainqError(
            f"{patched_by} has patched the module threading, and drainq needs real threads: leave threads out of the "
            "patch (gevent: monkey.patch_all(thread=False); eventlet: monkey_patch(thread=False)), or use drainq in "
            "another process"
        )


class DaemonThread(threading.Thread):
    """A daemon thread that runs ``target`` with ``args``.

    Args:
        target: what the thread calls.
        name: of the thread.
        args: what ``target`` is called with.

    Example:
        >>> met = threading.Barrier(2)
        >>> thread = DaemonThread(met.wait, name="other")
        >>> thread.start()
        >>> thread.is_alive(), met.wait(10) in (0, 1)
        (True, True)
        >>> thread.join()
    """

    _starter: int | None = None  # the process that started the thread

    def __init__(self, target: Callable[..., object], *, name: str, args: tuple[Any, ...] = ()) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)
        self._started = _Begun()

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: there can be no more threads, or the thread was started before.
            DrainqError: the module ``threading`` is patched.
        """
        refuse_green_threads()
        if self._starter is not None:
            raise RuntimeError("threads can only be started once")
        self._starter = os.getpid()
        try:
            super().start()
        except BaseException:
            self._starter = None
            raise

    def is_alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._is_to_begin() or super().is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, or ``timeout`` seconds have passed."""
        asked_at = time.monotonic()
        if self._is_to_begin() and self._started.wait_for_it(timeout) and timeout is not None:
            timeout = max(0.0, timeout - (time.monotonic() - asked_at))
        if not self._is_to_begin():
            super().join(timeout)

    def _is_to_begin(self) -> bool:
        return self._starter == os.getpid() and not self._started.is_set()
