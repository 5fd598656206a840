"""Where a task's rows go that cannot be written: a delayed queue, opened when the first such row is there."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from drainq.delivery.dead_letter_offer import offer_all
from drainq.delivery.payload import pack
from drainq.errors import DrainqError
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


class RowKeeper:
    """What the delivery of one writer hands the rows to that the writer refused.

    It is a :class:`drainq.delivery.given_up_keeper.Keeper`: a row that is to be parked and is not fails the task.

    Args:
        parking: the task's.
        row_at: gives the row of a place in the batch that is being written.
        is_parked: says whether the row that was refused is to be parked; else it is skipped.
    """

    required = True

    def __init__(self, parking: Parking, row_at: Callable[[int], Any], is_parked: Callable[[], bool]) -> None:
        self._parking, self._row_at, self._is_parked = parking, row_at, is_parked

    def park(self, items: Sequence[Any], error: str) -> str:
        """Refuse: what a failed task leaves is written when it runs again."""
        raise DrainqError(f"{len(items)} rows of a failed task are not parked, its next attempt writes them: {error}")

    def park_each(self, items: Sequence[int], errors: Sequence[str]) -> list[bool]:
        """Park the rows of these places, or none of them."""
        parked = self._is_parked()
        if parked:
            for place, error in zip(items, errors):
                self._parking.park(self._row_at(place), error)
        return [parked] * len(items)

    def withdraw(self, key: str) -> bool:
        """Nothing is taken out again."""
        return False

    def order(self) -> threading.Lock | None:
        """A parked row is not sent again by the task, so nothing can overtake it."""
        return None

    def were_sent(self, items: Sequence[Any]) -> None:
        """Nothing that is parked is replaced."""
