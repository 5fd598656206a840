"""Delivery: send a batch until each of its items is accounted for.

1. After a temporary failure the drain thread tries the batch again with back-off. Meanwhile the queue fills, and
   producers wait or are refused, depending on the queue's strategy. The batch is given up ``retry_for`` seconds after
   the outage began. A later batch of the same outage is tried twice and then given up.
2. A batch that the sink refuses because of some of its items is halved again and again until each refused item is
   alone. All other items are sent in order, so a later item of a key is sent later.
3. A permanent failure stops the delivery. The batch is given up at once, and :attr:`Delivery.stopped` holds the error
   until the sink takes items.
4. Given-up items become dead letters in the delayed queue, if there is one. Otherwise they are lost and logged, and the
   queue gets the error.
5. No lock that ``close`` needs is held while the sink runs, so ``close`` keeps its deadline. :meth:`Delivery.cut`
   counts unfinished batches as lost. If the sink answers later, their items move from ``lost`` to their real outcome.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from drainq.backoff import Backoff
from drainq.clock import Clock, MonotonicClock
from drainq.delivery.accounting import Books, Outcome
from drainq.delivery.dead_letters import DeadLetters
from drainq.delivery.isolate_poison import Parts
from drainq.delivery.outage import Outage
from drainq.delivery.parcel import Parcel
from drainq.delivery.sink_answer import Answer
from drainq.delivery.sink_contract import (
    Attempt,
    DeliveryError,
    Failure,
    Refusals,
    Refused,
    Rest,
    Sink,
    Undelivered,
    error_text,
    raise_wrapped,
    to_show,
)
from drainq.timer import SHARED

log = logging.getLogger("drainq")

RETRY_FOR = 60.0  # seconds to wait out an outage
SHOWN = 3  # refused items of a batch whose reasons are logged
OUT_OF_TIME = "the time of close() ran out while they were sent"


class Delivery:
    """Hands batches to a sink; serves several threads at once.

    Args:
        sink: gets the items.
        books: count them; :meth:`deliver` takes items that were counted as pending.
        name: the worker's name in log lines and errors.
        retry_for: seconds to wait out an outage of the sink. 0: no second try. Infinite: as long as failures
            are temporary.
        dead_letters: keeps given-up items. None: they are lost, and refused items are only counted and logged.
        size: returns the number of items that a list of entries stands for, if an entry is not one item.
        keep_when_stopped: items stopped by a permanent failure stay pending and are returned to the caller.
        backoff: the pauses between the tries; None: the sink's.
        clock: measures the outage.
        log_values: show refused items and whole texts of errors in log lines and errors.
        wait: waits for the given seconds, or less after :meth:`give_up`. By default it waits in real time.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        books: Books,
        name: str,
        retry_for: float = RETRY_FOR,
        dead_letters: DeadLetters | None = None,
        size: Callable[[list[Any]], int] = len,
        keep_when_stopped: bool = False,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        log_values: bool = False,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._log_values = log_values
        self.sink, self._books, self._name = sink, books, name
        self._retry_for = retry_for
        self._dead_letters = dead_letters
        self._size, self._keep_when_stopped = size, keep_when_stopped
        self._backoff = sink.backoff if backoff is None else backoff
        self._clock = MonotonicClock() if clock is None else clock
        self._wait = wait
        self.on_stop: Callable[[], object] = lambda: None  # called when a permanent failure stops the delivery
        self.tell: Callable[[list[Any], BaseException], bool] = lambda items, error: False  # True: log nothing
        self.renew()

    def renew(self) -> None:
        """Reset the state, at the start or in a forked child."""
        self._lock = threading.Lock()
        self._in_hand: dict[int, Parcel] = {}
        self._given_up = threading.Event()
        self._outage = Outage(self._name, self._retry_for, self._backoff, self._clock, self._log_values)

    @property
    def stopped(self) -> Exception | None:
        """The error that stopped the delivery, or None."""
        return self._outage.stopped

    def deliver(self, items: list[Any], error: Exception | None = None) -> list[Any]:
        """Send items that are counted as pending. With an ``error``, put them away at once.

        Returns:
            The items that are still pending: none, unless ``keep_when_stopped``.
        Raises:
            DeliveryError: some are lost.
        """
        parcel = Parcel(items)
        with self._lock:
            self._in_hand[id(parcel)] = parcel
        try:
            if error is None:
                return self._deliver(parcel)
            self._give_up(parcel, error)
            return []
        except DeliveryError:
            raise
        except BaseException:
            self._account(parcel, parcel.items, Outcome.LOST, [])
            raise
        finally:
            with self._lock:
                del self._in_hand[id(parcel)]

    def _deliver(self, parcel: Parcel) -> list[Any]:
        parts = Parts(parcel.items)
        while (part := parts.next()) is not None:
            try:
                part, refusals = self._send(part, parcel)
            except _RefusedHere as refused:
                part, refusals = refused.part, [(0, refused.error)]
                if parcel.outcome is not Outcome.PENDING:
                    return []  # :meth:`cut` has accounted for it
                if parts.halve(part):
                    continue
            except _Given as given:
                self._note_doubt(parcel)
                if self._keep_when_stopped and self.stopped is given.error and not self._given_up.is_set():
                    return parcel.items
                self._give_up(parcel, given.error)
                return []
            self._take_off(parcel, part, refusals)
        if parcel.error is not None:
            raise parcel.error
        return []

    def _send(self, part: list[Any], parcel: Parcel) -> tuple[list[Any], Refusals]:
        """Send until the sink has answered. Return the items of its last answer, and the refusals among them."""
        tries = self._outage.tries()
        attempt = parcel.attempt = Attempt()
        while True:
            if self._given_up.is_set():
                raise _Given(DeliveryError("the time of close() ran out before they were sent"))
            parcel.tried, attempt.seconds, began = len(part), self._outage.seconds(tries), self._clock.now()
            try:
                apart = self._dead_letters.order() if self._dead_letters else None  # from a resend of older items
                with apart or contextlib.nullcontext(), self._outage.watched(began):
                    refusals = list(self.sink.send_within(part, attempt) or ())
                    if self._dead_letters is not None:
                        self._dead_letters.were_sent(Answer.of(part, refusals).sent)
            except Exception as error:
                failure = self.sink.failure_of(error)
                rest = getattr(error, "rest", None)
                if isinstance(rest, Rest):
                    self._take_off(parcel, part, getattr(error, "refusals", ()), rest)
                    part = rest
                if failure is Failure.DATA:
                    raise _RefusedHere(error, part) from error
                if failure is Failure.CANNOT_PASS:
                    self._stop(error)
                    raise _Given(error) from error
                pause = self._outage.pause_after(error, tries, began, is_given_up=self._given_up.is_set())
                if pause is None or parcel.outcome is not Outcome.PENDING:
                    raise _Given(error) from error
                self._books.note(retried=self._size(part))
                (self._wait or self._given_up.wait)(pause)
            else:
                self.works_again()
                self._books.note(unknown=self._size(part) if attempt.is_unsure else 0)
                return part, refusals

    def works_again(self) -> None:
        """End the outage and the stop, because the sink has taken items."""
        self._outage.end()

    def _stop(self, error: Exception) -> None:
        is_first = self._outage.stop(error)
        self.on_stop()
        if is_first:
            log.error("%s: stopped, until what is wrong is put right: %s", self._name, self._text(error))

    # -- the account ------------------------------------------------------------------------------

    def _account(self, parcel: Parcel, items: list[Any], outcome: Outcome, left: list[Any]) -> None:
        """Count the items of a parcel by outcome. ``left`` are the items that are still to be accounted for."""
        count = self._size(items)
        with self._lock:
            before, key = parcel.outcome, parcel.key
            parcel.items = left
            if before is not Outcome.DEAD_LETTERED:
                if before is not outcome:
                    self._books.move(count, before, outcome)
                return
            if outcome is not Outcome.SENT:
                return
            parcel.unsent -= count
        # After :meth:`cut`, :meth:`keep` made these items a dead letter, which is removed once all of them were sent
        # after all. If that message no longer exists, the counts stay as they are.
        if not parcel.unsent and key and self._dead_letters and self._dead_letters.withdraw(key):
            self._books.move(parcel.kept, Outcome.DEAD_LETTERED, Outcome.SENT)

    def _take_off(self, parcel: Parcel, part: list[Any], refusals: Refusals, rest: Rest | None = None) -> None:
        """Account for the items that the sink's answer covers: a whole part, or a part without its rest."""
        answer = Answer.of(part, refusals, () if rest is None else rest.places)
        left = [*(rest or ()), *parcel.items[len(part) :]]
        if answer.sent:
            later = answer.nameless + answer.refused + answer.undelivered + left
            self._account(parcel, answer.sent, Outcome.SENT, later)
        if answer.nameless:
            reasons = "; ".join(dict.fromkeys(map(self._text, answer.complaints)))
            log.error("%s: %d items were refused, it is not said which: %s", self._name, len(answer.nameless), reasons)
            self._account(parcel, answer.nameless, Outcome.REFUSED, answer.refused + answer.undelivered + left)
        if answer.refused:
            self._put_away_refused(parcel, answer.refused, answer.reasons, answer.undelivered + left)
        if answer.undelivered:
            self._put_away_undelivered(parcel, answer.undelivered, answer.errors, left)

    def _put_away_undelivered(
        self, parcel: Parcel, items: list[Any], errors: list[Undelivered], left: list[Any]
    ) -> None:
        """Keep, or count as lost, the items that the sink itself has given up."""
        unknown = [item for item, error in zip(items, errors) if error.unknown]
        self._books.note(unknown=self._size(unknown))
        why = "; ".join(list(dict.fromkeys(map(self._text, errors)))[:SHOWN])
        if parcel.outcome is Outcome.DEAD_LETTERED or self._put_away(parcel, items, why, left):
            return
        self._account(parcel, items, Outcome.LOST, left)
        parcel.error = DeliveryError(f"{self._name}: {self._size(items)} items are lost: {why}")
        parcel.error.__cause__ = errors[0]
        self.tell(items, errors[0])

    def _put_away_refused(self, parcel: Parcel, items: list[Any], reasons: list[object], rest: list[Any]) -> None:
        some = list(zip(items, reasons))[:SHOWN]
        shown = "; ".join(dict.fromkeys(f"{self._described(item)}: {self._text(reason)}" for item, reason in some))
        if self._dead_letters is not None and parcel.outcome is not Outcome.DEAD_LETTERED:
            try:
                kept = self._dead_letters.park_each(items, [error_text(reason, values=True) for reason in reasons])
            except Exception as error:
                self._log_failure("%s: the delayed queue did not take %d refused items", len(items), error)
                kept = [False] * len(items)
            if any(kept):
                log.warning("%s: %d refused items are kept in the delayed queue: %s", self._name, sum(kept), shown)
                put_away = [item for item, is_kept in zip(items, kept) if is_kept]
                reasons = [reason for reason, is_kept in zip(reasons, kept) if not is_kept]
                items = [item for item, is_kept in zip(items, kept) if not is_kept]
                self._account(parcel, put_away, Outcome.DEAD_LETTERED, items + rest)
        if items:
            self._account(parcel, items, Outcome.REFUSED, rest)
            told = [
                self.tell([item], reason if isinstance(reason, Exception) else Refused(str(reason)))
                for item, reason in zip(items, reasons)
            ]
            if not all(told):
                log.error("%s: %d items were refused: %s", self._name, len(items), shown)

    def _give_up(self, parcel: Parcel, error: BaseException) -> None:
        """Keep the rest of a parcel as dead letters, or log it and count it as lost.

        Raises:
            DeliveryError: the rest is lost.
        """
        items = parcel.items
        why = self._text(error)
        if parcel.outcome is Outcome.DEAD_LETTERED or not items or self._put_away(parcel, items, why, []):
            return
        self._account(parcel, items, Outcome.LOST, [])
        if not parcel.is_told:
            self.tell(items, error)
        raise_wrapped(DeliveryError, f"{self._name}: {self._size(items)} items are lost", error, self._log_values)

    def _put_away(self, parcel: Parcel, items: list[Any], why: str, left: list[Any]) -> bool:
        """Keep items of a parcel as dead letters. Return False if there is no delayed queue, or if that failed."""
        if self._dead_letters is None:
            return False
        try:
            self._dead_letters.park(items, why, parcel.doubt)
        except Exception as error:
            self._log_failure("%s: the delayed queue did not take %d items", len(items), error)
            return False
        log.warning("%s: %d items are kept in the delayed queue: %s", self._name, len(items), why)
        self._account(parcel, items, Outcome.DEAD_LETTERED, left)
        return True

    def _note_doubt(self, parcel: Parcel) -> None:
        """Count the items as ``unknown`` that are given up and may have arrived."""
        if parcel.attempt.doubt is not None and parcel.outcome is Outcome.PENDING:
            self._books.note(unknown=self._size(parcel.items[: parcel.tried]))

    # -- words ------------------------------------------------------------------------------------

    def _text(self, error: object) -> str:
        return error_text(error, values=self._log_values)

    def _described(self, item: object) -> str:
        return repr(item)[:200] if self._log_values else self.sink.described(item)

    def _log_failure(self, message: str, count: int, error: BaseException) -> None:
        log.error(message, self._name, count, exc_info=to_show(error, values=self._log_values))

    # -- the end ----------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Try nothing again: cancel the running sends, and put later batches away at once."""
        self._given_up.set()
        try:
            self.sink.cancel()
        except Exception as error:
            log.error(
                "%s: the sink could not be cancelled", self._name, exc_info=to_show(error, values=self._log_values)
            )

    def cut(self) -> list[Parcel]:
        """Count the batches under way as lost for now. Return them for :meth:`keep`."""
        with self._lock:
            parcels = [parcel for parcel in self._in_hand.values() if parcel.outcome is Outcome.PENDING]
            for parcel in parcels:
                self._books.move(self._size(parcel.items), Outcome.PENDING, Outcome.LOST)
                self._note_doubt(parcel)
                parcel.outcome = Outcome.LOST
        return parcels

    def keep(self, parcels: list[Parcel], deadline: float | None) -> None:
        """Make dead letters of the items of :meth:`cut` that are still unsent. Wait for that until a deadline.

        ``on_error`` gets the items that could not be kept.
        """
        if self._dead_letters is None or not parcels:
            self._tell_cut(parcels)
            return
        kept = threading.Event()

        def keep() -> None:
            try:
                self._keep(parcels)
            finally:
                self._tell_cut(parcels)
                kept.set()

        SHARED.after(0, keep)
        kept.wait() if deadline is None else self._dead_letters.outlast(kept.wait, deadline)

    def _tell_cut(self, parcels: list[Parcel]) -> None:
        for parcel in parcels:
            with self._lock:
                parcel.is_told = parcel.outcome is Outcome.LOST and id(parcel) in self._in_hand
                items = list(parcel.items)
            error = Undelivered(f"{self._name}: {self._size(items)} items are lost: {OUT_OF_TIME}", unknown=True)
            if parcel.is_told and not self.tell(items, error):
                log.error("%s", error)

    def _keep(self, parcels: list[Parcel]) -> None:
        assert self._dead_letters is not None
        for parcel in parcels:
            with self._lock:
                if parcel.outcome is not Outcome.LOST or id(parcel) not in self._in_hand:
                    continue
                items, doubt = list(parcel.items), parcel.doubt
            try:
                key = self._dead_letters.park(items, OUT_OF_TIME, doubt)
            except Exception as error:
                self._log_failure("%s: the delayed queue did not take %d items", len(items), error)
                continue
            with self._lock:
                open_still = id(parcel) in self._in_hand and len(parcel.items) == len(items)
                if open_still:
                    parcel.outcome, parcel.key = Outcome.DEAD_LETTERED, key
                    parcel.kept = parcel.unsent = self._size(items)
                    self._books.move(parcel.kept, Outcome.LOST, Outcome.DEAD_LETTERED)
            if not open_still and not self._dead_letters.withdraw(key):
                log.warning(
                    "%s: %d items were sent while they were kept; they may be sent twice", self._name, len(items)
                )


class _Given(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _RefusedHere(_Given):
    def __init__(self, error: BaseException, part: list[Any]) -> None:
        super().__init__(error)
        self.part = part
