"""The prefetching source: a buffer in front of a slow source, refilled in the background.

This file is the consumer's side. ``prefetch_refill.py`` is the refill's side, and has the invariants of both.

Invariants:
    1. A pull never waits for the source. It waits for the lock only while another thread reads a few fields.
    2. A pull returns the items that it takes. If a clock or an executor raises, they are put back as the first ones.

Source: ``QueueingLimitedSource`` of "Fast Critical Path with Async Queueing". drainq adds held items, items that enter
as they are read, the end of a stream, ``done`` and an adapting capacity.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from drainq.arguments import Seconds, seconds, seconds_or_none
from drainq.backoff import Backoff
from drainq.clock import Clock
from drainq.errors import WouldDeadlock
from drainq.pickling import refuse
from drainq.sources.async_source import AskOnLoop, AsyncAsk, AsyncPullSource, ask_on_loop
from drainq.sources.prefetch_buffer_size import number_of_items
from drainq.sources.prefetch_options import InFlight, OnError, PrefetchOptions
from drainq.sources.prefetch_refill import Replenisher
from drainq.sources.source_shapes import Ask, PullSource, ask_of
from drainq.sources.stats import PrefetchStats
from drainq.threads import ClosedByBlock

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Executor

    from drainq.sources.async_items import AsyncItems

T = TypeVar("T")


class PrefetchSource(Replenisher[T], ClosedByBlock):
    """Pulls from a slow source in the background, so that ``get_next_batch`` never waits for it.

    In a forked child it starts empty and asks the source anew. For an iterator or an async source, the stream has ended
    in the child, because the rest of the iterator and the event loop belong to the parent.

    Args:
        source: an object with ``get_next_batch(batch_size)``, a callable of that shape, or an iterator. An empty
            result means "nothing now"; None or StopIteration ends the stream. A result that is no collection is read
            as it comes: each item can be pulled as soon as it is there. The callable or the method may be an
            ``async def``: it runs on ``loop``, StopAsyncIteration ends its stream too, and ``close`` cancels it.
        capacity: the most items to buffer. The rate at which they are taken times the source's latency is enough.
        replenish_threshold: a pull that leaves this many items or fewer starts a refill; below ``capacity``.
        key: maps an item to its identity; None is the item itself.
        in_flight: when the source may bring back an item that was taken. ``"forget"``: at once. ``"ack"``: after
            :meth:`done`. ``"ttl"``: after ``ttl`` seconds.
        ttl: seconds for which the source may not bring the item back. With ``"ttl"`` they count from the moment in
            which it was taken, with ``"ack"`` from :meth:`done`.
        on_error: ``"log"``; ``"raise"``: the next pull raises the error, once; or a callable that takes the error.
        backoff: the delays before a source that failed or had nothing is asked again.
        eager: whether to start the first refill now instead of at the first pull.
        name: for logs; None makes one from the source.
        executor: where refills run; None is a daemon thread, not always the same one.
        min_interval: the least seconds from the start of one refill to the next.
        max_capacity: the bound of the capacity, which doubles while pulls find nothing and shrinks again afterwards.
        clock: an object with ``now() -> float`` in seconds.
        loop: the event loop of an async source; None is the one that runs now. Other sources need none.

    Raises:
        ValueError: not ``capacity > replenish_threshold >= 0``, or another value is out of range.
        TypeError: the source has none of the shapes, or another argument has a wrong type.

    Example:
        >>> numbers = iter(range(5))
        >>> source = PrefetchSource(numbers, capacity=3, replenish_threshold=1)
        >>> source.get_next_batch(2)        # nothing yet: this starts the first refill
        []
        >>> source.wait(timeout=10)
        True
        >>> source.get_next_batch(1)
        [0]
        >>> source.close()
        True

        >>> import asyncio
        >>> async def pages(batch_size):
        ...     return [f"/{number}" for number in range(batch_size)]
        >>> async def main():
        ...     async with PrefetchSource(pages, capacity=3, replenish_threshold=1) as source:
        ...         async for page in source:
        ...             return page
        >>> asyncio.run(main())
        '/0'
    """

    def __init__(
        self,
        source: PullSource[T] | AsyncPullSource[T] | Ask[T] | AsyncAsk[T] | Iterator[T],
        capacity: int,
        replenish_threshold: int,
        *,
        key: Callable[[T], Hashable] | None = None,
        in_flight: InFlight = "forget",
        ttl: Seconds | None = None,
        on_error: OnError = "log",
        backoff: Backoff | None = None,
        eager: bool = False,
        name: str | None = None,
        executor: Executor | None = None,
        min_interval: Seconds = 0.0,
        max_capacity: int | None = None,
        clock: Clock | None = None,
        loop: AbstractEventLoop | None = None,
    ) -> None:
        ask = ask_on_loop(source, loop) or ask_of(cast("PullSource[T]", source))
        options = PrefetchOptions(
            capacity, replenish_threshold, key=key, in_flight=in_flight, ttl=seconds_or_none("ttl", ttl),
            on_error=on_error, backoff=backoff, name=name, executor=executor,
            min_interval=seconds("min_interval", min_interval), max_capacity=max_capacity, clock=clock,
        )  # fmt: skip
        super().__init__(ask, getattr(source, "__name__", type(source).__name__) if name is None else name, options)
        if eager:
            self._replenish()

    def get_next_batch(self, batch_size: int) -> list[T]:
        """Take up to ``batch_size`` items, oldest first, and start a refill if few are left; never waits.

        Args:
            batch_size: items; at least 0.

        Returns:
            The buffered items, perhaps an empty list.

        Raises:
            ValueError: ``batch_size`` is negative.
            TypeError: ``batch_size`` is no number of items.
            BaseException: with ``on_error="raise"``, the source's error since the last pull. Nothing is taken.

        Example:
            >>> source = PrefetchSource(iter(range(5)), 5, 1)
            >>> source.wait(), source.get_next_batch(2)
            (True, [0, 1])
            >>> source.close()
            True
        """
        if self._reports.error is not None:
            error = self._reports.take_error()
            if error is not None:
                raise error
        if type(batch_size) is not int or not 0 <= batch_size <= sys.maxsize:
            batch_size = number_of_items("batch_size", batch_size)
        items = self._buffer.get_many(batch_size, min_items=0)
        try:
            if self._given_back or self._closed:
                items = self._with_the_rest(items, batch_size)
            if batch_size and not items:
                self._intake.hungry = True
                items = self._buffer.get_many(batch_size, min_items=0)
            if self._refill is not None:
                self._pulled_during_a_refill(items, batch_size)
            elif len(self._buffer) <= self._size.threshold:
                self._replenish(forgotten=bool(items) and self._taking_forgets)
        except BaseException:  # an interrupt, or an exit in an executor or a clock
            self._given_back.extend(items)
            raise
        return items

    def _with_the_rest(self, items: list[T], n: int) -> list[T]:
        """Take first what was given back. Once closed, also take held items, because no refill will put them in."""
        with self._state:
            items = [*self._given_back, *items]
            self._given_back.clear()
            missing = n - len(items) if self._closed and self._refill is None else 0
        if missing > 0 and self._intake.let_in(missing):
            items += self._buffer.get_many(missing, min_items=0)
        self._given_back.extend(items[n:])
        return items[:n]

    def _pulled_during_a_refill(self, items: list[T], batch_size: int) -> None:
        with self._state:
            if items and self._taking_forgets and self._refill is not None:
                self._refill.outdated = True
            elif batch_size and not items:
                self._starved += 1
                self._size.starved()

    def done(self, items: Iterable[T]) -> int:
        """Mark taken items as done, so that the source may bring them again (``in_flight="ack"``).

        A running refill may have read them before, so its copies of them are refused.

        Returns:
            How many of them were in flight.
        """
        were = self._buffer.done(items)
        if were:
            with self._state:
                refill = self._refill
                if refill is not None:
                    refill.outdated = True
            if refill is None and self._schedule.only_duplicates:
                self._replenish(forgotten=True)
        return were

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until a pull would return items or raise an error, or the stream has ended, or the source is closed.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            False if the time ran out.

        Raises:
            WouldDeadlock: called in the event loop of an async source; use ``async for``.
        """
        timeout = seconds_or_none("timeout", timeout)
        if self._waits_for_this_thread():
            raise WouldDeadlock(
                f"wait() of the source {self.name!r} would stop the event loop that is to fill it: use async for"
            )
        self._replenish()
        with self._state:
            return self._state.wait_for(self._has_news, timeout)

    async def wait_async(self, timeout: Seconds | None = None) -> bool:
        """Call :meth:`wait` as a coroutine, also in the event loop of an async source."""
        from drainq.sources.async_items import wait_for_refills  # asyncio loads with its first use

        return await wait_for_refills(self, self._look_for_news, seconds_or_none("timeout", timeout))

    def _look_for_news(self) -> bool:
        self._replenish()
        with self._state:
            return self._has_news()

    def _has_news(self) -> bool:
        if not len(self._buffer):
            self._intake.hungry = True
        return len(self) > 0 or self._reports.error is not None or self._closed or self.finished

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` when a refill has items for a consumer that found none, and after each refill.

        It runs on the refill's thread and must be short. Its exception is logged and counted as an error.
        A listener that is subscribed already is not called twice.
        """
        self._reports.subscribe(listener)

    def unsubscribe(self, listener: Callable[[], object]) -> None:
        """Stop calling ``listener``."""
        self._reports.unsubscribe(listener)

    @property
    def finished(self) -> bool:
        """Whether the stream has ended and all its items have been taken."""
        return self._intake.ended and not len(self)

    @property
    def capacity(self) -> int:
        """Items that the buffer may hold, now."""
        return self._size.capacity

    def __len__(self) -> int:
        return len(self._buffer) + len(self._given_back)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> NoReturn:
        refuse(
            self,
            "its items and its refills belong to this process",
            "its settings, and make a PrefetchSource where it is used",
        )

    def __repr__(self) -> str:
        return f"<PrefetchSource {self.name!r}: {len(self)} of {self.capacity} items>"

    def stats(self) -> PrefetchStats:
        """Return a snapshot of the counters."""
        with self._state:
            buffer = self._buffer.stats()
            running = self._refill
            return PrefetchStats(
                size=buffer.size + len(self._given_back),
                capacity=self._size.capacity,
                refills=self._refills,
                refilling=running is not None,
                fetched=self._fetched + (0 if running is None else running.found),
                duplicates=buffer.duplicates + self._intake.duplicates,
                unusable=self._intake.unusable,
                errors=self._reports.errors,
                empty_refills=self._empty_refills,
                in_flight=buffer.in_flight,
                held=self._intake.held,
                starved_pulls=self._starved,
            )

    def close(self, timeout: Seconds | None = None) -> bool:
        """Start no more refills, and wait for the running one. Fetched items can still be taken.

        A refill that has not begun never begins. A refill that reads items as they come ends with the next item. An
        async source is cancelled; items that it still returns are kept.

        Args:
            timeout: seconds to wait; None waits for ever. A refill that takes longer ends by itself.

        Returns:
            True if no refill is running any more; False after ``timeout``, from within the source itself, and in the
            event loop of an async source that still runs: there, use :meth:`close_async`.
        """
        timeout = seconds_or_none("timeout", timeout)
        with self._state:
            self._closed = self._intake.closed = True
            refill = self._refill
            if refill is not None and refill.thread is None:
                self._refill = None
            self._state.notify_all()
        if isinstance(self._ask, AskOnLoop):
            self._ask.cancel()
        here = self._waits_for_this_thread()
        with self._state:
            if self._refill is not None and (here or self._refill.thread == threading.get_ident()):
                return False
            if not self._state.wait_for(lambda: self._refill is None, timeout):
                return False
        self._intake.let_go()
        return True

    def _waits_for_this_thread(self) -> bool:
        """Return whether the source is asked in the event loop that runs on this thread."""
        return isinstance(self._ask, AskOnLoop) and self._ask.is_here()

    def __aiter__(self) -> AsyncItems[T]:
        """Take the items one by one in a coroutine: ``async for item in source``; it ends with the stream or a close.

        Example:
            >>> import asyncio
            >>> async def numbers():
            ...     return [number async for number in PrefetchSource(iter(range(5)), 3, 1)]
            >>> asyncio.run(numbers())
            [0, 1, 2, 3, 4]
        """
        from drainq.sources.async_items import AsyncItems  # asyncio loads with its first use

        return AsyncItems(self)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed
