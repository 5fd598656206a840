"""Schedules for an operator: their list, ticks for a range, one timer and a bounded end for all."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from datetime import time as hour_of_day

import pytest

from drainq.delayed import CronDailySchedule, CronMessage, InstalledSchedule

UTC = timezone.utc
HOUR = 3600


@pytest.fixture
def queue(world):
    world.clock.set(datetime(2025, 1, 1, 10, 30, tzinfo=UTC))
    return world.open()


def drain(queue):
    return [envelope.payload for envelope in iter(queue.try_poll, None) if envelope.ack()]


# --- which schedules there are


def test_schedules_are_listed_with_what_they_are(queue, world):
    cron = queue.cron
    assert cron.schedules() == []
    cron.install_periodic_tick("periodic", 0.25, lambda at: 1).close()
    cron.install_cron("cron", "@daily", lambda at: 1, tz="Europe/Bucharest").close()
    hours = CronDailySchedule("UTC", [hour_of_day(14, 30), hour_of_day(6, 0, 5)])
    cron.install_daily_schedule("daily", hours, lambda at: 1).close()
    cron.install("h", "own", 60, lambda now: []).close()
    cron.install_tick("h", "ticks", [CronMessage(1, datetime(2025, 2, 1, tzinfo=UTC))])
    listed = world.open().cron.schedules()
    assert [(schedule.key_prefix, schedule.description) for schedule in listed] == [
        ("cron", "cron 0 0 * * * in Europe/Bucharest"),
        ("daily", "daily at 06:00:05, 14:30 in UTC"),
        ("own", "own function, every 60 s"),
        ("periodic", "every 0.25 s"),
        ("ticks", "ticks of the program's own"),
    ]
    own, ticks = listed[2], listed[4]
    assert own == InstalledSchedule("own", "h", own.description, datetime(2025, 1, 1, 10, 30, tzinfo=UTC), None)
    assert ticks.last_tick == datetime(2025, 2, 1, tzinfo=UTC)


def test_the_configuration_that_was_installed_last_is_listed(queue, world):
    queue.cron.install_periodic_tick("p", HOUR, lambda at: 1).close()
    world.clock.advance(60)
    queue.cron.install_periodic_tick("p", HOUR, lambda at: 1).close()
    (first,) = queue.cron.schedules()
    assert first.installed_at == datetime(2025, 1, 1, 10, 30, tzinfo=UTC), "the same configuration"
    queue.cron.install_periodic_tick("p", 2 * HOUR, lambda at: 1).close()
    (second,) = queue.cron.schedules()
    assert (second.description, second.installed_at.minute) == ("every 7200 s", 31)


# --- back-filling


def test_a_backfill_makes_the_ticks_of_its_range_and_not_its_end(queue):
    queue.cron.install_periodic_tick("p", HOUR, lambda at: f"{at:%d %H}").close()
    start, end = datetime(2024, 12, 1, tzinfo=UTC), datetime(2024, 12, 1, 3, tzinfo=UTC)
    assert queue.cron.backfill("p", start, end) == 3
    assert drain(queue) == ["01 00", "01 01", "01 02"]
    assert queue.cron.backfill("p", start.timestamp(), end.timestamp()) == 0, "the ledger remembers them"


def test_a_backfill_makes_no_tick_again_that_the_ledger_remembers(queue, world):
    handle = queue.cron.install_periodic_tick("p", HOUR, lambda at: f"{at:%H:%M}")
    world.clock.set(datetime(2025, 1, 1, 11, tzinfo=UTC))
    handle.look()
    assert drain(queue) == ["11:00"]
    assert queue.cron.backfill("p", datetime(2025, 1, 1, 9, tzinfo=UTC), datetime(2025, 1, 1, 14, tzinfo=UTC)) == 3
    assert drain(queue) == ["09:00", "10:00"], "12:00 was planned and 13:00 is planned now"
    world.clock.advance(2 * HOUR)
    handle.look()
    assert drain(queue) == ["12:00", "13:00"]


def test_a_backfill_reaches_below_the_floor(queue, world):
    handle = queue.cron.install_periodic_tick("p", HOUR, lambda at: f"{at:%d %H}")
    for _ in range(4):
        world.clock.advance(timedelta(days=1))
        handle.look()
        drain(queue)
    state = queue._session.storage.schedule_state(
        queue._session.kind, prefix="p", config_hash=queue.cron.schedules()[0].config_hash
    )
    assert state.floor is not None
    old = datetime(2024, 12, 1, tzinfo=UTC)
    for made in (2, 0):
        assert queue.cron.backfill("p", old, old + timedelta(hours=2)) == made
        handle.look()
    assert drain(queue) == ["01 00", "01 01"]


@pytest.mark.parametrize("kind", ["cron", "daily"])
def test_a_backfill_knows_cron_and_daily_schedules(queue, kind):
    if kind == "cron":
        queue.cron.install_cron("p", "30 6 * * *", lambda at: f"{at:%d}")
    else:
        queue.cron.install_daily_schedule("p", CronDailySchedule("UTC", [hour_of_day(6, 30)]), lambda at: f"{at:%d}")
    assert queue.cron.backfill("p", datetime(2024, 12, 5, tzinfo=UTC), datetime(2024, 12, 8, tzinfo=UTC)) == 3
    assert drain(queue) == ["05", "06", "07"]


def test_a_backfill_of_what_is_not_installed_or_of_no_range_is_refused(queue, monkeypatch):
    monkeypatch.setattr("drainq.delayed.cron.admin.MOST_BACKFILLED", 100)
    queue.cron.install("h", "own", 60, lambda now: [])
    queue.cron.install_periodic_tick("p", 1, lambda at: 1).close()
    start = datetime(2024, 1, 1, tzinfo=UTC)
    for prefix in ("q", "own"):
        with pytest.raises(KeyError, match="it has: p"):
            queue.cron.backfill(prefix, start, start + timedelta(hours=1))
    with pytest.raises(ValueError, match="before end"):
        queue.cron.backfill("p", start, start)
    with pytest.raises(ValueError, match="more than 100 ticks"):
        queue.cron.backfill("p", start, start + timedelta(seconds=101))
    with pytest.raises(ValueError, match="needs a zone"):
        queue.cron.backfill("p", datetime(2024, 1, 1), start)
    assert queue.stats().ready == 0


# --- what is called


def test_a_coroutine_function_is_refused_and_a_generator_of_messages_is_not(queue, world):
    async def later(at):
        return 1

    def generate(now):
        yield CronMessage("x", now)

    with pytest.raises(TypeError, match="async"):
        queue.cron.install_periodic_tick("p", 60, later)
    with pytest.raises(TypeError, match="async"):
        queue.cron.install("h", "p", 60, later)
    with queue.cron.install("h", "p", 60, generate):
        assert drain(queue) == ["x"]


# --- the timer


def test_a_check_that_ends_after_close_installs_nothing(queue, world):
    running, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slowly(now):
        running.set()
        assert go_on.wait(60)
        ended.set()
        return [CronMessage("too late", now)]

    handle = queue.cron.install("h", "p", 3600, slowly)
    assert running.wait(30)
    assert handle.close(timeout=0) is False
    go_on.set()
    assert handle.close(timeout=30) is True
    assert ended.is_set()
    assert drain(queue) == []
    assert queue.cron.schedules() == []
