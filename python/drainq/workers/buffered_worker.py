"""Buffered worker: merges in one buffer while it writes the other to a database.

1. One buffer takes new items while another thread writes the other. Draining does not wait for the database, until
   ``max_rows`` merged rows are held. Then it waits, the queue fills, and producers wait.
2. While the database fails, a flush waits and tries again, up to ``retry_for``. Then its rows go to the delayed queue,
   or are lost.
3. A missing table, right or index stops the worker. It keeps the rows that it holds, and producers get the error.
"""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from drainq._native import BatchQueue
from drainq.arguments import Seconds, seconds
from drainq.clock import Clock
from drainq.delivery.accounting import Outcome
from drainq.delivery.dead_letter_offer import DelayedQueueLike, check_delayed
from drainq.delivery.dead_letter_resend import Resender
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.delivery import Delivery
from drainq.delivery.sink_contract import DeliveryError, Sink, error_text
from drainq.timer import SHARED
from drainq.workers.holding_worker import Holder, log

MAX_ROWS = 200_000  # merged rows that are held before draining waits
PAUSE = 0.5  # seconds between two tries of a worker that is stopped and full


class Buffered(Holder):
    """Holds merged entries, each for a number of items, and delivers them to a sink at each flush.

    Args:
        sink: gets the entries.
        name: the worker's name in log lines and in messages of the delayed queue.
        size: returns the number of items that a list of entries stands for.
        max_rows: the number of held entries at which draining waits.
        retry_for, delayed: as for :class:`~drainq.delivery.sending_worker.Sender`.
        key_of, older_sink: as for :class:`~drainq.delivery.dead_letters.DeadLetters`.
        flush_interval, queue, weight, clock, log_values: as for every holding worker.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        name: str,
        size: Callable[[list[Any]], int],
        max_rows: int,
        retry_for: Seconds,
        delayed: DelayedQueueLike | None = None,
        key_of: Callable[[Any], Hashable] | None = None,
        older_sink: Sink | None = None,
        flush_interval: Seconds | None = None,
        queue: BatchQueue | None = None,
        weight: float = 1.0,
        clock: Clock | None = None,
        log_values: bool = False,
    ) -> None:
        if isinstance(max_rows, bool) or not isinstance(max_rows, int):
            raise TypeError(f"max_rows must be a number of rows, got {max_rows!r}")
        if max_rows < 1:
            raise ValueError(f"max_rows must be >= 1, got {max_rows}")
        retry_for = seconds("retry_for", retry_for)
        check_delayed(delayed)
        self._max_rows, self._size, self._name = max_rows, size, name
        super().__init__(queue=queue, flush_interval=flush_interval, weight=weight, clock=clock, log_values=log_values)
        self._resender: Resender | None = None
        self._dead_letters: DeadLetters | None = None
        self._keeps = delayed is not None
        if delayed is not None:
            self._dead_letters = DeadLetters(
                delayed,
                label=name,
                books=self._books,
                clock=self._clock,
                key_of=key_of,
                size=size,
                older_sink=older_sink,
                log_values=log_values,
            )
            self._resender = Resender(self, self._dead_letters, sink)
        self._delivery = Delivery(
            sink,
            books=self._books,
            name=name,
            retry_for=retry_for,
            dead_letters=self._dead_letters,
            size=size,
            keep_when_stopped=True,
            log_values=log_values,
        )
        self._delivery.on_stop = self._when_stopped
        if self._dead_letters is not None:
            self._dead_letters.on_sent = self._delivery.works_again
        self._own_item_types()

    def _begin(self) -> None:
        super()._begin()
        self._delivered = False
        self._flushing = threading.Event()  # a flush is scheduled on a thread of its own

    def _forget(self) -> None:
        super()._forget()
        self._delivery.sink.forget()
        self._delivery.renew()
        if self._dead_letters is not None and self._resender is not None:
            self._dead_letters.renew()
            self._resender.renew()

    # -- for subclasses ---------------------------------------------------------------------------

    @abc.abstractmethod
    def _entries(self) -> int:
        """Return an upper bound of the number of held rows."""

    def _compact(self) -> None:
        """Merge the held rows, if that makes them fewer. Called in a turn."""

    @abc.abstractmethod
    def _to_send(self, taken: Any) -> list[Any]:
        """Return the rows that were taken out, as entries for the sink."""

    # -- the buffer that is filled ----------------------------------------------------------------

    def _take(self, batch: list[Any]) -> None:
        super()._take(batch)
        while self._entries() > self._max_rows and not self._closed:
            with self._state():
                self._compact()
            if self._entries() > self._max_rows and not self._flush_once():
                with self._holding:
                    self._holding.wait(PAUSE)  # stopped: producers get the error, and the held rows stay

    # -- the buffer that is written ---------------------------------------------------------------

    def _flush_if_due(self) -> None:
        if self._interval is None or not self._held or self._clock.now() - self._flushed_at < self._interval:
            return
        if not self._flushing.is_set():
            self._flushing.set()
            SHARED.after(0, self._flush_aside)

    def _flush_aside(self) -> None:
        try:
            self._flush_once(wait=False)
        finally:
            self._flushing.clear()

    def on_idle(self) -> None:
        """Flush if the interval is over, in this thread."""
        super()._flush_if_due()

    def _hand_on(self, taken: Any) -> None:
        self._delivered = False
        entries = self._to_send(taken)
        self._delivered = True  # from here on the delivery accounts for each item
        try:
            left = self._delivery.deliver(entries)
        except DeliveryError as error:
            log.error("%s", error)
            raise _Accounted([]) from error
        if left:
            raise _Accounted(left) from self._delivery.stopped

    def _handed_on(self, count: int, taken: Any, error: BaseException | None) -> None:
        """Account for all items except those that the delivery left."""
        kept = error.left if isinstance(error, _Accounted) else [] if self._delivered else self._to_send(taken)
        if kept and self._cut_off is None:
            self._books.note(retried=self._size(kept))
            self._held += self._size(kept)
            self._put_back(kept)

    def _say_failed(self, count: int, error: Exception) -> None:
        if not isinstance(error, _Accounted) or error.left:  # the delivery has said what it lost
            why = error_text(error.__cause__ or error, values=self._log_values)
            log.error("%s: %d items are not written yet, and are kept: %s", self._name, count, why)

    def _stopped_by(self) -> Exception | None:
        return self._delivery.stopped

    def _flush_held(self, deadline: float | None) -> bool:
        done = super()._flush_held(deadline)
        return (self._resender is None or self._resender.flush(deadline)) and done

    def _give_up(self) -> None:
        if self._resender is not None:
            self._resender.give_up()
        self._delivery.give_up()
        with self._holding:
            self._holding.notify_all()

    def _end(self, deadline: float | None) -> bool:
        now = time.monotonic()  # half of the rest is for calls that hang
        super()._flush_held(None if deadline is None else now + (deadline - now) / 2)
        if self._resender is not None:
            self._resender.stop(deadline)
        self._delivery.keep(self._delivery.cut(), deadline)
        with self._holding:
            busy = self._handing_on is not None
            held, self._held = self._books.count(Outcome.PENDING), 0
            self._cut_off = 0
        self._books.move(held, Outcome.PENDING, Outcome.LOST)
        if held:
            log.error("%s: %d items are given up at close()", self._name, held)
        return not busy

    def _release(self) -> None:
        self._delivery.sink.close()


class _Accounted(Exception):
    """Raised if a flush failed. All items that are not in ``left`` are accounted for."""

    def __init__(self, left: list[Any]) -> None:
        super().__init__("the delivery has accounted for what it did not leave")
        self.left = left
