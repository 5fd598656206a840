"""A wrong clock spoils no schedule: a tick that was made too early comes at its time, and later ticks are made as
usual.
"""

from __future__ import annotations

import logging

import pytest

from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.testing import ManualClock

HOUR, DAY = 3600, 86400


@pytest.fixture(autouse=True)
def only_the_test_looks(monkeypatch):
    """Keep the watch from checking the schedules beside the test: a check lists a schedule again."""
    monkeypatch.setattr(CronHandle, "wake", lambda handle: None)


def install(queue, **options):
    return queue.cron.install_periodic_tick("hourly", HOUR, lambda at: at.timestamp(), **options)


def hours(queue, clock, handle, n):
    """Let the clock run for so many hours with a check and a consumer in each; return the ticks that came."""
    came = []
    for _ in range(n):
        clock.set((clock.now() // HOUR + 1) * HOUR)
        handle.look()
        batch = queue.try_poll_many(2000)
        came += batch.payload
        assert batch.ack()
    return came


def following(now, n):
    return [(now // HOUR + k) * HOUR for k in range(1, n + 1)]


@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
@pytest.mark.parametrize("days", [2, 60, 3650])
def test_one_check_far_ahead_costs_no_tick(world, catch_up, days):
    queue, clock = world.open(), world.clock
    handle = install(queue, catch_up=catch_up)
    assert hours(queue, clock, handle, 5) != []
    good = clock.now()
    clock.set(good + days * DAY)
    handle.look()
    clock.set(good)
    assert hours(queue, clock, handle, 48) == following(good, 48)


def test_ticks_delivered_early_by_a_wrong_clock_hide_no_tick_before_them(world):
    queue, clock = world.open(), world.clock
    handle = install(queue, catch_up="all")
    hours(queue, clock, handle, 5)
    good = clock.now()
    clock.set(good + 60 * DAY)
    early = hours(queue, clock, handle, 30)
    assert len(early) > 1000
    clock.set(good)
    assert following(good, 1)[0] in early, "it was planned before the clock went wrong"
    assert hours(queue, clock, handle, 48) == following(good, 48)[1:]


def test_ticks_planned_far_ahead_hide_none_that_is_missed_before_them(world):
    queue, clock = world.open(), world.clock
    handle = install(queue, catch_up="all")
    hours(queue, clock, handle, 2)
    good = clock.now()
    clock.set(good + 60 * DAY)
    handle.look()
    clock.set(good)
    handle.look()
    clock.set(good + 5 * HOUR)
    handle.look()
    came = [envelope.payload for envelope in iter(queue.try_poll, None) if envelope.ack()]
    assert came == following(good, 5)


def test_a_jump_of_the_clock_is_logged_once_in_each_direction(world, caplog):
    queue, clock = world.open(), world.clock
    handle = install(queue)
    with caplog.at_level(logging.WARNING, logger="drainq"):
        clock.advance(HOUR)
        handle.look()
        assert caplog.messages == []
        clock.advance(3 * DAY)
        handle.look()
        handle.look()
        clock.advance(-3 * DAY)
        handle.look()
    handle.close()
    jumps = [message for message in caplog.messages if "the clock jumped by" in message]
    assert len(jumps) == 2
    assert "'hourly'" in jumps[0] and "+2592" in jumps[0] and "-2592" in jumps[1]


def spoilt(world):
    """A schedule whose clock stayed 60 days ahead for so long that its floor is there too; the clock is right again."""
    queue, clock = world.open(), world.clock
    with install(queue) as handle:
        hours(queue, clock, handle, 5)
        good = clock.now()
        clock.set(good + 60 * DAY)
        hours(queue, clock, handle, 60)
    clock.set(good)
    return queue


def test_ticks_below_a_floor_that_a_wrong_clock_raised_are_counted_in_the_log(world, caplog):
    queue = spoilt(world)
    with caplog.at_level(logging.WARNING, logger="drainq"), install(queue) as handle:
        assert hours(queue, world.clock, handle, 3) == []
    below = [message for message in caplog.messages if "below its floor" in message]
    assert len(below) == 1, "once a minute"
    assert "1 ticks" in below[0] and "queue.cron.forget('hourly')" in below[0]


def test_a_schedule_that_is_forgotten_begins_anew(world):
    queue = spoilt(world)
    (config_hash,) = {schedule.config_hash for schedule in queue.cron.schedules()}
    assert queue.cron.forget("another") == 0
    assert queue.cron.uninstall_tick(config_hash, "hourly") == 1
    assert queue.cron.forget("hourly") > 1
    assert queue.cron.schedules() == []
    assert queue.cron.forget("hourly") == 0
    with install(queue) as handle:
        assert hours(queue, world.clock, handle, 48) == following(world.clock.now() - 48 * HOUR, 48)


def test_a_schedule_that_is_forgotten_while_it_runs_goes_on_and_stays_listed(world):
    queue, other = world.open(), world.open()
    with install(queue) as handle:
        assert len(hours(queue, world.clock, handle, 2)) == 2
        queue.cron.forget("hourly")
        assert [schedule.key_prefix for schedule in queue.cron.schedules()] == ["hourly"]
        other.cron.forget("hourly")
        assert other.cron.schedules() == []
        assert len(hours(queue, world.clock, handle, 3)) == 3
        assert [schedule.key_prefix for schedule in other.cron.schedules()] == ["hourly"]
    queue.cron.forget("hourly")
    assert queue.cron.schedules() == []


def test_forgetting_a_schedule_leaves_other_schedules_and_queues_alone(world):
    queue, other = world.open(), world.open("other")
    for schedules in (queue, other):
        install(schedules).close()
        schedules.cron.install_periodic_tick("hourly/x", HOUR, lambda at: "x").close()
    queue.cron.forget("hourly")
    assert [s.key_prefix for s in queue.cron.schedules()] == ["hourly/x"]
    assert [s.key_prefix for s in other.cron.schedules()] == ["hourly", "hourly/x"]
    assert queue.stats().scheduled == 2, "messages stay"
    world.clock.advance(HOUR)
    assert len(list(iter(queue.try_poll, None))) == 2
    queue.drop_all_messages("Yes, please, I know what I'm doing!")
    world.clock.advance(-HOUR)
    queue.cron.install_periodic_tick("hourly/x", HOUR, lambda at: "x").close()
    assert queue.stats().scheduled == 0, "made before"
    install(queue).close()
    assert queue.stats().scheduled == 1, "forgotten"


def test_two_configurations_of_one_prefix_at_once_are_said_in_the_log_of_the_earlier(world, caplog):
    first, second = world.open(clock=ManualClock(world.now)), world.open(clock=ManualClock(world.now))
    with caplog.at_level(logging.WARNING, logger="drainq"), install(first) as old:
        with second.cron.install_periodic_tick("hourly", HOUR / 2, lambda at: at.timestamp()) as new:
            for _ in range(3):
                second.clock.advance(HOUR / 2)
                new.look()
            assert caplog.messages == []
            for _ in range(3):
                first.clock.advance(HOUR)
                old.look()
    (said,) = caplog.messages
    assert "'hourly'" in said and "every 3600 s" in said and "another configuration" in said
