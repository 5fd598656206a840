"""Holds Ctrl-C back while a command imports a module or starts a thread.

A KeyboardInterrupt there can make the command hang. In an import it can leave CPython's import lock with the main
thread, so that no other thread can import, or be lost in a callback. In the start of a pool's thread it can leave the
thread unknown to the pool, and the exit of the process waits for ever for such a thread.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_AGAIN = 0.02  # seconds until a signal that was held back is handled again
_STARTS = {("threading", "start"), ("concurrent.futures.thread", "submit")}


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block only outside of imports and starts of threads, which end first.

    Does nothing on other threads, on Windows, and in a program that handles SIGINT or SIGALRM itself.
    """
    base = sys._getframe(2)  # the caller, behind contextlib
    pending = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        while frame is not None and frame is not base:
            code = frame.f_code
            if (
                code.co_filename.startswith("<frozen importlib")
                or (frame.f_globals.get("__name__"), code.co_name) in _STARTS
            ):
                pending = True
                signal.setitimer(signal.ITIMER_REAL, _AGAIN)
                return
            frame = frame.f_back
        pending = False
        raise KeyboardInterrupt

    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGALRM, handle)
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if pending:
            raise KeyboardInterrupt
