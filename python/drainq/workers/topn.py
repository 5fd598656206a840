"""The N best items of each group, exactly, in memory for N items a group.

A heap of N with the worst on top: an item is either worse than the worst kept one and goes, or takes its place.

Source: ``TopNWorker.java`` in SkyWalking. Its heap takes the first N items unsorted for sorted and keeps wrong ones
(limit 3, input 100, 1, 2, 50 keeps 100, 1, 2); ours is a heap from the first item on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Any

from drainq._native import BatchQueue
from drainq.clock import Clock
from drainq.fork import leave_to_parent
from drainq.workers.worker import Worker, check_callable


class TopN(Worker):
    """Keep the ``n`` items with the largest score; hand them on at each flush, best first, and begin anew.

    Of equal scores the earlier item stays, and comes first.

    Args:
        n: how many items to keep, of each group; at least 1.
        score: maps an item to what it is ranked by.
        group: maps an item to its group; None: all are one.
        sink: a callable that gets, at each flush, the list of kept items; with ``group`` a list of
            ``(group, [best first])``, in the order in which the groups appeared. Nothing was kept: it is not called.
        flush_interval: seconds between flushes; None: only ``flush`` and ``close``.
        queue, clock: as for every :class:`~drainq.workers.worker.Worker`.
    Raises:
        ValueError: ``n`` is below 1.

    Example:
        >>> top = TopN(2, score=len, sink=print)
        >>> top(["a", "ccc", "bb"])
        >>> top.flush()
        ['ccc', 'bb']
        True
    """

    def __init__(
        self,
        n: int,
        *,
        score: Callable[[Any], Any],
        group: Callable[[Any], Hashable] | None = None,
        sink: Callable[[list[Any]], object],
        flush_interval: float | None = None,
        queue: BatchQueue | None = None,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n must be a number of items, got {n!r}")
        if n < 1:
            raise ValueError(f"n must be >= 1, got {n}")
        check_callable(score=score, group=group, sink=sink)
        super().__init__(queue=queue, flush_interval=flush_interval, clock=clock)
        self._n, self._score, self._group, self._sink = n, score, group, sink
        self._heaps: dict[
            Hashable, list[tuple[Any, int, Any]]
        ] = {}  # group -> (score, -arrival, item), the worst first
        self._arrived = 0

    def _forget(self) -> None:
        leave_to_parent(self._heaps)
        self._heaps = {}

    def _take(self, batch: list[Any]) -> None:
        scored = [(self._score(item), None if self._group is None else self._group(item)) for item in batch]
        for item, (score, group) in zip(batch, scored):
            self._arrived += 1
            heap = self._heaps.setdefault(group, [])
            if len(heap) < self._n:
                heapq.heappush(heap, (score, -self._arrived, item))
            elif score > heap[0][0]:
                heapq.heapreplace(heap, (score, -self._arrived, item))

    def _emit(self) -> None:
        best = {
            group: [item for *_, item in sorted(heap, key=lambda kept: kept[:2], reverse=True)]
            for group, heap in self._heaps.items()
        }
        if best:
            self._sink(best[None] if self._group is None else list(best.items()))
        self._heaps = {}
