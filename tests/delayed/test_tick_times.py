"""The next time of a period and of a cron expression."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drainq.delayed.cron.tick_times import (
    ALIASES,
    checked_expression,
    checked_period,
    cron_ticks,
    missed_ticks,
    periodic_ticks,
    remembered,
)

UTC, LORD_HOWE = timezone.utc, "Australia/Lord_Howe"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def fires(expression: str, zone: str, after: str, *, until: str | None = None, count: int = 3) -> list[str]:
    ticks = cron_ticks(checked_expression(expression), ZoneInfo(zone), at(after))
    some = takewhile(lambda tick: tick <= at(until), ticks) if until else islice(ticks, count)
    return [tick.astimezone(ZoneInfo(zone)).isoformat() for tick in some]


@given(
    period=st.timedeltas(timedelta(milliseconds=1), timedelta(days=40)).map(checked_period),
    after=st.datetimes(datetime(1960, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)),
)
def test_periodic_ticks_are_the_multiples_of_the_period_since_the_epoch(period, after):
    first, second = islice(periodic_ticks(period, after), 2)
    assert after < first <= after + period
    assert second - first == period
    assert (first - datetime(1970, 1, 1, tzinfo=UTC)) % period == timedelta(0)


@pytest.mark.parametrize("period", [0, -1, 0.0004, timedelta(0), timedelta(microseconds=999), float("nan")])
def test_a_period_below_a_millisecond_is_refused_with_the_value(period):
    with pytest.raises(ValueError, match="period"):
        checked_period(period)
    assert checked_period(timedelta(microseconds=1999)) == timedelta(milliseconds=2)


def test_an_expression_fires_where_it_says():
    assert fires("*/20 9-10 * * MON", "UTC", "2025-01-05T00:00:00+00:00", count=7) == [
        *(f"2025-01-06T{time}:00+00:00" for time in ("09:00", "09:20", "09:40", "10:00", "10:20", "10:40")),
        "2025-01-13T09:00:00+00:00",
    ]


def test_six_fields_begin_with_seconds():
    assert fires("*/30 * * * * *", "UTC", "2025-01-01T00:00:00+00:00", count=2) == [
        "2025-01-01T00:00:30+00:00",
        "2025-01-01T00:01:00+00:00",
    ]
    assert fires("5,50 1 * * * *", "UTC", "2025-01-01T00:01:05+00:00", count=1) == ["2025-01-01T00:01:50+00:00"]
    assert fires("5,50 1 0 * * *", "UTC", "2025-01-01T00:01:05.5+00:00", count=1) == ["2025-01-01T00:01:50+00:00"]


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_the_expression_it_stands_for(alias):
    after = "2025-02-03T04:05:06+00:00"
    assert fires(alias.upper(), "Europe/Bucharest", after) == fires(ALIASES[alias], "Europe/Bucharest", after)


@pytest.mark.parametrize(
    "bad", ["", "* * * *", "61 * * * *", "0 0 31 2 *", "@reboot", "@often", "a b c d e", "*/0 * * * *", "0 0 * * 1#6"]
)
def test_a_bad_expression_is_refused_with_the_value(bad):
    with pytest.raises(ValueError, match="cron") as refused:
        checked_expression(bad)
    assert repr(bad) in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # A gap: once, where the gap ends.
        ("30 2 * * *", "America/New_York", "2025-03-09T05:00", "2025-03-09T03:00:00-04:00 2025-03-10T02:30:00-04:00"),
        ("0,30 2 * * *", "America/New_York", "2025-03-09T05:00", "2025-03-09T03:00:00-04:00 2025-03-10T02:00:00-04:00"),
        ("30 3 * * *", "Europe/Bucharest", "2025-03-30T00:00", "2025-03-30T04:00:00+03:00 2025-03-31T03:30:00+03:00"),
        ("15 2 * * *", LORD_HOWE, "2025-10-04T13:00", "2025-10-05T02:30:00+11:00 2025-10-06T02:15:00+11:00"),
        # An overlap: the first pass.
        ("30 1 * * *", "America/New_York", "2025-11-02T04:00", "2025-11-02T01:30:00-04:00 2025-11-03T01:30:00-05:00"),
        ("45 3 * * *", "Europe/Bucharest", "2025-10-26T00:00", "2025-10-26T03:45:00+03:00 2025-10-27T03:45:00+02:00"),
        ("45 1 * * *", LORD_HOWE, "2025-04-05T14:00", "2025-04-06T01:45:00+11:00 2025-04-07T01:45:00+10:30"),
        # Asked in the second pass: tomorrow, never the past.
        ("30 1 * * *", "America/New_York", "2025-11-02T06:10", "2025-11-03T01:30:00-05:00 2025-11-04T01:30:00-05:00"),
        ("45 3 * * *", "Europe/Bucharest", "2025-10-26T01:10", "2025-10-27T03:45:00+02:00 2025-10-28T03:45:00+02:00"),
        ("45 1 * * *", LORD_HOWE, "2025-04-05T15:05", "2025-04-07T01:45:00+10:30 2025-04-08T01:45:00+10:30"),
    ],
)
def test_a_time_of_the_day_fires_once_on_the_days_the_clock_changes(expression, zone, after, expected):
    assert fires(expression, zone, f"{after}:00+00:00", count=2) == expected.split()
    with_seconds = [f"{at[:17]}{second}{at[19:]}" for at in expected.split() for second in ("05", "50")]
    assert fires(f"5,50 {expression}", zone, f"{after}:00+00:00", count=4) == with_seconds


def test_a_starred_expression_fires_in_both_passes_of_an_overlap():
    assert fires("*/30 * * * *", "America/New_York", "2025-11-02T05:10:00+00:00", count=4) == [
        "2025-11-02T01:30:00-04:00",
        "2025-11-02T01:00:00-05:00",
        "2025-11-02T01:30:00-05:00",
        "2025-11-02T02:00:00-05:00",
    ]
    assert fires("45 * * * *", "Australia/Lord_Howe", "2025-04-05T14:00:00+00:00", count=3) == [
        "2025-04-06T01:45:00+11:00", "2025-04-06T01:45:00+10:30", "2025-04-06T02:45:00+10:30",
    ]  # fmt: skip


def test_a_starred_expression_loses_nothing_where_the_clock_moves_by_half_an_hour():
    assert fires("*/15 2 * * *", "Australia/Lord_Howe", "2025-04-05T13:30:00+00:00", count=4) == [
        f"2025-04-06T02:{minute}:00+10:30" for minute in ("00", "15", "30", "45")
    ]
    assert fires("*/15 3 * * *", "Australia/Lord_Howe", "2025-10-04T12:30:00+00:00", count=4) == [
        f"2025-10-05T03:{minute}:00+11:00" for minute in ("00", "15", "30", "45")
    ]


CHANGES = {
    "America/New_York": ["2025-03-09T07:00:00+00:00", "2025-11-02T06:00:00+00:00", "2026-11-01T06:00:00+00:00"],
    "Europe/Bucharest": ["2025-03-30T01:00:00+00:00", "2025-10-26T01:00:00+00:00"],
    "Australia/Lord_Howe": ["2025-04-05T15:00:00+00:00", "2025-10-04T15:30:00+00:00"],
}


@settings(max_examples=60)
@given(
    minute=st.sampled_from(["*", "*/15", "*/20", "*/7"]),
    hour=st.sampled_from(["*", "*/2", "0-3", "1", "2", "3"]),
    change=st.sampled_from([(zone, at(moment)) for zone, moments in CHANGES.items() for moment in moments]),
    before=st.timedeltas(timedelta(0), timedelta(hours=6)),
)
def test_a_starred_expression_fires_at_every_minute_whose_wall_time_matches(minute, hour, change, before):
    """The model reads the clock on the wall at every minute of twelve hours around a change."""
    zone, moment = ZoneInfo(change[0]), change[1]
    start, end = moment - before, moment + timedelta(hours=6)
    ticks = takewhile(lambda tick: tick <= end, cron_ticks(f"{minute} {hour} * * *", zone, start))
    floor = start.replace(second=0, microsecond=0)
    minutes = [floor + timedelta(minutes=n) for n in range(1, 12 * 60 + 2)]
    minutes_of = parsed(minute, 60)
    hours_of = parsed(hour, 24)
    expected = [
        tick
        for tick in minutes
        if tick <= end and tick.astimezone(zone).minute in minutes_of and tick.astimezone(zone).hour in hours_of
    ]
    assert list(ticks) == expected


def parsed(field: str, size: int) -> set[int]:
    if field.startswith("*"):
        return set(range(0, size, int(field[2:] or 1)))
    first, _, last = field.partition("-")
    return set(range(int(first), int(last or first) + 1))


@given(
    period=st.sampled_from([1, 7, 60, 3600]),
    late=st.integers(0, 40_000),
    limit=st.sampled_from([1, 5, 1000]),
)
def test_missed_ticks_are_the_newest_of_those_that_passed(period, late, limit):
    last = at("2025-01-01T00:00:00+00:00")
    now = last + timedelta(seconds=late)
    every = [last + timedelta(seconds=s) for s in range(0, late + 1) if (last.timestamp() + s) % period == 0 and s]
    assert (
        missed_ticks(lambda after: periodic_ticks(timedelta(seconds=period), after), last, now, limit) == every[-limit:]
    )


def test_a_year_of_missed_seconds_costs_no_year_of_steps():
    stepped = 0

    def seconds_after(after: datetime):
        nonlocal stepped
        for tick in periodic_ticks(timedelta(seconds=1), after):
            stepped += 1
            yield tick

    last = at("2025-01-01T00:00:00+00:00")
    now = last + timedelta(days=365)
    assert missed_ticks(seconds_after, last, now, 10) == [now - timedelta(seconds=n) for n in range(9, -1, -1)]
    assert stepped < 200


@pytest.mark.parametrize("expression", ["*/7 * * * *", "30 2 * * *", "0 0 1 * *"])
@given(steps=st.lists(st.integers(-7_200, 7_200), max_size=30))
@settings(max_examples=50, deadline=None)
def test_remembered_ticks_are_those_computed_anew_whichever_way_the_clock_goes(expression, steps):
    ticks_after = partial(cron_ticks, expression, ZoneInfo("Europe/Berlin"))
    again = remembered(ticks_after)
    now = datetime(2025, 3, 29, 22, tzinfo=UTC)  # the clocks change in the night
    for step in steps:
        now += timedelta(seconds=step)
        assert list(islice(again(now), 4)) == list(islice(ticks_after(now), 4))


def test_remembered_ticks_are_computed_once_for_each_tick():
    computed = []

    def ticks_after(now):
        computed.append(now.second)
        yield from periodic_ticks(timedelta(seconds=10), now)

    again = remembered(ticks_after)
    for second in range(30):
        next(again(datetime(2025, 1, 1, 0, 0, second, tzinfo=UTC)))
    assert computed == [0, 10, 20]
