"""Where a task's rows go that cannot be written: a delayed queue, opened when the first such row is there."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from drainq.delivery.dead_letter_offer import offer_all
from drainq.delivery.payload import pack
from drainq.spark.once import Once


class Parking:
    """The delayed queue of a task.

    1. The key is made from the row, so a task that runs again parks a row once.
    2. ``drainq.delivery.payload.unpack`` gives the row back with its types: JSON alone knows no bytes and no Decimal.
    3. The function runs once in a task (see :class:`drainq.spark.once.Once`).

    Args:
        open: opens the queue; None: there is none, and :meth:`park` must not be called.
    """

    def __init__(self, open: Callable[[], Any] | None) -> None:
        self._queue: Once[Any] | None = None if open is None else Once(open)

    def park(self, row: Any, error: str) -> None:
        """Store a row with the reason why.

        Raises:
            ValueError: there is no queue.
            TypeError: the row holds a value that cannot be kept.
        """
        if self._queue is None:
            raise ValueError("'park' needs delayed=, a function that opens a DelayedQueue; got delayed=None")
        key = f"row/{hashlib.sha256(repr(row).encode()).hexdigest()}"
        offer_all(self._queue.get(), [(key, {"row": pack(row), "error": error})], time.time(), can_update=True)

    def close(self) -> None:
        """Close the queue if it was opened."""
        if self._queue is not None and (opened := self._queue.made) is not None:
            opened.close()
