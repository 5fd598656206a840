"""A sink's answer for a batch, sorted: which items were sent, and what is to be done with the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from drainq.delivery.sink_contract import Undelivered


@dataclass
class Answer:
    """Each item of a batch that the sink has answered for is in one of the lists.

    Args:
        sent: handed on. refused, reasons: not taken for what they are.
        nameless, complaints: as many as were refused without being named. They are counted; which items these were
            is not known, so the ones in the list only stand for their number.
        undelivered, errors: given up on by the sink.
    """

    sent: list[Any] = field(default_factory=list)
    refused: list[Any] = field(default_factory=list)
    reasons: list[object] = field(default_factory=list)
    nameless: list[Any] = field(default_factory=list)
    complaints: list[object] = field(default_factory=list)
    undelivered: list[Any] = field(default_factory=list)
    errors: list[Undelivered] = field(default_factory=list)

    @classmethod
    def of(
        cls, items: list[Any], refusals: Iterable[tuple[int | None, object]] | None, rest: Collection[int] = ()
    ) -> Answer:
        """Sort what :meth:`drainq.delivery.sink_contract.Sink.send` returned for these items.

        Args:
            items: what was sent.
            refusals: what it returned.
            rest: the places of items that it has not answered for.

        Example:
            >>> answer = Answer.of(["a", "b", "c"], [(1, "too long"), (None, "odd")])
            >>> answer.sent, answer.refused, len(answer.nameless)
            (['a'], ['b'], 1)
        """
        answer, named = cls(), {}
        for place, reason in refusals or ():
            if place is None:
                answer.complaints.append(reason)
            else:
                named[place] = reason
        if not named and not rest:
            answer.sent = list(items)
        else:
            skip = {*named, *rest}
            answer.sent = [item for place, item in enumerate(items) if place not in skip]
        for place, reason in named.items():
            if isinstance(reason, Undelivered):
                answer.undelivered.append(items[place])
                answer.errors.append(reason)
            else:
                answer.refused.append(items[place])
                answer.reasons.append(reason)
        if answer.complaints:
            count = min(len(answer.complaints), len(answer.sent))
            split = len(answer.sent) - count
            answer.sent, answer.nameless = answer.sent[:split], answer.sent[split:]
        return answer
