"""Buffered worker: merges in one buffer while it writes the other to a database.

1. One buffer takes new items while another thread writes the other. Draining does not wait for the database, until
   ``max_rows`` merged rows are held. Then it waits, the queue fills, and producers wait.
2. While the database fails, a flush waits and tries again for up to ``retry_for`` seconds. Then the rows of the flush
   go to the delayed queue, or are lost if there is none.
3. A missing table, right or index stops the worker. It keeps the rows that it holds, and producers get the error.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, whole
from drainq.delivery.accounting import Outcome
from drainq.delivery.delivering_worker import Delivering
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import DeliveryError, Sink, error_text
from drainq.timer import SHARED
from drainq.workers.holding_worker import Holder, log

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

MAX_ROWS = 200_000  # merged rows up to which draining does not wait


class Buffered(Delivering[Item], Holder[Item]):
    """Holds merged entries, each standing for some items, and sends them to a sink at each flush.

    Args:
        sink: gets the entries.
        default_name: the worker's name if the options have none.
        size: returns the number of items that a list of entries stands for.
        max_rows: the number of held entries above which draining flushes and waits.
        key_of, older_sink: as for :class:`~drainq.delivery.dead_letters.DeadLetters`.
        flush_interval, settings: as for every holding worker.
    """

    def __init__(
        self,
        sink: Sink,
        default_name: str,
        *,
        size: Callable[[list[Any]], int],
        max_rows: int,
        key_of: Callable[[Any], Hashable] | None = None,
        older_sink: Sink | None = None,
        flush_interval: Seconds | None,
        **settings: Unpack[SendingSettings],
    ) -> None:
        self._max_rows, self._size = whole("max_rows", max_rows, least=1), size
        super().__init__(default_name, flush_interval=flush_interval, **settings)
        self._deliver_to(sink, key_of=key_of, older_sink=older_sink, size=size, keep_when_stopped=True)

    def _begin(self) -> None:
        super()._begin()
        self._delivered = False
        self._flushing = threading.Event()  # set while the shared timer is about to flush, or flushes

    def _forget(self) -> None:
        Holder._forget(self)
        Delivering._forget(self)

    # -- for subclasses ---------------------------------------------------------------------------

    @abc.abstractmethod
    def _entries(self) -> int:
        """Return an upper bound of the number of held rows."""

    def _compact(self) -> None:
        """Merge the held rows, if that makes them fewer. Called with exclusive access to the state."""

    @abc.abstractmethod
    def _to_send(self, taken: Any) -> list[Any]:
        """Return the rows that were taken out, as entries for the sink."""

    # -- the buffer that is filled ----------------------------------------------------------------

    def _is_full(self) -> bool:
        if super()._is_full():
            return True
        if self._entries() > self._max_rows:
            with self._state():
                self._compact()
        return self._entries() > self._max_rows

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
        """Put back the items that the delivery left. The delivery has accounted for all others."""
        kept = error.left if isinstance(error, _Accounted) else [] if self._delivered else self._to_send(taken)
        if kept and self._cut_off is None:
            self._books.note(retried=self._size(kept))
            self._held += self._size(kept)
            self._put_back(kept)

    def _say_failed(self, count: int, error: Exception) -> None:
        if not isinstance(error, _Accounted) or error.left:  # otherwise the delivery has logged the losses
            why = error_text(error.__cause__ or error, values=self._log_values)
            log.error("%s: %d items are not written yet, and are kept: %s", self._name, count, why)

    def _give_up(self) -> None:
        super()._give_up()
        with self._holding:
            self._holding.notify_all()

    def _end(self, deadline: float | None) -> bool:
        Holder._flush_held(self, None if deadline is None else deadline - self._reserve)
        if self._resender is not None:
            self._resender.stop(deadline)
        self._delivery.keep(self._delivery.cut(), deadline)
        with self._holding:
            busy = self._handing_on is not None
            held, self._held = self._books.count(Outcome.PENDING), 0
            self._cut_off = 0
        self._books.move(held, Outcome.PENDING, Outcome.LOST)
        self._tell_given_up(held)
        return not busy


class _Accounted(Exception):
    """Raised if a flush failed. All items that are not in ``left`` are accounted for."""

    def __init__(self, left: list[Any]) -> None:
        super().__init__("the delivery has accounted for what it did not leave")
        self.left = left
