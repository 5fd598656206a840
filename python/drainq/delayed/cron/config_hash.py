"""The hash of a schedule's configuration: it separates the messages of an old configuration from those of the new one.

Each is the md5, in hexadecimal, of a short text; the texts are the source's byte for byte, so that a table may be
shared with it.

Source: ``CronConfigHash.kt`` of funfix ``delayedqueue``. Ours: the hours of a day are sorted before they are hashed,
and cron expressions.
"""

from __future__ import annotations

import hashlib
from datetime import time, timedelta
from zoneinfo import ZoneInfo

from drainq.delayed.cron.daily_schedule import CronDailySchedule
from drainq.delayed.cron.tick_times import checked_period


def hash_of_text(text: str) -> str:
    """The hash of any text that describes a configuration."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def hash_of_period(period: timedelta | float) -> str:
    """The hash of a periodic tick; the period is a timedelta or seconds.

    Example:
        >>> hash_of_period(3600)
        '4916474562628112070d240d515ba44d'
    """
    return hash_of_text(f"\nperiodic-tick:\n  period-ms: {checked_period(period) // timedelta(milliseconds=1)}\n")


def hash_of_daily(schedule: CronDailySchedule) -> str:
    """The hash of a daily schedule: its zone and its hours; how far ahead it plans makes no difference.

    Example:
        >>> from datetime import time
        >>> hash_of_daily(CronDailySchedule("UTC", [time(12), time(18)]))
        'ac4a97d66f972bdaad77be2731bb7c2a'
    """
    hours = ", ".join(_short(hour) for hour in schedule.hours_of_day)
    return hash_of_text(f"\ndaily-cron:\n  zone: {schedule.zone.key}\n  hours: {hours}\n")


def hash_of_cron(expression: str, zone: ZoneInfo) -> str:
    """The hash of a cron expression in a zone."""
    return hash_of_text(f"\ncron:\n  zone: {zone.key}\n  expression: {expression}\n")


def _short(hour: time) -> str:
    """A time of the day in as few digits as it takes, as Java prints it; the shared hash relies on it."""
    if hour.microsecond % 1000:
        return hour.isoformat("microseconds")
    if hour.microsecond:
        return hour.isoformat("milliseconds")
    return hour.isoformat("seconds" if hour.second else "minutes")
