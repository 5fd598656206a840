"""Schedules on every back end: each tick is one message, whoever looks, however often, whatever the clocks say."""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, time, timedelta, timezone
from typing import Any

import pytest

from drainq.delayed import CronDailySchedule, CronMessage, DelayedQueue, DeliveryType, TimeConfig
from drainq.delayed.storage.memory import MemoryStorage
from drainq.errors import ShutDown
from drainq.testing import ManualClock

UTC = timezone.utc
START = datetime(2025, 1, 1, 10, 37, 42, 123000, tzinfo=UTC)
LEASE = 30.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_queue(request, tmp_path) -> Iterator[Callable[..., DelayedQueue]]:
    """Opens queues of one name in one place, each with a clock of its own."""
    opened: list[DelayedQueue] = []
    shared = MemoryStorage()
    table = f"cron_{uuid.uuid4().hex[:12]}"

    def open_one(**options: Any) -> DelayedQueue:
        if request.param == "memory":
            queue: DelayedQueue = DelayedQueue(shared, "cron", **options)
        elif request.param == "sqlite":
            queue = DelayedQueue.open(f"sqlite:///{tmp_path}/queue.db", "cron", **options)
        else:
            queue = DelayedQueue.open(request.getfixturevalue("postgres_url"), "cron", table=table, **options)
        opened.append(queue)
        return queue

    yield open_one
    for queue in opened:
        queue.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def queue(open_queue, clock) -> DelayedQueue:
    return open_queue(clock=clock, time=TimeConfig(acquire_timeout=LEASE, poll_period=0.05))


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def drain(queue: DelayedQueue) -> list[str]:
    """Take, acknowledge and return the payloads of everything that is due."""
    taken = []
    while envelope := queue.try_poll():
        taken.append(envelope.payload)
        assert envelope.ack()
    return taken


def planned(queue: DelayedQueue, *ticks: tuple[str, str, float]) -> list[bool]:
    """Whether there is a message for each (hash, prefix, seconds after the start)."""
    return [queue.contains_message(CronMessage.key(config, prefix, after(at))) for config, prefix, at in ticks]


# --- install_tick and uninstall_tick


def test_a_tick_is_delivered_at_its_time_and_not_before(queue, clock):
    assert queue.cron.install_tick("h", "p", [CronMessage("one", after(10)), CronMessage("two", after(20))]) == 2
    assert drain(queue) == []
    clock.advance(15)
    assert drain(queue) == ["one"]
    clock.advance(10)
    assert drain(queue) == ["two"]


def test_two_ticks_in_one_second_are_two_messages(queue, clock):
    queue.cron.install_tick("h", "p", [CronMessage("one", after(1.1)), CronMessage("two", after(1.9))])
    clock.advance(2)
    assert drain(queue) == ["one", "two"]


def test_the_time_of_delivery_may_differ_from_the_tick(queue, clock):
    queue.cron.install_tick("h", "p", [CronMessage("late", after(10), after(60))])
    assert planned(queue, ("h", "p", 10)) == [True]
    clock.advance(59)
    assert drain(queue) == []
    clock.advance(1)
    assert drain(queue) == ["late"]


def test_another_configuration_drops_what_the_old_one_had_planned(queue, clock):
    queue.cron.install_tick("old", "p", [CronMessage("old", after(5))])
    queue.cron.install_tick("new", "p", [CronMessage("new", after(10))])
    assert planned(queue, ("old", "p", 5), ("new", "p", 10)) == [False, True]
    clock.advance(10)
    assert drain(queue) == ["new"]


def test_an_empty_plan_of_another_configuration_drops_the_old_one_too(queue):
    queue.cron.install_tick("old", "p", [CronMessage("old", after(5))])
    queue.cron.install_tick("new", "p", [])
    assert planned(queue, ("old", "p", 5)) == [False]


def test_the_same_configuration_drops_nothing(queue):
    queue.cron.install_tick("h", "p", [CronMessage("one", after(5))])
    queue.cron.install_tick("h", "p", [])
    queue.cron.install_tick("h", "p", [CronMessage("two", after(10))])
    assert planned(queue, ("h", "p", 5), ("h", "p", 10)) == [True, True]


def test_what_is_due_under_the_old_configuration_is_still_delivered(queue, clock):
    queue.cron.install_tick("old", "p", [CronMessage("due", after(5)), CronMessage("future", after(60))])
    clock.advance(10)
    queue.cron.install_tick("new", "p", [CronMessage("new", after(100))])
    assert drain(queue) == ["due"]
    clock.advance(200)
    assert drain(queue) == ["new"]


@pytest.mark.parametrize("given_back", ["in flight", "expired", "nacked"])
def test_a_tick_that_was_delivered_but_not_acknowledged_survives_another_configuration(queue, clock, given_back):
    queue.cron.install_tick("old", "p", [CronMessage("tick", after(0))])
    envelope = queue.try_poll()
    assert envelope.delivery_type is DeliveryType.FIRST_DELIVERY
    if given_back == "expired":
        clock.advance(LEASE + 1)
    if given_back == "nacked":
        assert envelope.nack(delay=LEASE / 2)
    queue.cron.install_tick("new", "p", [])
    queue.cron.install_tick("old", "p", [CronMessage("tick again", after(0))])
    clock.advance(LEASE + 1)
    again = queue.try_poll()
    assert (again.payload, again.delivery_type) == ("tick", DeliveryType.REDELIVERY)
    assert again.ack()
    assert drain(queue) == []


def test_uninstalling_drops_this_configuration_of_this_prefix_only(queue):
    for config, prefix in (("h", "p"), ("h", "other")):
        queue.cron.install_tick(config, prefix, [CronMessage("x", after(10)), CronMessage("y", after(20))])
    queue.offer_or_update("p/mine", "not a tick", after(10))
    assert queue.cron.uninstall_tick("another", "p") == 0
    assert queue.cron.uninstall_tick("h", "p") == 2
    assert planned(queue, ("h", "p", 10), ("h", "p", 20), ("h", "other", 10)) == [False, False, True]
    assert queue.contains_message("p/mine")


def test_uninstalling_keeps_what_is_in_flight(queue, clock):
    queue.cron.install_tick("h", "p", [CronMessage("x", after(0))])
    envelope = queue.try_poll()
    assert queue.cron.uninstall_tick("h", "p") == 0
    assert envelope.ack()


def test_what_was_uninstalled_may_be_installed_again(queue, clock):
    for _ in range(2):
        assert queue.cron.install_tick("h", "p", [CronMessage("x", after(10))]) == 1
        queue.cron.uninstall_tick("h", "p")
    assert queue.cron.install_tick("h", "p", [CronMessage("x", after(10))]) == 1
    clock.advance(10)
    assert drain(queue) == ["x"]


def test_a_configuration_that_comes_back_plans_its_future_again_and_not_its_past(queue, clock):
    ticks = [CronMessage("past", after(5)), CronMessage("future", after(60))]
    queue.cron.install_tick("a", "p", ticks)
    clock.advance(10)
    assert drain(queue) == ["past"]
    queue.cron.install_tick("b", "p", [CronMessage("b", after(60))])
    assert queue.cron.install_tick("a", "p", ticks) == 1
    clock.advance(60)
    assert drain(queue) == ["future"]


# --- once


def test_a_tick_that_was_handled_is_not_made_again(queue, clock):
    ticks = [CronMessage("x", after(5))]
    assert queue.cron.install_tick("h", "p", ticks) == 1
    clock.advance(5)
    assert drain(queue) == ["x"]
    assert queue.cron.install_tick("h", "p", ticks) == 0
    assert drain(queue) == []


def test_a_tick_that_the_user_dropped_is_not_made_again(queue, clock):
    ticks = [CronMessage("x", after(5))]
    queue.cron.install_tick("h", "p", ticks)
    assert queue.drop_message(CronMessage.key("h", "p", after(5)))
    assert queue.cron.install_tick("h", "p", ticks) == 0


def test_a_tick_that_was_forgotten_for_its_age_is_not_made_again(queue, clock):
    old = [CronMessage(f"old {n}", after(n)) for n in (1, 2, 3)]
    assert queue.cron.install_tick("h", "p", old) == 3
    clock.advance(timedelta(days=7).total_seconds())
    assert drain(queue) == ["old 1", "old 2", "old 3"]
    assert queue.cron.install_tick("h", "p", [CronMessage("new", after(8 * 24 * 3600))]) == 1
    assert queue.cron.install_tick("h", "p", old) == 0
    assert drain(queue) == []


def test_a_scheduler_whose_clock_is_behind_makes_no_tick_again(open_queue, clock):
    behind = ManualClock(START - timedelta(minutes=90))
    ahead_queue, behind_queue = open_queue(clock=clock), open_queue(clock=behind)
    first = ahead_queue.cron.install_periodic_tick("p", 3600, lambda at: at.isoformat())
    clock.set(datetime(2025, 1, 1, 11, 0, tzinfo=UTC))
    assert drain(ahead_queue) == ["2025-01-01T11:00:00+00:00"]
    second = behind_queue.cron.install_periodic_tick("p", 3600, lambda at: at.isoformat())
    for _ in range(12):  # its clock walks over the time that the other one's has passed
        behind.advance(15 * 60)
        second.look()
    assert behind.now() > clock.now()
    clock.set(datetime(2025, 1, 1, 12, 30, tzinfo=UTC))
    # 10:00 is a tick that only the clock behind has seen coming: it is made, once. 11:00 was handled.
    assert drain(ahead_queue) == ["2025-01-01T10:00:00+00:00", "2025-01-01T12:00:00+00:00"]
    assert first.close() and second.close()


def test_a_scheduler_that_was_paused_between_its_clock_and_the_database_makes_no_tick_again(open_queue, clock):
    quick, paused = open_queue(clock=clock), open_queue(clock=clock)
    computed, go_on = threading.Event(), threading.Event()

    def slowly(now: datetime) -> list[CronMessage]:
        message = CronMessage("paused", after(5))
        computed.set()
        assert go_on.wait(10)
        return [message]

    scheduler = threading.Thread(target=lambda: paused.cron.install("h", "p", 3600, slowly).close())
    scheduler.start()
    assert computed.wait(10)
    quick.cron.install_tick("h", "p", [CronMessage("quick", after(5))])
    clock.advance(5)
    assert drain(quick) == ["quick"]
    go_on.set()
    scheduler.join()
    assert drain(quick) == []


def test_a_restart_makes_no_tick_again_and_loses_none(open_queue, clock):
    delivered = []
    for _ in range(25):  # one every ten minutes, over four hours
        queue = open_queue(clock=clock)
        queue.cron.install_periodic_tick("p", 3600, lambda at: f"{at:%H:%M}").close()
        delivered += drain(queue)
        queue.close()
        clock.advance(600)
    assert delivered == ["11:00", "12:00", "13:00", "14:00"]


@pytest.mark.parametrize("seed", range(4))
def test_schedulers_and_consumers_with_clocks_apart_deliver_every_tick_exactly_once(open_queue, seed):
    """Clocks jump around by minutes, schedulers look whenever, consumers take what is due."""
    rng = random.Random(seed)
    clocks = [ManualClock(START + timedelta(seconds=rng.uniform(-300, 300))) for _ in range(3)]
    queues = [open_queue(clock=clock) for clock in clocks]
    delivered: list[str] = []
    made = 0
    for _ in range(60):
        which = rng.randrange(3)
        clocks[which].advance(rng.uniform(0, 90))
        now = datetime.fromtimestamp(clocks[which].now(), UTC).replace(second=0, microsecond=0)
        if rng.random() < 0.6:
            ticks = [now + timedelta(minutes=minute) for minute in range(1, rng.randrange(2, 8))]
            made += queues[which].cron.install_tick("h", "p", [CronMessage(at.isoformat(), at) for at in ticks])
        else:
            delivered += drain(queues[which])
    for clock in clocks:
        clock.advance(3600)
    delivered += drain(queues[0])
    assert made > 10, "the run was to be long enough to mean something"
    assert len(delivered) == len(set(delivered)) == made


def test_many_schedulers_at_once_make_each_tick_once(open_queue, clock):
    queues = [open_queue(clock=clock) for _ in range(6)]
    ticks = [CronMessage(f"{n}", after(n)) for n in range(1, 9)]
    together = threading.Barrier(len(queues))
    made: list[int] = []

    def schedule(queue: DelayedQueue) -> None:
        for count in range(1, len(ticks) + 1):
            together.wait(30)
            made.append(queue.cron.install_tick("h", "p", ticks[:count]))

    threads = [threading.Thread(target=schedule, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(made) == len(ticks)
    clock.advance(60)
    assert drain(queues[0]) == [message.payload for message in ticks]


# --- names


HOSTILE = ["a", "a/x", "a/h", "A", "a_b", "aXb", "50%", "50%%", "o'clock", 'say "x"', "back\\slash", "é", "e\u0301"]
HOSTILE += ["🕐 /", " a", "{table}", "%s", ":p", "a--", "a;"]


def test_prefixes_of_any_characters_do_not_touch_each_other(queue, clock):
    for prefix in HOSTILE:
        assert queue.cron.install_tick("h", prefix, [CronMessage(prefix, after(10))]) == 1
    for prefix in HOSTILE:
        queue.cron.install_tick("other", prefix, [CronMessage(f"other {prefix}", after(10))])
        assert planned(queue, ("h", prefix, 10), ("other", prefix, 10)) == [False, True]
        if prefix != HOSTILE[-1]:
            assert planned(queue, ("h", HOSTILE[-1], 10)) == [True]
    for prefix in HOSTILE[::2]:
        assert queue.cron.uninstall_tick("other", prefix) == 1
    clock.advance(10)
    assert sorted(drain(queue)) == sorted(f"other {prefix}" for prefix in HOSTILE[1::2])


def test_config_hashes_of_any_characters_do_not_touch_each_other(queue):
    hashes = ["h", "h/", "x/h", "h%2F", "h%", "H", "h'", "h_", "hX"]
    for config in hashes:
        assert queue.cron.install_tick(config, "p", [CronMessage(config, after(10))]) == 1
        assert planned(queue, (config, "p", 10)) == [True]
        assert queue.stats().scheduled == 1, "the configuration before it was dropped"


def test_messages_that_are_no_ticks_are_left_alone(queue):
    keys = [
        "p",
        "p/",
        "p/x",
        "p/x/y",
        "p/x/20250101-000000",
        "p/x/20250101-000000.0000000000",
        "p/x/y/20250101-000000.000000000",
    ]
    for key in keys:
        queue.offer_or_update(key, "mine", after(100))
    queue.cron.install_tick("h", "p", [])
    assert [key for key in keys if not queue.contains_message(key)] == []


def test_ticks_that_another_implementation_made_are_taken_over(queue, clock):
    """They have no entry in the ledger: the old configuration's go, this one's stays as it is."""
    ours, theirs = CronMessage.key("h", "p", after(10)), CronMessage.key("old", "p", after(10))
    queue.offer_or_update(ours, "there before", after(10))
    queue.offer_or_update(theirs, "old", after(10))
    assert queue.cron.install_tick("h", "p", [CronMessage("ours", after(10))]) == 0
    clock.advance(10)
    assert drain(queue) == ["there before"]


@pytest.mark.parametrize(
    ("config", "prefix", "names"),
    [
        ("h", "", "key_prefix"),
        ("h", "  ", "key_prefix"),
        ("", "p", "config_hash"),
        ("h", "p\0", "key_prefix"),
        ("h", "p" * 180, "200"),
    ],
)
def test_a_name_that_cannot_be_is_refused(queue, config, prefix, names):
    with pytest.raises(ValueError, match=names):
        queue.cron.install_tick(config, prefix, [])
    with pytest.raises(ValueError, match=names):
        queue.cron.uninstall_tick(config, prefix)
    with pytest.raises(ValueError, match=names):
        queue.cron.install(config, prefix, 1, lambda now: [])


# --- schedules


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


# --- the loop


def test_the_first_look_is_over_when_install_returns(queue):
    with queue.cron.install("h", "p", 3600, lambda now: [CronMessage("x", now + timedelta(seconds=5))]):
        assert queue.stats().scheduled == 1


def test_the_loop_looks_again_in_real_time_while_the_clock_stands_still(queue):
    looks = threading.Semaphore(0)
    with queue.cron.install("h", "p", 0.001, lambda now: [looks.release()][:0]):
        assert all(looks.acquire(timeout=10) for _ in range(5))


def test_the_loop_looks_again_when_the_clock_moves_on(queue, clock):
    looks = threading.Semaphore(0)
    with queue.cron.install("h", "p", 3600, lambda now: [looks.release()][:0]):
        for _ in range(3):
            assert looks.acquire(timeout=10)
            clock.advance(3600)


def test_a_generator_that_raises_is_logged_and_the_loop_goes_on(queue, caplog):
    looks = threading.Semaphore(0)

    def generate(now: datetime) -> list[CronMessage]:
        looks.release()
        raise RuntimeError("no idea what to send")

    with caplog.at_level(logging.ERROR, logger="drainq"), queue.cron.install("h", "some prefix", 0.001, generate):
        assert all(looks.acquire(timeout=10) for _ in range(3))
    assert "some prefix" in caplog.text
    assert "no idea what to send" in caplog.text


def test_an_unacknowledged_tick_survives_the_loop(queue, clock):
    looks = threading.Semaphore(0)

    def generate(now: datetime) -> list[CronMessage]:
        looks.release()
        return [CronMessage("x", START)]

    with queue.cron.install("h", "p", 0.001, generate):
        envelope = queue.try_poll()
        assert envelope.delivery_type is DeliveryType.FIRST_DELIVERY
        assert all(looks.acquire(timeout=10) for _ in range(5))
        clock.advance(LEASE + 1)
        again = queue.try_poll()
        assert again.delivery_type is DeliveryType.REDELIVERY
        assert again.ack()


def test_closing_keeps_what_is_planned_and_plans_no_more(queue, clock):
    handle = queue.cron.install("h", "p", 3600, lambda now: [CronMessage("x", now + timedelta(seconds=5))])
    assert handle.close()
    assert handle.closed
    clock.advance(7200)
    handle.look()
    assert drain(queue) == ["x"]


def test_a_generator_may_close_its_own_schedule(queue):
    handles: list = []
    closed = threading.Event()

    def generate(now: datetime) -> list[CronMessage]:
        if handles:
            assert handles[0].close() is False, "the loop that closes cannot have ended yet"
            closed.set()
        return []

    handles.append(queue.cron.install("h", "p", 0.001, generate))
    assert closed.wait(10)
    assert handles[0].close()


def test_closing_waits_for_a_look_and_says_if_it_did_not_end(queue):
    running, go_on = threading.Event(), threading.Event()

    def generate(now: datetime) -> list[CronMessage]:
        running.set()
        assert go_on.wait(30)
        return [CronMessage("x", START)]

    handle = queue.cron.install("h", "p", 3600, generate)
    assert running.wait(10)
    assert handle.close(timeout=0.01) is False
    go_on.set()
    assert handle.close() is True


def test_a_closed_queue_takes_no_schedule(open_queue, clock):
    queue = open_queue(clock=clock)
    queue.close()
    with pytest.raises(ShutDown):
        queue.cron.install_periodic_tick("p", 1, lambda at: 1)


def test_closing_the_queue_closes_its_schedules(open_queue, clock):
    queue = open_queue(clock=clock)
    handle = queue.cron.install_periodic_tick("p", 1, lambda at: 1)
    queue.close()
    assert handle.closed
    assert handle.close()


def test_the_first_look_refreshes_what_was_planned_and_leaves_what_was_delivered(open_queue, clock):
    """A release of the program that says the same schedule in other words."""
    queue = open_queue(clock=clock)
    ticks = [START, after(60)]
    queue.cron.install("h", "p", 3600, lambda now: [CronMessage("old", at) for at in ticks]).close()
    envelope = queue.try_poll()
    assert envelope.payload == "old"
    queue.cron.install("h", "p", 3600, lambda now: [CronMessage("new", at) for at in ticks]).close()
    assert queue.try_poll() is None, "the one in flight was not touched"
    assert envelope.ack()
    clock.advance(60)
    assert drain(queue) == ["new"]
