"""What a delivery hands the items to that it gives up on: dead letters, or the parking of a Spark task."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol


class Keeper(Protocol):
    """Keeps items that were not sent. :class:`drainq.delivery.dead_letters.DeadLetters` also sends them again."""

    required: bool
    """Whether an item that is not kept ends the delivery with the keeper's error; else it counts as refused."""

    def park(self, items: Sequence[Any], error: str, /) -> str:
        """Keep items in one message; return its key."""

    def park_each(self, items: Sequence[Any], errors: Sequence[str], /) -> list[bool]:
        """Keep items in a message each; return which are kept."""

    def withdraw(self, key: str, /) -> bool:
        """Take a message out again; False if it is gone."""

    def order(self) -> threading.Lock | None:
        """The lock to hold while newer items are sent; None if nothing is kept that they could replace."""

    def were_sent(self, items: Sequence[Any], /) -> None:
        """Items were sent: older ones of their keys that are kept are taken out."""
