"""Where each item is: scheduled, sent, done or failed, with counts by source.

The scheduler says what it schedules and sends; whoever works on the items says when they are done. The two race:
"done" may be said before "sent" is. So "sent" is only written over "scheduled", and what is done stays done until
the item is scheduled again.

| state | said by | written over |
| --- | --- | --- |
| ``scheduled`` | the scheduler, before the target gets the item | anything: a new life begins |
| ``sent`` | the scheduler, after the target took it | ``scheduled``, or nothing |
| ``done`` | the worker | anything |
| ``failed`` | the worker, or the scheduler if the target raised | anything |

Source: the API of "Fast Critical Path with Async Queueing" that keeps the state of each item.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

from drainq.clock import Clock, SystemClock


class ItemState(str, Enum):
    """Where an item is."""

    SCHEDULED = "scheduled"
    SENT = "sent"
    DONE = "done"
    FAILED = "failed"


_UNFINISHED = (ItemState.SCHEDULED, ItemState.SENT)


class ItemTracker(ABC):
    """Keeps the state of each item, by source and key; :meth:`open` makes one. Threads share it.

    Example:
        >>> from drainq import ItemState, ItemTracker
        >>> tracker = ItemTracker.open("memory:")
        >>> tracker.mark("orders", ["17", "18"], ItemState.SENT)
        >>> tracker.mark("orders", ["17"], ItemState.DONE)
        >>> tracker.state("orders", "17")
        <ItemState.DONE: 'done'>
        >>> tracker.in_flight()
        1
    """

    @staticmethod
    def open(url: str = "memory:", *, table: str = "drainq_items", clock: Clock | None = None) -> ItemTracker:
        """Open a tracker.

        Args:
            url: ``memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
            table: the table's name; it is made if it is missing.
            clock: an object with ``now() -> float``, epoch seconds; decides what :meth:`purge` finds old.

        Raises:
            ValueError: the URL is none of these.
            ImportError: ``postgresql:`` without psycopg: ``pip install 'drainq[postgres]'``.
        """
        told = SystemClock() if clock is None else clock
        if url == "memory:":
            return MemoryTracker(clock=told)
        from drainq.sources.tracker_sql import open_sql_tracker  # only here: it may need a driver

        return open_sql_tracker(url, table=table, clock=told)

    @abstractmethod
    def mark(self, source: str, keys: Iterable[str], state: ItemState) -> None:
        """Say that items are in a state now.

        Args:
            source: the source's name.
            keys: what the items are known by.
            state: ``SENT`` changes only what is scheduled or unknown; the others change anything.
        """

    @abstractmethod
    def state(self, source: str, key: str) -> ItemState | None:
        """Return an item's state; None if it is unknown."""

    @abstractmethod
    def attempts(self, source: str, key: str) -> int:
        """Return how often an item was scheduled; 0 if it is unknown."""

    @abstractmethod
    def counts(self) -> Mapping[str, Mapping[ItemState, int]]:
        """Return the number of items by source and state; every state is there."""

    @abstractmethod
    def purge(self, older_than: float) -> int:
        """Forget items that have been done or failed for more than ``older_than`` seconds; return how many."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the tracker holds open."""

    def in_flight(self) -> int:
        """Return the number of items scheduled or sent, not yet done or failed.

        As a scheduler's ``backlog`` it makes ``max_backlog`` a credit window.
        """
        return sum(states[state] for states in self.counts().values() for state in _UNFINISHED)


class MemoryTracker(ItemTracker):
    """A tracker that lasts as long as the process."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._items: dict[str, dict[str, tuple[ItemState, int, float]]] = {}
        self._counts: dict[str, Counter[ItemState]] = {}

    def mark(self, source: str, keys: Iterable[str], state: ItemState) -> None:
        """Say that items are in a state now."""
        now = self._clock.now()
        keys = list(keys)
        state = ItemState(state)
        with self._lock:
            items = self._items.setdefault(source, {})
            counts = self._counts.setdefault(source, Counter())
            for key in keys:
                before, attempts, _ = items.get(key, (None, 0, 0.0))
                if state is ItemState.SENT and before not in (ItemState.SCHEDULED, None):
                    continue
                if before is not None:
                    counts[before] -= 1
                counts[state] += 1
                items[key] = (state, attempts + (state is ItemState.SCHEDULED), now)

    def state(self, source: str, key: str) -> ItemState | None:
        """Return an item's state; None if it is unknown."""
        with self._lock:
            found = self._items.get(source, {}).get(key)
        return None if found is None else found[0]

    def attempts(self, source: str, key: str) -> int:
        """Return how often an item was scheduled; 0 if it is unknown."""
        with self._lock:
            found = self._items.get(source, {}).get(key)
        return 0 if found is None else found[1]

    def counts(self) -> dict[str, dict[ItemState, int]]:
        """Return the number of items by source and state; every state is there."""
        with self._lock:
            return {source: {state: counts[state] for state in ItemState} for source, counts in self._counts.items()}

    def purge(self, older_than: float) -> int:
        """Forget items that have been done or failed for more than ``older_than`` seconds; return how many."""
        before = self._clock.now() - older_than
        purged = 0
        with self._lock:
            for source, items in self._items.items():
                old = [key for key, (state, _, at) in items.items() if state not in _UNFINISHED and at < before]
                for key in old:
                    self._counts[source][items.pop(key)[0]] -= 1
                purged += len(old)
        return purged

    def close(self) -> None:
        """Do nothing: what is in memory goes with the tracker."""
