"""Loop signal: wakes one task of an event loop from any thread.

It replaces ``asyncio.wait_for`` around an ``asyncio.Event``, which on Python 3.10 and 3.11 swallows a cancel that
arrives in the same step of the loop as the event. The cancelled task would continue and take items.
"""

from __future__ import annotations

import asyncio
import contextlib


class LoopSignal:
    """A signal for the task that creates it. A signal that comes while the task does not wait ends its next wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._given = False
        self._waiter: asyncio.Future[None] | None = None

    def give(self) -> None:
        """End the current wait, or the next one. Any thread may call this, even after the loop was closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrive)

    def clear(self) -> None:
        """Discard a signal that was given before."""
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
