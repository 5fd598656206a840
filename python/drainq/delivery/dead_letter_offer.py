"""Offers given-up items to a delayed queue, without importing the delayed queue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol


class DelayedQueueLike(Protocol):
    """The methods of :class:`drainq.delayed.DelayedQueue` that dead letters need."""

    def offer_if_not_exists(self, key: str, payload: Any, schedule_at: Any, /) -> Any: ...
    def offer_or_update(self, key: str, payload: Any, schedule_at: Any, /) -> Any: ...
    def drop_message(self, key: str, /) -> bool: ...
    def peek(self, limit: int, /) -> Any: ...
    def read(self, key: str, /) -> Any: ...
    def try_poll(self) -> Any: ...


def offer_all(delayed: DelayedQueueLike, messages: Sequence[tuple[str, Any]], due: Any) -> None:
    """Offer messages, in one transaction if the queue supports it. A message replaces one with the same key.

    Args:
        delayed: the queue.
        messages: key and payload of each.
        due: when they are due.
    """
    room = sys.modules.get("drainq.delayed.message")  # loaded, if this is one of drainq's delayed queues
    offer_batch = getattr(delayed, "offer_batch", None)
    if room is not None and offer_batch is not None:
        offer_batch([room.ScheduledMessage(key, payload, due) for key, payload in messages])
        return
    for key, payload in messages:
        delayed.offer_or_update(key, payload, due)


def check_delayed(delayed: Any) -> None:
    """Raise an error unless the argument is a delayed queue or None.

    Raises:
        TypeError: it is neither.
    """
    if not (delayed is None or callable(getattr(delayed, "offer_if_not_exists", None))):
        raise TypeError(f"delayed must be a drainq.delayed.DelayedQueue or None, got {delayed!r}")
