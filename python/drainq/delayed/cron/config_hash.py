"""Configuration hashes: tell the messages of a schedule's old configuration from those of the new one.

A hash is the hexadecimal md5 of a short text. The texts equal those of the source library byte for byte, so that both
libraries can share a table.

Source: ``CronConfigHash.kt`` of funfix ``delayedqueue``. drainq adds cron expressions, and sorts the hours of a day
before hashing.
"""

from __future__ import annotations

import hashlib
from datetime import time, timedelta
from zoneinfo import ZoneInfo

from drainq.delayed.cron.daily_schedule import CronDailySchedule
from drainq.delayed.cron.tick_times import checked_period


def hash_of_text(text: str) -> str:
    """Return the hash of any text that describes a configuration."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def hash_of_period(period: timedelta | float) -> str:
    """Return the hash of a period, a timedelta or seconds.

    Example:
        >>> hash_of_period(3600)
        '4916474562628112070d240d515ba44d'
    """
    return hash_of_text(f"\nperiodic-tick:\n  period-ms: {checked_period(period) // timedelta(milliseconds=1)}\n")


def hash_of_daily(schedule: CronDailySchedule) -> str:
    """Return the hash of a daily schedule's zone and hours, whatever its advance.

    Example:
        >>> from datetime import time
        >>> hash_of_daily(CronDailySchedule("UTC", [time(12), time(18)]))
        'ac4a97d66f972bdaad77be2731bb7c2a'
    """
    hours = ", ".join(_short(hour) for hour in schedule.hours_of_day)
    return hash_of_text(f"\ndaily-cron:\n  zone: {schedule.zone.key}\n  hours: {hours}\n")


def hash_of_cron(expression: str, zone: ZoneInfo) -> str:
    """Return the hash of a cron expression in a zone."""
    return hash_of_text(f"\ncron:\n  zone: {zone.key}\n  expression: {expression}\n")


def _short(hour: time) -> str:
    """Format a time of the day with as few digits as Java does, which the shared hash needs."""
    if hour.microsecond % 1000:
        return hour.isoformat("microseconds")
    if hour.microsecond:
        return hour.isoformat("milliseconds")
    return hour.isoformat("seconds" if hour.second else "minutes")
