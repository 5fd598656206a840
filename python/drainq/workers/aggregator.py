"""MetricsAggregator: merges items by key in memory.

Source: ``MetricsAggregateWorker`` (L1) in SkyWalking: one map per worker, flushed every half second. drainq also
flushes on ``close``, and refuses a whole batch if a callable raises for one of its items.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds, seconds_or_none
from drainq.callables import check_answer, check_callable
from drainq.delivery.accounting import Outcome
from drainq.delivery.producing import Item
from drainq.fork import leave_to_parent
from drainq.workers.holding_worker import Holder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import WorkerSettings

log = logging.getLogger("drainq")

_UNCHANGING = frozenset((str, bytes, int, float, bool, type(None)))


class MetricsAggregator(Holder[Item]):
    """Merge items of one key into one, and pass the merged items to a sink at each flush.

    If ``key``, ``merge`` or ``time`` raises, the whole batch is refused, and the queue counts it as failed.

    Args:
        key: maps an item to its key.
        merge: ``merge(a, b) -> a``: adds the later item ``b`` to ``a``; may change and return ``a``. It must be
            associative: after a failed flush merged items are merged again.
        sink: a callable that gets the list of merged items, in the order in which their keys appeared. If the sink
            raises, the merged items are kept, merged with new items, and passed to the sink again.
        flush_interval: seconds between flushes; None: flush only when full, and in ``flush`` and ``close``.
        time: maps an item to its time, in seconds since the epoch; needed with ``expire_after``.
        expire_after: seconds after which an item is refused and counted as ``expired``.
        settings: ``queue``, ``weight``, ``options``, and fields of :class:`WorkerOptions`; ``retry_for`` and
            ``delayed`` are not among them, because nothing is given up before ``close``.

    Example:
        >>> totals = MetricsAggregator(key=lambda p: p[0], merge=lambda a, b: (a[0], a[1] + b[1]), sink=print)
        >>> totals([("a", 1), ("b", 2), ("a", 3)])
        >>> totals.close()
        [('a', 4), ('b', 2)]
        True
    """

    _gives_up = False

    def __init__(
        self,
        *,
        key: Callable[[Item], Hashable],
        merge: Callable[[Item, Item], Item],
        sink: Callable[[list[Item]], object],
        flush_interval: Seconds | None = 0.5,
        time: Callable[[Item], float] | None = None,
        expire_after: Seconds | None = None,
        **settings: Unpack[WorkerSettings],
    ) -> None:
        check_callable("key", key, "item")
        check_callable("merge", merge, "item", "item")
        check_callable("sink", sink, "items")
        if time is not None:
            check_callable("time", time, "item")
        expire_after = seconds_or_none("expire_after", expire_after)
        if (time is None) != (expire_after is None):
            raise ValueError(f"time and expire_after belong together, got time={time!r}, expire_after={expire_after!r}")
        self._key, self._merge, self._sink = key, merge, sink
        self._time, self._expire_after = time, expire_after
        self._merged: dict[Hashable, Any] = {}
        super().__init__("metrics-aggregator", flush_interval=flush_interval, **settings)
        self._start()

    def _forget(self) -> None:
        super()._forget()
        leave_to_parent(self._merged)
        self._merged = {}

    def _hold(self, batch: list[Any]) -> int:
        if self._time is not None and self._expire_after is not None:
            oldest = self._clock.now() - self._expire_after
            fresh = [item for item in batch if self._time(item) >= oldest]
        else:
            fresh = batch
        keyed = [(self._key(item), item) for item in fresh]
        if keyed:  # a lambda that calls an async function returns a coroutine for each item; one check is enough
            check_answer("key", keyed[0][0])
        merged, merge = self._merged, self._merge
        before: dict[Hashable, Any] = {}
        added: list[Hashable] = []
        try:
            for key, item in keyed:
                if key not in merged:
                    merged[key] = item
                    added.append(key)
                    continue
                stored = merged[key]
                if key not in before:
                    before[key] = _as_it_is(stored)
                merged[key] = merge(stored, item)
            if before:
                check_answer("merge", merged[next(iter(before))])
        except BaseException:
            merged.update(before)
            for key in added:
                del merged[key]
            raise
        expired = len(batch) - len(fresh)
        if expired:
            self._books.move(expired, Outcome.PENDING, Outcome.REFUSED)
            self._books.note(expired=expired)
        return len(fresh)

    def _take_out(self) -> dict[Hashable, Any]:
        merged, self._merged = self._merged, {}
        return merged

    def _put_back(self, taken: dict[Hashable, Any]) -> None:
        newer, self._merged = self._merged, taken
        for key, item in newer.items():
            taken[key] = self._merge(taken[key], item) if key in taken else item

    def _hand_on(self, taken: dict[Hashable, Any]) -> None:
        check_answer("the sink", self._sink(list(taken.values())))


def _as_it_is(stored: Any) -> Any:
    """Return a copy to restore if the batch is refused, because a merge may change its argument."""
    kind = type(stored)
    if kind in _UNCHANGING or (kind is tuple and _UNCHANGING.issuperset(map(type, stored))):
        return stored
    try:
        return copy.deepcopy(stored)
    except Exception:  # it cannot be copied: a merge that raises must then leave it as it was
        return stored
