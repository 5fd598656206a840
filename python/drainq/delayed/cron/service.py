"""Recurring schedules: they put messages into a delayed queue ahead of time, and the queue delivers them.

Why: a schedule that lives in the queue needs no leader and no process of its own. Every instance of a program installs
the same schedule; whoever looks first makes the tick's message, and the others find it made.

# Invariants
1. A tick becomes one message, ever: however many schedulers, whatever their clocks say, and after restarts. The
   storage keeps that promise (its tick ledger, in the transaction that inserts); nothing here is trusted with it.
2. Under one prefix there is one configuration: making the ticks of one hash withdraws what other hashes have planned
   for the future. What is due, in flight, or given back stays.
3. A look that fails (a generator that raises, a database that is away) is logged, and the schedule is looked at again.

Source: ``CronService.kt`` of funfix ``delayedqueue``. Ours: the ledger, catching up, and cron expressions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, takewhile
from typing import Generic, Literal, Protocol, TypeVar
from zoneinfo import ZoneInfo

from drainq.clock import Clock
from drainq.delayed.cron.config_hash import hash_of_cron, hash_of_daily, hash_of_period
from drainq.delayed.cron.daily import CronDailySchedule, duration_of, zone_of
from drainq.delayed.cron.handle import CronHandle
from drainq.delayed.cron.message import CronMessage, microseconds
from drainq.delayed.cron.ticks import checked_expression, checked_period, cron_ticks, missed_ticks, periodic_ticks
from drainq.delayed.message import check_key, check_text, to_ms
from drainq.delayed.storage.protocol import Storage, Tick

T = TypeVar("T")
R = TypeVar("R")

CatchUp = Literal["none", "last", "all"]
"""What becomes of ticks that passed while no scheduler ran: nothing, the last one, or every one of them."""

MOST_CAUGHT_UP = 1_000
"""Most ticks that ``catch_up="all"`` makes up for at once: the newest ones."""

_SHORTEST_LOOK = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Caller(Protocol):
    """Makes a storage call, and makes it again if it failed for a passing reason."""

    def __call__(self, work: Callable[[], R], /) -> R:
        """Return what ``work`` returns."""
        ...


class CronService(Generic[T]):
    """The schedules of one delayed queue, as ``queue.cron``.

    The ``install_...`` methods look at the schedule at once and then again and again on a thread of their own, until
    the handle is closed; what they put into the queue stays there. Call them in every instance of a program: each tick
    is one message.

    A ``payload_of`` or ``generate_many`` may be asked for a tick more than once; only the first answer is sent.

    Example:
        >>> from datetime import datetime, timezone
        >>> from drainq.delayed import CronMessage, DelayedQueue
        >>> from drainq.testing import ManualClock
        >>> clock = ManualClock(datetime(2025, 1, 1, 10, 37, 42, tzinfo=timezone.utc))
        >>> queue = DelayedQueue.open("memory:", "reports", clock=clock)
        >>> handle = queue.cron.install_periodic_tick("report", 3600, lambda at: f"report of {at:%H:%M}")
        >>> clock.set(datetime(2025, 1, 1, 11, tzinfo=timezone.utc))
        >>> queue.try_poll().payload
        'report of 11:00'
        >>> handle.close(), queue.close()
        (True, None)

    Source: ``CronService.kt`` of funfix ``delayedqueue``.
    """

    def __init__(
        self,
        *,
        storage: Storage,
        kind: str,
        encode: Callable[[T], bytes],
        clock: Clock,
        call: Caller,
        made: Callable[[], object],
    ) -> None:
        """Made by the queue.

        Args:
            storage: where the messages live; ``kind`` is the queue's.
            encode: a payload as bytes.
            call: makes a storage call, and makes it again if it failed for a passing reason.
            made: told whenever messages were put in, to wake those who wait for them.
        """
        self._storage = storage
        self._kind = kind
        self._encode = encode
        self._clock = clock
        self._call = call
        self._made = made
        self._handles: set[CronHandle] = set()
        self._lock = threading.Lock()

    def install_tick(self, config_hash: str, key_prefix: str, messages: Iterable[CronMessage[T]]) -> int:
        """Put the messages of one configuration into the queue, once.

        What other configurations under the prefix have planned for the future is dropped. A tick that was made before
        is not made again, even if its message was handled long ago.

        Args:
            config_hash: names the configuration, such as
                :func:`~drainq.delayed.cron.config_hash.hash_of_text` of what it depends on.
            key_prefix: names the schedule; not blank, any characters.
            messages: the ticks to make; none is fine.

        Returns:
            How many messages were made.

        Raises:
            ValueError: a blank name, or one so long that keys would have more than 200 characters.
        """
        return self._install(config_hash, key_prefix, list(messages), update=False)

    def uninstall_tick(self, config_hash: str, key_prefix: str) -> int:
        """Drop what this configuration has planned and nobody was given yet; it may be planned again.

        Returns:
            How many messages were dropped.
        """
        _check_names(config_hash, key_prefix)
        return self._call(lambda: self._storage.uninstall_ticks(self._kind, prefix=key_prefix, config_hash=config_hash))

    def install(
        self,
        config_hash: str,
        key_prefix: str,
        schedule_interval: timedelta | float,
        generate_many: Callable[[datetime], Iterable[CronMessage[T]]],
    ) -> CronHandle:
        """Install what ``generate_many(now)`` returns, at once and every ``schedule_interval``.

        Args:
            config_hash: names the configuration; another one drops what this one has planned for the future.
            key_prefix: names the schedule; not blank, any characters.
            schedule_interval: a timedelta or seconds, above 0.
            generate_many: gets the time as an aware datetime in UTC; may run on another thread.

        Returns:
            A handle; ``close()`` ends it.
        """
        interval = duration_of(schedule_interval, "schedule_interval")
        if interval <= timedelta(0):
            raise ValueError(f"schedule_interval must be positive, got {schedule_interval!r}")
        return self._start(
            config_hash, key_prefix, lambda now: _Look(list(generate_many(now)), interval), retry=interval
        )

    def install_periodic_tick(
        self,
        key_prefix: str,
        period: timedelta | float,
        payload_of: Callable[[datetime], T],
        *,
        catch_up: CatchUp = "none",
    ) -> CronHandle:
        """Send a message at every multiple of ``period``, counted from 1970-01-01 UTC: every full hour, say.

        Args:
            key_prefix: names the schedule; not blank, any characters.
            period: a timedelta or seconds; at least a millisecond, of which it is a whole number.
            payload_of: gets the tick as an aware datetime in UTC; may run on another thread.
            catch_up: ``"none"``: ticks that passed while no scheduler ran are skipped. ``"last"``: the newest of them
                is sent. ``"all"``: each is sent (at most the newest 1,000).

        Returns:
            A handle; ``close()`` ends it.

        Raises:
            ValueError: the period is below a millisecond, or the prefix blank.
        """
        whole = checked_period(period)
        ticks_after = partial(periodic_ticks, whole)
        return self._start_ticks(hash_of_period(whole), key_prefix, ticks_after, payload_of, catch_up)

    def install_cron(
        self,
        key_prefix: str,
        expression: str,
        payload_of: Callable[[datetime], T],
        *,
        tz: str | ZoneInfo = "UTC",
        catch_up: CatchUp = "none",
    ) -> CronHandle:
        """Send a message whenever a cron expression fires.

        Args:
            key_prefix: names the schedule; not blank, any characters.
            expression: minute, hour, day of the month, month, day of the week; or six fields, seconds first; or
                ``"@daily"`` and the like.
            payload_of: gets the tick as an aware datetime in UTC; may run on another thread.
            tz: the zone whose wall clock is meant. A time that names minute and hour fires once a day: after a gap, and
                in the first pass of an overlap.
            catch_up: as for :meth:`install_periodic_tick`.

        Returns:
            A handle; ``close()`` ends it.

        Raises:
            ValueError: the expression does not parse, the zone is unknown, or the prefix blank.
        """
        text, zone = checked_expression(expression), zone_of(tz)
        ticks_after = partial(cron_ticks, text, zone)
        return self._start_ticks(hash_of_cron(text, zone), key_prefix, ticks_after, payload_of, catch_up)

    def install_daily_schedule(
        self,
        key_prefix: str,
        schedule: CronDailySchedule,
        payload_of: Callable[[datetime], T],
        *,
        catch_up: CatchUp = "none",
    ) -> CronHandle:
        """Send a message at the same times every day.

        Args:
            key_prefix: names the schedule; not blank, any characters.
            schedule: the times, the zone, and how far ahead to plan.
            payload_of: gets the tick as an aware datetime in UTC; may run on another thread.
            catch_up: as for :meth:`install_periodic_tick`.

        Returns:
            A handle; ``close()`` ends it.
        """
        if not isinstance(schedule, CronDailySchedule):
            raise TypeError(f"schedule must be a CronDailySchedule, got {schedule!r}")
        config_hash = hash_of_daily(schedule)
        catch_up_with = self._catching_up(config_hash, key_prefix, schedule.ticks_after, catch_up)

        def look(now: datetime) -> _Look[T]:
            ticks = [*catch_up_with(now), *schedule.get_next_times(now)]
            return _Look([CronMessage(payload_of(at), at) for at in ticks], schedule.schedule_interval)

        return self._start(config_hash, key_prefix, look, retry=schedule.schedule_interval)

    def close(self, timeout: float | None = 10.0) -> bool:
        """Close every handle; what is scheduled stays in the queue.

        Returns:
            False if a look was still running after ``timeout`` seconds, which each handle gets.
        """
        with self._lock:
            handles = list(self._handles)
        return all([handle.close(timeout) for handle in handles])  # noqa: C419  (close each, also after a False)

    def _start_ticks(
        self,
        config_hash: str,
        key_prefix: str,
        ticks_after: Callable[[datetime], Iterator[datetime]],
        payload_of: Callable[[datetime], T],
        catch_up: CatchUp,
    ) -> CronHandle:
        """Keep the next tick planned and look four times between two ticks.

        Ticks that are closer to each other than the looks are planned several at once.
        """
        catch_up_with = self._catching_up(config_hash, key_prefix, ticks_after, catch_up)

        def look(now: datetime) -> _Look[T]:
            coming = ticks_after(now)
            first, second = next(coming), next(coming)
            again = max((second - first) / 4, _SHORTEST_LOOK)
            ahead = takewhile(lambda at: at is first or at <= now + 2 * again, chain([first, second], coming))
            return _Look([CronMessage(payload_of(at), at) for at in [*catch_up_with(now), *ahead]], again)

        return self._start(config_hash, key_prefix, look, retry=_SHORTEST_LOOK)

    def _catching_up(
        self,
        config_hash: str,
        key_prefix: str,
        ticks_after: Callable[[datetime], Iterator[datetime]],
        catch_up: CatchUp,
    ) -> Callable[[datetime], Sequence[datetime]]:
        """What to make up for at a given time: ticks after the last that was ever made."""
        limits = {"none": 0, "last": 1, "all": MOST_CAUGHT_UP}
        if catch_up not in limits:
            raise ValueError(f"catch_up must be 'none', 'last' or 'all', got {catch_up!r}")

        def missed(now: datetime) -> Sequence[datetime]:
            if catch_up == "none":
                return []
            last = self._call(lambda: self._storage.last_tick(self._kind, prefix=key_prefix, config_hash=config_hash))
            if last is None:
                return []
            return missed_ticks(ticks_after, _EPOCH + timedelta(microseconds=last), now, limits[catch_up])

        return missed

    def _start(
        self, config_hash: str, key_prefix: str, look: Callable[[datetime], _Look[T]], *, retry: timedelta
    ) -> CronHandle:
        _check_names(config_hash, key_prefix)
        self._call(lambda: None)  # a closed queue says so here, and not in the log of a loop
        update = True  # the first look refreshes what an earlier release planned and nobody was given yet

        def tick() -> float:
            nonlocal update
            found = look(_EPOCH + timedelta(seconds=self._clock.now()))
            self._install(config_hash, key_prefix, found.messages, update=update)
            update = False
            return found.again.total_seconds()

        handle = CronHandle(key_prefix, tick, clock=self._clock, retry=retry.total_seconds(), on_close=self._forget)
        with self._lock:
            self._handles.add(handle)
        handle.start()
        return handle

    def _forget(self, handle: CronHandle) -> None:
        with self._lock:
            self._handles.discard(handle)

    def _install(self, config_hash: str, key_prefix: str, messages: Sequence[CronMessage[T]], *, update: bool) -> int:
        _check_names(config_hash, key_prefix)
        ticks = [self._tick(config_hash, key_prefix, message) for message in messages]
        now = to_ms(self._clock.now(), "the clock")
        made = self._call(
            lambda: self._storage.install_ticks(
                self._kind, prefix=key_prefix, config_hash=config_hash, ticks=ticks, now=now, update=update
            )
        )
        if made:
            self._made()
        return made

    def _tick(self, config_hash: str, key_prefix: str, message: CronMessage[T]) -> Tick:
        if not isinstance(message, CronMessage):
            raise TypeError(f"messages must hold CronMessage values, got {message!r}")
        key = check_key(CronMessage.key(config_hash, key_prefix, message.schedule_at))
        return Tick(key, self._encode(message.payload), microseconds(message.schedule_at), to_ms(message.delivered_at))


@dataclass(frozen=True)
class _Look(Generic[T]):
    """What a look at a schedule found, and how long it may be until the next."""

    messages: Sequence[CronMessage[T]]
    again: timedelta


def _check_names(config_hash: str, key_prefix: str) -> None:
    for name, value in (("config_hash", config_hash), ("key_prefix", key_prefix)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, got {value!r}")
        if not value.strip():
            raise ValueError(f"{name} must not be blank, got {value!r}")
        check_text(value, name)
    check_key(CronMessage.key(config_hash, key_prefix, 0))
