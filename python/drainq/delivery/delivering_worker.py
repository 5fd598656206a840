"""Delivering worker: a worker whose items a :class:`~drainq.delivery.delivery.Delivery` sends to a sink.

It adds the delayed queue: given-up items are sent again every few seconds, and at each ``flush``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from drainq.delivery.dead_letter_resend import Resender
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.delivery import Delivery
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import Sink
from drainq.delivery.worker import Worker


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
