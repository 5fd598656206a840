"""Tick times: multiples of a period, and the times of cron expressions.

Both are endless, strictly increasing iterators of UTC datetimes after a given moment, like
:meth:`drainq.delayed.cron.daily_schedule.CronDailySchedule.ticks_after`, so the scheduler treats all alike.

Daylight saving, for cron expressions:

1. A time that names its minute and hour fires once a day: in a gap at the gap's end, in an overlap in the first pass.
2. A starred minute or hour follows the wall clock: it does not fire in a gap, and fires in both passes of an overlap.

Source: the parser and rule 1 are ``cronsim``'s (Debian cron's rules). drainq never returns a time in the past during
the second pass, nor a time twice. It adds the ``@daily`` names, and rule 2 in zones that move by half an hour (cronsim
steps by whole hours there and loses ticks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import chain, islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from drainq.delayed.cron.daily_schedule import duration_of

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def checked_period(period: timedelta | float) -> timedelta:
    """Return ``period`` (a timedelta or seconds) in whole milliseconds.

    Raises:
        ValueError: it is below a millisecond.
    """
    whole = duration_of(period, "period")
    if whole < _MILLISECOND:
        raise ValueError(f"period must be at least a millisecond (0.001), got {period!r}")
    return round(whole / _MILLISECOND) * _MILLISECOND


def periodic_ticks(period: timedelta, after: datetime) -> Iterator[datetime]:
    """Yield the multiples of ``period``, counted from 1970-01-01 UTC, that lie after ``after``."""
    tick = _EPOCH + ((after - _EPOCH) // period + 1) * period
    while True:
        yield tick
        tick += period


def remembered(ticks_after: Callable[[datetime], Iterator[datetime]]) -> Callable[[datetime], Iterator[datetime]]:
    """Return ``ticks_after`` with a cache of the next two ticks."""
    latest: tuple[datetime, list[datetime]] | None = None  # a time, and the next ticks

    def after(now: datetime) -> Iterator[datetime]:
        nonlocal latest
        known = latest  # another thread may replace it meanwhile
        if known is None or not known[0] <= now < known[1][0]:
            known = latest = now, list(islice(ticks_after(now), 2))
        return chain(known[1], ticks_after(known[1][-1]))

    return after


def checked_expression(expression: str) -> str:
    """Return a cron expression with its alias resolved.

    Args:
        expression: five fields (minute hour day month weekday), six with seconds first, or an alias such as
            ``"@daily"``.

    Raises:
        ValueError: it does not parse, or no such day ever comes.
    """
    if not isinstance(expression, str):
        raise TypeError(f"a cron expression is a str such as '*/5 * * * *', got {expression!r}")
    text = expression.strip()
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise ValueError(f"unknown cron alias {expression!r}: take one of {', '.join(ALIASES)}, or five fields")
        text = ALIASES[text.lower()]
    text = " ".join(text.upper().split())
    try:
        next(CronSim(text, _EPOCH))
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "no such day ever comes"
        raise ValueError(
            f"bad cron expression {expression!r}: {reason}; five fields are minute hour day month weekday"
        ) from error
    return text


def cron_ticks(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a checked ``expression`` fires in ``zone``, after ``after``, in UTC.

    Example:
        >>> from datetime import datetime, timezone
        >>> from zoneinfo import ZoneInfo
        >>> noon = datetime(2025, 1, 1, 12, 0, tzinfo=timezone.utc)
        >>> next(cron_ticks("*/5 * * * *", ZoneInfo("UTC"), noon)).isoformat()
        '2025-01-01T12:05:00+00:00'
    """
    minute, hour = expression.split()[-5:-3]
    ticks = _wall_clock_ticks if minute.startswith("*") or hour.startswith("*") else _daily_ticks
    last = after.astimezone(timezone.utc)
    for at in ticks(expression, zone, last):
        tick = at.astimezone(timezone.utc)
        if tick > last:
            last = tick
            yield tick


def _daily_ticks(expression: str, zone: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """Yield the ticks of an ``expression`` that names minute and hour, from the minute of ``now`` on.

    CronSim moves a time out of a gap for five fields only, so the seconds of six fields are added to its minutes.
    """
    minutes = CronSim(" ".join(expression.split()[-5:]), (now.replace(second=0) - _SECOND).astimezone(zone))
    seconds = sorted(CronSim(expression, _EPOCH).seconds)
    return (minute + timedelta(seconds=second) for minute in minutes for second in seconds)


def _wall_clock_ticks(expression: str, zone: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """Yield every instant after ``now`` at which the wall clock shows a time of ``expression``.

    Between two changes of the clock, wall time is UTC plus an offset, so the expression is evaluated without a zone. At
    a change it is evaluated again with the new offset.
    """
    seen, start = now, now
    while True:
        offset = _offset(zone, seen)
        for wall in CronSim(expression, (start + offset).replace(tzinfo=None)):
            at = wall.replace(tzinfo=timezone.utc) - offset
            change = _next_change(zone, seen, at)
            if change is not None:
                # One second back: CronSim yields what lies after its start, and the change itself may be a tick.
                seen, start = change, change - _SECOND
                break
            seen = at
            yield at
        else:
            return


def _next_change(zone: ZoneInfo, start: datetime, until: datetime) -> datetime | None:
    """Return the first second in ``(start, until]`` whose offset differs from the one before; None if there is none."""
    while start < until:
        end = min(start + timedelta(days=1), until)
        if _offset(zone, end) != _offset(zone, start):
            before, after = int(start.timestamp()), int(end.timestamp())
            while after - before > 1:
                middle = (before + after) // 2
                same = _offset(zone, datetime.fromtimestamp(middle, timezone.utc)) == _offset(zone, start)
                before, after = (middle, after) if same else (before, middle)
            return datetime.fromtimestamp(after, timezone.utc)
        start = end
    return None


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def missed_ticks(
    ticks_after: Callable[[datetime], Iterator[datetime]], last: datetime, now: datetime, limit: int
) -> list[datetime]:
    """Return the newest ``limit`` ticks that lie after ``last`` and not after ``now``.

    The search goes back in growing steps, so a schedule of seconds that stood still for a year computes a few times
    ``limit`` ticks, and not those of a year.
    """
    span = timedelta(minutes=1)
    while True:
        start = max(last, now - span)
        missed = list(takewhile(lambda at: at <= now, ticks_after(start)))
        if len(missed) >= limit or start == last:
            return missed[-limit:]
        span *= 2
