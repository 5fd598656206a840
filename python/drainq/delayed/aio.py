"""The delayed queue for asyncio.

Database calls run in the queue's threads (:mod:`drainq.delayed.call_threads`). Waiting uses a
:class:`~drainq.loop_signal.LoopSignal`, so ten thousand waiting tasks hold no thread. A cancelled poll releases the
messages that it was taking, even if the end of the event loop cancels it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from drainq.arguments import Seconds, seconds_or_none
from drainq.delayed.envelope import AckEnvelope
from drainq.delayed.message import OfferOutcome, ScheduledMessage, When
from drainq.delayed.storage_session import Session
from drainq.loop_signal import LoopSignal
from drainq.pickling import refuse
from drainq.threads import start_thread

T = TypeVar("T")
R = TypeVar("R")


class _Queue(Protocol[T]):
    """The methods of :class:`~drainq.delayed.DelayedQueue` that this module needs, so that it need not import the
    class."""

    _session: Session

    def offer_or_update(self, key: str, payload: T, schedule_at: When, *, priority: int = 0) -> OfferOutcome: ...
    def offer_if_not_exists(self, key: str, payload: T, schedule_at: When, *, priority: int = 0) -> OfferOutcome: ...
    def offer_batch(self, messages: Iterable[ScheduledMessage[T]]) -> list[OfferOutcome]: ...
    def try_poll(self) -> AckEnvelope[T] | None: ...
    def try_poll_many(self, n: int) -> AckEnvelope[list[T]]: ...
    def read(self, key: str) -> AckEnvelope[T] | None: ...
    def _look(self, n: int, *, many: bool) -> tuple[AckEnvelope[T] | None, float]: ...
    def contains_message(self, key: str) -> bool: ...
    def drop_message(self, key: str) -> bool: ...
    def close(self) -> None: ...


class AsyncDelayedQueue(Generic[T]):
    """Coroutines for the calls of a :class:`~drainq.delayed.DelayedQueue`; ``queue.aio`` makes one.

    Example:
        >>> import asyncio
        >>> from drainq.delayed import DelayedQueue
        >>> async def main():
        ...     with DelayedQueue.open("memory:", "mail") as queue:
        ...         await queue.aio.offer_or_update("a", "Hello", 0)
        ...         envelope = await queue.aio.poll()
        ...         print(envelope.payload, await queue.aio.ack(envelope))
        >>> asyncio.run(main())
        Hello True
    """

    def __init__(self, queue: _Queue[T]) -> None:
        self._queue = queue
        self._session = queue._session
        self._threads = queue._session.threads

    def __reduce__(self) -> NoReturn:
        refuse(
            self,
            "its connections belong to this process",
            "the URL and name of its queue, and open that where it is used",
        )

    async def offer_or_update(self, key: str, payload: T, schedule_at: When, *, priority: int = 0) -> OfferOutcome:
        """See :meth:`DelayedQueue.offer_or_update`."""
        return await self._threads.run(self._queue.offer_or_update, key, payload, schedule_at, priority=priority)

    async def offer_if_not_exists(self, key: str, payload: T, schedule_at: When, *, priority: int = 0) -> OfferOutcome:
        """See :meth:`DelayedQueue.offer_if_not_exists`."""
        return await self._threads.run(self._queue.offer_if_not_exists, key, payload, schedule_at, priority=priority)

    async def offer_batch(self, messages: Iterable[ScheduledMessage[T]]) -> list[OfferOutcome]:
        """See :meth:`DelayedQueue.offer_batch`."""
        return await self._threads.run(self._queue.offer_batch, list(messages))

    async def try_poll(self) -> AckEnvelope[T] | None:
        """Call :meth:`DelayedQueue.try_poll`. When cancelled, release the message."""
        return await self._taking(self._queue.try_poll)

    async def try_poll_many(self, n: int) -> AckEnvelope[list[T]]:
        """Call :meth:`DelayedQueue.try_poll_many`. When cancelled, release the messages."""
        return await self._taking(lambda: self._queue.try_poll_many(n))

    async def poll(self, timeout: Seconds | None = None) -> AckEnvelope[T] | None:
        """Call :meth:`DelayedQueue.poll`. When cancelled, release the message."""
        timeout = seconds_or_none("timeout", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        changed, pause = LoopSignal(), 0.0

        def look() -> AckEnvelope[T] | None:
            nonlocal pause
            taken, pause = self._queue._look(1, many=False)
            return taken

        await self._threads.run(self._session.listen)
        self._session.wakeup.add_listener(changed.give)
        try:
            while True:
                changed.clear()
                taken = await self._taking(look)
                if taken is not None:
                    return taken
                if deadline is not None:
                    pause = min(pause, deadline - time.monotonic())
                    if pause <= 0:
                        return None
                await changed.wait(pause)
        finally:
            self._session.wakeup.remove_listener(changed.give)

    async def ack(self, envelope: AckEnvelope[Any]) -> bool:
        """See :meth:`AckEnvelope.ack`."""
        return await self._threads.run(envelope.ack)

    async def nack(
        self, envelope: AckEnvelope[Any], delay: float | timedelta = 0.0, error: BaseException | str | None = None
    ) -> bool:
        """See :meth:`AckEnvelope.nack`."""
        return await self._threads.run(envelope.nack, delay, error)

    async def extend(self, envelope: AckEnvelope[Any], seconds: float | timedelta) -> bool:
        """See :meth:`AckEnvelope.extend`."""
        return await self._threads.run(envelope.extend, seconds)

    async def read(self, key: str) -> AckEnvelope[T] | None:
        """See :meth:`DelayedQueue.read`."""
        return await self._threads.run(self._queue.read, key)

    async def contains_message(self, key: str) -> bool:
        """See :meth:`DelayedQueue.contains_message`."""
        return await self._threads.run(self._queue.contains_message, key)

    async def drop_message(self, key: str) -> bool:
        """See :meth:`DelayedQueue.drop_message`."""
        return await self._threads.run(self._queue.drop_message, key)

    async def close(self) -> None:
        """See :meth:`DelayedQueue.close`."""
        closed: Future[None] = Future()

        def close() -> None:
            try:
                self._queue.close()
            except BaseException as error:
                closed.set_exception(error)
            else:
                closed.set_result(None)

        # Not one of the threads that it closes; and cancelled, it closes all the same.
        start_thread(close, name="drainq-close")
        await asyncio.shield(asyncio.wrap_future(closed))

    async def _taking(self, take: Callable[[], R]) -> R:
        """Run ``take`` in a thread. If the task is cancelled meanwhile, release the messages that it takes."""
        return await self._threads.take(take, self._give_back)

    def _give_back(self, envelope: Any) -> None:
        if envelope is not None and envelope._lock is not None:
            self._session.release(envelope._held())
