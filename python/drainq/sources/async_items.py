"""``async for item in source`` and ``wait_async``: the waits for a prefetching source that do not stop the event loop.

# Invariants

1. One item is taken at a time, and nothing is awaited between the pull and the end of ``__anext__``. So a cancelled
   task has taken nothing.
2. A pull that finds nothing is repeated after each refill, and every ``LONGEST_WAIT`` seconds, because the source may
   have a back-off that only a pull ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from drainq.loop_signal import LoopSignal

T = TypeVar("T")

LONGEST_WAIT = 0.25


class AsyncItems(Generic[T]):
    """The asynchronous iterator of a ``PrefetchSource``. It ends with the stream, or when the source is closed."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __aiter__(self) -> AsyncItems[T]:
        return self

    async def __anext__(self) -> T:
        """Wait for the next item."""
        source = self._source
        items: list[T] = source.get_next_batch(1)
        if items:
            return items[0]
        refilled = LoopSignal()
        source.subscribe(refilled.give)
        try:
            while True:
                refilled.clear()
                over = source.closed or source.finished  # read first, so that earlier items are still pulled
                items = source.get_next_batch(1)
                if items:
                    return items[0]
                if over:
                    raise StopAsyncIteration
                await refilled.wait(LONGEST_WAIT)
        finally:
            source.unsubscribe(refilled.give)


async def wait_for_refills(source: Any, has_news: Callable[[], bool], timeout: float | None) -> bool:
    """Wait until ``has_news``, called again after each refill, returns True. Return False after ``timeout`` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    refilled = LoopSignal()
    source.subscribe(refilled.give)
    try:
        while not has_news():
            left = LONGEST_WAIT if deadline is None else min(deadline - time.monotonic(), LONGEST_WAIT)
            if left <= 0:
                return False
            await refilled.wait(left)
            refilled.clear()
        return True
    finally:
        source.unsubscribe(refilled.give)
