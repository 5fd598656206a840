"""The scenes of the hostile table: a row for each call of a queue, and objects whose Python code calls the queue again.

Hashes, comparisons, reprs, finalisers, iterators and callbacks *strike*: they make one of the calls that the scene lists,
and give up the GIL.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue as std
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BufferStrategy,
    DrainqError,
    MultiQueue,
    PartitionPolicy,
    PartitionSelector,
    SetQueue,
    ShutDown,
    SubQueue,
    ThreadPolicy,
)
from drainq._native import QueueAwaitable

PATIENCE = 20.0
REFUSED = (std.Empty, std.Full, ShutDown, DrainqError, KeyError, TypeError, asyncio.TimeoutError)

Rows = dict[str, Callable[[Any], object]]
CALLS: list[Callable[[], object]] = []
errors: list[str] = []
struck: set[str] = set()
_inside, _active, _next = threading.local(), set[int](), itertools.count()


def strike(kind: str) -> None:
    """Make the scene's next call, unless this thread is within a strike."""
    if not CALLS or getattr(_inside, "on", False):
        return
    _inside.on = True
    _active.add(threading.get_ident())
    struck.add(kind)
    try:
        if calls := CALLS[:]:  # read after this thread was marked: see `end_strikes`
            with contextlib.suppress(*REFUSED):
                calls[next(_next) % len(calls)]()
        time.sleep(0)
    except BaseException:
        errors.append(traceback.format_exc())
    finally:
        _active.discard(threading.get_ident())
        _inside.on = False


def end_strikes() -> None:
    """Make strikes call nothing from now on, and wait until no other thread is in a strike."""
    CALLS.clear()
    until = time.monotonic() + PATIENCE
    while _active - {threading.get_ident()}:
        assert time.monotonic() < until, "a strike does not end"
        time.sleep(0.0002)


class Name:
    """A key or an item."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        strike("hash")
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        strike("eq")
        return isinstance(other, Name) and self.value == other.value

    def __repr__(self) -> str:
        strike("repr")
        return f"Name({self.value!r})"

    def __del__(self) -> None:
        strike("del")


class callback(Name):
    """Calls a function, with a strike before and after the call. Strikes also when it is freed."""

    def __call__(self, *args: Any) -> Any:
        strike("call")
        try:
            return self.value(*args)  # type: ignore[operator]
        finally:
            strike("call")


def many(count: int) -> Iterator[Name]:
    """Yield the items, with a strike before each."""
    for number in range(count):
        strike("next")
        yield Name(number)


class Batch:
    """A batch queue, the items that it accepted and those that its handlers had."""

    classes = (BatchQueue, BatchQueueManager)
    variants: tuple[dict[str, Any], ...] = (
        {},
        {"dispatch_key": callback(lambda item: Name(item.value // 3 % 500))},
        {"partition_selector": callback(lambda item, count: item.value % count)},
        {"partition_selector": PartitionSelector.by(callback(lambda item: Name(item.value % 5)))},
        {"len_of": callback(lambda item: 1), "buffer_size": 60},
        {"buffer_size": 3, "strategy": BufferStrategy.IF_POSSIBLE, "min_idle": 0.0},
        {"consumer": True},
        {"balancer": callback(lambda throughput, owners, threads: [(owner + 1) % threads for owner in owners])},
        {"threads": None, "shared_scheduler": ("hostile", ThreadPolicy.fixed(2))},
    )

    def __init__(self, make: Callable[..., BatchQueue] = BatchQueue, **settings: Any) -> None:
        self.accepted: list[int] = []
        self.handled: list[int] = []
        self.key: Any = Name(0) if "dispatch_key" in settings else Name
        settings = {"threads": ThreadPolicy.fixed(2), "partitions": PartitionPolicy.fixed(3), **settings}
        if settings.pop("consumer", False):
            settings["consumer"] = callback(self.handle)
        ends: Any = {"on_error": callback(lambda batch, error: None), "on_drop": callback(lambda reason, count: None)}
        self.queue: Any = make("scene", BatchQueueConfig(**ends, **settings))
        self.queue.add_handler(self.key, callback(self.handle))
        CALLS[:] = [
            lambda: self.offer(7),
            lambda: repr((self.queue, self.queue.stats(), self.queue.assignments(), BatchQueueManager.names())),
            lambda: self.offer(100 + next(_next)),  # a key that is new
            lambda: self.queue.add_handler(self.key, callback(self.handle)),
            lambda: self.queue.rebalance(),
            lambda: self.queue.flush(0),
        ]

    def handle(self, batch: list[Name]) -> None:
        self.handled.append(len(batch))
        if any(item.value == 13 for item in batch):
            raise ValueError("thirteen")

    def offer(self, value: int) -> None:
        self.accepted.append(self.queue.offer(Name(value), 0))

    def fill(self) -> None:
        for number in range(20):
            self.accepted.append(self.queue.produce(Name(number)))

    def tasks(self) -> None:
        async def main() -> None:
            queue = self.queue
            for number in range(5):
                calls = [queue.produce_async(Name(number)), queue.offer_async(Name(number), PATIENCE)]
                self.accepted.extend(await asyncio.gather(*calls))
            self.accepted.append(await queue.produce_many_async(many(20)))
            assert await queue.flush_async(PATIENCE)
            await queue.remove_handler_async(self.key, PATIENCE)
            queue.add_handler(self.key, callback(self.handle))
            async with queue as entered:
                assert entered is queue
            assert await queue.shutdown_async(PATIENCE)

        asyncio.run(main())

    def flush(self) -> None:
        self.fill()
        self.queue.rebalance()
        assert self.queue.flush(PATIENCE)

    def enter(self) -> None:
        with self.queue as queue:
            queue.handler(Name, weight=2)(callback(self.handle))
            self.fill()
            queue.remove_handler(self.key)
            queue.add_handler(self.key, callback(self.handle))
            self.accepted.append(queue.produce_many(many(20)))
        self.offer(1)
        assert self.queue.shutdown(PATIENCE)

    def managed(self) -> None:
        ends = (BatchQueueManager.shutdown, lambda *named: asyncio.run(BatchQueueManager.shutdown_async(*named)))
        for make, end in zip((BatchQueueManager.create, BatchQueueManager.get_or_create), ends):
            other = Batch(make)
            other.fill()
            assert BatchQueueManager.get("scene") is other.queue and BatchQueueManager.names() == ["scene"]
            assert end("scene", PATIENCE)
            other.end()
        BatchQueueManager.shutdown_all(PATIENCE)
        asyncio.run(BatchQueueManager.shutdown_all_async(PATIENCE))

    rows: ClassVar[Rows] = {
        "BatchQueue: produce offer stats assignments __repr__": lambda scene: (scene.fill(), repr(scene.queue.stats())),
        "BatchQueue: produce_async offer_async produce_many_async flush_async shutdown_async __aenter__ __aexit__": tasks,
        "BatchQueue: remove_handler_async": tasks,
        "BatchQueue: __enter__ __exit__ produce_many shutdown add_handler handler remove_handler": enter,
        "BatchQueue: flush rebalance": flush,
        "BatchQueueManager: create get_or_create get names shutdown shutdown_all shutdown_async shutdown_all_async": managed,
    }

    def end(self) -> None:
        end_strikes()
        assert self.queue.shutdown(PATIENCE)
        now = self.queue.stats()
        assert (now.accepted, now.queued, now.abandoned) == (sum(self.accepted), 0, 0), now
        assert now.accepted == now.handled + now.failed + now.unrouted, now
        assert now.handled + now.failed == sum(self.handled), now


def run_tasks(queue: Any, ends: list[Any], gets: list[Callable[[], Any]]) -> None:
    """Run puts and gets in tasks, each with a short timeout, and cancel one task."""
    gets = [*gets, lambda: queue.get_many_async(2), lambda: anext(queue.stream_async()), lambda: queue.join_async(0.01)]

    async def one(number: int) -> None:
        with contextlib.suppress(*REFUSED):
            await ends[number % len(ends)].put_async(Name(number), 0.01)
        with contextlib.suppress(*REFUSED):
            await ends[number % len(ends)].put_many_async([Name(number), Name(-number)], 0.01)
        with contextlib.suppress(*REFUSED):
            await asyncio.wait_for(gets[number % len(gets)](), 0.01)
        strike("call")

    async def main() -> None:
        tasks = [asyncio.ensure_future(one(number)) for number in range(8)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


async def enter(queue: Any) -> None:
    async with queue:
        pass


class Multi:
    """Two sub-queues, what went in, and what came out."""

    classes = (MultiQueue, SubQueue, QueueAwaitable)
    variants: tuple[dict[str, Any], ...] = ({}, {"selection": "weighted"}, {"selection": "own"}, {"capacity": 3})

    def __init__(self, selection: Any = "priority", capacity: int | None = None) -> None:
        self.put: list[object] = []
        self.got: list[object] = []
        if selection == "own":
            selection = type("Last", (), {"select": staticmethod(callback(lambda groups: groups[-1][-1]))})()
        self.queue: MultiQueue[Name] = MultiQueue(selection)
        self.subs = [self.queue.add_sub_queue(Name(rank), rank, capacity, weight=2) for rank in (1, 2)]
        first, second = self.subs
        CALLS[:] = [
            lambda: self.offer(first, 7),
            lambda: self.take(),
            lambda: self.offer(second, 8),
            lambda: repr((self.queue, first, self.queue.stats(), list(self.queue), list(second))),
            lambda: (first.disable("strike"), first.enable("strike")),  # type: ignore[func-returns-value]
            lambda: first.remove_if(lambda item: False),
            lambda: self.got.extend(self.queue.get_many(100, min_items=0)),
        ]

    def offer(self, sub: SubQueue[Name], value: int) -> None:
        sub.put_nowait(Name(value))
        self.put.append(value)

    def take(self) -> None:
        self.got.append(self.queue.get_nowait())

    def fill(self) -> None:
        for sub in self.subs:
            self.put.extend(range(sub.put_many(many(3), timeout=0)))
            for number in range(3):
                with contextlib.suppress(std.Full):
                    sub.put(Name(number), timeout=0.001)
                    self.put.append(number)

    def get(self) -> None:
        self.fill()
        repr((self.queue.qsize(), self.queue.empty()))
        self.got.extend(self.queue.get_many(2, timeout=0.001))
        with contextlib.suppress(std.Empty):
            self.queue.peek()
            for call in (self.queue.get, self.queue.get_item):
                self.got.append(call(timeout=0.001))
            self.take()

    def keys(self) -> None:
        for number in range(5):
            sub = self.queue.add_sub_queue(Name("key"), number)
            assert self.queue[Name("key")] is self.queue.get_sub_queue(Name("key")) is sub
            assert Name("key") in self.queue and Name("key") in self.queue.keys() and len(self.queue) == 3
            assert self.queue.remove_sub_queue(Name("key")) is sub

    def items(self) -> None:
        self.fill()
        for sub in self.subs:
            repr((Name(1) in sub, sub.remove(Name(1)), sub.stats(), sub.qsize(), sub.empty(), sub.full(), sub))
            sub.remove_if(callback(lambda item: item == Name(2)))
            sub.disable("row")
            sub.enable("row")
            sub.priority, sub.weight, sub.capacity = 5, 7, sub.remaining_capacity() or 1
        self.subs[0].clear()

    def tasks(self) -> None:
        queue = self.queue
        run_tasks(queue, self.subs, [queue.get_async, queue.get_item_async])
        for end in ("close", "throw"):
            with contextlib.suppress(ValueError):
                getattr(self.queue.get_async(), end)(*[ValueError][: end == "throw"])
        end_strikes()  # a cancelled call may have succeeded in the same moment, so the queue's own counters are taken
        now = self.queue.stats()
        self.put[:], self.got[:] = [0] * now.put, [0] * now.got

    def close(self) -> None:
        self.fill()
        self.queue.shutdown()
        with contextlib.suppress(std.Full, ShutDown):
            self.offer(self.subs[0], 1)
        with self.queue as queue:
            self.got.extend(queue.stream())
        asyncio.run(enter(self.queue))
        queue.task_done()
        queue.join(timeout=0.001)
        MultiQueue[Name]().add_sub_queue(Name(1)).put(Name(2))  # ends with its items

    rows: ClassVar[Rows] = {
        "MultiQueue: get get_nowait get_item get_many peek stats qsize empty __repr__ __iter__": get,
        "MultiQueue: add_sub_queue remove_sub_queue get_sub_queue keys __getitem__ __contains__ __len__": keys,
        "SubQueue: put put_nowait put_many clear remove remove_if enable disable stats qsize empty full remaining_capacity"
        " __repr__ __contains__ __iter__": items,
        "MultiQueue: get_async get_item_async get_many_async stream_async join_async": tasks,
        "SubQueue: put_async put_many_async": tasks,
        "QueueAwaitable: __await__ __iter__ __next__ send throw close": tasks,
        "MultiQueue: shutdown stream task_done join __enter__ __exit__ __aenter__ __aexit__": close,
    }

    def end(self) -> None:
        end_strikes()
        now = self.queue.stats()
        assert (now.put, now.got) == (len(self.put), len(self.got)), (now, len(self.put), len(self.got))
        assert now.put == now.got + now.removed + now.depth, now
        assert now.depth == sum(sub.qsize() for sub in self.subs)
        assert (now.blocked_getters, now.blocked_putters) == (0, 0)
        assert len(self.queue.get_many(now.depth, min_items=0) if now.depth else []) == now.depth


class Set:
    """A set queue, what went in, and what came out."""

    classes = (SetQueue,)
    variants: tuple[dict[str, Any], ...] = (
        {},
        {"key": callback(lambda item: Name(item))},
        {"capacity": 3},
        {"in_flight": "ack"},
        {"in_flight": "ttl", "ttl": 1, "clock": SimpleNamespace(now=callback(map(float, itertools.count()).__next__))},
    )

    def __init__(self, **settings: Any) -> None:
        self.put: list[int] = []
        self.got: list[object] = []
        self.queue: SetQueue[Name] = SetQueue(**settings)
        CALLS[:] = [
            lambda: self.put.append(self.queue.put_nowait(Name(7))),
            lambda: self.got.append(self.queue.get_nowait()),
            lambda: repr(
                (self.queue, self.queue.stats(), len(self.queue), list(self.queue), self.queue.knows(Name(1)))
            ),
            lambda: self.queue.done([Name(1), Name(7)]),
            lambda: self.queue._end_poll(self.queue._begin_poll()),
            lambda: self.got.extend(self.queue.get_many(100, min_items=0)),
        ]

    def fill(self) -> None:
        for number in range(3):
            with contextlib.suppress(std.Full):
                self.put.append(self.queue.put(Name(number), timeout=0.001))
        self.put.append(self.queue.put_many(many(2), timeout=0.001))

    def get(self) -> None:
        self.fill()
        with contextlib.suppress(std.Empty):
            self.got.append(self.queue.get(timeout=0.001))
            self.got.append(self.queue.get_nowait())
        self.got.extend(self.queue.get_many(1, min_items=0))
        poll = self.queue._begin_poll()
        self.queue.done(many(4))
        assert self.queue._end_poll(poll)

    def show(self) -> None:
        self.fill()
        queue = self.queue
        repr((Name(1) in queue, queue.knows(Name(2)), list(queue), len(queue), queue, queue.stats(), queue.qsize()))
        repr((queue.empty(), queue.full(), queue.remaining_capacity()))
        self.got.extend(queue.clear())  # the queue does not count these as got: see `end`
        queue.shutdown()
        with queue:
            self.got.extend(queue.stream())
        asyncio.run(enter(queue))
        with contextlib.suppress(ValueError):  # nothing was got yet, or all of it is done
            queue.task_done()
        queue.join(timeout=0.001)
        SetQueue[Name]().put(Name(1))  # ends with its item

    def tasks(self) -> None:
        run_tasks(self.queue, [self.queue], [self.queue.get_async])
        end_strikes()  # as for a multi-queue
        now = self.queue.stats()
        self.put[:], self.got[:] = [True] * now.put, [Name(0)] * (now.put - now.size)

    rows: ClassVar[Rows] = {
        "SetQueue: put_async put_many_async get_async get_many_async stream_async join_async": tasks,
        "SetQueue: put put_nowait put_many get get_nowait get_many done": get,
        "SetQueue: __contains__ knows __iter__ __len__ __repr__ qsize empty full remaining_capacity stats clear shutdown"
        " stream task_done join __enter__ __exit__ __aenter__ __aexit__": show,
    }

    def end(self) -> None:
        end_strikes()
        now = self.queue.stats()
        assert now.put == sum(self.put) == len(self.got) + now.size, (now, sum(self.put), len(self.got))
        assert now.size == len(self.queue) == len(list(self.queue)) == len(self.queue.clear())
        assert (now.blocked_getters, now.blocked_putters) == (0, 0)


ROOMS: dict[str, Any] = {"batch": Batch, "multi": Multi, "set_queue": Set}
