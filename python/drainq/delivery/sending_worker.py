"""Sender: the worker that hands each batch to a sink at once, in the drain thread. Writers and exporters extend it.

It adds the delayed queue to :mod:`drainq.delivery.delivery`: given-up items are sent again every few seconds, and at
each ``flush``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from drainq._native import BatchQueue, PartitionSelector
from drainq.arguments import Seconds, seconds, whole
from drainq.batch_config import BatchQueueConfig
from drainq.clock import Clock
from drainq.delivery.dead_letter_offer import DelayedQueueLike, check_delayed
from drainq.delivery.dead_letter_resend import Resender
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.delivery import RETRY_FOR, Delivery
from drainq.delivery.sink_contract import Sink
from drainq.delivery.worker import Worker


class Sender(Worker):
    """Sends each batch to a sink, and accounts for each item.

    Args:
        sink: gets the batches.
        name: kind and target, such as ``"batch-writer/visits"``, for log lines and for the keys of messages in the
            delayed queue. Workers of the same name send each other's messages again.
        retry_for: seconds to wait out an outage of the sink. Meanwhile the queue fills, and producers wait or are
            refused, depending on its strategy.
        delayed: a delayed queue for given-up items, which no other code uses. None: such items are lost, and refused
            items are only counted.
        threads: drain threads; each calls the sink.
        key_of: maps an item to its key: a newer item replaces an older one of the same key. None: items do not replace
            each other.
        pack_item, unpack_item: convert an item to values that a delayed queue can keep (None, bool, int, float, str,
            bytes, Decimal, datetime, date, time, timedelta, UUID, tuples, lists, dicts, sets), and back. None: an item
            is such a value.
        queue, weight, clock, log_values: as for every :class:`~drainq.delivery.worker.Worker`.

    Example:
        >>> class Print(Sink):
        ...     def send(self, items):
        ...         print(items)
        >>> with Sender(Print(), name="print") as sender:
        ...     sender(["a", "b"])  # as a queue calls it; ``produce`` goes through a queue of its own
        ['a', 'b']
    """

    def __init__(
        self,
        sink: Sink,
        *,
        name: str,
        retry_for: Seconds = RETRY_FOR,
        delayed: DelayedQueueLike | None = None,
        threads: int = 1,
        key_of: Callable[[Any], Hashable] | None = None,
        pack_item: Callable[[Any], Any] | None = None,
        unpack_item: Callable[[Any], Any] | None = None,
        queue: BatchQueue | None = None,
        weight: float = 1.0,
        clock: Clock | None = None,
        log_values: bool = False,
    ) -> None:
        threads = whole("threads", threads, least=1)
        retry_for = seconds("retry_for", retry_for)
        check_delayed(delayed)
        self._sink, self._threads = sink, threads
        self._resender: Resender | None = None
        super().__init__(queue=queue, weight=weight, clock=clock, log_values=log_values)
        self._dead_letters = None
        self._keeps = delayed is not None
        if delayed is not None:
            self._dead_letters = DeadLetters(
                delayed, label=name, books=self._books, clock=self._clock,
                key_of=key_of, pack_item=pack_item, unpack_item=unpack_item, log_values=log_values,
            )  # fmt: skip
        self._delivery = Delivery(
            sink,
            books=self._books,
            name=name,
            retry_for=retry_for,
            dead_letters=self._dead_letters,
            log_values=log_values,
        )
        self._delivery.on_stop = self._when_stopped
        if self._dead_letters is not None:
            self._dead_letters.on_sent = self._delivery.works_again
            self._resender = Resender(self, self._dead_letters, sink)
        self._own_item_types()

    @property
    def sink(self) -> Sink:
        """The target of the batches."""
        return self._sink

    # -- what a worker does -----------------------------------------------------------------------

    def _take(self, batch: list[Any]) -> None:
        self._delivery.deliver(batch)

    def _config(self) -> BatchQueueConfig:
        return BatchQueueConfig(
            threads=self._threads,
            partitions=self._threads,
            partition_selector=PartitionSelector.round_robin(),
            strategy="blocking",
        )

    def on_idle(self) -> None:
        """Send the due messages of the delayed queue again."""
        if self._resender is not None:
            self._resender.now()

    def _flush_held(self, deadline: float | None) -> bool:
        return self._resender is None or self._resender.flush(deadline)

    def _stopped_by(self) -> Exception | None:
        return self._delivery.stopped

    def _give_up(self) -> None:
        if self._resender is not None:
            self._resender.give_up()
        self._delivery.give_up()

    def _end(self, deadline: float | None) -> bool:
        if self._resender is not None:
            self._resender.stop(deadline)
        parcels = self._delivery.cut()
        self._delivery.keep(parcels, deadline)
        return not parcels

    def _release(self) -> None:
        self._sink.close()

    def _forget(self) -> None:
        self._sink.forget()
        self._delivery.renew()
        if self._dead_letters is not None and self._resender is not None:
            self._dead_letters.renew()
            self._resender.renew()
