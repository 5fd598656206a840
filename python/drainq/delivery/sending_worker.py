"""SendingWorker: the worker that hands each batch to a sink at once, in the drain thread. Writers and exporters
extend it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from drainq.arguments import whole
from drainq.callables import check_callable
from drainq.delivery.delivering_worker import Delivering
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import DeliveryError, Sink

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings


class SendingWorker(Delivering[Item]):
    """Send each batch to a sink of your own, and account for each item.

    The sink classifies its errors: a temporary failure is waited out, a refused item is found and put aside, and any
    other failure stops the worker. See :class:`Sink`.

    Args:
        sink: gets the batches.
        default_name: the worker's name unless ``name`` is given; None: ``sending-worker/`` and the class of the sink.
        threads: drain threads; each calls the sink.
        key_of: maps an item to its key: a newer item replaces an older one of the same key in the delayed queue. None:
            items do not replace each other.
        pack_item, unpack_item: convert an item to values that a delayed queue can keep (None, bool, int, float, str,
            bytes, Decimal, datetime, date, time, timedelta, UUID, tuples, lists, dicts, sets), and back. None: an item
            is such a value.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`WorkerOptions`.

    Example:
        >>> class Print(Sink):
        ...     def send(self, items):
        ...         print(items)
        >>> with SendingWorker(Print(), name="print") as worker:
        ...     worker(["a", "b"])  # as a queue calls it; ``produce`` goes through the worker's own queue
        ['a', 'b']
    """

    def __init__(
        self,
        sink: Sink[Item],
        *,
        default_name: str | None = None,
        threads: int = 1,
        key_of: Callable[[Item], Hashable] | None = None,
        pack_item: Callable[[Any], Any] | None = None,
        unpack_item: Callable[[Any], Any] | None = None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        self._threads = whole("threads", threads, least=1)
        if not callable(getattr(sink, "send", None)):
            raise TypeError(f"sink must be a drainq.workers.Sink, with send(items), got {sink!r}")
        check_callable("send", sink.send, "items")
        super().__init__(default_name or f"sending-worker/{type(sink).__name__}", **settings)
        self._deliver_to(sink, key_of=key_of, pack_item=pack_item, unpack_item=unpack_item)

    @property
    def sink(self) -> Sink[Item]:
        """The target of the batches."""
        return self._delivery.sink

    # -- what a worker does -----------------------------------------------------------------------

    def _take(self, batch: list[Any]) -> None:
        if self._bytes is None:
            self._delivery.deliver(batch)
            return
        lost: DeliveryError | None = None
        for part in self._bytes.parts(batch):
            try:
                self._delivery.deliver(part)
            except DeliveryError as error:
                lost = error
        if lost is not None:
            raise lost

    def _put_away(self, batch: list[Any]) -> None:
        self._delivery.keep(self._delivery.cut(), None)  # first, so that a newer item of a key is kept later
        self._delivery.deliver(batch, DeliveryError("the queue was shut down before they were sent"))

    def _queue_settings(self) -> dict[str, Any]:
        return {"threads": self._threads}

    def on_idle(self) -> None:
        """Send the due messages of the delayed queue again."""
        if self._resender is not None:
            self._resender.now()

    def _end(self, deadline: float | None) -> bool:
        if self._resender is not None:
            self._resender.stop(deadline)
        parcels = self._delivery.cut()
        self._delivery.keep(parcels, deadline)
        return not parcels
