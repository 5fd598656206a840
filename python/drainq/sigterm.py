"""SIGTERM as an orderly end (a graceful shutdown): the signal ends the main thread's ``with`` blocks.

By default SIGTERM ends a process at once, and the items in its memory are lost.

# Invariants

1. Another handler that was installed before stays.
2. The signal raises once. The handler first restores the default, so a second signal ends the process at once.
3. If an event loop runs in the main thread, a callback of the loop raises, never the code of a task. ``asyncio.run``
   then cancels all tasks, whose ``with`` blocks end while the loop still runs.

Source: ``asyncio.Runner``, which ends on Ctrl-C in the same order.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


def stop_on_sigterm() -> bool:
    """Make SIGTERM end the main thread's ``with`` blocks, and then the program, with exit code 143.

    The signal raises ``SystemExit(143)`` in the main thread; ``asyncio.run`` cancels all its tasks first. A second
    SIGTERM ends the process at once.

    Returns:
        True. False if there was another handler, which stays: a web server such as uvicorn or gunicorn ends the program
        itself.
    Raises:
        ValueError: called on a thread other than the main one.

    Example:
        >>> import signal
        >>> before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        >>> stop_on_sigterm()
        True
        >>> try:
        ...     signal.raise_signal(signal.SIGTERM)
        ... except SystemExit as end:
        ...     print(end.code)
        143
        >>> _ = signal.signal(signal.SIGTERM, before)
    """
    found = signal.getsignal(signal.SIGTERM)
    if found is not _stop:
        if found is not signal.SIG_DFL:
            return False
        try:
            signal.signal(signal.SIGTERM, _stop)
        except ValueError as error:
            raise ValueError("stop_on_sigterm() must be called on the main thread, where the program begins") from error
    return True


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio else None
    if loop is None:
        _exit()
    else:
        loop.call_soon_threadsafe(_exit)


def _exit() -> None:
    raise SystemExit(128 + signal.SIGTERM)
