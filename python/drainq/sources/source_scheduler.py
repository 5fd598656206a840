"""The source scheduler: pulls from many sources by a strategy, and feeds a target no faster than its backlog allows.

Invariants:
    1. One step at a time. A step delivers its items, counts them as failed, or gives them back to their source, even
       when it is interrupted. So each item of a source is counted in ``moved``, ``failed`` or ``held``, or given back.
    2. A step takes at most ``batch_size`` items, and at most what the backlog leaves room for. It ends,
       because each round of its loop takes items or finds a source without items.
    3. No share is left unused while another source of the strategy has items.
    4. Strategy, names and accounts are one ``StepPlan``, replaced whole under ``_changing``: each name of the strategy
       has an account, at every moment. No foreign code runs under ``_changing``.

Source: the scheduler of "Fast Critical Path with Async Queueing". Instead of spinning, drainq sleeps until a source
has items. It adds a low-water mark (``resume_backlog``) and counts each item.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from drainq._native import check_name
from drainq.arguments import Seconds, seconds_or_none
from drainq.backoff import Backoff, check_backoff
from drainq.callables import check_callable
from drainq.fork import renew_in_child
from drainq.pickling import refuse
from drainq.sources.loop_thread import FOREVER, Loop
from drainq.sources.scheduled_source import feed_of
from drainq.sources.scheduler_delivery import Account, Backlog, ShareDelivery, Target
from drainq.sources.scheduler_plan import StepPlan, checked_plan, names_of, source_name
from drainq.sources.scheduler_strategy import Child, Strategy, checked_split
from drainq.sources.stats import SchedulerStats
from drainq.sources.tracker import ItemTracker
from drainq.threads import ClosedByBlock, run_aside, start_aside

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger("drainq")
_DEFAULT_IDLE = Backoff(0.001, 0.25, 2.0)

_COURTESY = 0.001
"""Seconds that the loop sleeps while another thread wants to change the sources, because locks are not fair."""


class SourceScheduler(ClosedByBlock):
    """Moves items from many sources to one target, each source by its share. A ``with`` block starts and closes it.

    Args:
        sources: maps names to sources: a ``PrefetchSource``, a ``DelayedQueue``, an object with
            ``get_next_batch(batch_size)``, a callable of that shape, or an iterator.
        target: called as ``target(name, items)`` with each source's share of a step; the target may keep the list.
        strategy: ``Fair``, ``Prefer``, ``Weighted``, or an object like them; settable at any time.
        batch_size: most items a step moves.
        backlog: returns how many items the target still holds.
        max_backlog: items; a step moves at most ``max_backlog - backlog()``.
        resume_backlog: once the backlog has reached its maximum, nothing moves until it is down to this many items.
            None resumes as soon as there is room.
        tracker: keeps each item's state.
        item_key: maps an item to the text by which the tracker knows it.
        on_error: called as ``on_error(name, error)``; the name is None if no source is concerned. None logs it.
        idle: how long the loop sleeps if a source or backlog must be polled, or a target fails.
        name: for logs and the thread.

    Raises:
        ValueError: the strategy names an unknown source, or a number is out of range.

    Example:
        >>> from drainq.sources import Fair, SourceScheduler
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
        name: str = "drainq-scheduler",
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be a number of items >= 1, got {batch_size!r}")
        check_callable("target", target, "name", "items")
        check_callable("item_key", item_key, "item")
        if on_error is not None:
            check_callable("on_error", on_error, "name", "error")
        if not (tracker is None or callable(getattr(tracker, "mark", None))):
            raise TypeError(f"tracker must be an ItemTracker, as ItemTracker.open() makes it, got {tracker!r}")
        if not isinstance(sources, Mapping):
            raise TypeError(f"sources must be a dict of names and sources, got {sources!r}")
        check_name("name", name)
        self.name = name
        self._batch_size = batch_size
        self._backlog = Backlog(backlog, max_backlog, resume_backlog)
        self._on_error = on_error
        self._idle = _DEFAULT_IDLE if idle is None else check_backoff(idle, "idle")
        self._delivery = ShareDelivery(target, tracker, item_key, self._report)
        self._begin()
        accounts = {source_name(name): Account(feed_of(source)) for name, source in sources.items()}
        self._plan = checked_plan(accounts, strategy, names_of(strategy))
        renew_in_child(self)

    def _begin(self) -> None:
        """Make the parts that a forked child must not share with its parent."""
        self._stepping = threading.RLock()
        self._changing = threading.Lock()
        self._credits: dict[Child, float] = {}
        self._steps = self._errors = self._asking = 0
        self._backlog.paused = False
        self._loop = Loop(self._turn, name=self.name, begin=self._listen, end=self._listen_no_more)

    def _renew_in_child(self) -> None:
        """Start empty and stopped. Taken items, and the rest of an iterator, belong to the parent."""
        self._begin()
        accounts = {name: account.renewed() for name, account in self._plan.accounts.items()}
        self._plan = replace(self._plan, accounts=accounts)

    # -- one step ---------------------------------------------------------------------------

    def step(self) -> int:
        """Move up to ``batch_size`` items from the sources to the target, without waiting for a source to have any.

        Returns:
            How many the target took.
        """
        with self._stepping:
            self._steps += 1
            plan = self._plan
            return self._deliver(plan, self._take(plan, self._room()))

    def _room(self) -> int:
        """Return how many items the next step may move, or 0 if the backlog is unknown."""
        try:
            return self._backlog.room(self._batch_size)
        except Exception as error:
            self._report(None, error)
            return 0

    def _take(self, plan: StepPlan, n: int) -> dict[str, list[Any]]:
        taken: dict[str, list[Any]] = {}
        live = {name for name in plan.names if not plan.accounts[name].feed.ended}
        try:
            while n > 0 and live:
                shares = checked_split(plan.strategy, n, live, self._credits)
                if not shares:
                    break
                for name, share in shares.items():
                    got = self._take_from(name, plan.accounts[name], share)
                    if got:
                        taken.setdefault(name, []).extend(got)
                    if len(got) < share:  # the other sources get the rest of its share
                        live.discard(name)
                        self._credits[name] = 0.0
                    n -= len(got)
        except BaseException:
            self._give_back(plan, taken)
            raise
        return taken

    def _take_from(self, name: str, account: Account, share: int) -> list[Any]:
        try:
            return account.feed.take(share)
        except Exception as error:
            account.errors += 1
            self._report(name, error)
            return []

    def _deliver(self, plan: StepPlan, taken: dict[str, list[Any]]) -> int:
        moved = 0
        try:
            while taken:
                name = next(iter(taken))
                moved += self._delivery.deliver(name, plan.accounts[name], taken.pop(name))
        finally:
            self._give_back(plan, taken)
        return moved

    def _give_back(self, plan: StepPlan, taken: dict[str, list[Any]]) -> None:
        for name, items in taken.items():
            self._delivery.settle(name, plan.accounts[name].feed.give_back, items)

    def _report(self, name: str | None, error: BaseException) -> None:
        self._errors += 1
        from drainq.sql.error_text import error_text, to_show  # its modules load with the first error

        if self._on_error is None:
            shown = name if name is not None else "itself"
            _log.error("%s: %s: %s", self.name, shown, error_text(error), exc_info=to_show(error))
            return
        try:
            self._on_error(name, error)
        except Exception as second:
            kind = type(error).__name__
            _log.error("%s: on_error itself failed on %s", self.name, kind, exc_info=to_show(second))

    # -- what may change while it runs ------------------------------------------------------

    @property
    def strategy(self) -> Strategy:
        """The strategy. A new one takes effect at the next step, and no source loses its turn."""
        return self._plan.strategy

    @strategy.setter
    def strategy(self, strategy: Strategy) -> None:
        names = names_of(strategy)
        while True:  # because comparing names and showing a strategy run foreign code
            before = self._plan
            after = checked_plan(before.accounts, strategy, names)
            with self._changing:
                if self._plan is before:
                    self._plan = after
                    break
        self.wake()

    def add_source(self, name: str, source: Any, *, timeout: Seconds | None = None) -> None:
        """Add a source; the strategy decides when it has its turn.

        Args:
            name: its name in the strategies.
            source: as in the constructor.
            timeout: seconds to wait for the current step to end; None waits for ever.

        Raises:
            ValueError: there is a source of this name.
            TimeoutError: a step is still under way, as it is while a source or the target hangs; nothing has changed.
        """
        name, account = source_name(name), Account(feed_of(source))
        with self._between_steps(seconds_or_none("timeout", timeout)), self._changing:
            if name in self._plan.accounts:
                raise ValueError(f"there is a source {name!r} already; remove it first")
            self._plan = replace(self._plan, accounts={**self._plan.accounts, name: account})
        self._begin_with(account)

    def _begin_with(self, account: Account) -> None:
        """Listen to a source that has just been added, and step."""
        if self._loop.running:
            account.announces = account.feed.subscribe(self.wake)
        self.wake()

    def remove_source(self, name: str, *, timeout: Seconds | None = None) -> list[Any]:
        """Take a source out.

        Args:
            name: its name.
            timeout: seconds to wait for the current step to end; None waits for ever.

        Returns:
            The held items, which the source returned beyond the requested number.

        Raises:
            KeyError: there is no source of this name.
            ValueError: the strategy names it.
            TimeoutError: a step is still under way, as it is while a source or the target hangs; nothing has changed.
        """
        name = source_name(name)
        with self._between_steps(seconds_or_none("timeout", timeout)):
            with self._changing:
                plan = self._plan
                if name not in plan.accounts:
                    raise KeyError(f"there is no source {name!r}; the sources are {sorted(plan.accounts)!r}")
                named = name in plan.names
                if not named:
                    accounts = {other: account for other, account in plan.accounts.items() if other != name}
                    self._plan = replace(plan, accounts=accounts)
            if named:
                raise ValueError(f"{plan.strategy!r} names {name!r}; set another strategy first")
            feed = plan.accounts[name].feed
            feed.unsubscribe(self.wake)
            self._credits.pop(name, None)
            return feed.drain_held()

    async def add_source_async(self, name: str, source: Any, *, timeout: Seconds | None = None) -> None:
        """Call :meth:`add_source` as a coroutine. Cancelling it does not stop the addition."""
        await run_aside(self.add_source, name, source, timeout=timeout)

    async def remove_source_async(self, name: str, *, timeout: Seconds | None = None) -> list[Any]:
        """Call :meth:`remove_source` as a coroutine. Cancelling it puts the source back, with its held items."""
        import asyncio

        account = self._plan.accounts.get(name)
        running = start_aside(self.remove_source, name, timeout=timeout)
        try:
            return await asyncio.wrap_future(running)
        except (asyncio.CancelledError, GeneratorExit):
            running.add_done_callback(lambda removed: self._put_back(name, account, removed.exception()))
            raise

    def _put_back(self, name: str, account: Any, error: BaseException | None) -> None:
        if error is not None:  # nothing was removed
            return
        with self._changing:
            self._plan = replace(self._plan, accounts={name: account, **self._plan.accounts})
        self._begin_with(account)

    # -- the loop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Step in a background thread until :meth:`close`, or until all sources, in the strategy or not, have ended."""
        self._loop.start()

    def close(self, timeout: Seconds | None = None) -> bool:
        """End the loop after the current step, whose items are delivered. The loop may be started again.

        Args:
            timeout: seconds to wait for it; None waits for ever.

        Returns:
            True if the loop has ended; False after ``timeout``, or from within the target.
        """
        return self._loop.stop(seconds_or_none("timeout", timeout))

    def join(self, timeout: Seconds | None = None) -> bool:
        """Wait for the loop to end: until all sources have ended, or :meth:`close`.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            True if it has ended.
        """
        return self._loop.join(seconds_or_none("timeout", timeout))

    async def join_async(self, timeout: Seconds | None = None) -> bool:
        """Call :meth:`join` as a coroutine."""
        return await run_aside(self.join, timeout)

    def wake(self) -> None:
        """Make the loop take a step at once, for example because the backlog is smaller."""
        self._loop.wake()

    def __reduce__(self) -> NoReturn:
        refuse(self, "its thread belongs to this process", "its settings, and make a SourceScheduler where it is used")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __repr__(self) -> str:
        return f"<SourceScheduler {self.name!r}>"

    def stats(self) -> SchedulerStats:
        """Return a snapshot of the counters, exact while no step is under way."""
        sources = {name: account.counts() for name, account in self._plan.accounts.items()}
        return SchedulerStats(
            steps=self._steps,
            moved=sum(counts.moved for counts in sources.values()),
            failed=sum(counts.failed for counts in sources.values()),
            errors=self._errors,
            paused=self._backlog.paused,
            sources=sources,
        )

    def _turn(self, idle_turns: int) -> float | None:
        """Run one step. Return the seconds to sleep after it, or None if no item will ever come."""
        if self._asking:
            return _COURTESY
        errors_before = self._errors
        try:
            if self.step():
                return 0.0
        except BaseException as error:  # a strategy that raises, or a target that exits: the loop continues
            self._report(None, error)
        plan = self._plan
        if all(account.feed.ended for account in plan.accounts.values()):
            return None
        waited_for = [plan.accounts[name] for name in plan.names if not plan.accounts[name].feed.ended]
        if self._backlog.paused or self._errors > errors_before or not all(account.announces for account in waited_for):
            return self._idle.delay(idle_turns)
        return FOREVER

    def _listen(self) -> None:
        for account in self._plan.accounts.values():
            account.announces = account.feed.subscribe(self.wake)

    def _listen_no_more(self) -> None:
        for account in self._plan.accounts.values():
            account.feed.unsubscribe(self.wake)

    @contextmanager
    def _between_steps(self, timeout: float | None) -> Iterator[None]:
        """Keep steps from starting inside the block. A busy loop sees ``_asking`` and pauses."""
        with self._changing:
            self._asking += 1
        try:
            entered = self._stepping.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        finally:
            with self._changing:
                self._asking -= 1
        if not entered:
            raise TimeoutError(f"a step was still under way after {timeout} s, so the sources were not changed")
        try:
            yield
        finally:
            self._stepping.release()
