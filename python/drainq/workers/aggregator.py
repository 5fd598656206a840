"""L1: merge items by key before they go anywhere.

Source: ``MetricsAggregateWorker`` in SkyWalking: one map per worker, a flush when half a second has passed, looked at
after each batch and when idle. Ours also flushes when it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from drainq._native import BatchQueue
from drainq.clock import Clock
from drainq.fork import leave_to_parent
from drainq.workers.worker import Worker, check_callable


class MetricsAggregator(Worker):
    """Merge items of one key into one; hand the merged ones on at each flush.

    Args:
        key: maps an item to what it is merged by.
        merge: ``merge(a, b) -> a``: adds the later item ``b`` to ``a``; may change and return ``a``.
        sink: a callable that gets the list of merged items, in the order in which their keys appeared. If it raises,
            they are kept, merged with what comes, and handed on again.
        flush_interval: seconds between flushes; None: only ``flush`` and ``close``.
        queue, clock: as for every :class:`~drainq.workers.worker.Worker`.

    Example:
        >>> totals = MetricsAggregator(key=lambda p: p[0], merge=lambda a, b: (a[0], a[1] + b[1]), sink=print)
        >>> totals([("a", 1), ("b", 2), ("a", 3)])
        >>> totals.close()
        [('a', 4), ('b', 2)]
        True
    """

    def __init__(
        self,
        *,
        key: Callable[[Any], Hashable],
        merge: Callable[[Any, Any], Any],
        sink: Callable[[list[Any]], object],
        flush_interval: float | None = 0.5,
        queue: BatchQueue | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_callable(key=key, merge=merge, sink=sink)
        super().__init__(queue=queue, flush_interval=flush_interval, clock=clock)
        self._key, self._merge, self._sink = key, merge, sink
        self._merged: dict[Hashable, Any] = {}

    def _forget(self) -> None:
        leave_to_parent(self._merged)
        self._merged = {}

    def _take(self, batch: list[Any]) -> None:
        merged, merge = self._merged, self._merge
        for key, item in [(self._key(item), item) for item in batch]:
            merged[key] = merge(merged[key], item) if key in merged else item

    def _emit(self) -> None:
        if self._merged:
            self._sink(list(self._merged.values()))
        self._merged = {}
