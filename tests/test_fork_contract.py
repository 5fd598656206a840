"""A fork between calls: the child starts empty and works, the parent keeps its items, and neither gets an item of the
other. This holds for every object that holds items.

A row of the table is an object: how it takes items, how it gives them, and which of its locks another thread holds at the fork.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, PartitionPolicy, PartitionSelector, SetQueue, ThreadPolicy
from drainq.sources import ItemState, ItemTracker
from drainq.workers import MetricsAggregator, TopN
from tests.forked import in_child, needs_fork

pytestmark = needs_fork
PATIENCE = 20.0

Row = tuple[Callable[[list[str]], object], Callable[[], list[Any]], list[Any]]
"""How to hand items over, how to get what is there now, and the locks."""


def batch_queue(**settings: Any) -> Row:
    """Hold the first batch in the handler until the items are asked for, so that the others are queued at the fork."""
    gates, seen = [threading.Event()], []

    def handle(batch: list[str]) -> None:
        gates[0].wait(PATIENCE)
        seen.extend(batch)

    if "shared_scheduler" not in settings:
        settings["threads"] = ThreadPolicy.fixed(1)
    queue = BatchQueue("fork", BatchQueueConfig(consumer=handle, **settings))
    parent = os.getpid()

    def take() -> list[str]:
        stats = queue.stats()
        assert os.getpid() == parent or stats.offered == stats.queued + stats.handled, stats
        closed, gates[0] = gates[0], threading.Event()
        gates[0].set()
        if os.getpid() == parent:
            closed.set()
        assert queue.flush(PATIENCE)
        items = sorted(seen)
        seen.clear()
        return items

    return queue.produce_many, take, []


def multi_queue(put: Callable[..., Any], get: Callable[..., Any]) -> Row:
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=9)

    def take() -> list[str]:
        return [get(queue, sub) for _ in range(sub.qsize())]

    return lambda items: [put(sub, item) for item in items], take, []


PUTS = {
    "put": lambda sub, item: sub.put(item),
    "put_nowait": lambda sub, item: sub.put_nowait(item),
    "put_many": lambda sub, item: sub.put_many([item]),
    "put_async": lambda sub, item: asyncio.run(sub.put_async(item)),
}
GETS = {
    "get": lambda queue, sub: queue.get(timeout=0),
    "get_nowait": lambda queue, sub: queue.get_nowait(),
    "get_item": lambda queue, sub: queue.get_item(timeout=0)[1],
    "get_many": lambda queue, sub: queue.get_many(1)[0],
    "get_async": lambda queue, sub: asyncio.run(queue.get_async()),
    "peek and get": lambda queue, sub: queue.peek() and queue.get(),
    "remove": lambda queue, sub: next(item for item in sub if sub.remove(item)),
}


def set_queue(in_flight: str) -> Row:
    queue = SetQueue(9, in_flight=in_flight)

    def take() -> list[str]:
        items = queue.get_many(9, min_items=0)
        with contextlib.suppress(ValueError):
            queue.done(items)
        return items

    return queue.put_many, take, []


def worker(make: Callable[..., Any]) -> Row:
    out: list[Any] = []
    held = make(sink=out.extend)

    def take() -> list[str]:
        assert held.flush(PATIENCE)
        items = sorted(item for _, item in out)
        out.clear()
        assert held.stats().pending == 0
        return items

    return lambda items: held.consume([(item, item) for item in items]), take, [held._lock]


def tracker() -> Row:
    tracked = ItemTracker.open("memory:")

    def take() -> list[str]:
        items = [item for item in HERS + MINE if tracked.state("x", item) is ItemState.SENT]
        tracked.mark("x", items, ItemState.DONE)
        return items

    return lambda items: tracked.mark("x", items, ItemState.SENT), take, [tracked._store._lock]


ROWS: dict[str, Callable[[], Row]] = {
    "batch queue": batch_queue,
    "batch queue, in turn": lambda: batch_queue(partition_selector=PartitionSelector.round_robin(), partitions=PartitionPolicy.fixed(3)),
    "batch queue, by key": lambda: batch_queue(dispatch_key=lambda item: item[0]),
    "batch queue, weighed": lambda: batch_queue(len_of=len),
    "batch queue, bounded": lambda: batch_queue(capacity=100),
    "batch queue, a pool": lambda: batch_queue(shared_scheduler=("fork", ThreadPolicy.fixed(2))),
    **{f"multi-queue, {put}, {get}": (lambda put=put, get=get: multi_queue(PUTS[put], GETS[get])) for put in PUTS for get in GETS},
    "set queue": lambda: set_queue("forget"),
    "set queue, tracked": lambda: set_queue("ack"),
    "aggregator": lambda: worker(lambda sink: MetricsAggregator(key=lambda p: p[0], merge=lambda a, b: b, sink=sink, flush_interval=None)),
    "top n": lambda: worker(lambda sink: TopN(9, score=lambda p: p[1], sink=sink)),
    "tracker": tracker,
}  # fmt: skip

HERS, MINE = ["a parent's", "b parent's"], ["a child's", "c child's"]


def outcome(row: Callable[[], Row]) -> tuple[int, list[str]]:
    put, take, locks = row()
    put(HERS)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            release.wait()

    def check() -> None:
        assert take() == []
        put(MINE)
        assert take() == MINE
        assert take() == []

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    status = in_child(check)
    release.set()
    holder.join()
    return status, take()


def test_the_child_starts_empty_and_works_and_the_parent_keeps_its_items() -> None:
    assert {name: outcome(row) for name, row in ROWS.items()} == dict.fromkeys(ROWS, (0, HERS))
