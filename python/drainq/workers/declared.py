"""DeclaredMetrics: a worker that merges items into tables with rows for each minute, hour or day, as declared.

1. Items of a class go to the metrics that are declared for it. One flush writes all metrics.
2. A batch with an item that cannot be read (a missing attribute, NaN) is refused whole.
3. A metric can be removed while items arrive. Its held rows are still written.

Source: the streaming processors of SkyWalking's OAL: L1, L2, the hour and day workers, the time-to-live of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from drainq.arguments import Seconds
from drainq.delivery.accounting import Outcome
from drainq.delivery.sink_contract import to_show
from drainq.fork import leave_to_parent
from drainq.sql import DatabaseUrl
from drainq.threads import run_aside
from drainq.workers.buffered_worker import MAX_ROWS, Buffered
from drainq.workers.holding_worker import log
from drainq.workers.merged import Entry, Merged
from drainq.workers.metric import Metric
from drainq.workers.metric_tables import MetricsSink

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.delivery.options import SendingSettings

CLEAR_EVERY = 60.0  # seconds between two deletions of old rows


class DeclaredMetrics(Buffered[Any]):
    """Merge items as declared, and write the results.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
        metrics: the declarations; several may be of one class.
        create: create missing tables.
        flush_interval: seconds between flushes; None: flush only when full, and in ``flush`` and ``close``.
        max_rows: the number of held rows (combinations of key and period) above which draining flushes and waits.
        settings: ``queue``, ``weight``, ``options``, and the fields of :class:`WorkerOptions`.
    Raises:
        ValueError: two metrics have one name.
        DatabaseError: the database cannot be opened, or has no such tables.

    Example:
        >>> from dataclasses import dataclass
        >>> from drainq.workers import Metric, Value
        >>> @dataclass
        ... class Hit:
        ...     path: str
        ...     at: float
        ...     ms: float
        >>> hits = Metric(
        ...     "hits", Hit, keys={"path": "path"}, time="at",
        ...     values={"requests": Value.count(), "slowest": Value.max("ms"), "mean": Value.average("ms")},
        ... )
        >>> with DeclaredMetrics(url="sqlite:///hits.db", metrics=[hits]) as metrics:
        ...     _ = metrics.produce_many([Hit("/", 61.0, 2.0), Hit("/", 62.0, 4.0)])
        ...     _ = metrics.flush()
        ...     metrics.read("hits")
        [{'path': '/', 'time': 60, 'requests': 2, 'slowest': 4, 'mean': 3.0}]
    """

    def __init__(
        self,
        *,
        url: str | DatabaseUrl,
        metrics: Iterable[Metric],
        create: bool = True,
        flush_interval: Seconds | None = 5.0,
        max_rows: int = MAX_ROWS,
        **settings: Unpack[SendingSettings],
    ) -> None:
        declared = list(metrics)
        if not declared or not all(isinstance(metric, Metric) for metric in declared):
            raise TypeError(f"metrics must be a list of Metric, at least one, got {metrics!r}")
        names = [metric.name for metric in declared]
        if len(set(names)) < len(names):
            raise ValueError(f"each metric needs a name of its own, got {names!r}")
        self._merged = {metric.name: Merged(metric) for metric in declared}
        self._ready: list[Entry] = []
        self._cleared_at = float("-inf")
        self._item_types = [metric.of for metric in declared]
        self._tables = MetricsSink(url, declared, create=create)
        super().__init__(
            self._tables,
            f"declared-metrics/{'+'.join(sorted(names))}",
            size=_items,
            max_rows=max_rows,
            flush_interval=flush_interval,
            **settings,
        )

    def read(
        self, name: str, every: str | None = None, *, since: float | None = None, until: float | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a metric in the database, in the order of time. Rows that are not flushed are missing.

        Args:
            name: the metric's name.
            every: a period of the metric; None: the metric's finest.
            since, until: only periods with ``since <= begin < until``, in seconds since the epoch.
        Returns:
            For each row a dict of its keys, ``time`` and its values; a percentile ``ms`` of 99 percent is ``ms_p99``.
        Raises:
            KeyError: there is no such metric or period.
        """
        metric = self._merged[name].metric
        return self._tables.rows(metric, metric.periods[0] if every is None else every, since, until)

    def remove(self, name: str, timeout: Seconds | None = None) -> bool:
        """Write the rows of a metric, and forget the metric. Its tables and the other metrics stay.

        Returns:
            False as for :meth:`flush`. Rows that were not written by the deadline stay held, and are written later.
        Raises:
            KeyError: there is no such metric.
            ValueError: the worker has no other metric; close the worker instead.
        """
        if len(self._merged) == 1 and name in self._merged:
            raise ValueError(f"{name!r} is the only metric: close the worker instead")
        with self._state():
            removed = self._merged.pop(name)
            self._ready += removed.entries(self._clock.now())
        return self.flush(timeout)

    async def remove_async(self, name: str, timeout: Seconds | None = None) -> bool:
        """Call :meth:`remove` as a coroutine. Cancelling it does not stop the removal."""
        return await run_aside(self.remove, name, timeout)

    # -- holding ----------------------------------------------------------------------------------

    def _hold(self, batch: list[Any]) -> int:
        now = self._clock.now()
        adds: list[tuple[Merged, list[tuple[Any, int]]]] = []
        taken: set[int] = set()
        for merged in self._merged.values():
            mine = [
                (place, merged.read(item)) for place, item in enumerate(batch) if isinstance(item, merged.metric.of)
            ]
            oldest = merged.metric.oldest
            if oldest is not None:
                mine = [(place, read) for place, read in mine if read[0][-1] > now - oldest]
            adds.append((merged, [(read, int(place not in taken)) for place, read in mine]))
            taken.update(place for place, _ in mine)
        for merged, reads in adds:
            merged.add(reads)
        left = len(batch) - len(taken)
        if left:
            kinds = tuple({merged.metric.of for merged in self._merged.values()})
            expired = sum(isinstance(item, kinds) for place, item in enumerate(batch) if place not in taken)
            log.warning("%s: %d items are of no metric, %d are too old", self._name, left - expired, expired)
            self._books.move(left, Outcome.PENDING, Outcome.REFUSED)
            self._books.note(expired=expired)
        return len(taken)

    def _entries(self) -> int:
        return len(self._ready) + sum(map(len, self._merged.values()))

    def _take_out(self) -> tuple[list[Entry], list[Merged]]:
        ready, self._ready = self._ready, []
        merged = list(self._merged.values())
        self._merged = {of.metric.name: Merged(of.metric) for of in merged}
        return ready, merged

    def _to_send(self, taken: tuple[list[Entry], Sequence[Merged]]) -> list[Entry]:
        ready, merged = taken
        now = self._clock.now()
        return ready + [entry for of in merged for entry in of.entries(now)]

    def _put_back(self, taken: list[Entry]) -> None:
        self._ready = taken + self._ready

    def _hand_on(self, taken: Any) -> None:
        super()._hand_on(taken)
        now = self._clock.now()
        if now - self._cleared_at >= CLEAR_EVERY:
            self._cleared_at = now
            for merged in list(self._merged.values()):
                try:
                    if merged.metric.keep:
                        self._tables.clear(merged.metric, now)
                except Exception as error:  # the items are delivered; the next deletion tries again
                    shown = to_show(error, values=self._log_values)
                    log.error("%s: rows that are too old could not be deleted", merged.metric.name, exc_info=shown)

    def _forget(self) -> None:
        super()._forget()
        leave_to_parent(self._merged, self._ready)
        self._merged = {name: Merged(of.metric) for name, of in self._merged.items()}
        self._ready = []


def _items(entries: list[Any]) -> int:
    return sum(entry[0] for entry in entries)
