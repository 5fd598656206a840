"""The loop that pulls from many sources by a strategy and feeds a target, no faster than it keeps up.

Invariants:
    1. One step at a time. What a step takes is delivered, counted as failed, or given back to its source, also
       when the step is interrupted: per source ``taken == moved + failed``, with ``held`` on top.
    2. A step takes at most ``batch_size`` items, and at most what the backlog leaves room for.
    3. No share is left unused while another source of the strategy has items.

Source: the scheduler of "Fast Critical Path with Async Queueing". Ours: it sleeps until some source has items
instead of spinning, a low-water mark, and an account of each item.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from drainq.backoff import Backoff
from drainq.sources.feed import Feed, feed_of
from drainq.sources.item_store import ItemState
from drainq.sources.loop import FOREVER, Loop
from drainq.sources.stats import SchedulerStats, SourceCounts
from drainq.sources.strategy import Child, Strategy
from drainq.sources.tracker import ItemTracker

_log = logging.getLogger("drainq")
_DEFAULT_IDLE = Backoff(0.001, 0.25, 2.0)

_COURTESY = 0.001
"""Seconds that the loop sleeps while another thread wants to change the sources: a lock is not handed over fairly."""

Target = Callable[[str, list[Any]], object]


class _Account:
    """A source's feed and counters."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.announces = False
        self.moved = self.failed = self.errors = 0

    def counts(self) -> SourceCounts:
        return SourceCounts(self.moved, self.failed, self.errors, self.feed.held, self.feed.ended)


class SourceScheduler:
    """Moves items from many sources to one target, each source by its share.

    Args:
        sources: maps names to sources: a ``PrefetchSource``, a ``DelayedQueue``, an object with
            ``get_next_batch(batch_size)``, a callable of that shape, or an iterator.
        target: called as ``target(name, items)`` with each source's share of a step; the list is its own.
        strategy: ``Fair``, ``Prefer``, ``Weighted``, or an object like them; settable at any time.
        batch_size: most items a step moves.
        backlog: returns how many items the target has not dealt with yet.
        max_backlog: items; a step moves at most ``max_backlog - backlog()``.
        resume_backlog: items; once the backlog has reached its maximum, nothing moves until it is down to this.
            None resumes as soon as there is room.
        tracker: keeps each item's state.
        item_key: maps an item to the text by which the tracker knows it.
        on_error: called as ``on_error(name, error)``; the name is None where no source is concerned. None logs it.
        idle: how long the loop sleeps where a source or backlog has to be asked again and again, or a target fails.

    Raises:
        ValueError: the strategy names an unknown source, or a number is out of range.

    Example:
        >>> from drainq import Fair, SourceScheduler
        >>> scheduler = SourceScheduler({"x": iter("abc"), "y": iter("d")}, print, Fair("x", "y"), batch_size=4)
        >>> scheduler.step()
        x ['a', 'b', 'c']
        y ['d']
        4
    """

    def __init__(
        self,
        sources: Mapping[str, Any],
        target: Target,
        strategy: Strategy,
        *,
        batch_size: int = 100,
        backlog: Callable[[], int] | None = None,
        max_backlog: int | None = None,
        resume_backlog: int | None = None,
        tracker: ItemTracker | None = None,
        item_key: Callable[[Any], str] = str,
        on_error: Callable[[str | None, BaseException], object] | None = None,
        idle: Backoff | None = None,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be a number of items >= 1, got {batch_size!r}")
        if (backlog is None) != (max_backlog is None):
            raise ValueError(f"backlog and max_backlog go together, got {backlog!r} and {max_backlog!r}")
        if max_backlog is not None and max_backlog < 1:
            raise ValueError(f"max_backlog must be >= 1, got {max_backlog!r}")
        if resume_backlog is not None and not (max_backlog is not None and 0 <= resume_backlog < max_backlog):
            below = f"below max_backlog ({max_backlog})"
            raise ValueError(f"resume_backlog must be >= 0 and {below}, got {resume_backlog!r}")
        if not callable(target):
            raise TypeError(f"target must be a callable that takes a source's name and items, got {target!r}")
        self._accounts = {name: _Account(feed_of(source)) for name, source in sources.items()}
        self._target = target
        self._batch_size = batch_size
        self._backlog = backlog
        self._max_backlog = max_backlog
        self._resume_backlog = resume_backlog
        self._tracker = tracker
        self._item_key = item_key
        self._on_error = on_error
        self._idle = _DEFAULT_IDLE if idle is None else idle
        self._credits: dict[Child, float] = {}
        self._stepping = threading.RLock()
        self._steps = self._errors = self._asking = 0
        self._paused = False
        self._loop = Loop(self._turn, name="drainq-scheduler", begin=self._listen, end=self._listen_no_more)
        self._set_strategy(strategy)

    # -- one step ---------------------------------------------------------------------------

    def step(self) -> int:
        """Move up to ``batch_size`` items from the sources to the target, without waiting for a source to have any.

        Returns:
            How many the target took.
        """
        with self._stepping:
            self._steps += 1
            taken = self._take(min(self._batch_size, self._room()))
            return self._deliver(taken)

    def _room(self) -> int:
        """Items that the target has room for, by its backlog."""
        if self._backlog is None or self._max_backlog is None:
            return self._batch_size
        try:
            backlog = self._backlog()
        except Exception as error:
            self._report(None, error)
            return 0
        if backlog >= self._max_backlog:
            self._paused = True
        elif not self._paused or self._resume_backlog is None or backlog <= self._resume_backlog:
            self._paused = False
        return 0 if self._paused else self._max_backlog - backlog

    def _take(self, n: int) -> dict[str, list[Any]]:
        strategy = self._strategy
        taken: dict[str, list[Any]] = {}
        live = {name for name in strategy.names() if not self._accounts[name].feed.ended}
        try:
            while n > 0 and live:
                shares = strategy.split(n, live, self._credits)
                if not any(shares.values()):
                    break
                for name, share in shares.items():
                    got = self._take_from(name, share)
                    if got:
                        taken.setdefault(name, []).extend(got)
                    if len(got) < share:  # what it could not give goes to the others
                        live.discard(name)
                        self._credits[name] = 0.0
                    n -= len(got)
        except BaseException:
            self._give_back(taken)
            raise
        return taken

    def _take_from(self, name: str, share: int) -> list[Any]:
        try:
            return self._accounts[name].feed.take(share) if share else []
        except Exception as error:
            self._accounts[name].errors += 1
            self._report(name, error)
            return []

    def _deliver(self, taken: dict[str, list[Any]]) -> int:
        moved = 0
        try:
            while taken:
                name = next(iter(taken))
                moved += self._deliver_share(name, taken.pop(name))
        finally:
            self._give_back(taken)
        return moved

    def _deliver_share(self, name: str, items: list[Any]) -> int:
        account = self._accounts[name]
        count = len(items)
        given = items.copy() if self._keeps_items(account.feed) else items
        keys = self._keys(name, items)
        self._mark(name, keys, ItemState.SCHEDULED)
        try:
            self._target(name, given)
        except BaseException as error:
            account.failed += count
            self._mark(name, keys, ItemState.FAILED)
            self._settle(name, account.feed.failed, items)
            if not isinstance(error, Exception):
                raise
            self._report(name, error)
            return 0
        account.moved += count
        self._mark(name, keys, ItemState.SENT)
        self._settle(name, account.feed.delivered, items)
        return count

    def _keeps_items(self, feed: Feed) -> bool:
        """Whether the items are looked at after the target has had its list."""
        return type(feed).failed is not Feed.failed

    def _settle(self, name: str, settle: Callable[[list[Any]], None], items: list[Any]) -> None:
        try:
            settle(items)
        except Exception as error:
            self._report(name, error)

    def _give_back(self, taken: dict[str, list[Any]]) -> None:
        for name, items in taken.items():
            self._settle(name, self._accounts[name].feed.give_back, items)

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

    def _report(self, name: str | None, error: BaseException) -> None:
        self._errors += 1
        if self._on_error is None:
            _log.error("scheduler: %s: %r", name if name is not None else "itself", error, exc_info=error)
            return
        try:
            self._on_error(name, error)
        except Exception:
            _log.exception("scheduler: on_error itself failed on %r", error)

    # -- what may change while it runs ------------------------------------------------------

    @property
    def strategy(self) -> Strategy:
        """How a step is shared; a new one takes effect at the next step, and nobody loses its turn."""
        return self._strategy

    @strategy.setter
    def strategy(self, strategy: Strategy) -> None:
        self._set_strategy(strategy)
        self.wake()

    def _set_strategy(self, strategy: Strategy) -> None:
        if not isinstance(strategy, Strategy):
            raise TypeError(f"strategy must be Fair, Prefer, Weighted or an object like them, got {strategy!r}")
        unknown = [name for name in strategy.names() if name not in self._accounts]
        if unknown:
            raise ValueError(f"{strategy!r} names {unknown[0]!r}, but the sources are {sorted(self._accounts)!r}")
        self._strategy = strategy

    def add_source(self, name: str, source: Any) -> None:
        """Add a source; the strategy decides when it has its turn.

        Raises:
            ValueError: there is one of this name.
        """
        with self._between_steps():
            if name in self._accounts:
                raise ValueError(f"there is a source {name!r} already; remove it first")
            account = _Account(feed_of(source))
            if self._loop.running:
                account.announces = account.feed.subscribe(self.wake)
            self._accounts = {**self._accounts, name: account}
        self.wake()

    def remove_source(self, name: str) -> list[Any]:
        """Take a source out.

        Returns:
            The items it had returned beyond what it was asked for.

        Raises:
            KeyError: there is none of this name.
            ValueError: the strategy names it.
        """
        with self._between_steps():
            if name in self._strategy.names():
                raise ValueError(f"{self._strategy!r} names {name!r}; set another strategy first")
            feed = self._accounts[name].feed
            self._accounts = {other: account for other, account in self._accounts.items() if other != name}
            feed.unsubscribe(self.wake)
            self._credits.pop(name, None)
            return feed.drain_held()

    # -- the loop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Step in a background thread until :meth:`stop`, or until all sources have ended, unnamed ones too."""
        self._loop.start()

    def stop(self, timeout: float | None = None) -> bool:
        """End the loop after the step in hand: what that has taken is delivered.

        Args:
            timeout: seconds to wait for it; None waits for ever.

        Returns:
            True if the loop has ended; False too from within the target.
        """
        return self._loop.stop(timeout)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the loop to end: until all sources have ended, or :meth:`stop`.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            True if it has ended.
        """
        return self._loop.join(timeout)

    def wake(self) -> None:
        """Say that there may be something to do, such as less backlog: the loop looks at once."""
        self._loop.wake()

    def __enter__(self) -> SourceScheduler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stats(self) -> SchedulerStats:
        """Return a snapshot of the counters, exact while no step is under way."""
        sources = {name: account.counts() for name, account in self._accounts.items()}
        return SchedulerStats(
            steps=self._steps,
            moved=sum(counts.moved for counts in sources.values()),
            failed=sum(counts.failed for counts in sources.values()),
            errors=self._errors,
            paused=self._paused,
            sources=sources,
        )

    def _turn(self, idle_turns: int) -> float | None:
        """One turn of the loop: step, and say how long to sleep after it; None when nothing will ever come."""
        if self._asking:
            return _COURTESY
        errors_before = self._errors
        try:
            if self.step():
                return 0.0
        except BaseException as error:  # a strategy that raises, or a target that wants to exit: the loop goes on
            self._report(None, error)
        accounts = self._accounts
        if all(account.feed.ended for account in accounts.values()):
            return None
        waited_for = [accounts[name] for name in self._strategy.names() if not accounts[name].feed.ended]
        if self._paused or self._errors > errors_before or not all(account.announces for account in waited_for):
            return self._idle.delay(idle_turns)
        return FOREVER

    def _listen(self) -> None:
        for account in self._accounts.values():
            account.announces = account.feed.subscribe(self.wake)

    def _listen_no_more(self) -> None:
        for account in self._accounts.values():
            account.feed.unsubscribe(self.wake)

    @contextmanager
    def _between_steps(self) -> Iterator[None]:
        self._asking += 1
        with self._stepping:
            self._asking -= 1
            yield
