"""Ctrl-C between a commit and the account of it waits: what a command says last is what the database holds.

1. Before the hold Ctrl-C breaks the transaction off, and nothing of it is written. From then on it is raised once the
   block is over. No moment is between the two: the handler is replaced by one call.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def ctrl_c_later() -> Iterator[Callable[[], None]]:
    """Yield a call from which on Ctrl-C waits for the end of the block.

    On another thread than the main one, which Ctrl-C never interrupts, and where Ctrl-C is ignored, it does nothing.

    Example:
        >>> with ctrl_c_later() as hold:
        ...     hold()
        ...     print("committed, and counted")
        committed, and counted
    """
    before = signal.getsignal(signal.SIGINT)
    came: list[int] = []
    held: list[bool] = []

    def hold() -> None:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda number, _: came.append(number))
            held.append(True)

    try:
        yield hold
    finally:
        if held:
            signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
