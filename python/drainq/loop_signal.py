"""Wakes one task of an event loop from any thread; a cancel of the task always reaches it.

Why not ``asyncio.wait_for`` around an ``asyncio.Event``: on Python 3.10 and 3.11 it swallows a cancel that comes in the
step of the loop in which the event was set, and the cancelled task goes on and takes items.
"""

from __future__ import annotations

import asyncio
import contextlib


class LoopSignal:
    """A signal for the task that makes it. A signal that is given while the task does not wait is kept."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._given = False
        self._waiter: asyncio.Future[None] | None = None

    def give(self) -> None:
        """End the wait, or the next one; from any thread, also after the loop was closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrive)

    def clear(self) -> None:
        """Forget a signal that was given before."""
        self._given = False

    async def wait(self, seconds: float) -> None:
        """Return once the signal is given, or after ``seconds``."""
        if self._given:
            return
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await waiter
        finally:
            self._waiter = None
            timer.cancel()

    def _arrive(self) -> None:
        self._given = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
