"""The daily schedule: its hours, and the two nights a year when the clocks change."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.delayed.cron.daily_schedule import CronDailySchedule

UTC = timezone.utc
ZONES = ["UTC", "America/New_York", "Europe/Bucharest", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Chatham"]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def next_times(zone: str, hours: list[str], now: str, *, days: float = 0) -> list[str]:
    schedule = CronDailySchedule(zone, [time.fromisoformat(hour) for hour in hours], timedelta(days=days), 3600)
    return [tick.astimezone(ZoneInfo(zone)).isoformat() for tick in schedule.get_next_times(at(now))]


def test_unsorted_and_repeated_hours_come_sorted_and_once():
    assert CronDailySchedule("UTC", [time(18), time(6), time(18)]).hours_of_day == (time(6), time(18))


def test_the_window_reaches_over_days_and_includes_its_end():
    assert next_times("UTC", ["06:00", "12:00"], "2025-01-01T12:00:00+00:00", days=1) == [
        "2025-01-02T06:00:00+00:00",
        "2025-01-02T12:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("zone", "hour", "now", "fires"),
    [
        ("America/New_York", "02:30", "2025-03-09T06:00:00+00:00", "2025-03-09T03:30:00-04:00"),
        ("Europe/Bucharest", "03:30", "2025-03-30T00:00:00+00:00", "2025-03-30T04:30:00+03:00"),
        ("Australia/Lord_Howe", "02:15", "2025-10-04T12:00:00+00:00", "2025-10-05T02:45:00+11:00"),
    ],
)
def test_an_hour_in_a_gap_fires_once_shifted_by_the_gap(zone, hour, now, fires):
    first, second = next_times(zone, [hour], now, days=2)[:2]
    assert first == fires
    assert at(second).time() == time.fromisoformat(hour)
    assert at(second).date() - at(first).date() == timedelta(days=1)


@pytest.mark.parametrize(
    ("zone", "hour", "before", "between", "fires", "tomorrow"),
    [
        (
            "America/New_York", "01:30", "2025-11-02T05:00:00+00:00", "2025-11-02T06:10:00+00:00",
            "2025-11-02T01:30:00-04:00", "2025-11-03T01:30:00-05:00",
        ),
        (
            "Europe/Bucharest", "03:45", "2025-10-26T00:00:00+00:00", "2025-10-26T01:10:00+00:00",
            "2025-10-26T03:45:00+03:00", "2025-10-27T03:45:00+02:00",
        ),
        (
            "Australia/Lord_Howe", "01:45", "2025-04-05T14:00:00+00:00", "2025-04-05T15:05:00+00:00",
            "2025-04-06T01:45:00+11:00", "2025-04-07T01:45:00+10:30",
        ),
    ],
)  # fmt: skip
def test_an_hour_in_an_overlap_fires_in_the_first_pass_only(zone, hour, before, between, fires, tomorrow):
    assert next_times(zone, [hour], before) == [fires]
    assert next_times(zone, [hour], between) == [tomorrow], "asked in the second pass, the next time is not in the past"


def test_an_hour_that_names_the_second_pass_of_an_overlap_fires_in_the_first():
    """``fold`` belongs to a moment, and an hour of every day is none."""
    schedule = CronDailySchedule("Europe/Berlin", [time(2, 30, fold=1)])
    assert [hour.fold for hour in schedule.hours_of_day] == [0]
    (fires, *_) = schedule.get_next_times(datetime(2025, 10, 25, 22, tzinfo=timezone.utc))
    assert fires == datetime(2025, 10, 26, 0, 30, tzinfo=timezone.utc)


def test_two_hours_that_a_gap_makes_one_time_are_one_tick():
    assert next_times("America/New_York", ["02:30", "03:30"], "2025-03-09T06:00:00+00:00", days=0.5) == [
        "2025-03-09T03:30:00-04:00"
    ]


def test_an_hour_that_a_gap_moves_past_midnight_comes_after_an_earlier_one_of_the_next_date():
    assert next_times("America/Nuuk", ["23:30", "00:10"], "2024-03-30T12:00:00+00:00", days=0.6) == [
        "2024-03-31T00:10:00-01:00",
        "2024-03-31T00:30:00-01:00",
    ]


def test_a_date_that_a_zone_skipped_does_not_stop_the_schedule():
    samoa = next_times("Pacific/Apia", ["10:00"], "2011-12-29T21:00:00+00:00", days=2.5)
    assert samoa == ["2011-12-31T10:00:00+14:00", "2012-01-01T10:00:00+14:00"]


hours = st.lists(st.times(), min_size=1, max_size=5)


@given(
    zone=st.sampled_from(ZONES),
    hours=hours,
    now=st.datetimes(datetime(2015, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
    advance=st.timedeltas(timedelta(0), timedelta(days=4)),
)
def test_agrees_with_resolving_every_hour_of_every_date(zone, hours, now, advance):
    schedule = CronDailySchedule(zone, hours, advance, 60)
    today = now.astimezone(schedule.zone).date()
    dates = [today + timedelta(days=days) for days in range(-2, 10)]
    every = sorted({resolved(day, hour, schedule.zone) for day in dates for hour in hours})
    coming = [tick for tick in every if tick > now]
    window = [tick for tick in coming if tick <= now + advance]
    assert schedule.get_next_times(now) == (window or coming[:1])


@given(zone=st.sampled_from(ZONES), hour=st.times(), year=st.integers(2015, 2034))
def test_every_hour_fires_exactly_once_on_every_date_of_a_year(zone, hour, year):
    schedule = CronDailySchedule(zone, [hour])
    start = datetime.combine(date(year, 1, 1), time.min, tzinfo=schedule.zone) - timedelta(microseconds=1)
    ticks = list(islice(schedule.ticks_after(start), 365))
    fired_on = [tick.astimezone(schedule.zone).date() for tick in ticks]
    assert fired_on == [date(year, 1, 1) + timedelta(days=days) for days in range(365)]
    late = [tick for tick in ticks if tick.astimezone(schedule.zone).time() != hour]
    assert len(late) <= 2, "only a gap moves an hour"
    assert all(shift_of(tick, hour, schedule.zone) <= timedelta(hours=1) for tick in late)


def resolved(day: date, hour: time, zone: ZoneInfo) -> datetime:
    """Return the earliest instant that reads so on the wall, or shift by what is missing: the model."""
    wall = datetime.combine(day, hour)
    offsets = {
        (datetime.combine(day, time(12), tzinfo=UTC) + timedelta(hours=h)).astimezone(zone).utcoffset()
        for h in range(-36, 37)
    }
    readings = sorted(wall.replace(tzinfo=UTC) - offset for offset in offsets)
    real = [tick for tick in readings if tick.astimezone(zone).replace(tzinfo=None) == wall]
    return real[0] if real else max(readings)


def shift_of(tick: datetime, hour: time, zone: ZoneInfo) -> timedelta:
    wall = tick.astimezone(zone).replace(tzinfo=None)
    return wall - datetime.combine(wall.date(), hour)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"zone": "../etc/passwd"}, "passwd"),
        ({"hours_of_day": []}, "at least one"),
        ({"schedule_in_advance": -1}, "-1"),
        ({"schedule_interval": 0}, "0"),
        ({"schedule_interval": timedelta(days=-2)}, "days=-2"),
        ({"schedule_interval": float("nan")}, "nan"),
        ({"schedule_in_advance": float("inf")}, "inf"),
    ],
)
def test_a_bad_schedule_is_refused_with_the_value(arguments, names):
    good = {"zone": "UTC", "hours_of_day": [time(12)], "schedule_in_advance": 0, "schedule_interval": 60}
    with pytest.raises(ValueError, match=names):
        CronDailySchedule(**{**good, **arguments})
    assert CronDailySchedule(**{**good, "zone": UTC}) == CronDailySchedule(**good)


@pytest.mark.parametrize("hour", ["12:00", 12, time(12, tzinfo=UTC)])
def test_an_hour_that_is_no_plain_time_is_refused(hour):
    with pytest.raises(TypeError, match="hours_of_day"):
        CronDailySchedule("UTC", [hour])
