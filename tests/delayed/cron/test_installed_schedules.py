"""Schedules that plan for themselves: periods, times of the day, and ticks that were missed."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest

from drainq.delayed import CronDailySchedule, CronMessage, DelayedQueue
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


def test_of_two_messages_for_one_time_the_first_is_made(queue, clock):
    at = START + timedelta(hours=1)
    for _ in range(2):
        queue.cron.install("h", "p", 60, lambda now: [CronMessage("first", at), CronMessage("second", at)]).close()
    clock.advance(7200)
    assert drain(queue) == ["first"]


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


def test_what_is_no_schedule_and_no_message_is_refused_and_leaves_no_trace(queue):
    cron, daily = queue.cron, CronDailySchedule("UTC", [time(6)])
    for error, says, refused in (
        (TypeError, "CronDailySchedule", lambda: cron.install_daily_schedule("p", "12:00", str)),
        (TypeError, "CronMessage", lambda: cron.install_tick("h", "p", ["not a message"])),
        (ValueError, "key_prefix must not be blank", lambda: cron.install_tick("h", " ", [])),
        (ValueError, "config_hash must not be blank", lambda: cron.uninstall_tick(" ", "p")),
        (ValueError, "schedule_interval must be positive, got 0", lambda: cron.install("h", "p", 0, lambda at: [])),
        (TypeError, "generate_many", lambda: cron.install("h", "p", 60, 5)),
        (TypeError, "payload_of", lambda: cron.install_periodic_tick("p", 60, 5)),
        (TypeError, "payload_of", lambda: cron.install_cron("p", "@daily", lambda: 1)),
        (TypeError, "payload_of", lambda: cron.install_daily_schedule("p", daily, lambda: 1)),
        (
            ValueError,
            "catch_up must be 'none', 'last' or 'all', got 'some'",
            lambda: cron.install_cron("p", "@daily", str, catch_up="some"),
        ),
        (TypeError, "timeout must", lambda: cron.close("soon")),
    ):
        with pytest.raises(error, match=says):
            refused()
    assert cron.schedules() == []
