"""The item tracker: records whether each item is scheduled, sent, done or failed, and counts items by source.

The scheduler marks the items that it schedules and sends, and the worker marks those that are done. The two race:
"done" may be marked before "sent". So "sent" is written only over "scheduled" or nothing, never over "done" or
"failed".

| state | marked by | written over |
| --- | --- | --- |
| ``scheduled`` | the scheduler, before the target gets the item | anything: a new life begins |
| ``sent`` | the scheduler, after the target took it | ``scheduled``, or nothing |
| ``done`` | the worker | anything |
| ``failed`` | the worker, or the scheduler if the target raised | anything |

Source: the API of "Fast Critical Path with Async Queueing" that keeps the state of each item.
"""

from __future__ import annotations

from collections.abc import Iterable

from drainq.arguments import Seconds, check_clock_if_given, seconds, seconds_or_none
from drainq.clock import Clock, SystemClock
from drainq.sources.tracker.store import ItemState, ItemStore, MemoryStore
from drainq.threads import ClosedByBlock

_CALLS = [name for name in vars(ItemStore) if not name.startswith("_")]


class ItemTracker(ClosedByBlock):
    """Keeps the state of each item, by source and key; :meth:`open` makes one. Threads share it.

    Args:
        store: where the states are kept.
        clock: an object with ``now() -> float``, epoch seconds, for the age in :meth:`purge`.

    Example:
        >>> from drainq.sources import ItemState, ItemTracker
        >>> tracker = ItemTracker.open("memory:")
        >>> tracker.mark("orders", ["17", "18"], ItemState.SENT)
        >>> tracker.mark("orders", ["17"], ItemState.DONE)
        >>> tracker.state("orders", "17")
        <ItemState.DONE: 'done'>
        >>> tracker.in_flight()
        1
    """

    def __init__(self, store: ItemStore, *, clock: Clock | None = None) -> None:
        if not all(callable(getattr(store, name, None)) for name in _CALLS):
            raise TypeError(
                f"store must be an object with {', '.join(_CALLS)}, or use ItemTracker.open(), got {store!r}"
            )
        check_clock_if_given(clock)
        self._store = store
        self._clock: Clock = SystemClock() if clock is None else clock

    @classmethod
    def open(cls, url: str = "memory:", *, table: str = "drainq_items", clock: Clock | None = None) -> ItemTracker:
        """Open a tracker.

        Args:
            url: ``memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
            table: the table's name; it is made if it is missing.
            clock: an object with ``now() -> float``, epoch seconds, for the age in :meth:`purge`.

        Raises:
            ValueError: the URL is none of these.
            ImportError: ``postgresql:`` without psycopg: ``pip install 'drainq[postgres]'``.
        """
        if url == "memory:":
            return cls(MemoryStore(), clock=clock)
        from drainq.sources.tracker.sql import SqlStore  # here: it loads a driver
        from drainq.sql.url import DatabaseUrl

        return cls(SqlStore(DatabaseUrl.parse(url), table=table), clock=clock)

    def mark(self, source: str, keys: Iterable[str], state: ItemState) -> None:
        """Set the state of items.

        Args:
            source: the source's name.
            keys: the texts that identify the items.
            state: ``SENT`` changes only scheduled and unknown items. The other states change any item.

        Raises:
            ValueError: ``state`` is unknown, or a text cannot be stored.
            TypeError: ``keys`` is a single text, or a key is no text.
        """
        state = ItemState(state)
        if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
            raise TypeError(f"mark takes an iterable of keys, such as [key], got a {type(keys).__name__}")
        distinct = sorted({_text("a key", key) for key in keys})  # so that two writers of the same keys cannot deadlock
        self._store.mark(_text("source", source), distinct, state, self._clock.now())

    def state(self, source: str, key: str) -> ItemState | None:
        """Return an item's state; None if it is unknown."""
        found = self._store.read(_text("source", source), _text("key", key))
        return None if found is None else found[0]

    def attempts(self, source: str, key: str) -> int:
        """Return how often an item was scheduled; 0 if it is unknown."""
        found = self._store.read(_text("source", source), _text("key", key))
        return 0 if found is None else found[1]

    def counts(self) -> dict[str, dict[ItemState, int]]:
        """Return the number of items by source and state; every state has a number."""
        counts: dict[str, dict[ItemState, int]] = {}
        for source, state, count in self._store.counts():
            counts.setdefault(source, dict.fromkeys(ItemState, 0))[state] = count
        return counts

    def in_flight(self) -> int:
        """Return the number of items scheduled or sent, not yet done or failed; cheap however many are finished.

        As a scheduler's ``backlog``, it limits the items in flight to ``max_backlog``.
        """
        return self._store.in_flight()

    def purge(self, older_than: Seconds) -> int:
        """Forget items that have been done or failed for more than ``older_than`` seconds; return how many."""
        return self._store.purge(self._clock.now() - seconds("older_than", older_than))

    def close(self, timeout: Seconds | None = None) -> bool:
        """Close the tracker's store, without waiting for it. Return True."""
        seconds_or_none("timeout", timeout)
        self._store.close()
        return True


def _text(what: str, value: object) -> str:
    """Check that every store can hold a text, and return it. So all stores accept the same texts."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, got a {type(value).__name__}; str(item) makes one")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"{what} must be text that can be written as UTF-8, and has a lone surrogate")
    if "\0" in value:
        raise ValueError(f"{what} must not hold a NUL character")
    return value
