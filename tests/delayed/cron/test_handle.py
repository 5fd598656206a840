"""A handle's single checks, and the watch over many: no timer runs, and the time is the test's."""

from __future__ import annotations

import math
import threading
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

import drainq.delayed.cron.schedule_handle
import drainq.delayed.cron.schedule_watch
from drainq.delayed import CronMessage, DelayedQueue
from drainq.delayed.cron.admin import Plan
from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.delayed.cron.schedule_watch import Jumps, Watch
from drainq.delayed.storage.records import ScheduleState
from drainq.errors import ShutDown
from drainq.testing import ManualClock


@pytest.fixture
def now(monkeypatch):
    """Return real time, in a list."""
    now = [0.0]
    monkeypatch.setattr(drainq.delayed.cron.schedule_watch, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def clock(now):
    return ManualClock(1000.0)


class Idle:
    """A watch that notes what it is told."""

    def __init__(self):
        self.watched = set()

    def add(self, schedule):
        self.watched.add(schedule)

    def discard(self, schedule):
        self.watched.discard(schedule)


def handle_of(check, clock, *, retry=30.0, plan=None):
    return CronHandle("report", check, clock=clock, retry=retry, watch=Idle(), plan=plan)


def test_a_check_says_when_the_next_one_is_due(clock):
    handle = handle_of(lambda handle: 12.5, clock)
    assert handle._turn() == 12.5 and handle.due_at == 1012.5 and handle._checked.is_set()
    handle.wake()
    assert handle.due_at == float("inf")  # until the check has said
    handle.close()


@pytest.mark.parametrize(("retry", "wait"), [(30.0, 30.0), (3600.0, 60.0)])
def test_a_check_that_fails_is_tried_again_after_a_minute_at_most(clock, retry, wait, caplog):
    handle = handle_of(lambda handle: 1 / 0, clock, retry=retry)
    assert handle._turn() == wait and handle.due_at == 1000.0 + wait
    assert f"next try in {wait:g} s" in caplog.text
    with pytest.raises(ZeroDivisionError):
        handle.look()


def test_a_check_that_goes_on_failing_is_logged_once_a_minute_and_a_new_failure_at_once(clock, caplog, monkeypatch):
    real, fails = [0.0], [True] * 4 + [False, True]
    monkeypatch.setattr(drainq.delayed.cron.schedule_handle, "time", SimpleNamespace(monotonic=lambda: real[0]))
    handle = handle_of(lambda handle: 1 / (not fails.pop(0)), clock)
    logged = []
    for at in (0, 30, 59, 60, 61, 62):
        real[0] = at
        handle._turn()
        logged.append(caplog.text.count("Traceback"))
    assert logged == [1, 1, 1, 2, 2, 3]


def test_after_close_nothing_is_checked(clock):
    checks = []
    handle = handle_of(lambda handle: checks.append(1) or 1.0, clock)
    handle._watch.add(handle)
    handle.look()
    assert handle.close() is True
    handle.look()
    assert handle._turn() is None
    assert checks == [1] and handle.closed and not handle._watch.watched


def test_closing_waits_for_a_look_on_another_thread(clock):
    running, go_on = threading.Event(), threading.Event()
    handle = handle_of(lambda handle: (running.set(), go_on.wait(30), 1.0)[-1], clock)
    threading.Thread(target=handle.look).start()
    assert running.wait(30) and handle.close(0) is False
    go_on.set()
    assert handle.close(1e10) is True


@pytest.mark.parametrize("nested", [False, True])
def test_a_check_that_closes_its_own_schedule_is_told_that_it_still_runs(clock, nested):
    closed = []

    def check(handle):
        if nested and not closed:
            closed.append(None)
            handle.look()  # a check within the check
        closed.append(handle.close())
        return 1.0

    handle_of(check, clock).look()
    assert closed == ([None, False, False] if nested else [False])


def test_the_end_of_its_queue_is_no_error_of_a_closed_schedule(clock, caplog):
    def check(handle):
        handle._closed = True
        raise ShutDown("the delayed queue is closed")

    assert handle_of(check, clock)._turn() is None and caplog.text == ""


def test_a_child_has_no_schedule_of_its_parents(clock):
    handle = handle_of(lambda handle: 1.0, clock)
    handle._renew_in_child()
    assert handle.closed


def test_a_clock_that_goes_another_way_than_real_time_is_told_apart(now):
    jumps = Jumps(10.0)
    seen = []
    for clock, real in ((100.0, 0.0), (200.0, 100.0), (311.0, 201.0), (322.0, 201.5), (300.0, 202.5)):
        now[0] = real
        seen.append(jumps.since_last(clock))
    assert seen == [None, None, None, 10.5, -23.0]


class Schedule:
    """A schedule whose close takes so many seconds."""

    def __init__(self, now, takes=0.0, due_at=float("inf")):
        self.now, self.takes, self.due_at, self.closes, self.woken = now, takes, due_at, [], 0

    def close(self, timeout=10.0):
        self.closes.append(timeout)
        self.now[0] += self.takes if timeout is None else min(self.takes, timeout)
        return timeout is None or self.takes <= timeout

    def wake(self):
        self.woken += 1

    def planned(self, now):
        return None


def test_all_schedules_are_closed_in_one_timeout(now, clock):
    watch = Watch(clock, set)
    watch._watched = schedules = [Schedule(now, 4.0), Schedule(now, 4.0), Schedule(now, 4.0), Schedule(now)]
    assert watch.close_all(10.0) is False
    assert [schedule.closes for schedule in schedules] == [[0, 10.0], [0, 6.0], [0, 2.0], [0, 0.0]]
    watch._watched = schedules = [Schedule(now, 4.0), Schedule(now, 4.0)]
    assert watch.close_all(None) is True and [schedule.closes for schedule in schedules] == [[0, None]] * 2


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_a_handle_has_ended_when_its_check_and_its_timer_have(clock, ends, held):
    handle, told = handle_of(lambda handle: 1.0, clock), []
    handle._repeat = SimpleNamespace(stop=lambda timeout: told.append(timeout) or ends)
    handle._one_check_at_a_time = SimpleNamespace(
        acquire=lambda timeout: told.append(timeout) or not held, release=lambda: told.append("released")
    )
    assert handle.close(2.5) is (ends and not held) and handle.closed
    assert told == ([2.5, 0] if held else [2.5, "released", 2.5])
    told.clear()
    handle.close()
    assert told[0] == -1


def test_the_watch_wakes_what_is_due_by_the_queues_clock(now, clock):
    watch = Watch(clock, set)
    watch._watched = due, later = [Schedule(now, due_at=1000.0), Schedule(now, due_at=1000.001)]
    watch._turn()
    assert (due.woken, later.woken) == (1, 0)
    clock.advance(0.001)
    watch._turn()
    assert (due.woken, later.woken) == (2, 1)


class Planned(Schedule):
    """A schedule that plans a tick of its name, and is told how long it may wait."""

    def __init__(self, now, name):
        super().__init__(now, due_at=1000.0)
        self.name, self.put_offs = name, []

    def planned(self, now):
        return [self.name], 7.5

    def put_off(self, now, seconds):
        self.put_offs.append((now, seconds))


def test_the_watch_asks_once_for_all_due_ticks_and_wakes_only_the_schedules_without_theirs(now, clock):
    asked = []
    watch = Watch(clock, lambda keys: asked.append(sorted(keys)) or {"made"})
    watch._watched = made, missing, unknown = [
        Planned(now, "made"),
        Planned(now, "missing"),
        Schedule(now, due_at=1000.0),
    ]
    watch._turn()
    assert asked == [["made", "missing"]]
    assert (made.woken, missing.woken, unknown.woken) == (0, 0, 1)
    assert (made.put_offs, missing.put_offs) == ([(1000.0, 7.5)], [(1000.0, 0.75)])


def test_a_schedule_is_passed_over_three_times_while_another_process_makes_ticks(now, clock):
    made = {"made"}
    watch, others, missing = Watch(clock, lambda keys: made), Planned(now, "made"), Planned(now, "missing")
    watch._watched = {others, missing}
    turns = []
    for _ in range(5):
        watch._turn()
        turns.append(missing.woken)
    assert turns == [0, 0, 0, 1, 1], "then it makes its tick, and the next tick is passed over anew"
    watch.discard(missing)
    made.clear()
    watch._turn()
    assert others.woken == 1 and not watch._passed, "nobody makes ticks: nothing is waited for"


def test_the_watch_begins_some_checks_at_a_time_and_asks_again_before_the_next_ones(now, clock):
    most, asked, made = drainq.delayed.cron.schedule_watch._AT_ONCE, [], set()
    watch = Watch(clock, lambda keys: asked.append(len(keys)) or made)
    watch._watched = schedules = [Planned(now, f"{n}") for n in range(2 * most + 10)]
    assert watch._turn() < drainq.delayed.cron.schedule_watch._OTHER_SLICE
    begun = [schedule for schedule in schedules if schedule.woken]
    assert len(begun) == most and asked == [most]
    for schedule in begun:
        schedule.due_at = math.inf  # as during a check
    assert watch._turn() < drainq.delayed.cron.schedule_watch._OTHER_SLICE and asked == [most]
    for schedule in begun[:20]:
        schedule.due_at = 1010.0
    made |= {schedule.name for schedule in schedules if schedule not in begun}  # by another process
    assert watch._turn() < drainq.delayed.cron.schedule_watch._OTHER_SLICE and asked == [most, 20]
    assert sum(bool(schedule.woken) for schedule in schedules) == most
    assert sum(bool(schedule.put_offs) for schedule in schedules) == 20


def test_a_watch_that_cannot_ask_for_ticks_leaves_that_to_the_checks(now, clock):
    watch = Watch(clock, lambda keys: 1 / 0)
    watch._watched = [schedule] = [Planned(now, "made")]
    watch._turn()
    assert (schedule.woken, schedule.put_offs) == (1, [])


def test_a_schedule_that_is_put_off_is_due_then_and_its_own_timer_rings_after_the_watch(clock):
    handle = handle_of(lambda handle: 12.5, clock, plan=lambda now: ([], 1.0))
    handle._repeat, told = SimpleNamespace(wake_after=lambda seconds: told.append(seconds)), []
    assert handle._turn() == 12.5 + 5 and handle.due_at == 1012.5
    handle.put_off(1000.0, 5.0)
    assert (handle.due_at, told) == (1005.0, [10.0])


def test_a_schedule_whose_timer_rings_lets_the_watch_ask_first_and_checks_if_that_does_not_come(clock):
    checks = []
    handle = handle_of(lambda handle: checks.append(1) or 12.5, clock, plan=lambda now: ([], 1.0))
    handle._repeat = SimpleNamespace(wake=lambda: None)
    turns = [(handle._turn(), len(checks), handle.due_at) for _ in range(3)]
    assert turns == [(17.5, 1, 1012.5), (5.0, 1, -math.inf), (17.5, 2, 1012.5)]
    handle.wake()
    assert (handle._turn(), len(checks)) == (17.5, 3)
    alone = handle_of(lambda handle: checks.append(1) or 12.5, clock)
    assert [alone._turn() for _ in range(2)] == [12.5, 12.5] and len(checks) == 5


def test_a_watch_repeats_once_for_all_its_schedules_and_ends_with_the_last(now, clock, monkeypatch):
    repeats = []

    class Repeats:
        def __init__(self, turn, *, timer):
            self.calls = []
            repeats.append(self.calls)

        def wake_after(self, seconds):
            self.calls.append("begun")

        def stop(self, timeout):
            self.calls.append("ended")

    monkeypatch.setattr(drainq.delayed.cron.schedule_watch, "Repeat", Repeats)
    watch, schedules = Watch(clock, set), [Schedule(now), Schedule(now)]
    for _ in range(2):
        for act in (watch.add, watch.discard):
            act(schedules[0])
            assert repeats[-1] == ["begun"]
            act(schedules[1])
    assert repeats == [["begun", "ended"]] * 2


def test_a_clock_that_cannot_be_read_is_logged_and_the_watch_goes_on(now, clock, caplog):
    watch = Watch(clock, set)
    clock.now = lambda: 1 / 0
    assert watch._turn() > 0 and "clock could not be read" in caplog.text


def test_the_ticks_to_come_that_lie_below_the_floor_are_counted(clock, caplog):
    now, floor = datetime.fromtimestamp(1000, timezone.utc), ScheduleState("h", "-", 1_002_000_000, 0)
    with DelayedQueue.open("memory:", "mail", clock=clock) as queue:
        ticks = [CronMessage(1, now + timedelta(seconds=seconds)) for seconds in (-1, 0, 1, 2, 2.5)]
        assert queue.cron._warned(Plan("h", "p", "every 60 s", None), ticks, now, floor)
        assert not queue.cron._warned(Plan("h", "p", "every 60 s", None), ticks[4:], now, floor)
    assert "2 ticks lie below" in caplog.text


def test_closing_all_schedules_has_the_callers_timeout(monkeypatch):
    told = []
    with DelayedQueue.open("memory:", "mail") as queue:
        monkeypatch.setattr(queue.cron._watch, "close_all", told.append)
        queue.cron.close(7.5)
    assert told[0] == 7.5
