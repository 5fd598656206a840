"""Makers of public calls: each function returns a call, with the arguments that it needs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, MultiQueue, SetQueue
from drainq.delayed import DelayedQueue, to_delayed_queue
from drainq.sources import Fair, PrefetchSource, SourceScheduler
from drainq.workers import BatchWriter, MetricsAggregator, MetricsPersister, TopN


@contextlib.contextmanager
def batch_queue() -> Iterator[BatchQueue[Any]]:
    with BatchQueue("arguments", BatchQueueConfig(threads=1, consumer=len)) as queue:
        yield queue


@contextlib.contextmanager
def opened() -> Iterator[DelayedQueue[Any]]:
    with DelayedQueue.open("memory:", "arguments") as queue:
        yield queue


def with_queue(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        with batch_queue() as queue:
            result = getattr(queue, method)(*arguments, **named)
            return asyncio.run(result) if asyncio.iscoroutine(result) else result

    return call


def with_handlers(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        with BatchQueue("arguments", BatchQueueConfig(threads=1)) as queue:
            result = getattr(queue, method)(*arguments, **named)
            return result(len) if method == "handler" else result

    return call


def with_delayed(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        with opened() as queue:
            return getattr(queue, method)(*arguments, **named)

    return call


def with_cron(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        with opened() as queue:
            return getattr(queue.cron, method)(*arguments, **named)

    return call


def with_message(method: str) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        with opened() as queue:
            queue.offer_or_update("k", 1, 0)
            return getattr(queue.try_poll(), method)(**named)

    return call


def with_sub_queue(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        result = getattr(MultiQueue().add_sub_queue("a"), method)(*arguments, **named)
        return asyncio.run(until(result)) if method.endswith("_async") else result

    return call


def with_multi(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        queue: MultiQueue[Any] = MultiQueue()
        queue.add_sub_queue("a").put_many([1, 2, 3])
        result = getattr(queue, method)(*arguments, **named)
        return asyncio.run(until(result)) if method.endswith("_async") else result

    return call


async def until(awaitable: Any) -> Any:
    return await awaitable


def with_set_queue(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        queue: SetQueue[Any] = SetQueue()
        queue.put(1)
        result = getattr(queue, method)(*arguments, **named)
        return asyncio.run(until(result)) if method.endswith("_async") else result

    return call


def with_scheduler(method: str, *arguments: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        scheduler = SourceScheduler({"a": iter([]), "b": iter([])}, lambda name, items: None, Fair("a"))
        return getattr(scheduler, method)(*arguments, **named)

    return call


def with_source(method: str) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        source: PrefetchSource[Any] = PrefetchSource(lambda n: [1], 10, 5)
        try:
            return getattr(source, method)(**named)
        finally:
            source.close(1)

    return call


def with_stats(method: str) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        with batch_queue() as queue:
            return getattr(queue.stats(), method)(**named)

    return call


def closed(make: Callable[..., Any], method: str | None = None) -> Callable[..., Any]:
    """Return a worker or server that is made, perhaps called, and closed."""

    def call(**named: Any) -> Any:
        worker = make() if method else make(**named)
        try:
            return getattr(worker, method)(**named) if method else worker
        finally:
            worker.close(timeout=5)

    return call


def in_manager(method: str, **more: Any) -> Callable[..., Any]:
    def call(**named: Any) -> Any:
        try:
            return getattr(BatchQueueManager, method)(**{**more, **named})
        finally:
            BatchQueueManager.shutdown_all()

    return call


def end_managed(**named: Any) -> Any:
    BatchQueueManager.create(**ONE)
    try:
        return BatchQueueManager.shutdown(**{"name": "managed", **named})
    finally:
        BatchQueueManager.shutdown_all()


def with_async_queue(method: str) -> Callable[..., Any]:
    async def awaited(**named: Any) -> Any:
        with opened() as queue:
            queue.offer_or_update("k", 1, 0)
            owner = await queue.try_poll_async() if method == "nack_async" else queue
            return await getattr(owner, method)(**named)

    return lambda **named: asyncio.run(awaited(**named))


def close_handle(**named: Any) -> Any:
    with opened() as queue:
        handle = queue.cron.install_periodic_tick("p", 60, lambda at: 1)
        try:
            return handle.close(**named)
        finally:
            handle.close()


def parking(**named: Any) -> Any:
    with opened() as queue:
        return to_delayed_queue(queue, **named)


def config(**named: Any) -> BatchQueueConfig:
    own = {} if "shared_scheduler" in named else {"threads": 1}
    return BatchQueueConfig(**{**own, **named})


def aggregator(**named: Any) -> MetricsAggregator:
    return MetricsAggregator(**{"key": len, "merge": lambda a, b: a, "sink": len, **named})


def top_n(**named: Any) -> TopN:
    return TopN(**{"n": 3, "score": len, "sink": len, **named})


def prefetch(**named: Any) -> Any:
    sizes = {"capacity": 10, "replenish_threshold": 5, **named}
    source: PrefetchSource[Any] = PrefetchSource(**{"source": lambda n: [], **sizes})
    source.close(1)


def scheduler(**named: Any) -> SourceScheduler:
    more = {"max_backlog": 2} if "backlog" in named else {}
    given = {"sources": {"a": iter([])}, "target": lambda name, items: None, "strategy": Fair("a"), **more}
    return SourceScheduler(**{**given, **named})


def writer(**named: Any) -> Any:
    return BatchWriter(**{"url": "sqlite:////no/such/folder/x.db", "table": "t", "columns": ["a"], **named})


def persister(**named: Any) -> Any:
    given = {"url": "sqlite:////no/such/folder/x.db", "table": "t", "columns": ["a", "b"], "key": ["a"]}
    return MetricsPersister(**{**given, "merge": {"b": "sum"}, **named})


ONE = {"config": BatchQueueConfig(threads=1), "name": "managed"}
