"""CronService: recurring schedules, which offer messages to a delayed queue ahead of time.

A schedule in the queue needs no leader and no process of its own. Every instance of a program installs the same
schedule. The instance that first checks it for a tick makes the message, and the others find the message.

# Invariants
1. A tick becomes one message, whatever the number of schedulers, their clocks, and restarts. The storage guarantees
   that by its tick ledger, in the transaction that inserts the message.
2. Under one prefix there is one configuration: making the ticks of one hash deletes the future messages of other
   hashes. Messages that are due, in flight, or released stay.
3. A check that fails (a generator that raises, a database that is away) is logged, and the schedule is checked again.
4. Two configurations under one prefix at the same time delete each other's future messages. Both send the
   ticks that are due before the deletion. The log warns of this conflict.

Source: ``CronService.kt`` of funfix ``delayedqueue``. drainq adds the ledger, catching up, and cron expressions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, takewhile
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from drainq.arguments import Seconds, seconds_or_none
from drainq.callables import check_callable
from drainq.clock import SystemClock
from drainq.delayed.coroutines import twin
from drainq.delayed.cron.admin import Plan, Ticks, check_names
from drainq.delayed.cron.checks import CronChecks, Look
from drainq.delayed.cron.config_hash import hash_of_cron, hash_of_daily, hash_of_period
from drainq.delayed.cron.cron_message import CronMessage, microseconds
from drainq.delayed.cron.daily_schedule import CronDailySchedule, duration_of, zone_of
from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.delayed.cron.tick_times import (
    checked_expression,
    checked_period,
    cron_ticks,
    missed_ticks,
    periodic_ticks,
    remembered,
)
from drainq.delayed.storage_session import Session
from drainq.threads import ClosedByBlock

T = TypeVar("T")
R = TypeVar("R")

CatchUp = Literal["none", "last", "all"]
"""How many of the ticks missed while no scheduler ran are sent: none, the last one, or all."""

MOST_CAUGHT_UP = 1_000
"""The most ticks that ``catch_up="all"`` sends at once: the newest ones."""

_SHORTEST_LOOK = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(seconds=60)  # the longest pause between checks of frequent ticks
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _closed(service: CronService[Any], handle: CronHandle) -> None:
    """Close the schedule that a cancelled coroutine installed."""
    handle.close()


class CronService(CronChecks[T], ClosedByBlock):
    """The schedules of one delayed queue, as ``queue.cron``.

    The ``install_...`` methods (not ``install_tick``) check a schedule at once, then repeatedly on a thread of drainq
    until the handle is closed. Messages stay. Call them in every instance of a program: each tick is one message.

    ``payload_of`` and ``generate_many`` may be called more than once for a tick. One result is sent, mostly the first.

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
        (True, True)

    Source: ``CronService.kt`` of funfix ``delayedqueue``.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._phase = random.random()  # so that processes check for a tick one after the other, and the first makes it

    def install_tick(self, config_hash: str, key_prefix: str, messages: Iterable[CronMessage[T]]) -> int:
        """Offer the messages of one configuration to the queue, once.

        The future messages of other configurations under the prefix are dropped. An existing tick is not made again,
        even if its message was handled long ago.

        Args:
            config_hash: names the configuration, such as
                :func:`~drainq.delayed.cron.config_hash.hash_of_text` of what it depends on.
            key_prefix: names the schedule; not blank, any characters.
            messages: the ticks to make; may be empty.

        Returns:
            The number of new messages.

        Raises:
            ValueError: a name is blank, or so long that keys would exceed 200 characters.
        """
        check_names(config_hash, key_prefix)
        ticks = self._ticks(config_hash, key_prefix, messages)
        return self._install(config_hash, key_prefix, ticks, description="ticks of the program's own")

    def uninstall_tick(self, config_hash: str, key_prefix: str) -> int:
        """Drop the undelivered messages of this configuration. They may be planned again.

        Returns:
            The number of dropped messages.
        """
        check_names(config_hash, key_prefix)
        return self._call(lambda: self._storage.uninstall_ticks(self._kind, prefix=key_prefix, config_hash=config_hash))

    def install(
        self,
        config_hash: str,
        key_prefix: str,
        schedule_interval: timedelta | float,
        generate_many: Callable[[datetime], Iterable[CronMessage[T]]],
    ) -> CronHandle:
        """Offer the messages of ``generate_many(now)``, at once and every ``schedule_interval``.

        Args:
            config_hash: names the configuration. Installing another one drops the future messages of this one.
            key_prefix: names the schedule; not blank, any characters.
            schedule_interval: a timedelta or seconds, above 0.
            generate_many: gets the time as an aware datetime in UTC; may run on another thread.

        Returns:
            A handle; ``close()`` ends it.

        Raises:
            TypeError: ``generate_many`` cannot be called with a time.
            ValueError: the interval is not positive, or a name is blank.
        """
        check_callable("generate_many", generate_many, "now", may_yield=True)
        interval = duration_of(schedule_interval, "schedule_interval")
        if interval <= timedelta(0):
            raise ValueError(f"schedule_interval must be positive, got {schedule_interval!r}")
        return self._start(
            Plan(config_hash, key_prefix, f"own function, every {_seconds(interval)} s", None),
            lambda now: Look(list(generate_many(now)), interval),
            retry=interval,
        )

    def install_periodic_tick(
        self,
        key_prefix: str,
        period: timedelta | float,
        payload_of: Callable[[datetime], T],
        *,
        catch_up: CatchUp = "none",
    ) -> CronHandle:
        """Send a message at every multiple of ``period``, counted from 1970-01-01 UTC. With 3600, that is every full
        hour.

        Args:
            key_prefix: names the schedule; not blank, any characters.
            period: a timedelta or seconds; at least a millisecond, rounded to whole milliseconds.
            payload_of: gets the tick as an aware datetime in UTC; may run on another thread.
            catch_up: ``"none"``: ticks that passed while no scheduler ran are skipped. ``"last"``: the newest of them
                is sent. ``"all"``: each is sent (at most the newest 1,000).

        Returns:
            A handle; ``close()`` ends it.

        Raises:
            TypeError: ``payload_of`` cannot be called with a time.
            ValueError: the period is below a millisecond, or the prefix blank.
        """
        check_callable("payload_of", payload_of, "at")
        whole = checked_period(period)
        ticks_after = partial(periodic_ticks, whole)
        schedule = Plan(hash_of_period(whole), key_prefix, f"every {_seconds(whole)} s", Ticks(ticks_after, payload_of))
        return self._start_ticks(schedule, ticks_after, payload_of, catch_up)

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
            tz: the zone whose wall clock is meant. A time that names minute and hour fires once a day: at the
                end of a gap that contains it, and in the first pass of an overlap.
            catch_up: as for :meth:`install_periodic_tick`.

        Returns:
            A handle; ``close()`` ends it.

        Raises:
            TypeError: ``payload_of`` cannot be called with a time.
            ValueError: the expression does not parse, the zone is unknown, or the prefix blank.

        Example:
            >>> from datetime import datetime
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "reports") as queue:
            ...     with queue.cron.install_cron("weekly/", "0 6 * * MON", datetime.isoformat, tz="Europe/Berlin"):
            ...         print([schedule.description for schedule in queue.cron.schedules()], queue.stats().scheduled)
            ['cron 0 6 * * MON in Europe/Berlin'] 1
        """
        check_callable("payload_of", payload_of, "at")
        text, zone = checked_expression(expression), zone_of(tz)
        ticks_after = partial(cron_ticks, text, zone)
        schedule = Plan(
            hash_of_cron(text, zone), key_prefix, f"cron {text} in {zone.key}", Ticks(ticks_after, payload_of)
        )
        return self._start_ticks(schedule, ticks_after, payload_of, catch_up)

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
        check_callable("payload_of", payload_of, "at")
        config_hash = hash_of_daily(schedule)
        catch_up_with = self._catching_up(config_hash, key_prefix, schedule.ticks_after, catch_up)

        def look(now: datetime) -> Look[T]:
            ticks = [*catch_up_with(now), *schedule.get_next_times(now)]
            return Look([CronMessage(payload_of(at), at) for at in ticks], schedule.schedule_interval)

        hours = ", ".join(f"{hour:%H:%M:%S}".removesuffix(":00") for hour in schedule.hours_of_day)
        installed = Plan(
            config_hash,
            key_prefix,
            f"daily at {hours} in {schedule.zone.key}",
            Ticks(schedule.ticks_after, payload_of),
        )
        return self._start(installed, look, retry=schedule.schedule_interval)

    def close(self, timeout: Seconds | None = None) -> bool:
        """Close every handle. The messages stay in the queue.

        Args:
            timeout: seconds for all of them together; None for as long as it takes.

        Returns:
            False if a check was still running at the end of the timeout.
        """
        return self._watch.close_all(seconds_or_none("timeout", timeout))

    install_tick_async = twin(install_tick)
    uninstall_tick_async = twin(uninstall_tick)
    install_async = twin(install, undo=_closed)
    install_periodic_tick_async = twin(install_periodic_tick, undo=_closed)
    install_cron_async = twin(install_cron, undo=_closed)
    install_daily_schedule_async = twin(install_daily_schedule, undo=_closed)

    def _start_ticks(
        self,
        schedule: Plan[T],
        ticks_after: Callable[[datetime], Iterator[datetime]],
        payload_of: Callable[[datetime], T],
        catch_up: CatchUp,
    ) -> CronHandle:
        """Keep the next tick planned, and check between two ticks.

        If ticks are closer to each other than checks, one check plans several.
        """
        catch_up_with = self._catching_up(schedule.config_hash, schedule.key_prefix, ticks_after, catch_up)
        ticks_from = remembered(ticks_after)

        def ahead(now: datetime) -> tuple[list[datetime], timedelta]:
            coming = ticks_from(now)
            first, second = next(coming), next(coming)
            again = max((second - first) / 4, _SHORTEST_LOOK)
            times = list(takewhile(lambda at: at is first or at <= now + 2 * again, chain([first, second], coming)))
            if len(times) == 1 and isinstance(self._clock, SystemClock):  # no other clock runs as real time does
                again = max(again, min(first - now + again * self._phase, _LONGEST_PAUSE))
            return times, again

        def look(now: datetime) -> Look[T]:
            times, again = ahead(now)
            return Look([CronMessage(payload_of(at), at) for at in [*catch_up_with(now), *times]], again)

        return self._start(schedule, look, retry=_SHORTEST_LOOK, ahead=ahead if catch_up == "none" else None)

    def _catching_up(
        self,
        config_hash: str,
        key_prefix: str,
        ticks_after: Callable[[datetime], Iterator[datetime]],
        catch_up: CatchUp,
    ) -> Callable[[datetime], Sequence[datetime]]:
        """Return a function that takes the time and returns the missed ticks to send now."""
        limits = {"none": 0, "last": 1, "all": MOST_CAUGHT_UP}
        if catch_up not in limits:
            raise ValueError(f"catch_up must be 'none', 'last' or 'all', got {catch_up!r}")

        def missed(now: datetime) -> Sequence[datetime]:
            if catch_up == "none":
                return []
            until = microseconds(now)  # a tick that a fast clock made too early must not hide earlier ticks
            last = self._call(
                lambda: self._storage.last_tick(self._kind, prefix=key_prefix, config_hash=config_hash, until=until)
            )
            if last is None:
                return []
            return missed_ticks(ticks_after, _EPOCH + timedelta(microseconds=last), now, limits[catch_up])

        return missed


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.6f}".rstrip("0").rstrip(".")
