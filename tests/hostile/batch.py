"""The table of the batch queue: its queue, manager, configuration, policies and statistics.

Each entry offers items while everything strikes, and ends with the books: what was offered, accepted and
handled, item by item, is what the queue says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from tests.hostile import batch_coroutines, batch_values, mischief  # noqa: F401  (they enter their calls in the table)
from tests.hostile.batch_scene import ENTRIES as ENTRIES
from tests.hostile.batch_scene import VARIANTS, Scene, entry, read
from tests.hostile.mischief import PATIENCE, Callback, Consumer, Item, Name, Number, Other, Text, many

CLASSES = (
    BatchQueue,
    BatchQueueManager,
    BatchQueueConfig,
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)


@entry("BatchQueue.produce", *VARIANTS)
def produce(scene: Scene) -> None:
    for number in range(30):
        scene.note(1, scene.queue.produce(scene.item(number)))
        if number == 13:
            scene.queue.flush(PATIENCE)


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


@entry("BatchQueue.__class_getitem__", "keys")
def subscript(scene: Scene) -> None:
    repr(BatchQueue[Name(1)])  # type: ignore[misc]


@entry("BatchQueue.__reduce__", "keys")
def reduce(scene: Scene) -> None:
    mischief.stays(scene.queue)


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
