"""Decisions of the timer and of a repetition, step by step: no thread runs, and the test owns the time."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import drainq.timer
from drainq.timer import FOREVER, Repeat, Timer


@pytest.fixture
def now():
    """Return the time that the timer reads, in a list."""
    return [1000.0]


class Stepped(Timer):
    """A timer whose threads are not started, and whose waits are noted and let the time pass."""

    def __init__(self, now, *, most=2):
        super().__init__(most=most, linger=7.0, now=lambda: now[0])
        self.now, self.started, self.slept, self.lingered, self.notified = now, 0, [], [], []
        self.while_asleep, self.called = lambda: None, False
        self._earlier.wait = self._sleep
        self._wanted.wait = self._linger_on
        self._earlier.notify = lambda: self.notified.append("watch")
        self._wanted.notify = lambda: self.notified.append("spare")

    def _start_thread(self):
        self.started += 1

    def _sleep(self, seconds):
        self.slept.append(seconds)
        assert self._watched
        self.now[0] += seconds
        self.while_asleep()

    def _linger_on(self, seconds):
        self.lingered.append(seconds)
        assert self._spare == 1 and len(self.lingered) < 5
        return self.called

    def next(self):
        with self._lock:
            return self._next_alarm()


class Contested(list):
    """A cell that a rival tries to take before each operation of the taker."""

    rival = None

    def _interrupted(self):
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()
            self.rival = rival

    def __iter__(self):
        self._interrupted()
        return super().__iter__()

    def __getitem__(self, index):
        self._interrupted()
        return super().__getitem__(index)

    def clear(self):
        self._interrupted()
        super().clear()

    def pop(self, *arguments):
        self._interrupted()
        return super().pop(*arguments)


@pytest.mark.parametrize("before", range(3))
def test_an_alarm_is_taken_by_one_of_two_whatever_comes_between_their_steps(now, before):
    alarm = Stepped(now).after(5.0, print)
    alarm._cell, got = Contested(alarm._cell), []

    def rival():
        nonlocal before
        before -= 1
        if before < 0 and not got:
            got.append(alarm._take())

    alarm._cell.rival = rival
    taken = [work for work in (alarm._take(), *got) if work is not None]
    assert taken == [print] and alarm._take() is None and not alarm.cancel()


def test_the_watch_sleeps_until_the_earliest_alarm_and_hands_them_out_in_order(now):
    timer = Stepped(now)
    late, early = timer.after(5.0, print), timer.after(3.0, print)
    assert [timer.next(), timer.next()] == [early, late]
    assert timer.slept == [3.0, 2.0] and not timer._watched
    alarms = [timer.after(seconds, print) for seconds in (0, -5.0, 1e20)]  # a time in the past counts as now
    timer.while_asleep = lambda: 1 / 0
    assert [timer.next(), timer.next()] == alarms[:2]
    with pytest.raises(ZeroDivisionError):
        timer.next()
    assert timer.slept[2:] == [threading.TIMEOUT_MAX] and not timer._watched


def test_a_thread_that_has_the_only_work_calls_no_other(now):
    timer, done = Stepped(now), []
    timer.after(0, lambda: done.append(timer.started))
    timer._run()
    assert done == [1] and timer.started == 1


def test_a_cancelled_alarm_is_slept_for_by_none(now):
    timer = Stepped(now)
    cancelled, other = timer.after(1.0, print), timer.after(2.0, print)
    cancelled.cancel()
    assert timer.next() is other and timer.slept == [2.0] and timer._cancelled == 0


def test_a_thread_without_work_lingers_and_ends(now):
    timer = Stepped(now)
    assert timer.next() is None
    assert timer.lingered == [7.0] and timer._spare == 0
    timer._threads = 1
    timer._run()
    assert timer._threads == 0


def test_a_spare_thread_becomes_the_watch_if_there_is_none_and_else_ends(now):
    timer = Stepped(now)
    alarm = timer.after(4.0, print)
    timer._watched = True
    assert timer.next() is None and timer.lingered == [7.0]
    timer._watched = False
    assert timer.next() is alarm and timer.slept == [4.0]


def test_a_spare_thread_that_was_called_in_vain_stays_and_takes_the_place_of_a_watch_that_left(now):
    timer = Stepped(now)
    alarm, timer._watched = timer.after(4.0, print), True

    def linger(seconds):
        timer.lingered.append(seconds)
        timer._watched = called = len(timer.lingered) == 1
        return called

    timer._wanted.wait = linger
    assert timer.next() is alarm and timer.lingered == [7.0, 7.0]


def test_the_earliest_alarm_calls_the_watch_a_spare_thread_or_a_new_one(now):
    timer = Stepped(now, most=1)
    timer.after(5.0, print)
    assert (timer.started, timer._threads, timer.notified) == (1, 1, [])
    timer.after(6.0, print)  # not the earliest: nothing changes
    assert (timer.started, timer.notified) == (1, [])
    timer._watched = True
    timer.after(60.0, print)
    timer.after(4.0, print)
    timer._watched, timer._spare = False, 1
    timer.after(3.0, print)
    assert (timer.started, timer.notified) == (1, ["watch", "spare"])


def test_with_all_threads_busy_the_log_says_so_once_a_minute_when_an_alarm_is_late(now, caplog):
    timer = Stepped(now, most=1)
    timer.after(1.0, print)
    cancelled, said = timer.after(0.0, print), []
    cancelled.cancel()  # would be late by 2 s
    for seconds in (2.0, 0.1, 59.0, 2.0):
        now[0] += seconds
        caplog.clear()
        timer.after(1000.0, print)  # not the earliest
        said += [record.getMessage() for record in caplog.records] or [None]
    late = "all 1 threads of a drainq timer are busy; an alarm is {} s late"
    assert said == [None, late.format(1.1), None, late.format(62.1)] and timer.started == 1


@pytest.mark.parametrize("ends", [True, False])
def test_a_thread_that_could_not_be_started_is_not_counted(now, ends, monkeypatch, caplog):
    timer, tries = Timer(most=1), []

    def start(thread):
        tries.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(drainq.timer.sys, "is_finalizing", lambda: ends)
    for number in (1, 2):
        timer.after(10.0 - number, print)
        assert timer._threads == 0
    assert tries == ([] if ends else ["drainq-timer"] * 2) and not timer.has_threads
    assert ("could not start a thread" in caplog.text) is not ends


class Alarms:
    """A timer that notes alarms; the test rings them."""

    def __init__(self):
        self.set = []

    def after(self, seconds, work):
        alarm = SimpleNamespace(seconds=seconds, work=work, cancelled=False)

        def cancel():
            if alarm not in self.set:
                return False
            alarm.cancelled = True
            self.set.remove(alarm)
            return True

        alarm.cancel = cancel
        self.set.append(alarm)
        return alarm

    def ring(self):
        (alarm,) = self.set
        self.set.remove(alarm)
        alarm.work()

    def seconds(self):
        return [alarm.seconds for alarm in self.set]


@pytest.mark.parametrize(
    ("answer", "alarms", "stopped"), [(2.5, [2.5], False), (0.0, [0.0], False), (FOREVER, [], False), (None, [], True)]
)
def test_a_turn_says_when_the_next_one_comes(answer, alarms, stopped):
    timer = Alarms()
    repeat = Repeat(lambda: answer, timer=timer)
    repeat.wake()
    timer.ring()
    assert timer.seconds() == alarms and repeat.stopped is stopped
    repeat.wake()
    assert timer.seconds() == ([] if stopped else [0])  # in place of the later one


@pytest.mark.parametrize("answer", [60.0, FOREVER])
def test_a_wake_in_the_middle_of_a_turn_brings_the_next_one_at_once(answer):
    timer = Alarms()

    def turn():
        repeat.wake()
        repeat.wake_after(5.0)  # does nothing during a turn
        assert timer.set == []  # one turn at a time
        return answer

    repeat = Repeat(turn, timer=timer)
    repeat.wake_after(3.0)
    assert timer.seconds() == [3.0]
    timer.ring()
    assert timer.seconds() == [0]


def test_a_wake_that_was_followed_by_a_turn_counts_no_second_time():
    timer, answers = Alarms(), [lambda: repeat.wake() or 9.0, lambda: 8.0]
    repeat = Repeat(lambda: answers.pop(0)(), timer=timer)
    repeat.wake()
    timer.ring()
    timer.ring()
    assert timer.seconds() == [8.0]


def test_a_turn_that_raises_ends_the_repetition():
    timer = Alarms()
    repeat = Repeat(lambda: 1 / 0, timer=timer)
    repeat.wake()
    with pytest.raises(ZeroDivisionError):  # the timer logs it
        timer.ring()
    assert repeat.stopped and timer.set == [] and repeat.stop(0) is True


def test_stop_cancels_the_next_turn_and_a_turn_that_begins_all_the_same_does_nothing():
    timer, turns = Alarms(), []
    repeat = Repeat(lambda: turns.append(1), timer=timer)
    repeat.wake()
    (alarm,) = timer.set
    assert repeat.stop() is True and alarm.cancelled
    alarm.work()
    repeat.wake()
    assert turns == [] and timer.set == []


def test_a_turn_that_stops_itself_is_told_that_it_still_runs():
    timer, answers = Alarms(), []
    repeat = Repeat(lambda: answers.append(repeat.stop(60)) or 5.0, timer=timer)
    repeat.wake()
    timer.ring()
    assert answers == [False] and timer.set == [] and repeat.stop(0) is True
    in_child = Repeat(lambda: 5.0, timer=timer)
    in_child._renew_in_child()
    in_child.wake()
    assert in_child.stopped and timer.set == []


def test_a_turn_that_is_already_beginning_is_not_set_a_second_time():
    timer = Alarms()
    repeat = Repeat(lambda: FOREVER, timer=timer)
    repeat.wake()
    timer.set.clear()  # its thread has taken the alarm
    repeat.wake()
    assert timer.set == []


def test_ctrl_c_in_any_python_code_of_its_locks_leaves_them_free(now):
    """A signal handler may raise where a Python function begins or returns; here in each function of ``threading``."""

    def interrupted_at(number):
        seen = []

        def trace(frame, event, _):
            if frame.f_code.co_filename != threading.__file__:
                return trace
            if event in {"call", "return"}:
                seen.append(frame.f_code.co_name)
                if len(seen) == number:
                    raise KeyboardInterrupt
            return trace

        timer = Stepped(now)
        repeat = Repeat(print, timer=timer)
        sys.settrace(trace)
        try:
            timer.after(5.0, print)
            repeat.wake_after(1.0)
            repeat.wake()
            repeat.stop(0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        for lock in (timer._lock, repeat._lock):
            with ThreadPoolExecutor(1) as other:
                assert other.submit(lock.acquire, timeout=0).result(), seen[-1]
        return len(seen)

    number = 1
    while interrupted_at(number) >= number:
        number += 1
