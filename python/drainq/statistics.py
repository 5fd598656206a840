"""Statistics: the counters of a queue, a source or a worker at one moment, as ``stats()`` returns them.

Each class is a frozen dataclass, so it has a repr and equality, and can be pickled if its keys can. The native queues
make their statistics here too. ``import drainq`` does not load this module, because :mod:`dataclasses` loads slowly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drainq.arguments import whole

__all__ = [
    "BatchQueueStats",
    "MultiQueueStats",
    "PartitionUsage",
    "SetQueueStats",
    "Statistics",
    "SubQueueStats",
    "ThreadStats",
    "TypeStats",
]


class Statistics:
    """The base class of all statistics. Each subclass is a frozen dataclass."""

    def as_dict(self) -> dict[str, Any]:
        """Return the counters by name, for logs, JSON and metrics. Nested statistics become dictionaries.

        Example:
            >>> from drainq import SetQueue
            >>> SetQueue().stats().as_dict()["put"]
            0
        """
        return {each.name: _plain(getattr(self, each.name)) for each in dataclasses.fields(self)}  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        """Return the counters as a table, for notebooks."""
        from html import escape

        rows = [f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
                for name, value in self.as_dict().items()]  # fmt: skip
        return "\n".join(["<table>", f"<caption>{type(self).__name__}</caption>", *rows, "</table>"])


def _plain(value: Any) -> Any:
    if isinstance(value, Statistics):
        return value.as_dict()
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class PartitionUsage(Statistics):
    """The fill level of one partition of a batch queue.

    Attributes:
        partition_index: the partition's number.
        used: items in it.
        used_percentage: the items as a percentage of its capacity, 0.0 to 100.0.
    """

    partition_index: int
    used: int
    used_percentage: float


@dataclass(frozen=True)
class ThreadStats(Statistics):
    """The counters of one drain thread.

    Attributes:
        name: the thread's name.
        handled: items whose handler call returned.
        cycles: passes that found items.
        partitions: its partitions.
        busy_seconds: seconds in passes, including handler calls.
    """

    name: str
    handled: int
    cycles: int
    partitions: list[int]
    busy_seconds: float


@dataclass(frozen=True)
class TypeStats(Statistics):
    """The counters of the items of one type.

    Attributes:
        accepted: items accepted.
        handled: items whose handler call returned.
        failed: items whose handler call raised, including dead-lettered ones.
        unrouted: items without a handler.
    """

    accepted: int
    handled: int
    failed: int
    unrouted: int


@dataclass(frozen=True)
class BatchQueueStats(Statistics):
    """The counters of a batch queue at one moment, in items.

    In every snapshot ``offered == accepted + sum(rejected.values())`` and ``accepted ==
    handled + failed + unrouted + dead_lettered + abandoned + queued``.

    Attributes:
        accepted: items accepted.
        rejected: items rejected, by reason: ``full``, ``closed``, ``would_deadlock``.
        handled: items whose handler call returned.
        failed: items whose handler call raised and that are in no durable queue.
        unrouted: items without a handler.
        dead_lettered: items that a durable queue took: from the error handler after a handler call that raised, or from
            a handler's ``on_abandoned``.
        abandoned: items left when the time of the shutdown was over.
        queued: accepted items whose handler call has not returned yet.
        types: for each type, or dispatch key, the numbers of accepted, handled, failed (including dead-lettered) and
            unrouted items; :attr:`per_type` has them by name.
        threads: a :class:`ThreadStats` for each drain thread.
        used: items in each partition, without those in a handler call.
        buffer_size: the capacity of one partition.
        total_capacity: the capacity of all partitions together: the sum of their sizes, or the ``capacity`` of the
            queue if that is less.
        allocated_bytes: the memory of the partitions' buffers.
        rebalances: the number of the balancer's plans that were executed.
        gil_yields: how often a producer gave up the GIL for a drain thread that waited for it.
        gil_waits: a histogram of the drain threads' waits for the GIL: a list of ``(seconds, count)``, each with the
            number of waits below ``seconds`` and not below the entry before. The last entry also counts longer waits.

    Source: ``BatchQueueStats`` in SkyWalking's ``library-batch-queue``; the accounting is drainq's.
    """

    accepted: int
    rejected: dict[str, int]
    handled: int
    failed: int
    unrouted: int
    dead_lettered: int
    abandoned: int
    queued: int
    types: list[tuple[Any, tuple[int, int, int, int]]] = field(repr=False)
    threads: list[ThreadStats] = field(repr=False)
    used: list[int] = field(repr=False)
    buffer_size: int = field(repr=False)
    total_capacity: int = field(repr=False)
    allocated_bytes: int = field(repr=False)
    rebalances: int = field(repr=False)
    gil_yields: int = field(repr=False)
    gil_waits: list[tuple[float, int]] = field(repr=False)

    @property
    def offered(self) -> int:
        """Items given to ``produce``, ``offer`` or ``produce_many``."""
        return self.accepted + sum(self.rejected.values())

    @property
    def balanced(self) -> bool:
        """Whether every accepted item is accounted for.

        The counters are kept in different places (partitions, drain threads, the queue), so this compares independent
        counts. False means a fault in drainq.
        """
        answered = self.handled + self.failed + self.unrouted + self.dead_lettered
        return self.accepted == answered + self.abandoned + self.queued

    @property
    def per_type(self) -> dict[Any, TypeStats]:
        """A :class:`TypeStats` by type, or by dispatch key. Every accepted item is counted in one of them."""
        return {name: TypeStats(*counts) for name, counts in self.types}

    def as_dict(self) -> dict[str, Any]:
        """Return the item counters by name, in the order of the two identities, for logs, JSON and metrics.

        Returns:
            ``offered, accepted, rejected, handled, failed, unrouted, dead_lettered, abandoned, queued``: items;
            ``rejected`` is a dictionary by reason.

        Example:
            >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
            >>> config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
            >>> with BatchQueue("as-dict", config) as queue:
            ...     _ = queue.produce_many([1, 2, 3]), queue.flush()
            ...     counts = queue.stats().as_dict()
            >>> counts["accepted"], counts["handled"], counts["rejected"]["full"]
            (3, 3, 0)
        """
        counters = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.repr}
        return {"offered": self.offered, **counters, "rejected": dict(self.rejected)}

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.used)

    @property
    def total_used(self) -> int:
        """Items in all partitions, without those in a handler call."""
        return sum(self.used)

    @property
    def total_used_percentage(self) -> float:
        """The items as a percentage of the capacity, 0.0 to 100.0."""
        return 100.0 * self.total_used / self.total_capacity

    def partition_used(self, index: int) -> int:
        """Return the items in one partition.

        Raises:
            ValueError: there is no such partition.
        """
        number = whole("index", index, least=0, what="the number of a partition (int)")
        if number >= len(self.used):
            raise ValueError(f"index must be the number of a partition, 0 to {len(self.used) - 1}, got {index!r}")
        return self.used[number]

    def partition_used_percentage(self, index: int) -> float:
        """Return the items of one partition as a percentage of its capacity, 0.0 to 100.0."""
        return 100.0 * self.partition_used(index) / self.buffer_size

    def top_n(self, n: int) -> list[PartitionUsage]:
        """Return the ``n`` fullest partitions, the fullest first."""
        number = whole("n", n, least=0, what="a number of partitions (int)")
        fullest = sorted(range(len(self.used)), key=self.used.__getitem__, reverse=True)
        return [
            PartitionUsage(index, self.used[index], self.partition_used_percentage(index)) for index in fullest[:number]
        ]


@dataclass(frozen=True)
class SubQueueStats(Statistics):
    """The counters of one sub-queue at one moment.

    ``put == got + removed + depth`` holds in every snapshot. ``put + rejected + duplicates`` counts the items
    whose put has ended.

    Attributes:
        depth: items waiting now, including those held by a waiting ``get_many``.
        high_water: the largest depth so far.
        put: items accepted.
        got: items taken by getters.
        rejected: items refused: no room (in time), shut down, removed, or interrupted.
        duplicates: items left out because an equal one waited; only with ``unique``.
        removed: items taken out by ``clear``, ``remove``, ``remove_if`` or an immediate shutdown.
        oldest_age: seconds that the head has waited, to a few milliseconds; None when empty.
        blocked_putters: threads and tasks that wait for room now.
    """

    depth: int
    high_water: int
    put: int
    got: int
    rejected: int
    duplicates: int
    removed: int
    oldest_age: float | None
    blocked_putters: int


@dataclass(frozen=True)
class MultiQueueStats(SubQueueStats):
    """The counters of a multi-queue at one moment, in total and per sub-queue.

    The totals include removed sub-queues. The items that a removed sub-queue still held count as ``removed``, so ``put
    == got + removed + depth`` holds.

    Attributes:
        depth: items waiting now, including those of disabled sub-queues.
        high_water: the largest total depth so far.
        put, got, rejected, duplicates, removed: as in :class:`SubQueueStats`.
        oldest_age: seconds that the oldest head has waited; None when all are empty.
        blocked_putters: threads and tasks that wait for room now.
        blocked_getters: threads and tasks that wait for an item now.
        sub_queues: a :class:`SubQueueStats` by key. ``stats[key]`` is short for ``stats.sub_queues[key]``.
    """

    blocked_getters: int
    sub_queues: dict[Any, SubQueueStats]

    def __getitem__(self, key: Hashable) -> SubQueueStats:
        """Return the counters of the sub-queue of a key."""
        if key not in self.sub_queues:
            more = f" and {len(self.sub_queues) - 20} more" if len(self.sub_queues) > 20 else ""
            known = f"{list(self.sub_queues)[:20]!r}{more}"
            raise KeyError(f"key must be that of a sub-queue, got {key!r}; there are {known}")
        return self.sub_queues[key]


@dataclass(frozen=True)
class SetQueueStats(Statistics):
    """The counters of a set queue at one moment.

    Attributes:
        size: items in the queue.
        in_flight: items taken and not yet done (``in_flight="ack"``).
        put: items put in.
        got: items taken out.
        duplicates: items refused because an equal one was still known.
        blocked_getters: threads and tasks that wait for an item now.
        blocked_putters: threads and tasks that wait for room now.
    """

    size: int
    in_flight: int
    put: int
    got: int
    duplicates: int
    blocked_getters: int
    blocked_putters: int


def batch_queue(threads: Iterable[tuple[Any, ...]], counters: dict[str, Any]) -> BatchQueueStats:
    """Make the statistics of a batch queue from the counters of its drain threads and its other counters by name."""
    return BatchQueueStats(threads=[ThreadStats(*thread) for thread in threads], **counters)


_Counters = tuple[int, int, int, int, int, int, int, float | None, int]  # of SubQueueStats, in order


def multi_queue(total: _Counters, getters: int, parts: Iterable[tuple[Any, _Counters]]) -> MultiQueueStats:
    """Make the statistics of a multi-queue. The native queue calls this.

    Args:
        total: the counters of a :class:`SubQueueStats` for the whole.
        getters: threads and tasks that wait for an item.
        parts: the same counters for each sub-queue, with its key.
    """
    sub_queues = {key: SubQueueStats(*counters) for key, counters in parts}
    return MultiQueueStats(*total, getters, sub_queues)
