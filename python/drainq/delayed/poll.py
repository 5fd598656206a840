"""The methods of a delayed queue for consumers: take due messages, or read messages without taking them.

Source: ``tryPoll``, ``tryPollMany``, ``poll`` and ``read`` of funfix ``delayedqueue``; ``consume`` is drainq's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypedDict, TypeVar, overload

from drainq.arguments import Seconds, seconds_or_none
from drainq.backoff import Backoff
from drainq.delayed.consume import consume, consume_async
from drainq.delayed.coroutines import twin
from drainq.delayed.envelope import AckBatch, AckEnvelope, Leased
from drainq.delayed.message import check_count, check_key
from drainq.delayed.storage.records import Held
from drainq.delayed.storage_session import Session
from drainq.loop_signal import LoopSignal
from drainq.sql.error_text import error_text, to_show

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Limits(TypedDict, total=False):
    """The arguments that ``consume`` and ``consume_async`` share, for type checkers."""

    max_attempts: int | None
    backoff: Backoff | None
    max_in_flight: int | Mapping[str, int] | None
    prefetch: int
    until: Literal["empty"] | None
    concurrency: int
    grace: Seconds | None
    time_limit: Seconds | None


class IsSet(Protocol):
    """The interface of a consumer's ``stop``, such as a :class:`threading.Event`."""

    def is_set(self) -> bool:
        """Return whether to stop."""
        ...


def _give_back(queue: PollMethods[Any], taken: Leased | None) -> None:
    """Release the messages that a cancelled coroutine took."""
    if taken is not None and taken._lock is not None:
        queue._session.release(taken._held())


def _give_back_each(queue: PollMethods[Any], taken: list[AckEnvelope[Any]]) -> None:
    for envelope in taken:
        _give_back(queue, envelope)


class PollMethods(Generic[T]):
    """The methods of :class:`~drainq.delayed.DelayedQueue` that take messages."""

    _session: Session

    def try_poll(self) -> AckEnvelope[T] | None:
        """Take the first due message by priority and due time, if a message is due now.

        Returns:
            The message, leased for ``acquire_timeout``; ``None`` if no message is due.

        Source: ``tryPoll`` of funfix ``delayedqueue``.
        """
        return self._look()[0]

    def try_poll_many(self, n: int) -> AckBatch[T]:
        """Take up to ``n`` due messages, in the order of priority and due time, as one batch.

        Args:
            n: the most messages, up to 2,147,483,647; 0 or less takes no message.

        Returns:
            A batch, which may be empty.

        Source: ``tryPollMany`` of funfix ``delayedqueue``.
        """
        rows, payloads, lock, _ = self._session.acquire(check_count("n", n)) if n > 0 else ([], [], None, None)
        return AckBatch(self._session, payloads, rows, lock if rows else None, self._session.now())

    def poll(self, timeout: Seconds | None = None) -> AckEnvelope[T] | None:
        """Wait until a message is due, and take it. Of several, take the first by priority and due time.

        Args:
            timeout: seconds of real time to wait; ``None`` waits for ever.

        Returns:
            The leased message; ``None`` only if time ran out.

        Raises:
            ShutDown: the queue was closed.

        Example:
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "mail") as queue:
            ...     _ = queue.offer("a", "hello")
            ...     with queue.poll(timeout=5) as envelope:  # acknowledged at the end of the block
            ...         print(envelope.payload)
            hello

        Source: ``poll`` of funfix ``delayedqueue``.
        """
        timeout = seconds_or_none("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        self._session.listen()
        while True:
            noted = self._session.wakeup.count()
            taken, pause = self._look()
            if taken is not None:
                return taken
            if deadline is not None:
                pause = min(pause, deadline - time.monotonic())
                if pause <= 0:
                    return None
            self._session.wakeup.wait(noted, pause)

    async def poll_async(self, timeout: Seconds | None = None) -> AckEnvelope[T] | None:
        """Call :meth:`poll` as a coroutine, which holds no thread. A cancelled call keeps no message."""
        timeout = seconds_or_none("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        session, changed, pause = self._session, LoopSignal(), 0.0

        def look() -> AckEnvelope[T] | None:
            nonlocal pause
            taken, pause = self._look()
            return taken

        await session.calls.run(session.listen)
        session.wakeup.add_listener(changed.give)
        try:
            while True:
                changed.clear()
                taken = await session.calls.take(look, lambda found: _give_back(self, found))
                if taken is not None:
                    return taken
                if deadline is not None:
                    pause = min(pause, deadline - time.monotonic())
                    if pause <= 0:
                        return None
                await changed.wait(pause)
        finally:
            session.wakeup.remove_listener(changed.give)

    try_poll_async = twin(try_poll, undo=_give_back)
    try_poll_many_async = twin(try_poll_many, undo=_give_back)

    @overload
    def consume(
        self,
        handler: Callable[[AckEnvelope[T]], object],
        *,
        batch_size: Literal[1] = 1,
        stop: IsSet | None = None,
        **limits: Unpack[Limits],
    ) -> int: ...

    @overload
    def consume(
        self,
        handler: Callable[[AckBatch[T]], object],
        *,
        batch_size: int,
        stop: IsSet | None = None,
        **limits: Unpack[Limits],
    ) -> int: ...

    def consume(
        self,
        handler: Callable[[Any], object],
        *,
        batch_size: int = 1,
        stop: IsSet | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        max_in_flight: int | Mapping[str, int] | None = None,
        prefetch: int = 10,
        until: Literal["empty"] | None = None,
        concurrency: int = 1,
        grace: Seconds | None = None,
        time_limit: Seconds | None = None,
    ) -> int:
        """Pass messages to a handler, in this thread or on several, until ``stop`` is set.

        When the handler returns, its messages are acknowledged, by the next fetch or just before it. When it raises,
        they are due again after ``backoff``, and become dead letters after the last attempt. While the handler runs,
        the lease is extended. After a lost database connection the loop waits and connects again. When ``stop`` is set,
        a running handler may finish, and fetched messages that no handler has yet are released.

        Args:
            handler: called with an :class:`AckEnvelope`, or an :class:`AckBatch` if ``batch_size`` is more than 1.
            batch_size: the most messages of one call.
            stop: an object with ``is_set()``, such as a :class:`threading.Event`; ``None`` runs until :meth:`close`.
            max_attempts: deliveries after which a failing message becomes a dead letter; by default the queue's
                ``max_attempts``, else one more than ``retry.max_retries``.
            backoff: how long a message waits after a failure, such as ``Backoff(60, 3600)`` for a mail. By default
                that of ``retry``, which starts at 0.1 s.
            max_in_flight: the most messages of the queue in flight, over all consumers; exact if each consumer sets it.
                Or a mapping of key prefixes to such limits, e.g. ``{"": 20, "mail/": 2}``, with ``""`` for the whole
                queue: a message whose prefix is full waits, and later messages pass it. ``None`` for no limit. When a
                limit is reached, a consumer in another process polls again after at most a poll period.
            prefetch: PostgreSQL: the most messages that one statement takes, and the next one acknowledges, if the
                handler needs about a millisecond or less and does not use this queue itself. They are handled one by
                one. If the process is killed, up to that many are delivered again. 1: take a message only when the
                handler is free, and acknowledge each one by itself. It is always 1 with ``batch_size``,
                ``max_in_flight`` or ``max_attempts=1``.
            until: ``"empty"`` to return as soon as no message is due, which a test on a frozen clock needs.
            concurrency: how many handlers run at once. With more than 1 they run on threads, and this thread waits for
                them. The handler must be thread-safe.
            grace: seconds for which running handlers may continue after ``stop`` was set, or this thread was
                interrupted by Ctrl-C or :func:`drainq.stop_on_sigterm`. Then their messages are released, without
                counting the delivery, the call returns, and an acknowledgement by such a handler changes nothing. If
                it is set, even a single handler runs on a thread. ``None``: until the handlers end.
            time_limit: seconds that a call of the handler may take. After that, its messages fail with a TimeoutError:
                they are due again after ``backoff``, or become dead letters after the last attempt. A thread cannot be
                ended: the handler runs on with ``envelope.revoked`` True, its acknowledgement changes nothing, and this
                consumer continues when the handler returns. ``None``: any time.

        Returns:
            How many messages were handled and acknowledged.

        Raises:
            ShutDown: the queue is closed already. A later close ends the call.

        Example:
            >>> import threading
            >>> from drainq.delayed import DelayedQueue
            >>> stop = threading.Event()
            >>> def handle(envelope):
            ...     print(envelope.payload)
            ...     stop.set()
            >>> with DelayedQueue.open("memory:", "mail") as mail:
            ...     _ = mail.offer("a", "Hello")
            ...     mail.consume(handle, stop=stop)
            Hello
            1
        """
        return consume(
            self._session,
            handler,
            batch_size=batch_size,
            stop=stop,
            max_attempts=max_attempts,
            backoff=backoff,
            max_in_flight=max_in_flight,
            prefetch=prefetch,
            until=until,
            concurrency=concurrency,
            grace=grace,
            time_limit=time_limit,
        )

    @overload
    async def consume_async(
        self,
        handler: Callable[[AckEnvelope[T]], Awaitable[object]],
        *,
        batch_size: Literal[1] = 1,
        stop: asyncio.Event | None = None,
        **limits: Unpack[Limits],
    ) -> int: ...

    @overload
    async def consume_async(
        self,
        handler: Callable[[AckBatch[T]], Awaitable[object]],
        *,
        batch_size: int,
        stop: asyncio.Event | None = None,
        **limits: Unpack[Limits],
    ) -> int: ...

    async def consume_async(
        self,
        handler: Callable[[Any], Awaitable[object]],
        *,
        batch_size: int = 1,
        stop: asyncio.Event | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        max_in_flight: int | Mapping[str, int] | None = None,
        prefetch: int = 10,
        until: Literal["empty"] | None = None,
        concurrency: int = 1,
        grace: Seconds | None = None,
        time_limit: Seconds | None = None,
    ) -> int:
        """Pass messages to an ``async def`` handler, on this event loop, until ``stop`` is set.

        Everything is as for :meth:`consume`. No thread is held while the handler runs or the queue is empty. When
        cancelled, this call cancels the handlers and releases their messages, without counting the delivery.

        Args:
            handler: an async function that takes an envelope or a batch.
            stop: an :class:`asyncio.Event`; ``None`` runs until it is cancelled or the queue is closed.
            batch_size, max_attempts, backoff, max_in_flight, prefetch, until: see :meth:`consume`.
            concurrency: how many handlers run at once, each in a task of its own.
            grace: seconds for which running handlers may continue after ``stop`` was set. Then they are cancelled.
            time_limit: seconds that a call of the handler may take. Then it is cancelled, and its messages have failed
                with a TimeoutError, as for :meth:`consume`.

        Returns:
            How many messages were handled and acknowledged.
        """
        return await consume_async(
            self._session,
            handler,
            batch_size=batch_size,
            stop=stop,
            max_attempts=max_attempts,
            backoff=backoff,
            max_in_flight=max_in_flight,
            prefetch=prefetch,
            until=until,
            concurrency=concurrency,
            grace=grace,
            time_limit=time_limit,
        )

    def get_next_batch(self, batch_size: int) -> list[AckEnvelope[T]]:
        """Take up to ``batch_size`` due messages, one envelope each. This method makes the queue a source.

        Args:
            batch_size: the largest number.

        Returns:
            Envelopes, perhaps none. Pass them to :meth:`done`, or acknowledge each.
        """
        if batch_size <= 0:
            return []
        rows, payloads, lock, _ = self._session.acquire(batch_size)
        now = self._session.now()
        return [AckEnvelope(self._session, payload, row, lock, now) for row, payload in zip(rows, payloads)]

    def done(self, envelopes: Iterable[AckEnvelope[T]]) -> int:
        """Acknowledge envelopes of :meth:`get_next_batch`.

        Returns:
            How many were still leased and are deleted now.
        """
        by_lock: dict[str, list[int]] = {}
        for envelope in envelopes:
            if envelope._lock is not None:
                envelope._settled = True
                by_lock.setdefault(envelope._lock, []).extend(row.id for row in envelope._rows)
        return sum(self._session.ack(Held(lock, tuple(ids))) for lock, ids in by_lock.items())

    get_next_batch_async = twin(get_next_batch, undo=_give_back_each)
    done_async = twin(done)

    def _look(self) -> tuple[AckEnvelope[T] | None, float]:
        """Take a message. If there is none, return the seconds until the next poll makes sense."""
        session = self._session
        rows, payloads, lock, next_due = session.acquire(1)
        if not rows:
            return None, session.pause_until(next_due)
        return AckEnvelope(session, payloads[0], rows[0], lock, session.now()), 0.0

    def read(self, key: str) -> AckEnvelope[T] | None:
        """Read the message of a key without taking it.

        ``ack()`` of the returned envelope deletes the message if its payload, due time and creation time are unchanged.

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
        return AckEnvelope(session, payload, row, None, session.now())

    read_async = twin(read)
