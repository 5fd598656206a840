"""The scene of the batch queue's table: a queue with hostile settings, the variants of it, and the books of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BufferStrategy,
    DrainqError,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from tests.hostile import mischief
from tests.hostile.__main__ import properties
from tests.hostile.mischief import PATIENCE, Callback, Consumer, Item, Name, Number, Other, Text, strike
from tests.hostile.table import Table

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
        callbacks = {"on_error": Callback(self.fail), "on_drop": Callback(lambda reason, count: None)}
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
