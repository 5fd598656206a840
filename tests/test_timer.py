"""Alarms ring once, in order, unless cancelled. Slow work delays none. A repetition has one turn at a time."""

from __future__ import annotations

import doctest
import gc
import heapq
import os
import random
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import drainq.timer
from drainq.timer import FOREVER, Repeat, Timer

LIMIT = 30


def frozen():
    at = time.monotonic()
    return SimpleNamespace(now=lambda: at)


def test_alarms_ring_in_the_order_of_their_times():
    clock, rang, all_rang = frozen(), [], threading.Event()
    timer = Timer(most=1, now=lambda: clock.now())
    for number in (3, 1, 2, 0):
        timer.after(0.05 + number / 100, lambda number=number: rang.append(number))
    timer.after(0.1, all_rang.set)
    clock.now = time.monotonic
    assert all_rang.wait(LIMIT)
    assert rang == [0, 1, 2, 3]


def test_a_cancelled_alarm_never_rings_and_one_that_rang_cannot_be_cancelled():
    clock, rang = frozen(), []
    timer = Timer(most=1, now=lambda: clock.now())
    cancelled = timer.after(0.02, lambda: rang.append("cancelled"))
    assert cancelled.cancel() is True
    assert cancelled.cancel() is False
    clock.now = time.monotonic
    done = threading.Event()
    last = timer.after(0.03, done.set)
    assert done.wait(LIMIT)
    assert last.cancel() is False
    assert rang == []


def test_works_that_hang_hold_up_no_other_alarm():
    timer, release, rang = Timer(most=8), threading.Event(), threading.Event()
    timer.after(0.05, rang.set)  # set before the others, so nothing but the hand-over of the watch lets it ring
    for _ in range(7):
        timer.after(0, lambda: release.wait(LIMIT))
    in_time = rang.wait(LIMIT / 2)
    release.set()
    assert in_time


def test_a_work_that_raises_is_logged_and_the_next_runs(caplog):
    timer, rang = Timer(most=1), threading.Event()
    timer.after(0, lambda: 1 / 0)
    timer.after(0.01, rang.set)
    assert rang.wait(LIMIT)
    assert "ZeroDivisionError" in caplog.text


def test_a_thousand_alarms_share_a_few_threads():
    """Only this timer's threads are counted: threads of other tests end, and a shared timer starts some."""
    timer, started = Timer(), []
    start, timer._start_thread = timer._start_thread, lambda: (started.append(1), start())
    for number in range(1000):
        timer.after(3600 + number, lambda: None)
    assert 1 <= len(started) <= 2


def test_cancelled_alarms_do_not_pile_up():
    timer = Timer()
    for _ in range(10_000):
        timer.after(3600, lambda: None).cancel()
    assert len(timer._heap) < 1000 and timer._cancelled < 1000
    for number in random.Random(1).sample(range(1000), 1000):
        alarm = timer.after(3600 + number, print)
        if number < 900:
            alarm.cancel()
    timer.after(7200, print)  # tidies up: what is left is still a heap
    with timer._lock:  # else its thread may drop cancelled alarms meanwhile
        left = [heapq.heappop(timer._heap)[:2] for _ in timer._heap.copy()]
    assert left == sorted(left) and len(left) < 500


def test_what_rang_or_was_cancelled_keeps_nothing_alive():
    class Owner:
        def work(self):
            done.set()

    timer, done, owner = Timer(), threading.Event(), Owner()
    gone = weakref.ref(owner)
    alarm = timer.after(3600, owner.work)
    alarm.cancel()
    timer.after(0, owner.work)
    assert done.wait(LIMIT)
    again = threading.Event()
    timer.after(0, again.set)
    assert again.wait(LIMIT)
    del owner
    for _ in range(1000):
        gc.collect()
        if gone() is None:
            break
    assert gone() is None


@pytest.mark.parametrize("seconds", [float("nan"), FOREVER])
def test_a_time_that_never_comes_is_refused(seconds):
    with pytest.raises(ValueError, match="finite"):
        Timer().after(seconds, lambda: None)


def test_stop_waits_for_the_turn_that_runs_and_none_follows():
    entered, release, turns = threading.Event(), threading.Event(), []

    def turn():
        turns.append(1)
        entered.set()
        assert release.wait(LIMIT)
        return 0

    repeat = Repeat(turn, timer=Timer())
    repeat.wake()
    assert entered.wait(LIMIT)
    assert repeat.stop(0) is False
    wait, told = repeat._ended.wait, []
    repeat._ended.wait = lambda timeout: told.append(1) or (len(told) == 2 and release.set()) or wait(timeout)
    with ThreadPoolExecutor() as threads:  # both calls of stop are notified; their timeout is longer than a lock's
        assert [stop.result(LIMIT) for stop in [threads.submit(repeat.stop, 1e10) for _ in range(2)]] == [True, True]
    repeat.wake()
    assert turns == [1]


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_starts_without_alarms_and_its_timer_works():
    program = """
import os, threading
from drainq.timer import Repeat, Timer
timer, turns = Timer(), []
rang, in_turn, release = threading.Event(), threading.Event(), threading.Event()
alarm_rang = threading.Event()
timer.after(0.2, lambda: (turns.append(os.getpid()), alarm_rang.set()))  # before the fork on a busy machine
repeat = Repeat(lambda: (in_turn.set(), release.wait(30)) and 0, timer=timer)
repeat.wake()
assert in_turn.wait(30)
child = os.fork()
if child == 0:
    mine = threading.Event()
    timer.after(0.4, mine.set)
    ok = mine.wait(30) and os.getpid() not in turns and repeat.stop(30)
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
release.set()
assert repeat.stop(30)
assert alarm_rang.wait(30) and turns == [os.getpid()]
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


def test_the_examples_run():
    results = doctest.testmod(drainq.timer)
    assert results.attempted > 5
    assert results.failed == 0


@pytest.mark.system
def test_an_alarm_that_is_set_while_the_interpreter_ends_does_not_hold_it_up():
    code = """
from drainq.timer import Timer

class Late:
    def __init__(self):
        self.timer = Timer()
    def __del__(self):
        self.timer.after(0, print)

late = Late()
late.itself = late
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
