"""Delivering worker: a worker whose items a :class:`~drainq.delivery.delivery.Delivery` sends to a sink.

The class adds the delayed queue: given-up items are sent again every few seconds, and at each ``flush``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from drainq.delivery.dead_letter_resend import Resender
from drainq.delivery.dead_letters import QUIET, DeadLetters
from drainq.delivery.delivery import Delivery
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import DeliveryError, Sink
from drainq.delivery.worker import Take, Worker, WorkerHandler


class _Keeping(WorkerHandler):
    _worker: Delivering[Any]

    def on_abandoned(self, batch: list[Any]) -> bool:
        return self._worker._keep(batch, self._worker._from_queue)


class Delivering(Worker[Item]):
    """The base of the workers that deliver to a sink, either at once or at a flush."""

    _delivery: Delivery
    _dead_letters: DeadLetters | None = None
    _resender: Resender | None = None

    def _deliver_to(
        self,
        sink: Sink,
        *,
        key_of: Callable[[Any], Hashable] | None = None,
        pack_item: Callable[[Any], Any] | None = None,
        unpack_item: Callable[[Any], Any] | None = None,
        older_sink: Sink | None = None,
        size: Callable[[list[Any]], int] = len,
        keep_when_stopped: bool = False,
    ) -> None:
        """Make the delivery, with arguments of :class:`DeadLetters` and :class:`Delivery`, and start."""
        options = self._options
        if options.delayed is not None:
            self._keeps = True
            self._dead_letters = DeadLetters(
                options.delayed, label=self._name, books=self._books, clock=self._clock, key_of=key_of,
                pack_item=pack_item, unpack_item=unpack_item, size=size, older_sink=older_sink,
                log_values=self._log_values,
            )  # fmt: skip
        self._delivery = Delivery(
            sink, books=self._books, name=self._name, retry_for=options.patience, dead_letters=self._dead_letters,
            size=size, keep_when_stopped=keep_when_stopped, log_values=self._log_values,
        )  # fmt: skip
        self._delivery.on_stop, self._delivery.tell = self._when_stopped, self._tell
        if self._dead_letters is not None:
            self._dead_letters.on_sent = self._delivery.works_again
            self._resender = Resender(self, self._dead_letters, sink)
        self._start()

    def _stopped_by(self) -> Exception | None:
        return self._delivery.stopped

    def _flush_held(self, deadline: float | None) -> bool:
        done = super()._flush_held(deadline)
        return (self._resender is None or self._resender.flush(deadline)) and done

    def _wait(self, wait: Callable[[float], bool], deadline: float) -> bool:
        keeper = self._dead_letters
        return super()._wait(wait, deadline) if keeper is None else keeper.outlast(wait, deadline)

    def _handler(self) -> WorkerHandler:
        return _Keeping(self)

    def on_abandoned(self, batch: list[Any]) -> bool:
        """Put items that a queue gave up into the delayed queue. Return False if there is none, or if that failed."""
        return self._keep(batch, self._from_elsewhere)

    def _from_elsewhere(self, batch: list[Any], take: Take) -> None:
        self._books.arrive(len(batch))
        take(batch)

    def _keep(self, batch: list[Any], account: Callable[[list[Any], Take], None]) -> bool:
        """Keep a batch, which ``account`` counts. Wait for as long as items are being kept."""
        keeper = self._dead_letters
        if keeper is None or self._closer is not None:
            return False

        def keep() -> bool:
            with contextlib.suppress(DeliveryError):
                account(batch, self._put_away)
                return True
            return False

        return self._call_aside(keep, time.monotonic() + QUIET, partial(keeper.outlast, is_ending=True))

    def _put_away(self, batch: list[Any]) -> None:
        """Take a batch that the queue gives up."""
        self._take_for_queue(batch)

    def _give_up(self) -> None:
        if self._resender is not None:
            self._resender.give_up()
        self._delivery.give_up()

    def _release(self) -> None:
        self._delivery.sink.close()

    def _forget(self) -> None:
        self._delivery.sink.forget()
        self._delivery.renew()
        if self._dead_letters is not None and self._resender is not None:
            self._dead_letters.renew()
            self._resender.renew()
