"""The table of the batch queue: its queue, manager, configuration, policies and statistics.

Each entry offers items while everything strikes, and ends with the books: what was offered, accepted and
handled, item by item, is what the queue says.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BatchQueueStats,
    BufferStrategy,
    DrainBalancer,
    DrainqError,
    PartitionPolicy,
    PartitionSelector,
    PartitionUsage,
    ThreadPolicy,
)
from drainq._native import ThreadStats, TypeStats
from tests.hostile import mischief
from tests.hostile.__main__ import properties
from tests.hostile.mischief import PATIENCE, Callback, Consumer, Item, Name, Number, Other, Text, many, strike
from tests.hostile.table import Table

CLASSES = (
    BatchQueue,
    BatchQueueManager,
    BatchQueueConfig,
    BatchQueueStats,
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    PartitionUsage,
    ThreadPolicy,
    ThreadStats,
    TypeStats,
)

Books = list[tuple[int, int]]


class Scene:
    """A queue with hostile settings, and the books of what it was given and gave."""

    def __init__(self, make: Callable[..., BatchQueue] = BatchQueue, name: str = "scene", **settings: Any) -> None:
        self.books: Books = []
        self.handled: list[int] = []
        self.failed: list[int] = []
        self.weight = 3 if "len_of" in settings else 1
        self.by_key = "dispatch_key" in settings
        settings = {"threads": ThreadPolicy.fixed(2), "partitions": PartitionPolicy.fixed(3), **settings}
        if settings.pop("mode", "handlers") == "consumer":
            settings["consumer"] = Consumer(self.handle)
        callbacks = {"error_handler": Callback(self.fail), "on_drop": Callback(lambda reason, count: None)}
        self.config = BatchQueueConfig(**callbacks, **settings)
        self.queue = make(Text(name), self.config)
        for name_of_type in (self.type(Item), self.type(Other)):
            self.queue.add_handler(name_of_type, Consumer(self.handle))
        mischief.CALLS[:] = [
            lambda: self.offer(self.item(7)),
            lambda: self.queue.stats().per_type,
            lambda: self.offer(self.item(8)),
            lambda: (repr(self.queue), self.queue.assignments(), BatchQueueManager.names()),
            lambda: self.queue.running and self.try_to(self.queue.add_handler, self.type(Other), Consumer(self.handle)),
            lambda: self.offer(1.5),
            lambda: self.try_to(self.queue.rebalance),
            lambda: self.try_to(self.queue.flush, 0),
        ]

    def try_to(self, call: Callable[..., Any], *args: Any) -> None:
        """Calls what may be refused in a handler, or once the queue is shut down."""
        try:
            call(*args)
        except DrainqError:
            pass

    def type(self, kind: type[Item]) -> object:
        return Name(kind.__name__) if self.by_key else kind

    def item(self, number: int) -> Item:
        return (Item, Other)[number % 2](number)

    def handle(self, batch: list[Any]) -> None:
        if any(getattr(item, "value", 0) == 13 for item in batch):
            raise ValueError("thirteen")
        self.handled.append(len(batch) * self.weight)

    def fail(self, batch: list[Any], error: BaseException) -> None:
        strike("call")
        self.failed.append(len(batch) * self.weight)

    def note(self, offered: int, accepted: int) -> None:
        self.books.append((offered * self.weight, accepted * self.weight))

    def offer(self, item: object) -> None:
        """Offers one item without waiting, by the ways in turn."""
        if len(self.books) % 2 and self.config.strategy == BufferStrategy.IF_POSSIBLE:
            self.note(1, self.queue.produce(item))
        else:
            self.note(1, self.queue.offer(item, 0))

    def end(self) -> None:
        """Shuts down and compares the books."""
        mischief.end_strikes()
        assert self.queue.shutdown(PATIENCE)
        now = self.queue.stats()
        offered, accepted = (sum(column) for column in zip(*self.books, strict=True)) if self.books else (0, 0)
        assert (now.offered, now.accepted, now.queued) == (offered, accepted, 0), (now, offered, accepted)
        assert now.offered == now.accepted + sum(now.rejected.values())
        assert now.accepted == now.handled + now.failed + now.unrouted, now
        assert (now.handled, now.failed) == (sum(self.handled), sum(self.failed)), now
        per_type = now.per_type.values()
        for column in ("accepted", "handled", "failed", "unrouted"):
            assert sum(getattr(counts, column) for counts in per_type) == getattr(now, column), (now, column)


def key_of(item: object) -> object:
    return Name(type(item).__name__)


VARIANTS: dict[str, dict[str, Any]] = {
    "classes": {},
    "keys": {"dispatch_key": Callback(key_of)},
    "spread": {"partition_selector": Callback(lambda item, count: Number(id(item) // 64 % count))},
    "by": {"partition_selector": PartitionSelector.by(Callback(lambda item: Name(id(item) % 5)))},
    "weighed": {"len_of": Callback(lambda item: Number(3)), "buffer_size": 60},
    "small": {"buffer_size": 3, "strategy": BufferStrategy.IF_POSSIBLE, "min_idle": 0.0},
    "consumer": {"mode": "consumer"},
    "balanced": {"balancer": Callback(lambda throughput, owners, threads: [(one + 1) % threads for one in owners])},
    "pool": {"threads": None, "shared_scheduler": (Text("hostile"), ThreadPolicy.fixed(2))},
}

TABLE = Table(Scene, VARIANTS, unnamed=())
ENTRIES, entry = TABLE.entries, TABLE.entry


def read(value: object) -> None:
    """Reads every attribute, and shows each."""
    for name in properties(value):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            repr(getattr(value, name))
    repr(value)


@entry("BatchQueue.produce", *VARIANTS)
def produce(scene: Scene) -> None:
    for number in range(30):
        scene.note(1, scene.queue.produce(scene.item(number)))
        if number == 13:
            scene.queue.flush(PATIENCE)


@entry("BatchQueue.produce")
def produce_text_and_bytes() -> None:
    """Under ``-b`` their comparison warns, in the middle of a look-up; under ``-bb`` it raises."""
    scene = Scene(dispatch_key=Callback(lambda item: item.value if isinstance(item, Item) else item))
    for value in ("a", b"a", "b", b"b", "a", b"a"):
        try:
            scene.note(1, scene.queue.produce(Item(value)))
        except BytesWarning:
            assert sys.flags.bytes_warning == 2
    scene.end()


@entry("BatchQueue.offer", *VARIANTS)
def offer(scene: Scene) -> None:
    for number in range(20):
        scene.note(1, scene.queue.offer(scene.item(number), Number(PATIENCE)))


@entry("BatchQueue.produce_many", *VARIANTS)
def produce_many(scene: Scene) -> None:
    for kind in (list, many, tuple):
        for _ in range(4):
            items = [scene.item(number // 5) for number in range(20)]
            scene.note(20, scene.queue.produce_many(kind(items)))


@entry("BatchQueue.add_handler", *VARIANTS)
def add_handler(scene: Scene) -> None:
    for number in range(10):
        kind = scene.type((Item, Other)[number % 2])
        scene.queue.add_handler(kind, Consumer(scene.handle), Number(1 + number))
        scene.queue.add_handler(kind, Callback(scene.handle), weight=0.5)
        scene.offer(scene.item(number))
        for refused in (Name(1), 5):
            try:
                scene.queue.add_handler(kind, refused)  # type: ignore[arg-type]
            except TypeError:
                continue
            raise AssertionError("no handler")


@entry("BatchQueue.handler", *VARIANTS)
def decorate(scene: Scene) -> None:
    for number in range(6):
        handler = Consumer(scene.handle)
        assert scene.queue.handler(scene.type((Item, Other)[number % 2]), weight=Number(1 + number))(handler) is handler  # type: ignore[arg-type]
        scene.offer(scene.item(number))


@entry("BatchQueue.remove_handler", *VARIANTS)
def remove_handler(scene: Scene) -> None:
    for number in range(6):
        scene.offer(scene.item(number))
        scene.queue.remove_handler(scene.type(Item))
        scene.offer(scene.item(number))
        scene.queue.add_handler(scene.type(Item), Consumer(scene.handle))


@entry("BatchQueue.flush", *VARIANTS)
def flush(scene: Scene) -> None:
    for number in range(10):
        scene.offer(scene.item(number))
        assert scene.queue.flush(Number(PATIENCE))


@entry("BatchQueue.stats", *VARIANTS)
def stats(scene: Scene) -> None:
    for number in range(5):
        scene.offer(scene.item(number))
        read(scene.queue.stats())
        read(scene.queue)


@entry("BatchQueue.shutdown", *VARIANTS)
def shutdown(scene: Scene) -> None:
    for number in range(10):
        scene.offer(scene.item(number))
    assert scene.queue.shutdown(Number(PATIENCE))
    scene.offer(scene.item(1))
    scene.try_to(scene.queue.add_handler, scene.type(Item), Callback(scene.handle))


@entry("BatchQueue.rebalance", "balanced", "classes")
def rebalance(scene: Scene) -> None:
    for number in range(10):
        scene.offer(scene.item(number))
        scene.queue.rebalance()


@entry("BatchQueue.assignments", *VARIANTS)
@entry("BatchQueue.__repr__", *VARIANTS)
def show(scene: Scene) -> None:
    scene.offer(scene.item(1))
    repr(scene.queue)
    assert sum(map(len, scene.queue.assignments())) == scene.queue.partition_count


@entry("BatchQueue.__enter__", "keys", "small")
@entry("BatchQueue.__exit__", "keys", "small")
def enter_and_exit(scene: Scene) -> None:
    with scene.queue as queue:
        assert queue is scene.queue
        scene.offer(scene.item(1))


@entry("BatchQueue.produce_async", *VARIANTS)
@entry("BatchQueue.offer_async", *VARIANTS)
@entry("BatchQueue.flush_async", *VARIANTS)
def tasks(scene: Scene) -> None:
    async def main() -> None:
        for number in range(5):
            items = [scene.item(number + more) for more in range(4)]
            produced = asyncio.gather(
                *(scene.queue.produce_async(item) for item in items[:2]),
                *(scene.queue.offer_async(item, PATIENCE) for item in items[2:]),
            )
            scene.note(4, sum(await produced))
            strike("call")
        assert await scene.queue.flush_async(PATIENCE)

    asyncio.run(main())


@entry("BatchQueue.__aenter__", "keys", "small", "pool")
@entry("BatchQueue.__aexit__", "keys", "small", "pool")
@entry("BatchQueue.shutdown_async", "keys", "small", "pool")
def end_in_a_task(scene: Scene) -> None:
    async def main() -> None:
        async with scene.queue as queue:
            assert queue is scene.queue
            scene.offer(scene.item(1))
        assert await scene.queue.shutdown_async(PATIENCE)

    asyncio.run(main())


@entry("BatchQueue.__class_getitem__", "keys")
def subscript(scene: Scene) -> None:
    repr(BatchQueue[Name(1)])  # type: ignore[misc]


@entry("BatchQueue.__reduce__", "keys")
def reduce(scene: Scene) -> None:
    mischief.stays(scene.queue)


@entry("BatchQueueStats.__reduce__", "keys")
@entry("PartitionUsage.__reduce__", "keys")
@entry("ThreadStats.__reduce__", "keys")
@entry("TypeStats.__reduce__", "keys")
def reduce_statistics(scene: Scene) -> None:
    scene.offer(scene.item(1))
    stats = scene.queue.stats()
    for value in (stats, *stats.top_n(1), *stats.threads, *stats.per_type.values()):
        mischief.stays(value)


@entry("BatchQueueConfig.__reduce__", "keys")
@entry("BufferStrategy.__reduce__", "keys")
@entry("DrainBalancer.__reduce__", "keys")
@entry("PartitionPolicy.__reduce__", "keys")
@entry("PartitionSelector.__reduce__", "keys")
@entry("ThreadPolicy.__reduce__", "keys")
def copy_settings(scene: Scene) -> None:
    """Copies run the user's code that checks what may be called."""
    by = PartitionSelector.by(Callback(lambda item: Name(item.value)))
    config = scene.config.replace(partition_selector=by, balancer=DrainBalancer.throughput_weighted())
    for value in (config, config.threads, config.partitions, config.strategy, config.balancer, by):
        assert type(copy.copy(value)) is type(value)


@entry("BatchQueue.__new__")
def new_queues() -> None:
    """Threads without partitions are warned of; a queue that nobody holds ends by itself."""
    for _ in range(5):
        scene = Scene(threads=ThreadPolicy.fixed(3), partitions=PartitionPolicy.fixed(1))
        scene.offer(scene.item(1))
        scene.end()
        BatchQueue(Text("dropped"), BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=Consumer(len)))


def managed(make: Callable[..., BatchQueue], use: Callable[[BatchQueue], object] = lambda queue: None) -> None:
    for variant in ("keys", "small", "pool"):
        scene = Scene(make, f"managed-{variant}", **VARIANTS[variant])
        scene.offer(scene.item(1))
        assert BatchQueueManager.get(Text(f"managed-{variant}")) is scene.queue
        use(scene.queue)
        scene.end()
        assert BatchQueueManager.get(Text(f"managed-{variant}")) is None


@entry("BatchQueueManager.create")
def create() -> None:
    managed(BatchQueueManager.create)


@entry("BatchQueueManager.get_or_create")
def get_or_create() -> None:
    def again(queue: BatchQueue) -> None:
        other = BatchQueueConfig(threads=ThreadPolicy.fixed(1), partition_selector=Callback(lambda item, count: 0))
        assert BatchQueueManager.get_or_create(Text(queue.name), other) is queue

    managed(BatchQueueManager.get_or_create, again)


@entry("BatchQueueManager.get")
@entry("BatchQueueManager.names")
def names() -> None:
    managed(BatchQueueManager.create, lambda queue: read_names(queue.name))


def read_names(name: str) -> None:
    assert BatchQueueManager.names().count(Text(name)) == 1


@entry("BatchQueueManager.shutdown")
def shut_one_down() -> None:
    managed(BatchQueueManager.create, lambda queue: BatchQueueManager.shutdown(Text(queue.name), Number(PATIENCE)))


@entry("BatchQueueManager.shutdown_all")
def shut_all_down() -> None:
    managed(BatchQueueManager.create, lambda queue: BatchQueueManager.shutdown_all(Number(PATIENCE)))


@entry("BatchQueueConfig.__new__")
@entry("BatchQueueConfig.replace")
@entry("BatchQueueConfig.__repr__")
def configuration() -> None:
    scene = Scene(**VARIANTS["keys"])
    for settings in VARIANTS.values():
        changes = {name: value for name, value in settings.items() if name != "mode"}
        config = scene.config.replace(**{"buffer_size": Number(50), "linger": Number(0), **changes})
        read(config)
    for wrong in ({"buffer_size": Number(0)}, {"on_drop": Name(1)}, {"consumer": Name(1)}, {"balancer": Name(1)}):
        try:
            scene.config.replace(**wrong)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        raise AssertionError(f"{wrong} is refused")
    scene.end()


@entry("BatchQueueStats.__repr__", "keys", "small")
@entry("BatchQueueStats.as_dict", "keys", "small")
@entry("BatchQueueStats.top_n", "keys")
@entry("BatchQueueStats.partition_used", "keys")
@entry("BatchQueueStats.partition_used_percentage", "keys")
@entry("BatchQueueStats.total_capacity", "small")
@entry("BatchQueueStats.total_used", "small")
@entry("BatchQueueStats.total_used_percentage", "small")
@entry("PartitionUsage.__repr__", "keys")
@entry("ThreadStats.__repr__", "keys")
@entry("TypeStats.__repr__", "keys")
def statistics(scene: Scene) -> None:
    for number in range(5):
        scene.offer(scene.item(number))
        now = scene.queue.stats()
        assert sum(usage.used for usage in now.top_n(Number(3))) == now.total_used()
        assert 0 <= now.total_used_percentage() <= 100
        assert now.total_capacity() == now.buffer_size * now.partition_count
        assert 0 <= now.partition_used(Number(1)) <= now.buffer_size
        assert 0 <= now.partition_used_percentage(Number(1)) <= 100
        now.as_dict()
        for shown in (now, now.top_n(1)[0], now.threads[0], *now.per_type.values()):
            read(shown)


def policy(kind: Any, makers: dict[str, tuple[float, ...]], resolve: tuple[float, ...]) -> None:
    """Makes each policy twice, shows and compares it, and resolves it."""
    scene = Scene()
    for maker, args in makers.items():
        one, two = (getattr(kind, maker)(*map(Number, args)) for _ in range(2))
        assert (one == two, hash(one) == hash(two), one == Name(1)) == (True, True, False)
        assert repr(one) == repr(two)
        assert one.resolve(*map(Number, resolve)) >= 1
        try:
            getattr(kind, maker)(*(Number(-1) for _ in args))
        except ValueError:
            continue
        raise AssertionError("a negative number is refused")
    scene.end()


THREADS = {"fixed": (2,), "cpu_cores": (0.5,), "cpu_cores_with_base": (1, 0.5), "io_bound": (3,)}
PARTITIONS = {"fixed": (2,), "thread_multiply": (2,), "adaptive": (3,)}
for method in (*THREADS, "resolve", "__repr__", "__eq__", "__hash__"):
    ENTRIES[f"ThreadPolicy.{method}"] = [functools.partial(policy, ThreadPolicy, THREADS, ())]
for method in (*PARTITIONS, "resolve", "__repr__", "__eq__", "__hash__"):
    ENTRIES[f"PartitionPolicy.{method}"] = [functools.partial(policy, PartitionPolicy, PARTITIONS, (2, 5))]


@entry("BufferStrategy.__repr__", "classes")
@entry("BufferStrategy.__eq__", "classes")
@entry("BufferStrategy.__hash__", "classes")
def strategies(_: Scene) -> None:
    blocking = BufferStrategy.BLOCKING
    assert (blocking == BufferStrategy.IF_POSSIBLE, blocking == Name(1)) == (False, False)
    assert len({blocking, BufferStrategy.IF_POSSIBLE, Name(2)}) == 3
    repr(blocking)


@entry("PartitionSelector.__call__", "keys")
@entry("PartitionSelector.__repr__", "keys")
@entry("PartitionSelector.by", "keys")
@entry("PartitionSelector.round_robin", "keys")
@entry("PartitionSelector.type_hash", "keys")
def selectors(_: Scene) -> None:
    by = PartitionSelector.by(Callback(lambda item: Name(item.value)))
    for selector in (by, PartitionSelector.round_robin(), PartitionSelector.type_hash()):
        for number in range(10):
            assert 0 <= selector(Item(number), Number(3)) < 3  # type: ignore[arg-type]
        repr(selector)


@entry("DrainBalancer.__repr__", "balanced")
@entry("DrainBalancer.assign", "balanced")
@entry("DrainBalancer.throughput_weighted", "balanced")
def balancers(_: Scene) -> None:
    balancer = DrainBalancer.throughput_weighted()
    counts, owners = [Number(9), Number(9), Number(1)], [Number(0)] * 3
    assert balancer.assign(counts, owners, Number(2)) == [0, 1, 0]  # type: ignore[arg-type]
    repr(balancer)
