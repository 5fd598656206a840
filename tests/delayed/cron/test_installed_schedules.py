"""Schedules that plan for themselves: periods, times of the day, and ticks that were missed."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest

from drainq.delayed import CronDailySchedule, DelayedQueue
from drainq.testing import ManualClock
from tests.delayed.cron.ticks import START, UTC, drain


def test_a_periodic_tick_lies_on_the_boundary_and_is_one_message(queue):
    with queue.cron.install_periodic_tick("p", timedelta(hours=1), lambda at: at.isoformat()):
        stats = queue.stats()
        assert (stats.scheduled, stats.ready) == (1, 0)
    (row,) = queue.peek()
    assert row.key == "p/4916474562628112070d240d515ba44d/20250101-110000.000000000"


def test_a_period_shorter_than_the_looks_is_planned_ahead(queue, clock):
    with queue.cron.install_periodic_tick("p", 0.25, lambda at: at.timestamp()):
        clock.advance(1.2)
        ticks = drain(queue)
    assert ticks == [START.timestamp() - 0.123 + 0.25 * n + 0.0 for n in range(1, 6)]


def test_a_daily_schedule_plans_its_window(queue):
    schedule = CronDailySchedule("UTC", [time(12), time(6)], timedelta(days=2), 3600)
    with queue.cron.install_daily_schedule("p", schedule, lambda at: at.isoformat()):
        pass
    assert [row.key.rpartition("/")[2][:11] for row in queue.peek()] == [
        "20250101-12",
        "20250102-06",
        "20250102-12",
        "20250103-06",
    ]


@pytest.mark.parametrize(
    ("zone", "expression", "hour", "start", "delivered"),
    [
        ("America/New_York", "30 2 * * *", "02:30", "2025-03-08T12:00:00-05:00", {9: "03", 10: "02"}),
        ("America/New_York", "30 1 * * *", "01:30", "2025-11-01T12:00:00-04:00", {2: "01", 3: "01"}),
        ("Europe/Bucharest", "30 3 * * *", "03:30", "2025-03-29T12:00:00+02:00", {30: "04", 31: "03"}),
        ("Europe/Bucharest", "45 3 * * *", "03:45", "2025-10-25T12:00:00+03:00", {26: "03", 27: "03"}),
        ("Australia/Lord_Howe", "15 2 * * *", "02:15", "2025-10-04T12:00:00+10:30", {5: "02", 6: "02"}),
        ("Australia/Lord_Howe", "45 1 * * *", "01:45", "2025-04-05T12:00:00+11:00", {6: "01", 7: "01"}),
    ],
)
@pytest.mark.parametrize("kind", ["cron", "daily"])
def test_a_time_of_the_day_is_delivered_once_on_the_days_the_clock_changes(
    open_queue, zone, expression, hour, start, delivered, kind
):
    """A scheduler that looks every ten minutes and a consumer that follows it at once, for two days."""
    clock = ManualClock(datetime.fromisoformat(start))
    queue = open_queue(clock=clock)
    local = CronDailySchedule(zone, [time.fromisoformat(hour)], 0, 600)
    if kind == "cron":
        handle = queue.cron.install_cron("p", expression, lambda at: at.isoformat(), tz=zone)
    else:
        handle = queue.cron.install_daily_schedule("p", local, lambda at: at.isoformat())
    taken = []
    for _ in range(6 * 42):
        clock.advance(600)
        handle.look()
        taken += [datetime.fromisoformat(payload).astimezone(local.zone) for payload in drain(queue)]
    handle.close()
    assert {at.day: f"{at:%H}" for at in taken} == delivered
    assert len(taken) == 2


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("none", []), ("last", ["14:00"]), ("all", ["12:00", "13:00", "14:00"])],
)
@pytest.mark.parametrize("kind", ["periodic", "cron", "daily"])
def test_ticks_missed_while_no_scheduler_ran_are_made_up_for_as_asked(open_queue, clock, kind, catch_up, expected):
    def scheduler() -> DelayedQueue:
        queue = open_queue(clock=clock)
        if kind == "periodic":
            handle = queue.cron.install_periodic_tick("p", 3600, lambda at: f"{at:%H:%M}", catch_up=catch_up)
        elif kind == "cron":
            handle = queue.cron.install_cron("p", "@hourly", lambda at: f"{at:%H:%M}", catch_up=catch_up)
        else:
            hours = CronDailySchedule("UTC", [time(hour) for hour in range(24)], 0, 900)
            handle = queue.cron.install_daily_schedule("p", hours, lambda at: f"{at:%H:%M}", catch_up=catch_up)
        handle.close()
        return queue

    assert drain(scheduler()) == [], "what is installed for the first time has missed nothing"
    clock.set(datetime(2025, 1, 1, 14, 20, tzinfo=UTC))
    assert drain(scheduler()) == ["11:00", *expected], "11:00 was planned before"
    assert drain(scheduler()) == []
    clock.set(datetime(2025, 1, 1, 15, 0, tzinfo=UTC))
    assert drain(scheduler()) == ["15:00"]


def test_everything_is_made_up_for_even_after_a_month(open_queue, clock):
    open_queue(clock=clock).cron.install_periodic_tick("p", 86400, lambda at: "x").close()
    clock.advance(timedelta(days=30))
    queue = open_queue(clock=clock)
    for _ in range(2):
        queue.cron.install_periodic_tick("p", 86400, lambda at: f"{at:%m-%d}", catch_up="all").close()
    assert len(drain(queue)) == 30


def test_at_most_a_thousand_ticks_are_made_up_for(open_queue, clock):
    open_queue(clock=clock).cron.install_periodic_tick("p", 60, lambda at: at.timestamp()).close()
    clock.advance(timedelta(days=2))
    queue = open_queue(clock=clock)
    queue.cron.install_periodic_tick("p", 60, lambda at: at.timestamp(), catch_up="all").close()
    ticks = drain(queue)
    assert len(ticks) == 1001, "one was planned before"
    assert ticks[-1] == clock.now() // 60 * 60


@pytest.mark.parametrize(
    "install",
    [
        lambda cron: cron.install("h", "p", 0, lambda now: []),
        lambda cron: cron.install("h", "p", timedelta(seconds=-1), lambda now: []),
        lambda cron: cron.install_periodic_tick("p", 0, lambda at: 1),
        lambda cron: cron.install_periodic_tick("p", timedelta(microseconds=10), lambda at: 1),
        lambda cron: cron.install_periodic_tick(" ", 60, lambda at: 1),
        lambda cron: cron.install_periodic_tick("p", 60, lambda at: 1, catch_up="some"),
        lambda cron: cron.install_cron("p", "* * * *", lambda at: 1),
        lambda cron: cron.install_cron("p", "* * * * *", lambda at: 1, tz="Mars/Olympus"),
    ],
)
def test_a_bad_schedule_is_refused_where_it_is_installed(queue, install):
    with pytest.raises(ValueError):
        install(queue.cron)
    assert queue.stats().scheduled == 0


def test_what_is_no_schedule_and_no_message_is_refused(queue):
    with pytest.raises(TypeError, match="CronDailySchedule"):
        queue.cron.install_daily_schedule("p", "12:00", lambda at: 1)
    with pytest.raises(TypeError, match="CronMessage"):
        queue.cron.install_tick("h", "p", ["not a message"])
