"""A buffer in front of a slow source, refilled in the background, so that a fast loop stays fast.

Invariants:
    1. One refill at a time: whoever starts one has changed ``_refilling`` from False to True under the lock, and
       the refill alone changes it back. Only a refill adds to the buffer.
    2. So the buffer never holds more than its capacity, whatever the source returns: the rest is held, in order,
       and enters before the source is asked again.
    3. What a source returned is in the buffer, held, or counted as a duplicate or an error.
    4. A pull never waits: not for the source, and for the lock only while another thread reads a few fields.
    5. No foreign code (source, key, callbacks, ``__eq__``) runs under the lock; only the clock is read there.

Source: ``QueueingLimitedSource`` of "Fast Critical Path with Async Queueing". Ours: a schedule for the retries of
failing and empty sources, the held rest, the end of a stream, ``done``, the adapting capacity.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from drainq._native import SetQueue
from drainq.backoff import Backoff
from drainq.clock import Clock, MonotonicClock
from drainq.sources.prefetch_stats import PrefetchStats
from drainq.sources.refiller import Refiller
from drainq.sources.sizing import AutoSize, check_sizes
from drainq.sources.wrapped import Ask, PullSource, ask_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")

InFlight = Literal["forget", "ack", "ttl"]
OnError = Literal["log", "raise"] | Callable[[BaseException], object]

_log = logging.getLogger("drainq")
_DEFAULT_RETRY = Backoff()

_PUT_AT_ONCE = 1000
"""Items that go into the buffer in one native call; between two calls a puller that waits for the GIL gets it."""


class PrefetchSource(Generic[T]):
    """Pulls from a slow source in the background, so that ``get_next_batch`` never waits for it.

    Args:
        source: an object with ``get_next_batch(batch_size)``, a callable of that shape, or an iterator. An empty
            result means "nothing now"; None or StopIteration ends the stream.
        capacity: items to buffer at most. Enough is the rate at which they are taken times the source's latency.
        replenish_threshold: a pull that leaves this many items or fewer starts a refill; below ``capacity``.
        key: maps an item to what it is known by; None is the item itself.
        in_flight: whether the source may bring back an item that was taken. ``"forget"``: at once. ``"ack"``: not
            before :meth:`done`. ``"ttl"``: not for ``ttl`` seconds.
        ttl: seconds, for ``"ttl"``, or after ``done`` with ``"ack"``.
        on_error: ``"log"``; ``"raise"``: the next pull raises it, once; or a callable that takes the error.
        retry: when a source that failed or had nothing is asked again, by itself.
        eager: whether to start the first refill now instead of at the first pull.
        name: for logs and the thread; None makes one from the source.
        executor: where refills run; None is a daemon thread of the source's own.
        min_interval: seconds from the start of one refill to the next at least.
        max_capacity: lets the capacity double up to this while pulls come away empty, and shrink back after.
        clock: an object with ``now() -> float`` in seconds.

    Raises:
        ValueError: not ``capacity > replenish_threshold >= 0``, or another value is out of range.
        TypeError: the source cannot be asked, or a number is none.

    Example:
        >>> numbers = iter(range(5))
        >>> source = PrefetchSource(numbers, capacity=3, replenish_threshold=1)
        >>> source.get_next_batch(2)        # nothing yet: this starts the first refill
        []
        >>> source.wait(timeout=10)
        True
        >>> source.get_next_batch(2)
        [0, 1]
        >>> source.close()
        True
    """

    def __init__(
        self,
        source: PullSource[T] | Ask[T] | Iterator[T],
        capacity: int,
        replenish_threshold: int,
        *,
        key: Callable[[T], Hashable] | None = None,
        in_flight: InFlight = "forget",
        ttl: float | None = None,
        on_error: OnError = "log",
        retry: Backoff | None = None,
        eager: bool = False,
        name: str | None = None,
        executor: Executor | None = None,
        min_interval: float = 0.0,
        max_capacity: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._ask: Ask[T] = ask_of(source)
        check_sizes(capacity, replenish_threshold, max_capacity)
        if not (on_error in ("log", "raise") or callable(on_error)):
            raise ValueError(f"on_error must be 'log', 'raise' or a callable that takes the error, got {on_error!r}")
        if not min_interval >= 0:
            raise ValueError(f"min_interval must be a number of seconds >= 0, got {min_interval!r}")
        self.name = name if name is not None else getattr(source, "__name__", type(source).__name__)
        self._on_error = on_error
        self._retry = _DEFAULT_RETRY if retry is None else retry
        self._min_interval = min_interval
        self._executor = executor
        self._clock: Clock = MonotonicClock() if clock is None else clock
        self._taking_forgets = in_flight == "forget"
        self._new_buffer: Callable[[], SetQueue[T]] = lambda: SetQueue(
            None, key, in_flight=in_flight, ttl=ttl, clock=None if ttl is None else self._clock
        )
        self._new_holder: Callable[[], SetQueue[T]] = lambda: SetQueue(None, key)
        self._size = AutoSize(capacity, max_capacity or capacity, threshold=replenish_threshold)
        self._listeners: tuple[Callable[[], object], ...] = ()
        self._ended = self._closed = False
        self._refills = self._fetched = self._errors = self._empty_refills = self._starved = self._dropped = 0
        self._start_afresh()
        _sources.add(self)
        if eager:
            self._replenish()

    def _start_afresh(self) -> None:
        """Make what a forked child must not share with its parent: buffer, lock, thread, and what they say."""
        self._buffer = self._new_buffer()
        self._held = self._new_holder()
        self._state = threading.Condition()
        self._refilling = False
        self._refill_thread: int | None = None
        self._failed_in_a_row = 0
        self._only_duplicates = False
        self._not_before = self._earliest = -float("inf")
        self._error: BaseException | None = None
        self._refiller = Refiller(
            self._refill, self._replenish, name=f"drainq-{self.name}", executor=self._executor, clock=self._clock
        )

    # -- the consumer's side ----------------------------------------------------------------

    def get_next_batch(self, batch_size: int) -> list[T]:
        """Take up to ``batch_size`` items, oldest first, and start a refill if few are left; never waits.

        Args:
            batch_size: items; at least 0.

        Returns:
            What is buffered, perhaps an empty list.

        Raises:
            ValueError: ``batch_size`` is negative.
            BaseException: with ``on_error="raise"``, what the source raised since the last pull; nothing is taken.
        """
        if self._error is not None:
            with self._state:
                error, self._error = self._error, None
            if error is not None:
                raise error
        if batch_size < 0:
            raise ValueError(f"batch_size must be >= 0, got {batch_size!r}")
        items = self._buffer.get_many(batch_size)
        if self._refilling:
            if batch_size and not items:
                with self._state:
                    self._starved += 1
                    self._size.starved()
        elif len(self._buffer) <= self._size.threshold:
            self._replenish(forgotten=bool(items) and self._taking_forgets)
        return items

    def done(self, items: Iterable[T]) -> int:
        """Say that items taken have been dealt with, so that the source may bring them again (``in_flight="ack"``).

        What a refill that is running now brings of them was perhaps read before, and is refused.

        Returns:
            How many of them were in flight.
        """
        were = self._buffer.done(items)
        if were and self._only_duplicates:
            self._replenish(forgotten=True)
        return were

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a pull would return or raise something, or never will again.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            False if the time ran out.
        """
        self._replenish()
        with self._state:
            return self._state.wait_for(
                lambda: len(self._buffer) > 0 or self._error is not None or self._closed or self.finished, timeout
            )

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Have ``listener`` called after each refill, on the refill's thread; it must be short and must not raise."""
        with self._state:
            self._listeners += (listener,)

    def unsubscribe(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` no more."""
        with self._state:
            self._listeners = tuple(other for other in self._listeners if other != listener)

    @property
    def finished(self) -> bool:
        """Whether the stream has ended and everything of it has been taken."""
        return self._ended and not self._refilling and not len(self._buffer) and not len(self._held)

    @property
    def capacity(self) -> int:
        """Items that the buffer may hold, now."""
        return self._size.capacity

    def __len__(self) -> int:
        return len(self._buffer)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<PrefetchSource {self.name!r}: {len(self)} of {self.capacity} items>"

    def stats(self) -> PrefetchStats:
        """Return a snapshot of the counters."""
        with self._state:
            buffer = self._buffer.stats()
            return PrefetchStats(
                size=buffer.size,
                capacity=self._size.capacity,
                refills=self._refills,
                refilling=self._refilling,
                fetched=self._fetched,
                duplicates=buffer.duplicates + self._dropped,
                errors=self._errors,
                empty_refills=self._empty_refills,
                in_flight=buffer.in_flight,
                held=len(self._held),
                starved_pulls=self._starved,
            )

    def close(self, timeout: float | None = None) -> bool:
        """Start no more refills and wait for the one that is running; what is buffered can still be taken.

        Args:
            timeout: seconds to wait; None waits for ever. A refill that takes longer ends by itself.

        Returns:
            True if no refill is running any more; False too from within the source itself.
        """
        with self._state:
            self._closed = True
            self._refiller.close()
            self._state.notify_all()
            if self._refill_thread == threading.get_ident():
                return False
            return self._state.wait_for(lambda: not self._refilling, timeout)

    def __enter__(self) -> PrefetchSource[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- the refill's side ------------------------------------------------------------------

    def _replenish(self, *, forgotten: bool = False) -> None:
        """Start a refill if few items are left, none is running, and it is time.

        Args:
            forgotten: whether items may be fetched now that would have been duplicates before.
        """
        with self._state:
            if self._refilling or self._closed or len(self._buffer) > self._size.threshold:
                return
            if self._ended and not len(self._held):
                return
            if forgotten and self._only_duplicates:
                self._not_before = self._earliest
            if self._clock.now() < self._not_before:
                self._refiller.look_at(self._not_before)
                return
            self._refilling = True
        try:
            self._refiller.refill_now()
        except RuntimeError as error:  # the executor has been shut down
            self._end_refill(error, asked=False, found=0, added=0)

    def _refill(self) -> None:
        """Let in what is held, then ask the source for what still fits, now that the refill runs."""
        self._refill_thread = threading.get_ident()
        put_before = self._buffer.stats().put
        poll = self._buffer.begin_poll()
        found: list[T] = []
        error: BaseException | None = None
        asked = False
        try:
            self._earliest = self._clock.now() + self._min_interval
            self._let_in(self._held.get_many(len(self._held)))
            room = self._size.capacity - len(self._buffer)
            if room > 0 and not self._ended and not self._closed:
                asked = True
                _log.debug("source %r: refill started: size %d, asking for %d", self.name, len(self._buffer), room)
                error = self._fetch(room, found)
            self._let_in(found)
        finally:
            self._buffer.end_poll(poll)
            self._refill_thread = None
            added = self._buffer.stats().put - put_before
            self._end_refill(error, asked=asked, found=len(found), added=added)

    def _fetch(self, room: int, found: list[T]) -> BaseException | None:
        """Ask the source and append what it gives to ``found``; return what it raised."""
        try:
            batch = self._ask(room)
            if batch is None:
                self._ended = True
                return None
            found.extend(batch)  # of a generator that raises in the middle, what came before is kept
        except StopIteration:
            self._ended = True
        except BaseException as error:  # a background thread has nobody to raise it to
            return error
        return None

    def _let_in(self, items: list[T]) -> None:
        """Put what fits into the buffer; hold the rest, without what is known by now."""
        rest = iter(items)
        while (room := self._size.capacity - len(self._buffer)) > 0:
            chunk = list(islice(rest, min(room, _PUT_AT_ONCE)))
            if not chunk:
                return
            self._put(self._buffer, iter(chunk))
        duplicates_before = self._held.stats().duplicates
        self._put(self._held, filter(self._is_new, rest))
        self._dropped += self._held.stats().duplicates - duplicates_before

    def _is_new(self, item: T) -> bool:
        known = self._buffer.knows(item)
        self._dropped += known
        return not known

    def _put(self, queue: SetQueue[T], items: Iterator[T]) -> None:
        """Put items; one without a usable key is reported, and those after it still go in."""
        while True:
            try:
                queue.put_many(items)
                return
            except Exception as error:
                self._report(error)

    def _end_refill(self, error: BaseException | None, *, asked: bool, found: int, added: int) -> None:
        if error is not None:
            self._report(error)
        with self._state:
            now = self._clock.now()
            self._refills += asked
            self._fetched += found
            self._empty_refills += asked and not found and error is None and not self._ended
            self._only_duplicates = error is None and found > 0 and not added
            if added and error is None:
                self._failed_in_a_row = 0
                self._not_before = self._earliest
            elif error is not None or not self._ended:
                self._not_before = max(self._earliest, now + self._retry.delay(self._failed_in_a_row))
                self._failed_in_a_row += 1
                self._refiller.look_at(self._not_before)
            self._size.refilled()
            self._refilling = False
            self._state.notify_all()
            listeners = self._listeners
        _log.debug("source %r: refill ended: %d found, %d new, size %d", self.name, found, added, len(self._buffer))
        for listener in listeners:
            listener()

    def _report(self, error: BaseException) -> None:
        self._errors += 1
        if self._on_error == "raise":
            with self._state:
                self._error = error
        elif self._on_error == "log":
            _log.error("source %r: refill failed: %r", self.name, error, exc_info=error)
        elif callable(self._on_error):
            try:
                self._on_error(error)
            except Exception:
                _log.exception("source %r: on_error itself failed on %r", self.name, error)


_sources: weakref.WeakSet[PrefetchSource[Any]] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """A child starts with empty buffers and threads of its own: what its parent fetched is its parent's to handle."""
    for source in list(_sources):
        source._start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
