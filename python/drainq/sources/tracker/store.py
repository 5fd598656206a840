"""The interface of an item tracker's store, and the store in memory.

A store knows no clock: times are epoch seconds, handed in. Threads share it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Protocol

from drainq.fork import renew_in_child


class ItemState(str, Enum):
    """The state of an item."""

    SCHEDULED = "scheduled"
    SENT = "sent"
    DONE = "done"
    FAILED = "failed"


_UNFINISHED = (ItemState.SCHEDULED, ItemState.SENT)


class ItemStore(Protocol):
    """Keeps state, attempts and time of the last change of each item, by source and key."""

    def mark(self, source: str, keys: Sequence[str], state: ItemState, now: float) -> None:
        """Set the state of items: ``SENT`` replaces only ``SCHEDULED`` or nothing; ``SCHEDULED`` adds an attempt."""
        ...

    def read(self, source: str, key: str) -> tuple[ItemState, int] | None:
        """Return an item's state and attempts; None if it is unknown."""
        ...

    def counts(self) -> Iterator[tuple[str, ItemState, int]]:
        """Yield source, state and number of items."""
        ...

    def in_flight(self) -> int:
        """Return the number of items scheduled or sent."""
        ...

    def purge(self, before: float) -> int:
        """Forget items done or failed before a time; return how many."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class MemoryStore:
    """A store that lasts as long as the process; a forked child's begins empty."""

    def __init__(self) -> None:
        self._renew_in_child()
        renew_in_child(self)

    def _renew_in_child(self) -> None:
        """Forget all items, because the parent process keeps their states."""
        self._lock = threading.Lock()
        self._items: dict[tuple[str, str], tuple[ItemState, int, float]] = {}
        self._counts: Counter[tuple[str, ItemState]] = Counter()

    def mark(self, source: str, keys: Sequence[str], state: ItemState, now: float) -> None:
        """Set the state of items."""
        with self._lock:
            for key in keys:
                before, attempts, _ = self._items.get((source, key), (None, 0, 0.0))
                if state is ItemState.SENT and before not in (ItemState.SCHEDULED, None):
                    continue
                if before is not None:
                    self._counts[source, before] -= 1
                self._counts[source, state] += 1
                self._items[source, key] = (state, attempts + (state is ItemState.SCHEDULED), now)

    def read(self, source: str, key: str) -> tuple[ItemState, int] | None:
        """Return an item's state and attempts."""
        found = self._items.get((source, key))
        return None if found is None else found[:2]

    def counts(self) -> Iterator[tuple[str, ItemState, int]]:
        """Yield source, state and number of items."""
        with self._lock:
            counts = [(source, state, count) for (source, state), count in self._counts.items() if count]
        yield from counts

    def in_flight(self) -> int:
        """Return the number of items scheduled or sent."""
        with self._lock:
            return sum(count for (_, state), count in self._counts.items() if state in _UNFINISHED)

    def purge(self, before: float) -> int:
        """Forget items done or failed before a time; return how many."""
        with self._lock:
            old = [key for key, (state, _, at) in self._items.items() if state not in _UNFINISHED and at < before]
            for key in old:
                self._counts[key[0], self._items.pop(key)[0]] -= 1
        return len(old)

    def close(self) -> None:
        """Do nothing."""
