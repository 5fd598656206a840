"""TopN: keeps the N best items of each group, exactly, in memory for N items per group.

A heap of N items has the worst on top. A new item replaces the worst one or is dropped.

Source: ``TopNWorker.java`` in SkyWalking. Its heap treats the first N unsorted items as sorted and keeps wrong items
(limit 3, input 100, 1, 2, 50 keeps 100, 1, 2). drainq keeps a heap from the first item on.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, whole
from drainq.callables import check_answer, check_callable
from drainq.delivery.accounting import Outcome
from drainq.delivery.producing import Item
from drainq.fork import leave_to_parent
from drainq.workers.holding_worker import Holder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import WorkerSettings

log = logging.getLogger("drainq")

_Kept = tuple[Any, int, Any]
"""Score, negative arrival number, and item: in a heap with the worst on top."""


class TopN(Holder[Item]):
    """Keep the ``n`` items with the largest score. Each flush passes them on, best first, and starts afresh.

    Of equal scores the earlier item stays, and comes first. An item whose score is NaN has no rank and is refused. A
    batch in which ``score`` or ``group`` raises is refused whole.

    Args:
        n: how many items of each group to keep; at least 1.
        score: maps an item to its score.
        group: maps an item to its group; None: one group for all.
        sink: a callable that gets, at each flush, the list of kept items; with ``group`` a list of ``(group, [best
            first])``, in the order in which the groups appeared. It is not called without items.
        flush_interval: seconds between flushes; None: flush only in ``flush`` and ``close``.
        settings: as for :class:`MetricsAggregator`.
    Raises:
        ValueError: ``n`` is below 1.

    Example:
        >>> top = TopN(2, score=len, sink=print)
        >>> top(["a", "ccc", "bb"])
        >>> top.flush()
        ['ccc', 'bb']
        True
    """

    _gives_up = False

    def __init__(
        self,
        n: int,
        *,
        score: Callable[[Item], Any],
        group: Callable[[Item], Hashable] | None = None,
        sink: Callable[[list[Any]], object],
        flush_interval: Seconds | None = None,
        **settings: Unpack[WorkerSettings],
    ) -> None:
        n = whole("n", n, least=1)
        check_callable("score", score, "item")
        check_callable("sink", sink, "items")
        if group is not None:
            check_callable("group", group, "item")
        self._n, self._score, self._group, self._sink = n, score, group, sink
        self._heaps: dict[Hashable, list[_Kept]] = {}
        self._arrivals = 0
        super().__init__("top-n", flush_interval=flush_interval, **settings)
        self._start()

    def _forget(self) -> None:
        super()._forget()
        leave_to_parent(self._heaps)
        self._heaps = {}

    def _hold(self, batch: list[Any]) -> int:
        scored = [(self._score(item), None if self._group is None else self._group(item)) for item in batch]
        if scored:  # a lambda that calls an async function returns a coroutine for each item; one check is enough
            check_answer("score", scored[0][0])
            check_answer("group", scored[0][1])
        ranked = [(score, group, item) for item, (score, group) in zip(batch, scored) if score == score]
        before = {group: list(self._heaps[group]) for _, group, _ in ranked if group in self._heaps}
        try:
            for score, group, item in ranked:
                self._arrivals += 1
                self._keep(group, (score, -self._arrivals, item))
        except BaseException:  # a score that cannot be compared with another
            for group in {group for _, group, _ in ranked}:
                self._heaps.pop(group, None)
            self._heaps.update(before)
            raise
        if len(ranked) < len(batch):
            refused = len(batch) - len(ranked)
            log.error("%s refused %d items whose score is NaN", self._name, refused)
            self._books.move(refused, Outcome.PENDING, Outcome.REFUSED)
        return len(ranked)

    def _is_full(self) -> bool:
        return False  # it holds at most ``n`` items a group, and a flush would start the ranking afresh

    def _keep(self, group: Hashable, kept: _Kept) -> None:
        heap = self._heaps.setdefault(group, [])
        if len(heap) < self._n:
            heapq.heappush(heap, kept)
        elif kept[0] > heap[0][0]:
            heapq.heapreplace(heap, kept)

    def _take_out(self) -> dict[Hashable, list[_Kept]]:
        heaps, self._heaps = self._heaps, {}
        return heaps

    def _put_back(self, taken: dict[Hashable, list[_Kept]]) -> None:
        newer, self._heaps = self._heaps, taken
        for group, heap in newer.items():
            for kept in sorted(heap, key=lambda kept: -kept[1]):  # as they arrived: of equal scores the earlier stays
                self._keep(group, kept)

    def _hand_on(self, taken: dict[Hashable, list[_Kept]]) -> None:
        best = {
            group: [item for *_, item in sorted(heap, key=lambda kept: kept[:2], reverse=True)]
            for group, heap in taken.items()
        }
        if best:
            check_answer("the sink", self._sink(best[None] if self._group is None else list(best.items())))
