"""The methods of a delayed queue for producers, which offer messages.

Source: ``offerOrUpdate``, ``offerIfNotExists`` and ``offerBatch`` of funfix ``delayedqueue``; offers inside the
caller's transaction and priorities are drainq's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from operator import itemgetter
from typing import Any, Generic, TypeVar

from drainq.arguments import Seconds
from drainq.delayed.coroutines import twin
from drainq.delayed.encode import encoded_offer, encoded_offers
from drainq.delayed.message import OfferOutcome, ScheduledMessage, When, to_ms
from drainq.delayed.own_connection import driver_connection
from drainq.delayed.storage.records import Offer
from drainq.delayed.storage_session import Session
from drainq.delayed.wake import wake_after_commit

_SCHEDULED_AT, _PRIORITY = itemgetter(2), itemgetter(4)  # of an Offer
T = TypeVar("T")


def _given(schedule_at: When) -> When:
    """Refuse None, which only :meth:`OfferMethods.offer` accepts."""
    if schedule_at is None:
        to_ms(schedule_at)
    return schedule_at


class OfferMethods(Generic[T]):
    """The methods of :class:`~drainq.delayed.DelayedQueue` that store messages."""

    _session: Session

    def offer(
        self,
        key: str,
        payload: T,
        at: When | None = None,
        *,
        delay: Seconds | None = None,
        replace: bool = True,
        priority: int = 0,
        max_attempts: int | None = None,
        group: str | None = None,
        connection: Any = None,
    ) -> OfferOutcome:
        """Store a message that is due now, at a time, or after a delay.

        Args:
            key, payload, priority, max_attempts, group, connection: see :meth:`offer_or_update`.
            at: the due time: an aware datetime, or seconds since the epoch; ``None``: now.
            delay: seconds from now until the message is due, or a timedelta; not together with ``at``.
            replace: whether a message of this key gets this payload and time, as :meth:`offer_or_update` does; if not,
                the message stays as it is, as with :meth:`offer_if_not_exists`. An offer without ``at``
                has a new time whenever it is repeated.

        Returns:
            CREATED, UPDATED or IGNORED.

        Raises:
            ValueError: ``at`` and ``delay`` are both given, or an argument is invalid.
            drainq.errors.UnfitItem: the key or the payload cannot be stored; also a TypeError and a ValueError.

        Example:
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "mail") as mail:
            ...     mail.offer("welcome/ann", "Hello")
            ...     mail.offer("welcome/ann", "Hello again", delay=60, replace=False)
            <OfferOutcome.CREATED: 'created'>
            <OfferOutcome.IGNORED: 'ignored'>
        """
        at = self._session.due_time(at, delay)
        return self._offer_one(connection, key, payload, at, replace, priority, max_attempts, group)

    def offer_or_update(
        self,
        key: str,
        payload: T,
        schedule_at: When,
        *,
        priority: int = 0,
        max_attempts: int | None = None,
        group: str | None = None,
        connection: Any = None,
    ) -> OfferOutcome:
        """Store a message, or give the message of this key a new payload and time.

        An update ends the lease of a message in flight: it is delivered again, and its first consumer's acknowledgement
        has no effect. An offer with the same payload, time (to the millisecond) and options is ignored, even if the
        message is in flight.

        Args:
            key: 1 to 200 characters.
            payload: a value that the codec can encode.
            schedule_at: the due time: an aware datetime, or seconds since the epoch. A past time means now.
            priority: of the due messages, those with a lower number are delivered first.
            max_attempts: how often this message is delivered before it becomes a dead letter, in place of the limits of
                the queue and its consumer; ``None``: those apply.
            group: messages of one group are delivered by due time, one at a time. A failed message holds back the later
                ones until it is acknowledged or becomes a dead letter. 1 to 200 characters; ``None``: no group.
            connection: your own ``sqlite3`` or ``psycopg`` connection to the same database, or a Session or Connection
                of SQLAlchemy on such a driver; coroutines also accept async ones on psycopg. The offer is part of your
                transaction and takes effect when you commit.

        Returns:
            CREATED, UPDATED or IGNORED.

        Raises:
            ValueError: the key or the time is invalid.
            QueueUnavailable: the database kept failing for a temporary reason.
            QueueBroken: the database refuses for a reason that waiting does not change.

        Source: ``offerOrUpdate`` of funfix ``delayedqueue``.
        """
        return self._offer_one(connection, key, payload, _given(schedule_at), True, priority, max_attempts, group)

    def offer_if_not_exists(
        self,
        key: str,
        payload: T,
        schedule_at: When,
        *,
        priority: int = 0,
        max_attempts: int | None = None,
        group: str | None = None,
        connection: Any = None,
    ) -> OfferOutcome:
        """Store a message unless a message of this key exists.

        Args:
            key, payload, schedule_at, priority, max_attempts, group, connection: see :meth:`offer_or_update`.

        Returns:
            CREATED or IGNORED.

        Source: ``offerIfNotExists`` of funfix ``delayedqueue``.
        """
        return self._offer_one(connection, key, payload, _given(schedule_at), False, priority, max_attempts, group)

    def offer_batch(self, messages: Iterable[ScheduledMessage[T]], *, connection: Any = None) -> list[OfferOutcome]:
        """Offer many messages in one transaction: all of them or none.

        A key may occur more than once. The result is that of offering the messages one by one.

        Args:
            messages: any number of messages.
            connection: see :meth:`offer_or_update`.

        Returns:
            The outcome of each offer, in order.

        Example:
            >>> from drainq.delayed import DelayedQueue, ScheduledMessage
            >>> with DelayedQueue.open("memory:", "mail") as mail:
            ...     offered = mail.offer_batch([ScheduledMessage(f"mail/{n}", n) for n in (1, 2, 1)])
            ...     print([outcome.value for outcome in offered], mail.try_poll_many(10).payload)
            ['created', 'created', 'ignored'] [1, 2]

        Source: ``offerBatch`` of funfix ``delayedqueue``.
        """
        if isinstance(messages, ScheduledMessage):
            raise TypeError(
                "messages must be a list of ScheduledMessage objects, got one ScheduledMessage: pass [message]"
            )
        if not (messages := list(messages)):
            return []
        now = self._session.now()
        return self._store(encoded_offers(messages, self._session.codec, now), now, connection)

    offer_async = twin(offer)
    offer_or_update_async = twin(offer_or_update)
    offer_if_not_exists_async = twin(offer_if_not_exists)
    offer_batch_async = twin(offer_batch)

    def _offer_one(self, connection: Any, *message: Any) -> OfferOutcome:
        session = self._session
        now = session.now()
        return self._store([encoded_offer(session.codec, now, *message)], now, connection)[0]

    def _store(self, offers: Sequence[Offer], now: int, connection: Any) -> list[OfferOutcome]:
        session = self._session
        connection = driver_connection(connection)
        if len(offers) == 1:
            ranked, soonest = offers[0].priority != 0, offers[0].scheduled_at
        else:
            ranked, soonest = any(map(_PRIORITY, offers)), min(map(_SCHEDULED_AT, offers))
        if ranked:
            session.mark_ranked(connection)
        due_in = (soonest - now) / 1000
        soon = due_in < session.time.poll_period  # else each consumer finds it by its next regular poll
        announce = session.news(soonest, ours=connection is None) if soon else None
        if connection is not None:  # in the caller's transaction, which only the caller can repeat
            session.check_open()
            session.settle()
            outcomes = session.storage.offer(session.kind, offers, now, connection=connection, announce=announce)
            wake_after_commit(connection, session.wakeup.wake, session.time.poll_period)
            self._count(outcomes)
            return outcomes
        tries, into = count(), session.storage
        outcomes = session.call(lambda: into.offer(session.kind, offers, now, announce=announce, again=next(tries) > 0))
        if soon:
            session.wakeup.wake_in(due_in)
        self._count(outcomes)
        return outcomes

    def _count(self, outcomes: list[OfferOutcome]) -> None:
        replaced = outcomes.count(OfferOutcome.UPDATED)
        self._session.activity.add("offered", outcomes.count(OfferOutcome.CREATED) + replaced)
        if replaced:
            self._session.activity.add("replaced", replaced)
