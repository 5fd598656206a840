"""Queues that drain themselves: drainq's batch queue, and what one would build or take instead.

Each is opened with the handlers' types, one handler for all of them, the number of items that it may hold and whether a
producer waits when there is no room. ``put(item)`` is the call that producers make; ``close()`` returns once everything
that was accepted has been handled. The rivals have one consumer thread, which takes what is there (up to ``MAX_BATCH``
items), sorts it by type and calls the handler once a type.
"""

from __future__ import annotations

import collections
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, PartitionPolicy, ThreadPolicy

MAX_BATCH = 4096
Handler = Callable[[list[Any]], object]


class Rival(Protocol):
    """A queue that drains itself."""

    put: Callable[[Any], object]

    def close(self) -> None:
        """Return once everything accepted has been handled."""
        ...


Make = Callable[[Sequence[type], Handler, int, bool], Rival]


class _End:
    """What a consumer stops at."""


def grouped(batch: Iterable[Any], handler: Handler) -> None:
    """Sort by type and call the handler once a type."""
    by_type: dict[type, list[Any]] = {}
    for item in batch:
        kind = type(item)
        if kind in by_type:
            by_type[kind].append(item)
        else:
            by_type[kind] = [item]
    by_type.pop(_End, None)
    for items in by_type.values():
        handler(items)


class Drainq:
    """The batch queue: a partition a type, one drain thread."""

    def __init__(
        self, types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True, **options: Any
    ) -> None:
        config = BatchQueueConfig(
            threads=ThreadPolicy.fixed(1),
            partitions=PartitionPolicy.fixed(len(types)),
            buffer_size=max(1, capacity // len(types)),
            strategy=BufferStrategy.BLOCKING if blocking else BufferStrategy.IF_POSSIBLE,
            **options,
        )
        self.queue = BatchQueue("bench", config)
        for kind in types:
            self.queue.add_handler(kind, handler)
        self.put = self.queue.produce

    def close(self) -> None:
        self.queue.shutdown()


class Getter:
    """Any queue with ``get`` and ``get_nowait``, and a thread that empties it."""

    def __init__(
        self,
        put: Callable[[Any], object],
        get: Callable[[], Any],
        get_nowait: Callable[[], Any],
        handler: Handler,
        *,
        end: Callable[[Any], object],
        empty: type[Exception] = queue.Empty,
    ) -> None:
        self.put, self._end = put, end

        def consume() -> None:
            batch: list[Any] = []
            while not batch or type(batch[-1]) is not _End:
                batch = [get()]
                try:
                    while len(batch) < MAX_BATCH and type(batch[-1]) is not _End:
                        batch.append(get_nowait())
                except empty:
                    pass
                grouped(batch, handler)

        self._thread = threading.Thread(target=consume)
        self._thread.start()

    def close(self) -> None:
        self._end(_End())
        self._thread.join()


def _dropping(put_nowait: Callable[[Any], object], full: type[Exception]) -> Callable[[Any], bool]:
    def put(item: Any) -> bool:
        try:
            put_nowait(item)
        except full:
            return False
        return True

    return put


def _bounded(one: Any, full: type[Exception], empty: type[Exception], handler: Handler, blocking: bool) -> Rival:
    """A queue with the methods of ``queue.Queue``."""
    put = one.put if blocking else _dropping(one.put_nowait, full)
    return Getter(put, one.get, one.get_nowait, handler, end=one.put, empty=empty)


def simple_queue(types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``queue.SimpleQueue``, which has no bound."""
    one: queue.SimpleQueue[Any] = queue.SimpleQueue()
    return Getter(one.put, one.get, one.get_nowait, handler, end=one.put)


def standard_queue(types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``queue.Queue``."""
    return _bounded(queue.Queue(capacity), queue.Full, queue.Empty, handler, blocking)


def culsans_queue(types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """The synchronous side of ``culsans.Queue``."""
    import culsans

    return _bounded(culsans.Queue(capacity).sync_q, culsans.QueueFull, culsans.QueueEmpty, handler, blocking)


def janus_queue(types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """The synchronous side of ``janus.Queue``."""
    import janus

    return _bounded(janus.Queue(capacity).sync_q, janus.SyncQueueFull, janus.SyncQueueEmpty, handler, blocking)


def aiologic_queue(types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``aiologic.SimpleQueue`` from threads; it has no bound.

    Its bounded queue's calls that do not wait give up while another thread is inside, full or not.
    """
    import aiologic

    one: aiologic.SimpleQueue[Any] = aiologic.SimpleQueue()
    get_nowait = functools.partial(one.green_get, blocking=False)
    return Getter(one.green_put, one.green_get, get_nowait, handler, end=one.green_put, empty=aiologic.QueueEmpty)


class DequeAndCondition:
    """A bounded deque under a Condition, emptied as a whole: the batching queue that one writes by hand."""

    def __init__(self, types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> None:
        items: collections.deque[Any] = collections.deque()
        changed = threading.Condition()
        self._changed, self._ended = changed, False

        def put(item: Any) -> bool:
            with changed:
                while len(items) >= capacity:
                    if not blocking:
                        return False
                    changed.wait()
                items.append(item)
                if len(items) == 1:
                    changed.notify_all()
            return True

        def consume() -> None:
            while True:
                with changed:
                    while not items and not self._ended:
                        changed.wait()
                    batch = list(items)
                    items.clear()
                    changed.notify_all()
                if not batch:
                    return
                grouped(batch, handler)

        self.put = put
        self._thread = threading.Thread(target=consume)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()


class OpenTelemetry:
    """The batch processor of OpenTelemetry's SDK, without its metrics. Full, it drops the oldest item."""

    def __init__(self, types: Sequence[type], handler: Handler, capacity: int, blocking: bool = True) -> None:
        from opentelemetry.sdk._shared_internal import BatchProcessor
        from opentelemetry.sdk._shared_internal._processor_metrics import NoOpProcessorMetrics

        class Exporter:
            def export(self, batch: list[Any]) -> None:
                grouped(batch, handler)

            def shutdown(self) -> None: ...

        self._processor: Any = BatchProcessor(
            exporter=Exporter(),
            schedule_delay_millis=1000,
            max_export_batch_size=min(MAX_BATCH, capacity),
            export_timeout_millis=30_000,
            max_queue_size=capacity,
            exporting="Span",
            metrics=NoOpProcessorMetrics(),
        )
        self.put = self._processor.emit

    def close(self) -> None:
        self._processor.force_flush()
        self._processor.shutdown()


OURS = "drainq"
# Those without a bound drop nothing: they grow.
UNBOUNDED = ("SimpleQueue + grouping", "aiologic")
RIVALS: dict[str, Make] = {
    OURS: Drainq,
    "SimpleQueue + grouping": simple_queue,
    "deque + Condition": DequeAndCondition,
    "OpenTelemetry": OpenTelemetry,
    "queue.Queue": standard_queue,
    "culsans": culsans_queue,
    "janus": janus_queue,
    "aiologic": aiologic_queue,
}
