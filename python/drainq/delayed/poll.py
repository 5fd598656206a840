"""The part of a delayed queue that consumers call: messages are taken when they are due, or read without taking.

Source: ``tryPoll``, ``tryPollMany``, ``poll`` and ``read`` of funfix ``delayedqueue``; ``consume`` is ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from drainq.arguments import Seconds, seconds_or_none
from drainq.delayed.consume import consume
from drainq.delayed.envelope import AckEnvelope
from drainq.delayed.message import check_count, check_key, from_ms
from drainq.delayed.storage.records import Held
from drainq.delayed.storage_session import Session
from drainq.sql.error_text import error_text, to_show

T = TypeVar("T")


class PollMethods(Generic[T]):
    """The part of :class:`~drainq.delayed.DelayedQueue` that takes messages."""

    _session: Session

    def try_poll(self) -> AckEnvelope[T] | None:
        """Take the earliest due message, if there is one now.

        Returns:
            The message on loan for ``acquire_timeout``; ``None`` if nothing is due.

        Source: ``tryPoll`` of funfix ``delayedqueue``.
        """
        return self._look(1, many=False)[0]

    def try_poll_many(self, n: int) -> AckEnvelope[list[T]]:
        """Take up to ``n`` due messages, earliest first, as one batch.

        Args:
            n: how many at most, up to 2,147,483,647; 0 or less takes nothing.

        Returns:
            An envelope whose payload is a list, perhaps an empty one.

        Source: ``tryPollMany`` of funfix ``delayedqueue``.
        """
        taken = self._look(check_count("n", n), many=True)[0] if n > 0 else None
        return taken or AckEnvelope(self._session, [], [], None, from_ms(self._session.now()), many=True)

    def poll(self, timeout: Seconds | None = None) -> AckEnvelope[T] | None:
        """Take the earliest due message, waiting for one.

        Args:
            timeout: seconds of real time to wait; ``None`` waits for ever.

        Returns:
            The message on loan; ``None`` only if the time ran out.

        Raises:
            ShutDown: the queue was closed.

        Source: ``poll`` of funfix ``delayedqueue``.
        """
        timeout = seconds_or_none("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        self._session.listen()
        while True:
            noted = self._session.wakeup.count()
            taken, pause = self._look(1, many=False)
            if taken is not None:
                return taken
            if deadline is not None:
                pause = min(pause, deadline - time.monotonic())
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
        max_in_flight: int | Mapping[str, int] | None = None,
        prefetch: int = 4,
    ) -> int:
        """Give messages to a handler, in this thread, until ``stop`` is set.

        A handler that returns has acknowledged; the acknowledgement travels with the next fetch, in one transaction.
        One that raises gives its messages back: they are due again after ``retry``'s back-off, and go to the dead
        letters when the attempts are used up. While it runs the lease is extended. A lost database connection is waited
        out. When ``stop`` is set the handler may finish; what was fetched after that is given back.

        Args:
            handler: called with an envelope; its payload is a list if ``batch_size`` is more than 1.
            batch_size: how many messages at most one call gets.
            stop: an object with ``is_set()``, such as a :class:`threading.Event`; ``None`` runs until :meth:`close`.
            max_attempts: deliveries after which a failing message goes to the dead letters; by default the queue's
                ``max_attempts``, else one more than ``retry.max_retries``.
            max_in_flight: most messages of the queue that may be in flight, at all consumers together, for this one to
                take another; exact among the consumers that pass it. Or a mapping from key prefixes to such numbers,
                as ``{"": 20, "mail/": 2}``, with ``""`` for the whole queue: a message whose prefix is full waits, and
                later ones pass it. ``None`` for no limit. While a limit is reached a consumer in another process asks
                again after at most a poll period.
            prefetch: PostgreSQL: most messages that one statement takes, and the next one acknowledges, for a handler
                that needs about a millisecond or less and does not use this queue itself. They are handled one by
                one. A process that is killed may repeat as many. 1: take a message only when the handler is free, and
                acknowledge each by itself; so it is in any case with ``batch_size``, ``max_in_flight`` or
                ``max_attempts=1``.

        Returns:
            How many messages were handled and acknowledged.

        Example:
            >>> import threading
            >>> from drainq.delayed import DelayedQueue
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
            prefetch=prefetch,
        )

    def get_next_batch(self, batch_size: int) -> list[AckEnvelope[T]]:
        """Take up to ``batch_size`` due messages, one envelope each. With this method the queue is a source.

        Args:
            batch_size: how many at most.

        Returns:
            Envelopes, perhaps none. Hand them to :meth:`done`, or acknowledge each.
        """
        if batch_size <= 0:
            return []
        rows, payloads, lock, _ = self._session.acquire(batch_size)
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

    def _look(self, n: int, *, many: bool) -> tuple[AckEnvelope[Any] | None, float]:
        """What there is to take; if there is nothing, the seconds until it is worth looking again."""
        session = self._session
        rows, payloads, lock, next_due = session.acquire(n)
        if not rows:
            return None, session.pause_until(next_due)
        now = from_ms(session.now())
        return AckEnvelope(session, payloads if many else payloads[0], rows, lock, now, many=many), 0.0

    def read(self, key: str) -> AckEnvelope[T] | None:
        """Read the message of a key without taking it.

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
            why = error_text(error, values=session.log_values)
            raise ValueError(f"the payload cannot be decoded as {session.codec.type_name}: {why}") from to_show(
                error, values=session.log_values
            )
        return AckEnvelope(session, payload, [row], None, from_ms(session.now()), many=False)
