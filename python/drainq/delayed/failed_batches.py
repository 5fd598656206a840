"""Failed batches: stores the failed batches of a batch queue in a delayed queue, to try them again later.

A batch queue is fast but loses failed batches. A delayed queue is slower and durable. So a failed batch is stored
whole, with its error, and the consumer of the delayed queue tries it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from drainq.delayed.message import error_text
from drainq.delayed.queue import DelayedQueue


class ToDelayedQueue:
    """An error handler that stores the failed batch. :func:`to_delayed_queue` makes it."""

    dead_letters = True
    """Tells the batch queue to count the returned number of items as dead-lettered instead of failed."""

    def __init__(
        self,
        queue: DelayedQueue[Any],
        delay: float | timedelta,
        key_prefix: str,
        encode_item: Callable[[Any], Any] | None,
    ) -> None:
        self._queue = queue
        self._delay = delay
        self._key_prefix = key_prefix
        self._encode_item = encode_item

    def __call__(self, batch: list[Any], error: BaseException) -> int:
        """Store the batch as one message ``{"batch": [...], "error": "..."}``; return how many items it has."""
        items = list(batch) if self._encode_item is None else [self._encode_item(item) for item in batch]
        key = f"{self._key_prefix}/{uuid.uuid4()}"
        self._queue.offer(key, {"batch": items, "error": error_text(error)}, delay=self._delay)
        return len(items)

    def __repr__(self) -> str:
        return f"to_delayed_queue({self._queue!r}, delay={self._delay!r})"


def to_delayed_queue(
    queue: DelayedQueue[Any],
    *,
    delay: float | timedelta = 60.0,
    key_prefix: str = "given-up",
    encode_item: Callable[[Any], Any] | None = None,
) -> ToDelayedQueue:
    """Make an error handler that keeps a batch queue's failed batches in a delayed queue.

    Args:
        queue: the delayed queue; its codec must encode ``{"batch": [...], "error": "..."}``, as the default one does.
        delay: seconds until a failed batch is delivered again.
        key_prefix: the first part of the messages' keys; the rest is unique.
        encode_item: converts an item for the codec; by default unchanged.

    Returns:
        A callable ``(batch, error)`` that returns how many items it stored. If the batch cannot be stored, the
        callable raises: the batch queue logs both errors and counts the batch as failed.

    Example:
        >>> with DelayedQueue.open("memory:", "retries") as retries:
        ...     on_error = to_delayed_queue(retries, delay=0)
        ...     on_error(["row 1", "row 2"], ValueError("no such table"))
        ...     retries.poll().payload
        2
        {'batch': ['row 1', 'row 2'], 'error': 'ValueError: no such table'}
    """
    queue._session.after(delay, "delay")  # a bad delay is an error now, not when the first batch fails
    return ToDelayedQueue(queue, delay, key_prefix, encode_item)
