"""The delivery of one source's share to the target. Reports the outcome to the source and the tracker.

Invariants:
    1. A share that reached the target counts as moved or as failed, never as both.
    2. Only the target decides this. An error of a tracker, an ``item_key`` or a source afterwards is only reported.

Source: the scheduler of "Fast Critical Path with Async Queueing"; drainq adds the counters of each source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drainq.callables import check_answer, check_callable
from drainq.sources.prefetch_buffer_size import number_of_items
from drainq.sources.scheduled_source import Feed
from drainq.sources.stats import SourceCounts
from drainq.sources.tracker import ItemState, ItemTracker


class Backlog:
    """The room of a target; not locked.

    Args:
        ask: returns how many items the target still holds; None: there is always room.
        maximum: items; there is room for ``maximum - ask()``.
        resume: once the maximum was reached, there is no room until the backlog is down to this many items. None: there
            is room as soon as the backlog is below the maximum.

    Raises:
        ValueError: one of ``ask`` and ``maximum`` is missing, or not ``0 <= resume < maximum``.
        TypeError: a value is no number of items.
    """

    def __init__(self, ask: Callable[[], int] | None, maximum: int | None, resume: int | None) -> None:
        for option, number in (("max_backlog", maximum), ("resume_backlog", resume)):
            if number is not None:
                number_of_items(option, number)
        if (ask is None) != (maximum is None):
            raise ValueError(f"backlog and max_backlog go together, got {ask!r} and {maximum!r}")
        if maximum is not None and maximum < 1:
            raise ValueError(f"max_backlog must be >= 1, got {maximum!r}")
        if resume is not None and not (maximum is not None and 0 <= resume < maximum):
            raise ValueError(f"resume_backlog must be >= 0 and below max_backlog ({maximum}), got {resume!r}")
        if ask is not None:
            check_callable("backlog", ask)
        self._ask = ask
        self._maximum = maximum
        self._resume = resume
        self.paused = False
        """Whether the maximum was reached, and the backlog has not fallen to ``resume`` since."""

    def room(self, wanted: int) -> int:
        """Return how many of ``wanted`` items fit into the target. An exception of ``ask`` passes through."""
        if self._ask is None or self._maximum is None:
            return wanted
        backlog = number_of_items("what backlog() returns", self._ask())
        if backlog >= self._maximum:
            self.paused = True
        elif self._resume is None or backlog <= self._resume:
            self.paused = False
        return 0 if self.paused else min(wanted, self._maximum - backlog)


Target = Callable[[str, list[Any]], object]
Report = Callable[["str | None", BaseException], None]


class Account:
    """A source's feed and counters."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.announces = False
        """Whether the source notifies listeners of new items."""
        self.moved = self.failed = self.errors = 0

    def counts(self) -> SourceCounts:
        """Return a snapshot of the counters."""
        return SourceCounts(self.moved, self.failed, self.errors, self.feed.held, self.feed.ended)

    def renewed(self) -> Account:
        """Return an empty account of the same source, for a forked child. The held items belong to the parent."""
        self.feed.forget()
        return Account(self.feed)


class ShareDelivery:
    """Delivers shares to the target.

    Args:
        target: called with a source's name and items.
        tracker: keeps each item's state, or None.
        item_key: maps an item to the text by which the tracker knows it.
        report: is called with a source's name and an error; the name is None if no source is concerned.
    """

    def __init__(
        self, target: Target, tracker: ItemTracker | None, item_key: Callable[[Any], str], report: Report
    ) -> None:
        self._target = target
        self._tracker = tracker
        self._item_key = item_key
        self._report = report

    def deliver(self, name: str, account: Account, items: list[Any]) -> int:
        """Deliver one share. Return how many items the target took.

        Raises:
            BaseException: an error of the target that is no Exception.
        """
        count = len(items)
        given = items.copy() if account.feed.needs_items_afterwards else items
        keys = self._keys(name, items)
        self._mark(name, keys, ItemState.SCHEDULED)
        try:
            check_answer("the target", self._target(name, given))
        except BaseException as error:
            account.failed += count
            self._mark(name, keys, ItemState.FAILED)
            self.settle(name, account.feed.failed, items)
            if not isinstance(error, Exception):
                raise
            self._report(name, error)
            return 0
        account.moved += count
        self._mark(name, keys, ItemState.SENT)
        self.settle(name, account.feed.delivered, items)
        return count

    def settle(self, name: str, settle: Callable[[list[Any]], None], items: list[Any]) -> None:
        """Tell a source the outcome of its items."""
        try:
            settle(items)
        except Exception as error:
            self._report(name, error)

    def _keys(self, name: str, items: list[Any]) -> list[str]:
        if self._tracker is None:
            return []
        try:
            return [self._item_key(item) for item in items]
        except Exception as error:
            self._report(name, error)
            return []

    def _mark(self, name: str, keys: list[str], state: ItemState) -> None:
        if self._tracker is None or not keys:
            return
        try:
            self._tracker.mark(name, keys, state)
        except Exception as error:
            self._report(name, error)
