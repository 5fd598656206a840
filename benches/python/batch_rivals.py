"""Queues that drain themselves: drainq's batch queue, and the rivals that a program would build or take instead.

Each is opened with a load, a handler, the number of items that it may hold and whether a producer waits when there is no
room. ``put(item)`` is the call that producers make; ``close()`` returns once everything that was accepted has been
handled. The rivals have one consumer thread, which takes what is there (up to ``MAX_BATCH`` items), sorts it by type and
calls the handler once a type. Those without a thread do the work in the producer, under a lock.
"""

from __future__ import annotations

import collections
import functools
import itertools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from benches.python.batch_loads import Handler, Load

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, PartitionPolicy, ThreadPolicy

MAX_BATCH = 4096


class Rival(Protocol):
    """A queue that drains itself."""

    put: Callable[[Any], object]

    def close(self) -> None:
        """Return once everything accepted has been handled."""
        ...


Make = Callable[[Load, Handler, int, bool], Rival]
_END: Any = object()


class Drainq:
    """The batch queue with one drain thread; ``partitions`` share the room."""

    def __init__(
        self, load: Load, handler: Handler, capacity: int, blocking: bool = True, *, partitions: int = 1, **options: Any
    ) -> None:
        config = BatchQueueConfig(
            threads=ThreadPolicy.fixed(1),
            partitions=PartitionPolicy.fixed(partitions),
            buffer_size=capacity,
            capacity=capacity if partitions > 1 else None,
            strategy=BufferStrategy.BLOCKING if blocking else BufferStrategy.IF_POSSIBLE,
            dispatch_key=load.key_of,
            **options,
        )
        self.queue = BatchQueue("bench", config)
        for key in load.keys:
            self.queue.add_handler(key, handler)
        self.put = self.queue.produce

    def close(self) -> None:
        self.queue.shutdown()


def drainq_by_type(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """Make the batch queue with a partition for each type."""
    return Drainq(load, handler, capacity, blocking, partitions=len(load.keys))


class Getter:
    """Any queue with ``get`` and ``get_nowait``, and a thread that empties it."""

    def __init__(
        self,
        put: Callable[[Any], object],
        get: Callable[[], Any],
        get_nowait: Callable[[], Any],
        load: Load,
        handler: Handler,
        *,
        end: Callable[[Any], object],
        empty: type[Exception] = queue.Empty,
    ) -> None:
        self.put, self._end = put, end

        def consume() -> None:
            while True:
                batch = [get()]
                try:
                    while len(batch) < MAX_BATCH:
                        batch.append(get_nowait())
                except empty:
                    pass
                ended = batch[-1] is _END  # it was put after everything else
                if ended:
                    batch.pop()
                if batch:
                    load.grouped(batch, handler)
                if ended:
                    return

        self._thread = threading.Thread(target=consume)
        self._thread.start()

    def close(self) -> None:
        self._end(_END)
        self._thread.join()


def _dropping(put_nowait: Callable[[Any], object], full: type[Exception]) -> Callable[[Any], bool]:
    def put(item: Any) -> bool:
        try:
            put_nowait(item)
        except full:
            return False
        return True

    return put


def _bounded(
    one: Any, full: type[Exception], empty: type[Exception], load: Load, handler: Handler, blocking: bool
) -> Rival:
    """Make a rival from a queue with the methods of ``queue.Queue``."""
    put = one.put if blocking else _dropping(one.put_nowait, full)
    return Getter(put, one.get, one.get_nowait, load, handler, end=one.put, empty=empty)


def simple_queue(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``queue.SimpleQueue``, which has no bound."""
    one: queue.SimpleQueue[Any] = queue.SimpleQueue()
    return Getter(one.put, one.get, one.get_nowait, load, handler, end=one.put)


def simple_queue_by_size(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``queue.SimpleQueue``, of which the thread takes as many items at once as ``qsize`` says."""
    one: queue.SimpleQueue[Any] = queue.SimpleQueue()
    get, again = one.get, itertools.repeat

    def consume() -> None:
        while True:
            batch = [get()]
            batch.extend([get() for _ in again(None, min(one.qsize(), MAX_BATCH))])
            ended = batch[-1] is _END
            if ended:
                batch.pop()
            if batch:
                load.grouped(batch, handler)
            if ended:
                return

    thread = threading.Thread(target=consume)
    thread.start()

    def close() -> None:
        one.put(_END)
        thread.join()

    return _Closing(one.put, close)


class _Closing:
    """A put call, and what ends it."""

    def __init__(self, put: Callable[[Any], object], close: Callable[[], object]) -> None:
        self.put, self.close = put, close


def polled_deque(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """Make a rival from an unbounded deque, which a thread polls each millisecond."""
    items: collections.deque[Any] = collections.deque()
    take, ended = items.popleft, threading.Event()

    def consume() -> None:
        while True:
            last = ended.is_set()
            if waiting := len(items):
                load.grouped([take() for _ in range(min(waiting, MAX_BATCH))], handler)
            elif last:
                return
            else:
                time.sleep(0.001)

    thread = threading.Thread(target=consume)
    thread.start()

    def close() -> None:
        ended.set()
        thread.join()

    return _Closing(items.append, close)


def in_the_producer(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """Make a rival without a queue or a thread: each producer calls the handler with lists of a thousand items."""
    local, lock = threading.local(), threading.Lock()
    every: list[list[Any]] = []

    def put(item: Any) -> None:
        try:
            mine = local.items
        except AttributeError:
            mine = local.items = []
            every.append(mine)
        mine.append(item)
        if len(mine) >= 1_000:
            with lock:
                load.grouped(mine[:], handler)
            mine.clear()

    def close() -> None:
        for rest in every:
            if rest:
                load.grouped(rest, handler)

    return _Closing(put, close)


def standard_queue(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``queue.Queue``."""
    return _bounded(queue.Queue(capacity), queue.Full, queue.Empty, load, handler, blocking)


def culsans_queue(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """Make a rival from the synchronous side of ``culsans.Queue``."""
    import culsans

    return _bounded(culsans.Queue(capacity).sync_q, culsans.QueueFull, culsans.QueueEmpty, load, handler, blocking)


def janus_queue(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """Make a rival from the synchronous side of ``janus.Queue``."""
    import janus

    return _bounded(janus.Queue(capacity).sync_q, janus.SyncQueueFull, janus.SyncQueueEmpty, load, handler, blocking)


def aiologic_queue(load: Load, handler: Handler, capacity: int, blocking: bool = True) -> Rival:
    """``aiologic.SimpleQueue`` from threads. It has no bound.

    Its bounded queue's calls that do not wait give up while another thread is inside, full or not.
    """
    import aiologic

    one: aiologic.SimpleQueue[Any] = aiologic.SimpleQueue()
    get_nowait = functools.partial(one.green_get, blocking=False)
    return Getter(one.green_put, one.green_get, get_nowait, load, handler, end=one.green_put, empty=aiologic.QueueEmpty)


class DequeAndConditions:
    """A bounded deque with two Conditions, emptied as a whole: the batching queue that one writes by hand."""

    def __init__(self, load: Load, handler: Handler, capacity: int, blocking: bool = True) -> None:
        items: collections.deque[Any] = collections.deque()
        lock = threading.Lock()
        some, room = threading.Condition(lock), threading.Condition(lock)
        self._some, self._ended = some, False

        def put(item: Any) -> bool:
            with lock:
                while len(items) >= capacity:
                    if not blocking:
                        return False
                    room.wait()
                items.append(item)
                if len(items) == 1:
                    some.notify()
            return True

        def consume() -> None:
            while True:
                with lock:
                    while not items and not self._ended:
                        some.wait()
                    batch = list(items)
                    items.clear()
                    room.notify_all()
                if not batch:
                    return
                load.grouped(batch, handler)

        self.put = put
        self._thread = threading.Thread(target=consume)
        self._thread.start()

    def close(self) -> None:
        with self._some:
            self._ended = True
            self._some.notify()
        self._thread.join()


class OpenTelemetry:
    """The batch processor of OpenTelemetry's SDK, without its metrics. Full, it drops the oldest item."""

    def __init__(self, load: Load, handler: Handler, capacity: int, blocking: bool = True) -> None:
        from opentelemetry.sdk._shared_internal import BatchProcessor
        from opentelemetry.sdk._shared_internal._processor_metrics import NoOpProcessorMetrics

        class Exporter:
            def export(self, batch: list[Any]) -> None:
                load.grouped(batch, handler)

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
BY_TYPE = "drainq, a partition a type"
SIMPLE, BY_SIZE, POLLED = "SimpleQueue", "SimpleQueue by qsize", "deque, polled each ms"
DEQUE, OTEL, STANDARD = "deque + Conditions", "OpenTelemetry", "queue.Queue"
# What one would take for speed: the goals are against the cheapest of them.
LEAN = (SIMPLE, BY_SIZE, POLLED)
# Those without a bound drop nothing: they grow.
UNBOUNDED = (SIMPLE, BY_SIZE, POLLED, "aiologic")
RIVALS: dict[str, Make] = {
    OURS: Drainq,
    BY_TYPE: drainq_by_type,
    SIMPLE: simple_queue,
    BY_SIZE: simple_queue_by_size,
    POLLED: polled_deque,
    DEQUE: DequeAndConditions,
    OTEL: OpenTelemetry,
    STANDARD: standard_queue,
    "culsans": culsans_queue,
    "janus": janus_queue,
    "aiologic": aiologic_queue,
}
IN_PRODUCER = "(no queue: in the producer, under a lock)"
