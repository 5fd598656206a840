"""Parcel: a batch from the moment in which a delivery gets it until each of its items is accounted for."""

from __future__ import annotations

from typing import Any

from drainq.delivery.accounting import Outcome
from drainq.delivery.sink_contract import Attempt, DeliveryError


class Parcel:
    """A batch inside :meth:`Delivery.deliver`.

    Attributes:
        items: the items that are not accounted for yet, in order.
        outcome: the outcome under which these items are counted until then.
        key: the key of the dead letter that :meth:`Delivery.keep` made of these items.
        kept, unsent: the number of items in that letter, and how many of them are still unsent.
        attempt, tried: the attempt to send the first ``tried`` items in one call.
        error: the reason for which some items are lost while others are still to be sent.
        is_told: whether ``on_error`` got the items when ``close`` gave them up.
    """

    __slots__ = ("attempt", "error", "is_told", "items", "kept", "key", "outcome", "tried", "unsent")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.outcome = Outcome.PENDING
        self.key: str | None = None
        self.kept = self.unsent = 0
        self.error: DeliveryError | None = None
        self.is_told = False
        self.attempt, self.tried = Attempt(), 0

    @property
    def doubt(self) -> str | None:
        """The attempt's ``doubt`` if it is about all items of the parcel, else None."""
        return self.attempt.doubt if self.tried == len(self.items) and not self.attempt.refused else None
