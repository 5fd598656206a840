"""A daily schedule: the same wall-clock times every day, in one time zone.

"At 02:30 in Bucharest" is a wall-clock time, and twice a year the wall clock jumps. This file defines what happens
then.

# Invariants
1. Each of the ``hours_of_day`` fires exactly once on every date of the zone.
2. In a gap (clocks go forward, the time does not exist) the hour is shifted by the gap: 02:30 becomes 03:30.
   If the schedule has an hour at the shifted time, too, the two are one tick.
3. In an overlap (clocks go back, the time comes twice) it fires in the first pass only.
4. :meth:`CronDailySchedule.get_next_times` is never empty, strictly increasing, and strictly after ``now``: never in
   the past, even in the second pass of an overlap.

Source: ``CronDailySchedule.kt`` of funfix/database. Differences: invariant 3 (there the second pass fires the hour
again, in the past), a negative advance is refused, and the order of the hours does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def zone_of(zone: str | ZoneInfo | timezone) -> ZoneInfo:
    """Return the time zone that ``zone`` names.

    Raises:
        ValueError: there is no such zone, or its data is not installed.
    """
    if isinstance(zone, ZoneInfo):
        return zone
    if zone is timezone.utc:
        return ZoneInfo("UTC")
    if not isinstance(zone, str):
        raise TypeError(f"a time zone must be a name such as 'Europe/Bucharest' or a ZoneInfo, got {zone!r}")
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"unknown time zone {zone!r}: take an IANA name such as 'Europe/Bucharest' (on Windows: pip install tzdata)"
        ) from error


def duration_of(value: timedelta | float, name: str) -> timedelta:
    """Convert a timedelta or a number of seconds to a timedelta.

    Raises:
        TypeError, ValueError: the value is neither, or not finite; the message calls it ``name``.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a timedelta or a number of seconds, got {value!r}")
    try:
        return timedelta(seconds=value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a finite number of seconds, got {value!r}") from error


@dataclass(frozen=True)
class CronDailySchedule:
    """The same times of the day, every day, in one time zone.

    Args:
        zone: a zone's name (``"Europe/Bucharest"``) or a ``ZoneInfo``.
        hours_of_day: one or more ``datetime.time`` without a zone; kept sorted, each once.
        schedule_in_advance: how far ahead messages are offered: a timedelta or seconds, 0 or more.
        schedule_interval: how often the schedule is checked: a timedelta or seconds, above 0.

    Raises:
        ValueError: no hours, an unknown zone, a negative advance, or an interval that is not positive.

    Example:
        >>> from datetime import datetime, time, timedelta, timezone
        >>> noon = CronDailySchedule("UTC", [time(12)], timedelta(days=2), timedelta(hours=1))
        >>> [at.isoformat() for at in noon.get_next_times(datetime(2025, 1, 1, 12, tzinfo=timezone.utc))]
        ['2025-01-02T12:00:00+00:00', '2025-01-03T12:00:00+00:00']

    Source: ``CronDailySchedule.kt`` of funfix/database.
    """

    zone: ZoneInfo
    hours_of_day: tuple[time, ...]
    schedule_in_advance: timedelta
    schedule_interval: timedelta

    def __init__(
        self,
        zone: str | ZoneInfo | timezone,
        hours_of_day: Iterable[time],
        schedule_in_advance: timedelta | float = timedelta(days=1),
        schedule_interval: timedelta | float = timedelta(hours=1),
    ) -> None:
        hours = tuple(hours_of_day)
        for hour in hours:
            if not isinstance(hour, time) or hour.tzinfo is not None:
                raise TypeError(f"hours_of_day must hold datetime.time values without a time zone, got {hour!r}")
        if not hours:
            raise ValueError("hours_of_day must hold at least one time of the day, got none")
        advance = duration_of(schedule_in_advance, "schedule_in_advance")
        if advance < timedelta(0):
            raise ValueError(f"schedule_in_advance must not be negative, got {schedule_in_advance!r}")
        interval = duration_of(schedule_interval, "schedule_interval")
        if interval <= timedelta(0):
            raise ValueError(f"schedule_interval must be positive, got {schedule_interval!r}")
        object.__setattr__(self, "zone", zone_of(zone))
        object.__setattr__(self, "hours_of_day", tuple(sorted({hour.replace(fold=0) for hour in hours})))
        object.__setattr__(self, "schedule_in_advance", advance)
        object.__setattr__(self, "schedule_interval", interval)

    def get_next_times(self, now: datetime) -> list[datetime]:
        """Return the times up to ``schedule_in_advance`` from ``now``, and at least the next one.

        Args:
            now: an aware datetime.

        Returns:
            Aware datetimes in UTC, increasing, all after ``now``; the end of the window is part of it.
        """
        end = now + self.schedule_in_advance
        ticks = self.ticks_after(now)
        return [next(ticks), *takewhile(lambda at: at <= end, ticks)]

    def ticks_after(self, now: datetime) -> Iterator[datetime]:
        """Yield every time of the schedule after ``now``, in UTC, for ever."""
        last = now.astimezone(timezone.utc)
        # A time shifted out of a gap may belong to an earlier date; a zone that skipped a whole date shifts by a day.
        day = last.astimezone(self.zone).date() - timedelta(days=2)
        while True:
            # The next date too: a time shifted past midnight comes after some of its times.
            today = self._instants(day)
            for at in sorted(today | self._instants(day + timedelta(days=1))):
                if last < at <= max(today):
                    last = at
                    yield at
            day += timedelta(days=1)

    def _instants(self, day: date) -> set[datetime]:
        """Return the instants of a date's times. ``fold=0`` selects the first pass of an overlap, and shifts a time in
        a gap."""
        return {datetime.combine(day, hour, tzinfo=self.zone).astimezone(timezone.utc) for hour in self.hours_of_day}
