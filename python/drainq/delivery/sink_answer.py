"""A sink's answer for a batch, sorted by outcome: sent, refused or undelivered."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from drainq.delivery.sink_contract import Undelivered


@dataclass
class Answer:
    """The items of a batch that the sink's answer covers. Each is in one of the lists.

    Args:
        sent: taken. refused, reasons: not accepted because of their values.
        nameless, complaints: items refused without an index, and why. Their number is right, the choice is arbitrary.
        undelivered, errors: given up by the sink.
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
        """Sort the answer of :meth:`drainq.delivery.sink_contract.Sink.send` for these items.

        Args:
            items: the batch that was passed to ``send``.
            refusals: the return value of ``send``.
            rest: the indexes of the items without an answer.

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
