"""The name of a tick's message: its key, and the hash of its configuration."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drainq.delayed.cron.config_hash import hash_of_cron, hash_of_daily, hash_of_period, hash_of_text
from drainq.delayed.cron.cron_message import CronMessage
from drainq.delayed.cron.daily_schedule import CronDailySchedule
from tests.delayed.cron.ticks import key_of

NOON = datetime(2025, 1, 1, 12, tzinfo=timezone.utc)
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc))


def test_the_key_is_prefix_hash_and_the_time_in_utc():
    bucharest = NOON.astimezone(ZoneInfo("Europe/Bucharest"))
    assert key_of("abc", "a/b", bucharest) == "a/b/abc/20250101-120000.000000000"


@given(one=moments, other=moments)
@example(one=NOON, other=NOON + timedelta(microseconds=1))
def test_keys_are_as_distinct_and_as_ordered_as_their_times(one, other):
    first, second = key_of("h", "p", one), key_of("h", "p", other)
    assert (first == second) == (one == other)
    assert (first < second) == (one < other)


def test_times_are_kept_in_utc():
    message = CronMessage("x", NOON.astimezone(ZoneInfo("Asia/Tokyo")), NOON.timestamp() + 1)
    assert message.schedule_at.isoformat() == "2025-01-01T12:00:00+00:00"
    assert message.schedule_at_actual.isoformat() == "2025-01-01T12:00:01+00:00"


@pytest.mark.parametrize("naive_or_none", [datetime(2025, 1, 1), "2025-01-01", None, float("nan")])
def test_what_is_no_moment_is_refused(naive_or_none):
    with pytest.raises((TypeError, ValueError), match="schedule_at"):
        CronMessage("x", naive_or_none)


def test_hashes_are_those_of_the_other_implementation():
    assert hash_of_period(timedelta(hours=1)) == "4916474562628112070d240d515ba44d"
    assert hash_of_daily(CronDailySchedule("UTC", [time(12), time(18)])) == "ac4a97d66f972bdaad77be2731bb7c2a"


def test_a_daily_schedule_plans_a_day_ahead_and_looks_each_hour():
    daily = CronDailySchedule("UTC", [time(12)])
    assert (daily.schedule_in_advance, daily.schedule_interval) == (timedelta(days=1), timedelta(hours=1))


def test_the_order_in_which_hours_are_given_makes_no_other_hash():
    assert hash_of_daily(CronDailySchedule("UTC", [time(18), time(12)])) == "ac4a97d66f972bdaad77be2731bb7c2a"


def test_how_far_ahead_is_planned_makes_no_other_hash():
    assert hash_of_daily(CronDailySchedule("UTC", [time(12)], 0, 1)) == hash_of_daily(
        CronDailySchedule("UTC", [time(12)], 60, 60)
    )


def test_another_configuration_has_another_hash():
    hashes = [
        hash_of_period(60),
        hash_of_period(61),
        hash_of_period(0.06),
        hash_of_daily(CronDailySchedule("UTC", [time(12)])),
        hash_of_daily(CronDailySchedule("Europe/Bucharest", [time(12)])),
        hash_of_daily(CronDailySchedule("UTC", [time(12, 0, 1)])),
        hash_of_daily(CronDailySchedule("UTC", [time(12, 0, 0, 1)])),
        hash_of_daily(CronDailySchedule("UTC", [time(12, 0, 0, 1000)])),
        hash_of_cron("0 12 * * *", ZoneInfo("UTC")),
        hash_of_cron("0 12 * * *", ZoneInfo("Europe/Bucharest")),
        hash_of_cron("1 12 * * *", ZoneInfo("UTC")),
        hash_of_text("0 12 * * *"),
    ]
    assert len(set(hashes)) == len(hashes)


def test_the_same_configuration_has_the_same_hash():
    assert hash_of_period(60) == hash_of_period(timedelta(minutes=1))
    assert hash_of_text("x") == "9dd4e461268c8034f5c8564e155c67a6"
