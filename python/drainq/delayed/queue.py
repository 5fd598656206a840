"""The delayed queue: durable messages with a key, a payload and a time.

This file is what a user calls: it checks arguments, encodes payloads, reads the clock, tries again what may pass, and
leaves the rest to a :class:`~drainq.delayed.storage.protocol.Storage`. It has no SQL and no thread of its own.

# Promises, on every back end

1. A message that was offered is delivered at least once, never before its time, and to one consumer at a time as long
   as that one's lease lasts.
2. It is gone only after an acknowledgement by the one that holds it, a drop, or a move to the dead letters.
3. A key names at most one message of a queue.

Source: ``DelayedQueue`` of funfix ``delayedqueue``; dead letters, ``nack``, ``extend``, ``consume`` and offers inside
the caller's transaction are ours.
"""

from __future__ import annotations

import hashlib
import time as real_time
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, ParamSpec, TypeVar

from drainq.clock import Clock, SystemClock
from drainq.delayed.admin import Admin, QueueInfo, queues_at
from drainq.delayed.aio import AsyncDelayedQueue
from drainq.delayed.codec import Codec, MsgspecCodec
from drainq.delayed.config import MEMORY_POLL_PERIOD, RetryConfig, TimeConfig
from drainq.delayed.consume import consume
from drainq.delayed.cron.service import CronService
from drainq.delayed.encode import encoded_offers
from drainq.delayed.envelope import AckEnvelope
from drainq.delayed.message import (
    OfferOutcome,
    ScheduledMessage,
    When,
    check_count,
    check_key,
    check_text,
    from_ms,
)
from drainq.delayed.session import Session
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.protocol import Storage
from drainq.delayed.storage.records import Held
from drainq.delayed.wake import shared_wakeup, wake_after_commit

_PRIORITY = itemgetter(4)  # of an Offer
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class DelayedQueue(Admin, Generic[T]):
    """Messages that must not be lost, for later, by key; opened with :meth:`open`.

    One object serves many threads. A context manager: :meth:`close` at the end.

    Args:
        storage: where the messages live; :meth:`open` finds it by a URL.
        queue: the queue's name; queues of other names in the same table are apart.
        codec: turns payloads into bytes; by default JSON.
        time: lease and polling times.
        retry: how patiently a failing database, or handler, is tried again.
        clock: what tells the time; by default the system's.
        max_attempts: deliveries of one message after which it goes to the dead letters instead of being delivered
            again; ``None`` for no limit but that of :meth:`consume`.
        source: what envelopes call this queue; by default its name.
        notify: whether offers wake consumers in other processes at once (PostgreSQL only).
        database_time: whether the database's clock, in place of ``clock``, decides what is due, leased and fired. An
            SQLite file and the memory have the clock of this machine.
        history: how many acknowledged messages :meth:`history` remembers, for the whole queue; ``None``: none.

    Example:
        >>> with DelayedQueue.open("memory:", queue="mail") as mail:
        ...     _ = mail.offer_or_update("welcome/ann", {"to": "ann"}, schedule_at=0)
        ...     envelope = mail.try_poll()
        ...     print(envelope.message_id, envelope.payload)
        ...     envelope.ack()
        welcome/ann {'to': 'ann'}
        True
    """

    def __init__(
        self,
        storage: Storage,
        queue: str,
        *,
        codec: Codec | None = None,
        time: TimeConfig | None = None,
        retry: RetryConfig | None = None,
        clock: Clock | None = None,
        max_attempts: int | None = None,
        source: str | None = None,
        notify: bool = False,
        database_time: bool = False,
        history: int | None = None,
        address: Hashable = None,
    ) -> None:
        self.name = _check_name(queue)
        if max_attempts is not None and (not isinstance(max_attempts, int) or max_attempts < 1):
            raise ValueError(f"max_attempts must be at least 1, or None for no limit, got {max_attempts!r}")
        if history is not None:
            check_count("history", history)
        codec = MsgspecCodec() if codec is None else codec
        kind = partition_kind(queue, codec.type_name)
        session = self._session = Session(
            storage,
            kind,
            name=queue,
            source=queue if source is None else _check_name(source, "source"),
            codec=codec,
            clock=SystemClock() if clock is None else clock,
            time=TimeConfig() if time is None else time,
            retry=RetryConfig() if retry is None else retry,
            max_attempts=max_attempts,
            wakeup=shared_wakeup((id(storage) if address is None else address, kind)),
            notify=notify,
            database_time=database_time,
            history=history,
        )
        self.cron: CronService[T] = CronService(
            storage=storage,
            kind=kind,
            encode=codec.encode,
            clock=session.clock,
            call=session.call,
            made=session.wakeup.wake,
        )
        """The schedules that put messages into this queue."""

    @classmethod
    def open(
        cls,
        url: str,
        queue: str = "default",
        *,
        codec: Codec | None = None,
        table: str = "delayed_queue",
        time: TimeConfig | None = None,
        retry: RetryConfig | None = None,
        clock: Clock | None = None,
        migrate: bool = True,
        max_attempts: int | None = None,
        source: str | None = None,
        notify: bool = False,
        max_connections: int = 10,
        prepare: bool | None = None,
        database_time: bool = False,
        history: int | None = None,
    ) -> DelayedQueue[Any]:
        """Open a queue, and create its tables if they are missing.

        Safe from many processes at once.

        Args:
            url: ``memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
            queue: the queue's name.
            codec: turns payloads into bytes; by default JSON. Queues with different codecs are apart.
            table: the table's name; queues may share one.
            time: lease and polling times; by default ``TimeConfig()``, in memory with a poll period of 0.5 s.
            retry: how patiently a failing database, or handler, is tried again.
            clock: what tells the time; by default the system's.
            migrate: whether missing tables, columns and indexes are made; if not, ``drainq delayed migrate`` does it. A
                table that others use is never locked for longer than a second at a time.
            max_attempts, source, notify: see :class:`DelayedQueue`.
            max_connections: PostgreSQL: connections at most; schedules have one more, of their own.
            prepare: PostgreSQL: whether statements are prepared on the server, which makes them twice as quick.
                ``None``: yes, unless there is a pooler before the server. ``True`` behind a pooler that hands out
                connections by the transaction needs one that keeps track of prepared statements (pgbouncer from 1.21
                on with ``max_prepared_statements``).
            database_time, history: see :class:`DelayedQueue`.

        Returns:
            The queue; close it, or use it as a context manager.

        Raises:
            ValueError: the URL, a name or a limit is not one.
            ImportError: the back end's driver is not installed.
            QueueUnavailable: the database could not be reached, or is locked, for as long as ``retry`` says.
            QueueBroken: the database refuses: a wrong password, a missing right.

        Example:
            >>> DelayedQueue.open("memory:", "mail").stats().ready
            0
        """
        _check_name(queue)
        retry = RetryConfig() if retry is None else retry
        if time is None:
            time = TimeConfig(poll_period=MEMORY_POLL_PERIOD) if url == "memory:" else TimeConfig()
        storage, address = open_storage(
            url, table=table, time=time, retry=retry, max_connections=max_connections, prepare=prepare
        )
        try:
            reach(storage, retry, migrate=migrate)
            opened = cls(
                storage,
                queue,
                codec=codec,
                time=time,
                retry=retry,
                clock=clock,
                max_attempts=max_attempts,
                source=source,
                notify=notify,
                database_time=database_time,
                history=history,
                address=address,
            )
            opened._enter_name()
            return opened
        except BaseException:
            storage.close()
            raise

    @staticmethod
    def queues(url: str, *, table: str = "delayed_queue") -> list[QueueInfo]:
        """The queues of a table that were ever opened, by name.

        Nothing is created.

        Args:
            url: as for :meth:`open`, but a database.
            table: the table's name.

        Raises:
            ValueError: the URL names no database, or an SQLite file that is not there.
            QueueUnavailable: the database could not be reached.
            QueueBroken: the tables are missing or old, or the database refuses.
        """
        return queues_at(url, table)

    # --- producers

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
        offers = encoded_offers(messages, session.codec.encode)
        if not offers:
            return []
        if any(map(_PRIORITY, offers)):
            session.mark_ranked(connection)
        now = session.now()
        soonest = min(offer.scheduled_at for offer in offers)
        announce = session.notify and soonest <= now + int(session.time.poll_period * 1000)
        if connection is not None:  # the caller's transaction, so the caller's to try again
            session.check_open()
            outcomes = session.storage.offer(session.kind, offers, now, connection=connection, announce=announce)
            wake_after_commit(connection, session.wakeup.wake, session.time.poll_period)
            return outcomes
        tries = 0

        def offer() -> list[OfferOutcome]:
            nonlocal tries
            tries += 1
            return session.storage.offer(session.kind, offers, now, announce=announce, again=tries > 1)

        outcomes = session.call(offer)
        session.wakeup.wake()
        return outcomes

    # --- consumers

    def try_poll(self) -> AckEnvelope[T] | None:
        """Take the earliest due message, if there is one now.

        Returns:
            The message on loan for ``acquire_timeout``; ``None`` if nothing is due.

        Source: ``tryPoll`` of funfix ``delayedqueue``.
        """
        return self._take(1, many=False)

    def try_poll_many(self, n: int) -> AckEnvelope[list[T]]:
        """Take up to ``n`` due messages, earliest first, as one batch.

        Args:
            n: how many at most, up to 2,147,483,647; 0 or less takes nothing.

        Returns:
            An envelope whose payload is a list, perhaps an empty one.

        Source: ``tryPollMany`` of funfix ``delayedqueue``.
        """
        taken = self._take(check_count("n", n), many=True) if n > 0 else None
        return taken or AckEnvelope(self._session, [], [], None, from_ms(self._session.now()), many=True)

    def poll(self, timeout: float | None = None) -> AckEnvelope[T] | None:
        """Take the earliest due message, waiting for one.

        Args:
            timeout: seconds of real time to wait; ``None`` waits for ever.

        Returns:
            The message on loan; ``None`` only if the time ran out.

        Raises:
            ShutDown: the queue was closed.

        Source: ``poll`` of funfix ``delayedqueue``.
        """
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout must be at least 0 seconds, or None, got {timeout!r}")
        deadline = None if timeout is None else real_time.monotonic() + timeout
        self._session.listen()
        while True:
            noted = self._session.wakeup.count()
            taken = self.try_poll()
            if taken is not None:
                return taken
            pause = self._session.pause()
            if deadline is not None:
                pause = min(pause, deadline - real_time.monotonic())
                if pause <= 0:
                    return None
            self._session.wakeup.wait(noted, pause)

    def consume(
        self,
        handler: Callable[[AckEnvelope[Any]], object],
        *,
        batch_size: int = 1,
        stop: Any = None,
        max_attempts: int | None = None,
        max_in_flight: int | None = None,
    ) -> int:
        """Give messages to a handler until told to stop, in this thread.

        A handler that returns has acknowledged; the acknowledgement travels with the fetch of the next message, in one
        statement. One that raises gives its messages back: they are due again after ``retry``'s back-off, and go to
        the dead letters when the attempts are used up. While it runs the lease is extended. A lost database connection
        is waited out. When ``stop`` is set the handler may finish; what was fetched after that is given back.

        Args:
            handler: called with an envelope; its payload is a list if ``batch_size`` is more than 1.
            batch_size: how many messages at most one call gets.
            stop: an object with ``is_set()``, such as a :class:`threading.Event`; ``None`` runs until :meth:`close`.
            max_attempts: deliveries after which a failing message goes to the dead letters; by default the queue's
                ``max_attempts``, else one more than ``retry.max_retries``.
            max_in_flight: most messages of the queue that may be in flight, at all consumers together, for this one to
                take another; exact among the consumers that pass it. ``None`` for no limit. While the limit is reached
                a consumer in another process asks again after at most a poll period.

        Returns:
            How many messages were handled and acknowledged.

        Example:
            >>> import threading
            >>> stop = threading.Event()
            >>> def handle(envelope):
            ...     print(envelope.payload)
            ...     stop.set()
            >>> with DelayedQueue.open("memory:", "mail") as mail:
            ...     _ = mail.offer_or_update("a", "Hello", 0)
            ...     mail.consume(handle, stop=stop)
            Hello
            1
        """
        self._session.listen()
        return consume(
            self._session,
            handler,
            batch_size=batch_size,
            stop=stop,
            max_attempts=max_attempts,
            max_in_flight=max_in_flight,
        )

    def get_next_batch(self, batch_size: int) -> list[AckEnvelope[T]]:
        """Take up to so many due messages, one envelope each: what makes this queue a source.

        Args:
            batch_size: how many at most.

        Returns:
            Envelopes, perhaps none. Hand them to :meth:`done`, or acknowledge each.
        """
        if batch_size <= 0:
            return []
        rows, payloads, lock = self._session.acquire(batch_size)
        now = from_ms(self._session.now())
        return [
            AckEnvelope(self._session, payload, [row], lock, now, many=False) for row, payload in zip(rows, payloads)
        ]

    def done(self, envelopes: Iterable[AckEnvelope[T]]) -> int:
        """Acknowledge envelopes of :meth:`get_next_batch`.

        Returns:
            How many were still ours and are gone now.
        """
        by_lock: dict[str, list[int]] = {}
        for envelope in envelopes:
            if envelope._lock is not None:
                envelope._settled = True
                by_lock.setdefault(envelope._lock, []).extend(row.id for row in envelope._rows)
        return sum(self._session.ack(Held(lock, tuple(ids))) for lock, ids in by_lock.items())

    def _take(self, n: int, *, many: bool) -> AckEnvelope[Any] | None:
        rows, payloads, lock = self._session.acquire(n)
        if not rows:
            return None
        return AckEnvelope(
            self._session, payloads if many else payloads[0], rows, lock, from_ms(self._session.now()), many=many
        )

    def read(self, key: str) -> AckEnvelope[T] | None:
        """Look at the message of a key without taking it.

        Its ``ack()`` deletes the message if payload, time and creation are still what was read.

        Raises:
            ValueError: the payload cannot be decoded.

        Source: ``read`` of funfix ``delayedqueue``.
        """
        session = self._session
        row = session.call(session.storage.read, session.kind, check_key(key))
        if row is None:
            return None
        try:
            payload = session.codec.decode(row.payload)
        except Exception as error:
            raise ValueError(
                f"the payload of {key!r} cannot be decoded as {session.codec.type_name}: {error}"
            ) from error
        return AckEnvelope(session, payload, [row], None, from_ms(session.now()), many=False)

    # --- the rest

    @property
    def aio(self) -> AsyncDelayedQueue[T]:
        """The same queue for asyncio: ``await queue.aio.poll()``."""
        return AsyncDelayedQueue(self)

    @property
    def source(self) -> str:
        """What envelopes call this queue."""
        return self._session.source

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self._session.clock

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._session.closed

    def close(self) -> None:
        """Let go of connections; whoever waits in :meth:`poll` or :meth:`consume` gets out. Messages stay."""
        self.cron.close()
        self._session.close()

    def __enter__(self) -> DelayedQueue[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<DelayedQueue {self.name!r} in {type(self._session.storage).__name__}>"


def partition_kind(queue: str, type_name: str) -> str:
    """What tells the queues of a table apart: the md5 of ``queue|type_name``, as the source has it.

    Example:
        >>> partition_kind("mail", "java.lang.String")
        'f12affe03ca0a6149654eb12c1ba3b93'
    """
    return hashlib.md5(f"{queue}|{type_name}".encode(), usedforsecurity=False).hexdigest()


def _check_name(name: object, what: str = "queue") -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, got {name!r}")
    if not name.strip():
        raise ValueError(f"{what} must not be blank, got {name!r}")
    check_text(name, what)
    return name
