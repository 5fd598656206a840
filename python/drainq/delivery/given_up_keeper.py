"""Keeper: stores items that a delivery could not send, as dead letters or as the parked rows of a Spark task."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol


class Keeper(Protocol):
    """Keeps items that were not sent. :class:`drainq.delivery.dead_letters.DeadLetters` also sends them again."""

    required: bool
    """Whether an item that is not kept ends the delivery with the keeper's error; else it counts as refused."""

    def park(self, items: Sequence[Any], error: str, /) -> str:
        """Keep items in one message. Return its key."""

    def park_each(self, items: Sequence[Any], errors: Sequence[str], /) -> list[bool]:
        """Keep each item in a message of its own. Return the items that were kept."""

    def withdraw(self, key: str, /) -> bool:
        """Remove a message. Return False if it no longer exists."""

    def order(self) -> threading.Lock | None:
        """Return the lock to hold while newer items are sent, or None if no kept item could be replaced by them."""

    def were_sent(self, items: Sequence[Any], /) -> None:
        """Remove kept items that the sent ones replace."""
