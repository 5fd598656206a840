"""What a sink is, and what its errors mean.

A sink takes a batch whole, or says which items it refuses, or raises. What it raises is one of three, as everywhere
in drainq (:class:`drainq.sql.failure.Failure`):

| failure | what the delivery does |
| --- | --- |
| ``PASSES`` | waits with back-off and sends the same batch again, for up to ``retry_for`` seconds of one outage |
| ``DATA`` | halves the batch until the items that are refused stand alone; sends all others |
| ``CANNOT_PASS`` | stops: it gives the batch up at once, and producers get the error |
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from drainq.backoff import Backoff
from drainq.errors import DrainqError
from drainq.sql.error_text import error_text, to_show
from drainq.sql.failure import Failure

__all__ = [
    "DeliveryError",
    "DeliveryStopped",
    "Failure",
    "Refused",
    "Rest",
    "Sink",
    "Unavailable",
    "Undelivered",
    "error_text",
    "raise_wrapped",
    "to_show",
]

Refusals = Iterable[tuple[int | None, object]]
"""Places of items and the reasons why they were not taken."""


class Rest(list[Any]):
    """The items of a batch that are still to be sent. ``send`` is called with this very object next.

    Not for sinks whose items replace each other.

    Args:
        items: in the order in which they are to be sent.
        places: where they stood in the list that ``send`` was given.
    """

    def __init__(self, items: Iterable[Any], places: Sequence[int]) -> None:
        super().__init__(items)
        self.places = places


class DeliveryError(DrainqError):
    """Items could not be handed on and are lost to this worker; the sink's error is the cause.

    Args:
        message: what happened.
        rest: raised by a sink: the items that are still to be sent, if not all are. None: nothing was sent, or it is
            not known.
        refusals: of the others, those that were not taken, as ``send`` returns them, by their places in its list.
    """

    failure = Failure.CANNOT_PASS

    def __init__(self, message: str, *, rest: Rest | None = None, refusals: Refusals = ()) -> None:
        super().__init__(message)
        self.rest, self.refusals = rest, refusals


class DeliveryStopped(DeliveryError):
    """The other side refuses for a reason that no waiting changes; put it right, then produce again."""


class Unavailable(DeliveryError):
    """Raised by a sink: the other side cannot be reached, or is overloaded; the same batch may pass later.

    Args:
        message: what happened.
        after: seconds that the other side asked to wait before the next try; None: the delivery's back-off decides.
        rest, refusals: as for every :class:`DeliveryError`.
    """

    failure = Failure.PASSES

    def __init__(
        self, message: str, *, after: float | None = None, rest: Rest | None = None, refusals: Refusals = ()
    ) -> None:
        super().__init__(message, rest=rest, refusals=refusals)
        self.after = after


class Refused(DeliveryError):
    """Raised by a sink: it works, and refuses at least one of these items for what it is."""

    failure = Failure.DATA


class Undelivered(DeliveryError):
    """The reason of a single item that was not refused and is given up on all the same: it took too long, say.

    Args:
        message: what happened.
        unknown: whether it may have arrived; such items are counted as ``unknown``, too.
    """

    failure = Failure.PASSES

    def __init__(self, message: str, *, unknown: bool) -> None:
        super().__init__(message)
        self.unknown = unknown


class Sink(abc.ABC):
    """What gets the batches of a :class:`~drainq.delivery.sending_worker.Sender`.

    ``send`` runs on a drain thread, never under a lock that ``flush``, ``close`` or ``stats`` need. With several
    drain threads, and beside what is sent again from a delayed queue, it is called by several threads at once.
    """

    backoff = Backoff(0.1, 5.0)
    """The pauses between two tries of a batch."""

    @abc.abstractmethod
    def send(self, items: list[Any]) -> Refusals | None:
        """Hand on the items.

        Returns:
            None, or for each item that is refused its place in the list and the reason: an error, or a text that is
            logged as it is and so holds no values. All others were sent. The place
            is None for an item of which the other side does not say which it is: it is counted, and not kept. With
            an :class:`Undelivered` as the reason the item is given up on instead.
        Raises:
            Exception: nothing was sent, or it is not known; :meth:`failure_of` says what that means.
        """

    def described(self, item: Any) -> str:
        """Return what a log line calls an item that was refused; it shows no values."""
        return f"a {type(item).__name__}"

    def failure_of(self, error: Exception) -> Failure:
        """What an error of :meth:`send` means. An error that nothing is known of is taken to be about the items."""
        failure = getattr(error, "failure", None)
        return failure if isinstance(failure, Failure) else Failure.DATA

    def cancel(self) -> None:  # noqa: B027
        """Make running calls of :meth:`send` raise, if that is possible; called when the time of ``close`` runs out."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections; called once, after the last :meth:`send`."""

    def forget(self) -> None:  # noqa: B027
        """Leave connections to the parent process, and begin anew; called in a forked child."""


def raise_wrapped(kind: type[DeliveryError], what: str, error: BaseException, values: bool) -> NoReturn:
    """Raise an error of drainq that says what happened and why; it and its cause show values only if they may."""
    raise kind(f"{what}: {error_text(error, values=values)}") from to_show(error, values=values)
