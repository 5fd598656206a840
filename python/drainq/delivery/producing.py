"""Producing: the producer's side of every worker, as calls and as coroutines.

1. A closed worker accepts nothing, even if the shared queue is open.
2. While a permanent failure stops the worker, producers get the error. Every few seconds one item is let through.
3. No coroutine blocks its event loop: for room it waits as the batch queue's own coroutines do, and other waits run on
   a separate thread. A cancelled coroutine has either queued its item and returned its result, or done neither.
"""

from __future__ import annotations

import abc
import asyncio
import collections
import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic

from drainq._native import BatchQueue
from drainq.arguments import Seconds
from drainq.delivery.accounting import Books, Outcome
from drainq.delivery.item_bytes import ItemBytes
from drainq.delivery.sink_contract import DeliveryStopped, raise_wrapped
from drainq.delivery.type_owners import ItemTypes
from drainq.statistics import BatchQueueStats
from drainq.threads import run_aside

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Any)
else:
    from typing import TypeVar

    Item = TypeVar("Item")

CHECK_AGAIN = 5.0  # seconds after a stop until producers may try again
AT_ONCE = 128  # items that a coroutine queues before other tasks run: less than a millisecond


class Producer(abc.ABC, Generic[Item]):
    """The producer's side of a worker. A subclass opens ``_queue`` and takes its batches."""

    _queue: BatchQueue[Any]
    _types: ItemTypes | None  # those of a shared queue
    _bytes: ItemBytes | None  # the bound of the queue's bytes
    _books: Books
    _closed: bool
    _name: str
    _log_values: bool

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._routing = threading.Lock()
        self._stopped_at = -math.inf
        self._arrived = 0  # items that the queue passed to this worker
        self._ended = False  # whether the books were closed
        self._put: Callable[[Any], bool] | None = None  # the queue's ``produce``, while an item needs no check
        self._offered: collections.Counter[type] = collections.Counter()  # with a bound in bytes: queued items by class

    @abc.abstractmethod
    def _handler(self) -> Any:
        """Return the handler for the queue."""

    def _stopped_by(self) -> Exception | None:
        """Return the error that producers get, or None."""
        return None

    def _may_wait(self) -> bool:
        """Return whether :meth:`_stopped_by` may ask the other side."""
        return False

    def _when_stopped(self) -> None:
        """Make producers check :meth:`_stopped_by`, which returns an error from now on."""
        self._put = None

    # -- calls ------------------------------------------------------------------------------------

    def produce(self, item: Item) -> bool:
        """Queue one item, waiting for room unless ``strategy`` forbids it. Return False if it was not queued.

        Raises:
            DeliveryStopped: the other side fails for a reason that waiting does not change.

        Example:
            >>> from drainq.workers import TopN
            >>> with TopN(2, score=len, sink=lambda top: print(top), flush_interval=None) as longest:
            ...     accepted = [longest.produce(word) for word in ("a", "ccc", "bb")]
            ['ccc', 'bb']
            >>> accepted
            [True, True, True]
        """
        put = self._put
        if put is not None:
            return put(item)
        if not self._admit(type(item)):
            return False
        with self._offering(item) as was_queued:
            return was_queued(self._queue.produce(item))

    def offer(self, item: Item, timeout: Seconds | None = None) -> bool:
        """Queue one item, waiting for room until a deadline. With a ``timeout`` the ``strategy`` does not matter.

        Args:
            item: what to queue.
            timeout: seconds to wait for room. 0: do not wait. None: do as ``produce`` does.
        Raises:
            DeliveryStopped: as ``produce``.
        """
        if not self._admit(type(item)):
            return False
        with self._offering(item) as was_queued:
            return was_queued(self._queue.offer(item, timeout))

    def produce_many(self, items: Iterable[Item]) -> int:
        """Queue items in order, as ``produce`` does. Return how many were queued.

        Raises:
            DeliveryStopped: as ``produce``.
        """
        if self._bytes is not None:
            return sum(map(self.produce, items))
        batch = list(items)
        if self._types is None:
            return self._queue.produce_many(batch) if batch and self._admit(type(batch[0])) else 0
        groups = ((kind, list(group)) for kind, group in itertools.groupby(batch, key=type))
        return sum(self._queue.produce_many(group) for kind, group in groups if self._admit(kind))

    def route(self, *types: type) -> None:
        """Take all items of these classes from the shared queue, also those that others produced.

        Items of a class without a worker are dropped, and the queue counts them as ``unrouted``.

        Args:
            types: the exact classes, without subclasses.
        Raises:
            ValueError: a class belongs to another worker, or this worker shares no queue.
        """
        if self._types is None:
            raise ValueError(f"this {type(self).__name__} has a queue of its own; give it queue= to share one")
        with self._routing:
            for kind in types:
                self._types.add(kind, self, self._handler())

    # -- coroutines -------------------------------------------------------------------------------

    def produce_async(self, item: Item) -> Coroutine[Any, Any, bool]:
        """Do what ``produce`` does, without blocking the event loop."""
        return self._queue.produce_async(item) if self._put is not None else self._queue_async(item, None)

    def offer_async(self, item: Item, timeout: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Do what ``offer`` does, without blocking the event loop."""
        return self._queue_async(item, timeout)

    async def produce_many_async(self, items: Iterable[Item]) -> int:
        """Do what ``produce_many`` does, without blocking the event loop. A cancelled call may have queued some."""
        count = 0
        for number, item in enumerate(items, start=1):
            count += await self.produce_async(item)
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return count

    async def _queue_async(self, item: Item, timeout: Seconds | None) -> bool:
        kind = type(item)
        if not (await run_aside(self._admit, kind) if self._may_wait() else self._admit(kind)):
            return False
        with self._offering(item) as was_queued:
            return was_queued(await self._queue.offer_async(item, timeout))

    # -- inside -----------------------------------------------------------------------------------

    def _admit(self, kind: type) -> bool:
        """Return whether items of the type are accepted now. Route the type, if the queue is shared."""
        if self._closed:
            return False
        error = self._stopped_by()
        if error is not None:
            self._refuse_while_stopped(error)
        else:
            self._stopped_at = -math.inf
            if self._types is None and self._bytes is None:
                self._put = self._queue.produce
        if self._types is not None and kind not in self._types:
            self.route(kind)
        return True

    def _refuse_while_stopped(self, error: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            if self._stopped_at == -math.inf:
                self._stopped_at = now
            if now - self._stopped_at >= CHECK_AGAIN:
                self._stopped_at = now  # one producer may try whether the reason is gone
                return
        raise_wrapped(DeliveryStopped, f"{self._name} is stopped", error, self._log_values)

    def _offering(self, item: object) -> contextlib.AbstractContextManager[Callable[[bool], bool]]:
        """Count an item as offered, unless the block ends without queueing it."""
        bounded = self._bytes is not None and self._types is None
        return self._counted(type(item)) if bounded else contextlib.nullcontext(bool)

    @contextlib.contextmanager
    def _counted(self, kind: type) -> Iterator[Callable[[bool], bool]]:
        """Count an item before it is queued, because the worker may get the item before ``produce`` returns."""
        queued = []

        def note(was_queued: bool) -> bool:
            queued.append(was_queued)
            return was_queued

        self._count_offered(kind, 1)
        try:
            yield note
        finally:
            if queued != [True]:
                self._count_offered(kind, -1)

    def _count_offered(self, kind: type, count: int) -> None:
        with self._lock:
            self._offered[kind] += count
            if self._ended:  # the books were closed while the producer waited
                self._books.move(count, Outcome.PENDING, Outcome.LOST)
                self._books.arrive(count)

    def _on_the_way(self, queue: BatchQueueStats) -> int:
        """Return the number of accepted items that the queue has not handed to this worker. Called with the lock."""
        if self._ended:
            return 0
        accepted = queue.accepted if self._bytes is None else self._offered.total()
        if self._types is not None:
            accepted = self._types.accepted(queue)
        return max(0, accepted - self._arrived)

    def _per_type(self, queue: BatchQueueStats) -> dict[Any, int]:
        if self._bytes is not None and self._types is None:
            return dict(self._offered)
        types = self._types
        return {kind: of.accepted for kind, of in queue.per_type.items() if types is None or kind in types}
