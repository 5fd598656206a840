"""Holding worker: holds items and passes them on at a flush. The aggregating workers extend it.

1. One thread at a time has exclusive access to the state, but holds no lock meanwhile, because a user's merge or score
   may be slow and must not run under a lock.
2. A flush takes the state out first and calls the sink without exclusive access, so the drain thread keeps taking
   items. One thread at a time flushes. After a failure the state is put back, before newer items, and sent again.
3. A flush with a deadline sends on another thread, and its caller waits until the deadline at most.
4. The base gives up only in ``close``: unsent items are logged and count as lost, or as sent after a late answer.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, seconds_or_none
from drainq.delivery.accounting import Outcome
from drainq.delivery.item_bytes import bytes_of
from drainq.delivery.producing import Item
from drainq.delivery.sink_contract import to_show
from drainq.delivery.worker import Worker
from drainq.errors import WouldDeadlock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

log = logging.getLogger("drainq")

PAUSE = 0.5  # seconds between two tries of a worker that is full and cannot flush


class Holder(Worker[Item]):
    """The base of the workers that hold items between flushes.

    Args:
        default_name: the worker's name if the options have none.
        flush_interval: seconds between flushes, checked after each batch and when idle; None: flush only when full,
            and in ``flush`` and ``close``.
        settings: as for every :class:`~drainq.delivery.worker.Worker`.
    """

    def __init__(
        self, default_name: str, *, flush_interval: Seconds | None, **settings: Unpack[SendingSettings]
    ) -> None:
        self._interval = seconds_or_none("flush_interval", flush_interval)
        super().__init__(default_name, **settings)
        self._flushed_at = self._clock.now()

    def _begin(self) -> None:
        super()._begin()
        self._holding = threading.Condition()  # guards ``_turn`` and ``_handing_on``
        self._turn: int | None = None  # the thread that has exclusive access to the state
        self._held = 0  # items that the subclass holds, in merged form
        self._held_bytes = 0  # bytes of these items, if there is a bound
        self._handing_on: int | None = None  # the thread that sends state to the sink
        self._cut_off: int | None = None  # items that are counted as lost and still being sent

    # -- for subclasses ---------------------------------------------------------------------------

    @abc.abstractmethod
    def _hold(self, batch: list[Any]) -> int:
        """Add a batch to the state and return how many of its items are held, or raise and add nothing.

        Called with exclusive access to the state. The method accounts for the items that it does not hold.
        """

    @abc.abstractmethod
    def _take_out(self) -> Any:
        """Return the state and leave the worker empty. Called with exclusive access to the state."""

    @abc.abstractmethod
    def _put_back(self, taken: Any) -> None:
        """Merge unsent state, which is the older one, with the current. Called with exclusive access to the state."""

    @abc.abstractmethod
    def _hand_on(self, taken: Any) -> None:
        """Send state to the sink, or raise. Called without exclusive access, by one thread at a time."""

    def _handed_on(self, count: int, taken: Any, error: BaseException | None) -> None:
        """Account for state that was sent, or put it back after an error. Called with exclusive access."""
        if self._cut_off is not None:
            if error is None:
                self._books.move(self._cut_off, Outcome.LOST, Outcome.SENT)
        elif error is None:
            self._books.move(count, Outcome.PENDING, Outcome.SENT)
        else:
            self._books.note(retried=count)
            self._held += count
            self._put_back(taken)

    # -- taking -----------------------------------------------------------------------------------

    def _take(self, batch: list[Any]) -> None:
        try:
            with self._state():
                self._held += self._hold(batch)
                self._held_bytes += 0 if self._bytes is None else sum(map(bytes_of, batch))
        except BaseException:
            self._books.move(len(batch), Outcome.PENDING, Outcome.REFUSED)
            raise
        self._flush_if_due()
        while self._is_full() and not self._closed:
            if not self._flush_once():
                with self._holding:
                    self._holding.wait(PAUSE)  # producers wait, too, and the held items stay

    def _is_full(self) -> bool:
        """Return whether draining waits for the sink."""
        return self._bytes is not None and self._held_bytes > self._bytes.bound

    def _when_idle(self) -> None:
        self._flush_if_due()

    # -- handing on -------------------------------------------------------------------------------

    def _flush_if_due(self) -> None:
        if self._interval is None or not self._held or self._clock.now() - self._flushed_at < self._interval:
            return
        self._flush_once(wait=False)

    @contextlib.contextmanager
    def _state(self) -> Iterator[None]:
        """Wait for exclusive access to the state, and hold it for the block."""
        me = threading.get_ident()
        with self._holding:
            if self._turn == me:
                raise WouldDeadlock(f"{type(self).__name__} was called by the code that it called itself")
            self._holding.wait_for(lambda: self._turn is None)
            self._turn = me
        try:
            yield
        finally:
            with self._holding:
                self._turn = None
                self._holding.notify_all()

    def _flush_once(self, *, wait: bool = True) -> bool:
        """Send the held items, in this thread. Return False if that failed."""
        with self._holding:
            if self._handing_on is not None and (not wait or self._handing_on == threading.get_ident()):
                return True
            self._holding.wait_for(lambda: self._handing_on is None)
            self._handing_on = threading.get_ident()
        count, error, taken = 0, None, None
        try:
            self._flushed_at = self._clock.now()
            with self._state():
                count, self._held, self._held_bytes = self._held, 0, 0
                if count:
                    taken = self._take_out()
            if count:
                error = self._try_to_hand_on(taken)
                with self._state():
                    self._handed_on(count, taken, error)
        finally:
            with self._holding:
                self._handing_on = None
                self._holding.notify_all()
        if error is None:
            return True
        if not isinstance(error, Exception):
            raise error
        self._say_failed(count, error)
        return False

    def _say_failed(self, count: int, error: Exception) -> None:
        shown = to_show(error, values=self._log_values)
        log.error("%s could not hand on %d items; they are kept", self._name, count, exc_info=shown)

    def _try_to_hand_on(self, taken: Any) -> BaseException | None:
        try:
            self._hand_on(taken)
        except BaseException as error:
            return error
        return None

    def _flush_held(self, deadline: float | None) -> bool:
        if deadline is None:
            return self._flush_once()
        if not self._held and self._handing_on is None:
            return True
        return self._call_aside(self._flush_once, deadline)

    def _end(self, deadline: float | None) -> bool:
        self._flush_held(deadline)
        with self._holding:
            held = self._books.count(Outcome.PENDING)
            busy = self._handing_on is not None
            if busy:
                self._cut_off = held - self._held
            self._books.move(held, Outcome.PENDING, Outcome.LOST)
            self._held = 0
        self._tell_given_up(held)
        return not busy

    def _forget(self) -> None:
        self._flushed_at = self._clock.now()
