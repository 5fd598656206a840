"""Schedules for an operator: their list, ticks for a range, one timer and a bounded end for all."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from datetime import time as hour_of_day
from zoneinfo import ZoneInfo

import pytest

from drainq.delayed import CronDailySchedule, CronMessage, InstalledSchedule
from drainq.delayed.cron.config_hash import hash_of_cron
from drainq.delayed.cron.schedule_handle import CronHandle

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


def test_ticks_that_are_made_cost_another_scheduler_one_read_for_all_schedules(world, monkeypatch):
    monkeypatch.setattr(CronHandle, "start", lambda handle: None)
    queues = [world.open() for _ in range(2)]
    handles = [[queue.cron.install_periodic_tick(prefix, 10, str) for prefix in "pr"] for queue in queues]
    for handle in [*handles[0], *handles[1]]:
        handle._check(handle)
    calls, storage = [], type(queues[0]._session.storage)
    for name in ("made_ticks", "schedule_state", "install_ticks"):
        real = getattr(storage, name)
        monkeypatch.setattr(storage, name, lambda *a, real=real, name=name, **k: calls.append(name) or real(*a, **k))
    for _ in range(3):
        world.clock.advance(10)
        for queue, its in zip(queues, handles):
            for handle in queue.cron._watch._without_ticks(its, world.now):
                handle._check(handle)
    assert calls == ["made_ticks", "install_ticks", "install_ticks", "made_ticks"] * 3
    calls.clear()
    world.clock.advance(60)
    handles[1][0]._check(handles[1][0])
    assert calls[0] == "schedule_state", "once a minute a schedule looks for itself"
    for handle in [*handles[0], *handles[1]]:
        handle.close()


def test_a_tick_that_could_not_be_made_is_made_by_the_next_check(world, monkeypatch):
    monkeypatch.setattr(CronHandle, "start", lambda handle: None)
    queue = world.open()
    handle = queue.cron.install_periodic_tick("p", 10, str)
    handle._check(handle)
    made, storage = queue.stats(), queue._session.storage
    world.clock.advance(10)
    with monkeypatch.context() as broken:
        broken.setattr(type(storage), "install_ticks", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            handle._check(handle)
    handle._check(handle)
    stats = queue.stats()
    assert stats.ready + stats.scheduled == made.ready + made.scheduled + 1
    handle.close()


def test_a_schedule_that_is_as_another_process_made_it_is_installed_by_reading_alone(world, monkeypatch):
    monkeypatch.setattr(CronHandle, "start", lambda handle: handle._check(handle))
    world.open().cron.install_periodic_tick("p", 10, str)
    storage, calls = type(world.open()._session.storage), []
    for name in ("name_schedule", "install_ticks"):
        monkeypatch.setattr(storage, name, lambda *a, name=name, **k: calls.append((name, k.get("description"))) or 0)
    world.open().cron.install_periodic_tick("p", 10, str)
    assert calls == []
    world.open().cron.install_periodic_tick("p", 10, lambda at: "other words")
    assert calls == [("install_ticks", "every 10 s")]


def test_a_backfill_reaches_below_the_floor(queue, world):
    handle = queue.cron.install_periodic_tick("p", HOUR, lambda at: f"{at:%d %H}")
    for _ in range(4):
        world.clock.advance(timedelta(days=1))
        handle.look()
        drain(queue)
    state = queue._session.storage.schedule_state(
        queue._session.kind, prefix="p", config_hash=queue.cron.schedules()[0].config_hash, keys=[]
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
    assert queue.cron.backfill("p", start, start + timedelta(seconds=100)) == 100
    for prefix in ("q", "own"):
        with pytest.raises(KeyError, match="it has: p"):
            queue.cron.backfill(prefix, start, start + timedelta(hours=1))
    with pytest.raises(ValueError, match="before end"):
        queue.cron.backfill("p", start, start)
    with pytest.raises(ValueError, match="more than 100 ticks"):
        queue.cron.backfill("p", start, start + timedelta(seconds=101))
    with pytest.raises(ValueError, match="needs a zone"):
        queue.cron.backfill("p", datetime(2024, 1, 1), start)
    assert queue.stats().ready == 100


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


def test_each_kind_of_schedule_plans_these_ticks_and_looks_again_then(sqlite, monkeypatch):
    handles, installed, hashes, found = [], [], {}, {}

    class Handle:
        closed = False

        def __init__(self, prefix, check, **more):
            handles.append((prefix, check, more["retry"], more["log_values"]))

        def start(self):
            pass

        def close(self, timeout):
            return True

    monkeypatch.setattr("drainq.delayed.cron.checks.CronHandle", Handle)
    queue, start = sqlite.open(log_values=True), datetime(2025, 3, 3, 10, 0, 0, tzinfo=UTC)
    start_ms = round(start.timestamp()) * 1000
    sqlite.clock.set(start)
    storage = queue._session.storage
    install_ticks = storage.install_ticks
    storage.install_ticks = lambda kind, **more: installed[-1].update(more) or install_ticks(kind, **more)
    ticks_of = queue.cron._ticks

    def planned(config_hash, prefix, messages):
        ticks = ticks_of(config_hash, prefix, messages)
        installed.append({"config_hash": config_hash, "ticks": [*ticks.values()], "update": False})
        return ticks

    queue.cron._ticks = planned
    queue.cron.install("hash", "own", 90, lambda at: [CronMessage("x", at)])
    queue.cron.install_periodic_tick("quick", 0.8, str, catch_up="all")
    queue.cron.install_periodic_tick("hourly", HOUR, str, catch_up="last")
    queue.cron.install_cron("cron", " 0  6 * * MON ", str, tz="Europe/Bucharest")
    daily = CronDailySchedule(
        "UTC", [hour_of_day(12), hour_of_day(11, 0, 30)], timedelta(days=1), timedelta(minutes=10)
    )
    queue.cron.install_daily_schedule("daily", daily, str, catch_up="all")
    for seconds in (0, 2.5, 7200):
        sqlite.clock.set(start + timedelta(seconds=seconds))
        for prefix, check, _, _ in handles:
            again = check(Handle)
            ticks = [tick.scheduled_at - start_ms for tick in installed[-1]["ticks"]]
            found.setdefault(prefix, []).append((again, installed[-1]["update"], *ticks[-4:]))
            hashes[prefix] = installed[-1]["config_hash"]
    assert [(prefix, *more) for prefix, _, *more in handles] == [
        ("own", 90.0, True),
        ("quick", 1.0, True),
        ("hourly", 1.0, True),
        ("cron", 1.0, True),
        ("daily", 600.0, True),
    ]
    hour, week = 3_600_000, 7 * 24 * 3600
    assert found == {
        "own": [(90.0, True, 0), (90.0, False, 2500), (90.0, False, 7_200_000)],
        "quick": [
            (1.0, True, 800, 1600),
            (1.0, False, 2400, 3200, 4000),
            (1.0, False, 7_199_200, 7_200_000, 7_200_800, 7_201_600),
        ],
        "hourly": [(900.0, True, hour), (900.0, False, hour), (900.0, False, 2 * hour, 3 * hour)],
        "cron": [(week / 4, update, (week - 6 * 3600) * 1000) for update in (True, False, False)],
        "daily": [
            (600.0, True, hour + 30_000, 2 * hour),
            (600.0, False, hour + 30_000, 2 * hour),
            (600.0, False, 25 * hour + 30_000, 26 * hour),
        ],
    }
    assert hashes["cron"] == hash_of_cron("0 6 * * MON", ZoneInfo("Europe/Bucharest"))
