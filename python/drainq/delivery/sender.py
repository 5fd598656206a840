"""A worker that hands each batch to a sink at once, in the drain thread: the base of writers and exporters.

It adds the delayed queue to :mod:`drainq.delivery.delivery`: what was given up on is sent again by itself every few
seconds, and at each ``flush``.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from drainq._native import (
    BatchQueue,
    BatchQueueConfig,
    BufferStrategy,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from drainq.clock import Clock
from drainq.delivery.dead_letters import RESEND_INTERVAL, DeadLetters, DelayedQueueLike, check_delayed
from drainq.delivery.delivery import RETRY_FOR, Delivery
from drainq.delivery.sink import Sink
from drainq.delivery.worker import Worker, check_seconds, log, wait_until
from drainq.timer import FOREVER, SHARED, Repeat


class Sender(Worker):
    """Sends each batch to a sink, and accounts for each item.

    Args:
        sink: gets the batches.
        name: what log lines, and the keys of messages in the delayed queue, call this worker: kind and target, such
            as ``"batch-writer/visits"``. Workers of one name send each other's messages again.
        retry_for: seconds that an outage of the other side is waited out; meanwhile the queue fills, and producers
            wait or are refused, by its strategy.
        delayed: a delayed queue of its own for what is given up on; None: it is lost, and what is refused is refused.
        threads: drain threads; each calls the sink.
        key_of: what an item replaces and is replaced by; None: items do not replace each other.
        pack_item, unpack_item: an item as values that a delayed queue can keep (None, bool, int, float, str, bytes,
            Decimal, datetime, date, time, timedelta, UUID, tuples, lists, dicts, sets), and back; None: it is such.
        queue, weight, clock: as for every :class:`~drainq.delivery.worker.Worker`.

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
        retry_for: float = RETRY_FOR,
        delayed: DelayedQueueLike | None = None,
        threads: int = 1,
        key_of: Callable[[Any], Hashable] | None = None,
        pack_item: Callable[[Any], Any] | None = None,
        unpack_item: Callable[[Any], Any] | None = None,
        queue: BatchQueue | None = None,
        weight: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(threads, bool) or not isinstance(threads, int):
            raise TypeError(f"threads must be a number of drain threads, got {threads!r}")
        if threads < 1:
            raise ValueError(f"threads must be >= 1, got {threads}")
        check_seconds("retry_for", retry_for)
        check_delayed(delayed)
        self._sink, self._threads = sink, threads
        self._resend: Repeat | None = None
        super().__init__(queue=queue, weight=weight, clock=clock)
        self._dead_letters = None
        if delayed is not None:
            self._dead_letters = DeadLetters(
                delayed, label=name, books=self._books, clock=self._clock,
                key_of=key_of, pack_item=pack_item, unpack_item=unpack_item,
            )  # fmt: skip
        self._delivery = Delivery(
            sink, books=self._books, name=name, retry_for=retry_for, dead_letters=self._dead_letters
        )
        self._begin_resending()

    @property
    def sink(self) -> Sink:
        """What gets the batches."""
        return self._sink

    # -- what a worker does -----------------------------------------------------------------------

    def _take(self, batch: list[Any]) -> None:
        self._delivery.deliver(batch)

    def _config(self) -> BatchQueueConfig:
        return BatchQueueConfig(
            threads=ThreadPolicy.fixed(self._threads),
            partitions=PartitionPolicy.fixed(self._threads),
            partition_selector=PartitionSelector.round_robin(),
            strategy=BufferStrategy.BLOCKING,
        )

    def on_idle(self) -> None:
        """Send again what is due in the delayed queue."""
        if self._dead_letters is not None:
            self._dead_letters.resend(self._sink)

    def _flush_held(self, deadline: float | None) -> bool:
        if self._resend is None or self._closed:
            return True
        with self._turned:
            wanted = self._turns_begun + 1  # a turn that begins from now on
            self._resend.wake()
            return wait_until(self._turned, lambda: self._turns_ended >= wanted or self._closed, deadline)

    def _stopped_by(self) -> Exception | None:
        return self._delivery.stopped

    def _give_up(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.stop()
        self._delivery.give_up()

    def _end(self, deadline: float | None) -> bool:
        if self._dead_letters is not None:
            self._dead_letters.stop()
        if self._resend is not None:
            self._resend.stop(None if deadline is None else max(0.0, deadline - time.monotonic()))
        parcels = self._delivery.cut()
        if parcels and self._dead_letters is not None:
            kept = threading.Event()

            def keep() -> None:
                self._delivery.keep(parcels)
                kept.set()

            SHARED.after(0, keep)
            kept.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not parcels

    def _release(self) -> None:
        self._sink.close()

    def _forget(self) -> None:
        self._sink.forget()
        if self._dead_letters is not None:
            self._dead_letters.renew()
        self._delivery.renew()
        self._begin_resending()

    # -- sending again ----------------------------------------------------------------------------

    def _begin_resending(self) -> None:
        self._turned = threading.Condition()
        self._turns_begun = self._turns_ended = 0
        if self._dead_letters is None or self._closed:
            return
        mine = weakref.ref(self)  # a timer must not keep a dropped worker alive

        def turn() -> float | None:
            worker = mine()
            return None if worker is None or worker._closed else worker._resend_turn()

        self._resend = Repeat(turn)
        self._resend.wake_after(RESEND_INTERVAL)

    def _resend_turn(self) -> float:
        with self._turned:
            self._turns_begun += 1
        try:
            assert self._dead_letters is not None
            self._dead_letters.resend(self._sink)
        except Exception:  # the delayed queue has retries of its own
            log.exception("%s: what is kept in the delayed queue could not be sent again", type(self).__name__)
        finally:
            with self._turned:
                self._turns_ended = self._turns_begun
                self._turned.notify_all()
        return RESEND_INTERVAL if not self._closed else FOREVER
