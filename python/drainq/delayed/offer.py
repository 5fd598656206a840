"""The part of a delayed queue that producers call: messages are stored, by key and for a time.

Source: ``offerOrUpdate``, ``offerIfNotExists`` and ``offerBatch`` of funfix ``delayedqueue``; offers inside the
caller's transaction and priorities are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from drainq.delayed.encode import encoded_offers
from drainq.delayed.message import OfferOutcome, ScheduledMessage, When
from drainq.delayed.storage_session import Session
from drainq.delayed.wake import wake_after_commit

_SCHEDULED_AT, _PRIORITY = itemgetter(2), itemgetter(4)  # of an Offer
T = TypeVar("T")


class OfferMethods(Generic[T]):
    """The part of :class:`~drainq.delayed.DelayedQueue` that stores messages."""

    _session: Session

    def offer_or_update(
        self, key: str, payload: T, schedule_at: When, *, priority: int = 0, connection: Any = None
    ) -> OfferOutcome:
        """Put a message in, or give the one of this key a new payload and time.

        An update takes the message away from a consumer that is working on it: it is delivered again, and that
        consumer's acknowledgement does nothing. The same payload and time (to the millisecond) change nothing; so an
        offer that repeats a message in flight is ignored, and its consumer's acknowledgement deletes it.

        Args:
            key: 1 to 200 characters.
            payload: what the codec encodes.
            schedule_at: when it becomes due: an aware datetime, or seconds since the epoch; the past is now.
            priority: of the messages that are due, those with a lower number are delivered first.
            connection: your own ``sqlite3`` or ``psycopg`` connection to the same database: the offer is part of your
                transaction, and happens if and when you commit it.

        Returns:
            CREATED, UPDATED or IGNORED.

        Raises:
            ValueError: the key or the time is not one.
            QueueUnavailable: the database went on failing for a reason that passes.
            QueueBroken: the database refuses for good.

        Source: ``offerOrUpdate`` of funfix ``delayedqueue``.
        """
        return self._offer([ScheduledMessage(key, payload, schedule_at, True, priority)], connection)[0]

    def offer_if_not_exists(
        self, key: str, payload: T, schedule_at: When, *, priority: int = 0, connection: Any = None
    ) -> OfferOutcome:
        """Put a message in unless there is one of this key.

        Args:
            key, payload, schedule_at, priority, connection: see :meth:`offer_or_update`.

        Returns:
            CREATED or IGNORED.

        Source: ``offerIfNotExists`` of funfix ``delayedqueue``.
        """
        return self._offer([ScheduledMessage(key, payload, schedule_at, False, priority)], connection)[0]

    def offer_batch(self, messages: Iterable[ScheduledMessage[T]], *, connection: Any = None) -> list[OfferOutcome]:
        """Offer many messages in one transaction: all of them, or none.

        A key may stand in the batch more than once; it is as if they were offered one by one.

        Args:
            messages: any number of them.
            connection: see :meth:`offer_or_update`.

        Returns:
            What became of each, in the order given.

        Source: ``offerBatch`` of funfix ``delayedqueue``.
        """
        return self._offer(list(messages), connection)

    def _offer(self, messages: Sequence[ScheduledMessage[T]], connection: Any) -> list[OfferOutcome]:
        session = self._session
        offers = encoded_offers(messages, session.codec)
        if not offers:
            return []
        if len(offers) == 1:
            ranked, soonest = offers[0].priority != 0, offers[0].scheduled_at
        else:
            ranked, soonest = any(map(_PRIORITY, offers)), min(map(_SCHEDULED_AT, offers))
        if ranked:
            session.mark_ranked(connection)
        now = session.now()
        due_in = (soonest - now) / 1000
        soon = due_in < session.time.poll_period  # else each consumer finds it by its next regular poll
        announce = session.news(soonest, ours=connection is None) if soon else None
        if connection is not None:  # the caller's transaction, so the caller's to try again
            session.check_open()
            session.settle()
            outcomes = session.storage.offer(session.kind, offers, now, connection=connection, announce=announce)
            wake_after_commit(connection, session.wakeup.wake, session.time.poll_period)
            return outcomes
        tries = 0

        def offer() -> list[OfferOutcome]:
            nonlocal tries
            tries += 1
            return session.storage.offer(session.kind, offers, now, announce=announce, again=tries > 1)

        outcomes = session.call(offer)
        if soon:
            session.wakeup.wake_in(due_in)
        return outcomes
