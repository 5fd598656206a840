"""Sink: the interface of a target for batches, and the errors that it raises.

A sink takes a whole batch. It returns the items that it refuses, or raises an error. Each error is of one of the three
kinds of :class:`drainq.sql.dialect.Failure`:

| failure | what the delivery does |
| --- | --- |
| ``PASSES`` | waits with back-off and sends the same batch again, for up to ``retry_for`` seconds of one outage |
| ``DATA`` | halves the batch until each refused item is alone; sends all others |
| ``CANNOT_PASS`` | stops: it gives the batch up at once, and producers get the error |
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from drainq.backoff import Backoff
from drainq.errors import DrainqError
from drainq.sql.dialect import Failure
from drainq.sql.error_text import error_text, to_show

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Sent = TypeVar("Sent", contravariant=True, default=Any)
else:
    from typing import TypeVar

    Sent = TypeVar("Sent", contravariant=True)

__all__ = [
    "Attempt",
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
"""The indexes of refused items, with the reasons."""


class Rest(list[Any]):
    """The items of a batch that are still to be sent. ``send`` gets this very object in its next call.

    A sink whose items replace each other must not use this class.

    Args:
        items: the unsent items, in order.
        places: their indexes in the list that ``send`` got.
    """

    def __init__(self, items: Iterable[Any], places: Sequence[int]) -> None:
        super().__init__(items)
        self.places = places


class Attempt:
    """The tries of a list of items. The delivery sets the time of the next try, and the sink describes the last one.

    Attributes:
        seconds: how long the next try may take. None: as long as it takes.
        doubt: what the sink needs to find out whether the last try arrived. None: it is known.
        refused: what the sink returns if that try arrived.
        is_unsure: whether the items may have arrived twice.
    """

    __slots__ = ("doubt", "is_unsure", "refused", "seconds")

    def __init__(self, seconds: float | None = None, doubt: str | None = None) -> None:
        self.seconds, self.doubt, self.is_unsure = seconds, doubt, False
        self.refused: list[tuple[int | None, object]] = []


class DeliveryError(DrainqError):
    """Raised if items were not sent and are lost to this worker. The sink's error is the cause.

    Args:
        message: the text of the error.
        rest: from a sink: the unsent items, if some were sent. None: no item was sent, or the sink does not know.
        refusals: the refused items, by their indexes in the list for ``send``, as ``send`` returns them.
    """

    failure = Failure.CANNOT_PASS

    def __init__(self, message: str, *, rest: Rest | None = None, refusals: Refusals = ()) -> None:
        super().__init__(message)
        self.rest, self.refusals = rest, refusals


class DeliveryStopped(DeliveryError):
    """Raised if the sink fails for a reason that waiting does not change. Remove the reason, then produce again."""


class Unavailable(DeliveryError):
    """Raised by a sink if its target cannot be reached or is overloaded. The same batch may succeed later.

    Args:
        message: what happened.
        after: seconds that the target asked to wait before the next try. None: the delivery's back-off decides.
        rest, refusals: as for every :class:`DeliveryError`.
    """

    failure = Failure.PASSES

    def __init__(
        self, message: str, *, after: float | None = None, rest: Rest | None = None, refusals: Refusals = ()
    ) -> None:
        super().__init__(message, rest=rest, refusals=refusals)
        self.after = after


class Refused(DeliveryError):
    """Raised by a sink that works, but refuses at least one of these items because of its values."""

    failure = Failure.DATA


class Undelivered(DeliveryError):
    """The reason for giving up a single item that is not refused, such as a timeout.

    Args:
        message: what happened.
        unknown: whether the item may have arrived; if so, it is also counted as ``unknown``.
    """

    failure = Failure.PASSES

    def __init__(self, message: str, *, unknown: bool) -> None:
        super().__init__(message)
        self.unknown = unknown


class Sink(abc.ABC, Generic[Sent]):
    """The target of the batches of a :class:`~drainq.delivery.sending_worker.SendingWorker`.

    A subclass needs only :meth:`send`, which raises :class:`Unavailable` for a temporary failure, and :class:`Refused`
    if some items are at fault: then the batch is halved until each bad item is alone.

    ``send`` runs on a drain thread, never under a lock that ``flush``, ``close`` or ``stats`` need. With several drain
    threads, or with a delayed queue, several threads call it at once.
    """

    backoff = Backoff(0.1, 5.0)
    """The pauses between two tries of a batch."""

    @abc.abstractmethod
    def send(self, items: list[Sent]) -> Refusals | None:
        """Send the items.

        Returns:
            None, or for each refused item its index in the list and the reason: an error, or a text, which must hold no
                values, because it is logged unchanged. All other items were sent. The index is None if the target does
                not name the item; such an item is counted, and not kept. With an :class:`Undelivered` as the reason,
                the item is given up instead of refused.
        Raises:
            Exception: nothing was sent, or the sink does not know; :meth:`failure_of` classifies the error.
        """

    def send_within(self, items: list[Sent], attempt: Attempt) -> Refusals | None:
        """Send the items in the time of the attempt. By default it calls :meth:`send`, which must end by itself."""
        return self.send(items)

    def described(self, item: Any) -> str:
        """Return a name without values, for a refused item in log lines."""
        return f"a {type(item).__name__}"

    def failure_of(self, error: Exception) -> Failure:
        """Classify an error of :meth:`send`.

        By default the error's ``failure`` decides. Without one, an OSError, such as a lost connection or a timeout, is
        temporary, and any other error is ``DATA``.
        """
        failure = getattr(error, "failure", None)
        if isinstance(failure, Failure):
            return failure
        return Failure.PASSES if isinstance(error, OSError) else Failure.DATA

    def cancel(self) -> None:
        """Make running calls of :meth:`send` raise, if that is possible. Called when the time of ``close`` runs out."""

    def close(self) -> None:
        """Release connections. Called once, after the last :meth:`send`."""

    def forget(self) -> None:
        """Leave connections to the parent process and start afresh. Called in a forked child."""


def raise_wrapped(kind: type[DeliveryError], what: str, error: BaseException, values: bool) -> NoReturn:
    """Raise an error of drainq with a message and the cause. Both show values of items only if ``values`` is True."""
    raise kind(f"{what}: {error_text(error, values=values)}") from to_show(error, values=values)
