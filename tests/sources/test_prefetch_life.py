"""PrefetchSource among threads: its end, its collection, its fork."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest

import drainq.sources.prefetch_refill
from drainq import Backoff
from drainq.sources import PrefetchSource, PrefetchStats
from drainq.testing import ManualClock
from tests.sources.by_hand import Scripted
from tests.sources.threads import Call, eventually


def test_close_starts_no_more_refills_and_keeps_what_is_buffered(make, background):
    source = Scripted([1, 2], [3])
    prefetch = make(source)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.close()
    assert prefetch.get_next_batch(2) == [1, 2]
    assert background.waiting == []


def test_what_a_forked_child_renews_is_empty_and_asks_on_its_own_threads(make, background):
    async def numbers(n):
        return range(n)

    source, told = make(Scripted([1, 2, 3, 4, 5, 1], [6])), []
    source.subscribe(told.append)
    source.subscribe(told.append)
    source.get_next_batch(0)
    background.run()
    empty = PrefetchStats(**dict.fromkeys(PrefetchStats.__annotations__, 0) | {"capacity": 4, "refilling": False})
    assert (source.stats(), source.finished) != (empty, False)
    source._renew_in_child()
    assert (source.stats(), source.finished, source._executor) == (empty, False, None)
    assert source._reports.listeners == (told.append,)
    source.unsubscribe(told.append)
    assert source._reports.listeners == ()
    loop = asyncio.new_event_loop()
    for ask, ended in ((iter("ab"), True), (numbers, True), (Scripted(), False)):
        source = make(ask, loop=loop)
        source.close()
        source._renew_in_child()
        assert (source.finished, source._intake.closed) == (ended, True)
    loop.close()


def test_close_wakes_a_consumer_that_waits_for_an_item(make, background):
    source = make(Scripted())
    waiting = Call(source.wait)
    eventually(lambda: background.waiting)
    assert source.close()
    assert waiting.result() is True


def test_close_waits_for_the_refill_in_flight_and_keeps_what_it_brings():
    asked, release = threading.Event(), threading.Event()

    def slow(n):
        asked.set()
        assert release.wait(30)
        return [1]

    prefetch = PrefetchSource(slow, 4, 1, eager=True)
    assert asked.wait(30)
    assert not prefetch.close(timeout=0)
    release.set()
    assert prefetch.close(timeout=30)
    assert prefetch.get_next_batch(1) == [1]


def test_a_source_that_closes_itself_does_not_wait_for_itself():
    answers = []

    def closes(n):
        answers.append(prefetch.close())
        return [1]

    prefetch = PrefetchSource(closes, 4, 1)
    assert prefetch.wait(30)
    assert prefetch.close(30)
    assert answers == [False]


def test_a_pull_never_waits_for_the_source():
    asked, release = threading.Event(), threading.Event()

    def hangs(n):
        asked.set()
        release.wait(60)
        return []

    prefetch = PrefetchSource(hangs, 4, 1, eager=True)
    assert asked.wait(30)
    for _ in range(1000):
        assert prefetch.get_next_batch(1) == []
    assert prefetch.stats().starved_pulls == 1000
    release.set()
    assert prefetch.close(30)


def test_wait_returns_when_items_arrive_or_none_ever_will():
    prefetch = PrefetchSource(iter([1]), 4, 1)
    assert prefetch.wait(30)
    assert prefetch.get_next_batch(1) == [1]
    assert prefetch.wait(30)
    assert prefetch.finished
    assert prefetch.close(30)


def test_pullers_and_refiller_lose_and_double_nothing():
    n = 20_000
    prefetch = PrefetchSource(iter(range(n)), 500, 100)
    taken = [[] for _ in range(4)]

    def pull(mine):
        while not prefetch.finished:
            batch = prefetch.get_next_batch(37)
            mine.extend(batch)
            if not batch:
                assert prefetch.wait(30)

    pullers = [threading.Thread(target=pull, args=(mine,)) for mine in taken]
    for puller in pullers:
        puller.start()
    for puller in pullers:
        puller.join(60)
    assert sorted(item for mine in taken for item in mine) == list(range(n))
    assert all(mine == sorted(mine) for mine in taken)
    stats = prefetch.stats()
    assert (stats.fetched, stats.duplicates, stats.errors, stats.size) == (n, 0, 0, 0)
    assert prefetch.close(30)


def test_a_source_that_nobody_holds_is_collected_although_it_waits_for_its_next_refill():
    prefetch = PrefetchSource(Scripted([1]), 4, 0, name="short-lived", backoff=Backoff(60, 60))
    assert prefetch.wait(30)
    prefetch.get_next_batch(1)
    seen = weakref.ref(prefetch)
    eventually(lambda: seen()._wakes_at is not None)
    del prefetch
    eventually(lambda: gc.collect() >= 0 and seen() is None)


def test_the_earlier_of_two_times_to_ask_again_counts(monkeypatch):
    set_for = []
    alarms = SimpleNamespace(after=lambda seconds, work: set_for.append(seconds), has_threads=True)
    monkeypatch.setattr(drainq.sources.prefetch_refill, "TIMER", alarms)
    source = PrefetchSource(Scripted(), 4, 0, clock=ManualClock(1000.0))
    for due in (1005.0, 1007.0, 1005.0, 1002.0):
        source._wake_at(due, 1000.0)
    assert set_for == [5.0, 2.0]
    source._woken(1005.0)  # an alarm that another has overtaken
    source._wake_at(1002.0, 1000.0)
    source._woken(1002.0)
    source._wake_at(1005.0, 1000.0)
    source._woken(1005.0)
    source._wake_at(1e300, 1000.0)
    assert [seconds for seconds in set_for if seconds] == [5.0, 2.0, 5.0, threading.TIMEOUT_MAX]


@pytest.mark.system
def test_a_hanging_source_does_not_hold_up_the_interpreters_exit():
    script = (
        "import threading\n"
        "from drainq.sources import PrefetchSource\n"
        "asked = threading.Event()\n"
        "source = PrefetchSource(lambda n: asked.set() or threading.Event().wait(), 4, 1, eager=True)\n"
        "assert asked.wait(30)\n"
        "print('leaving')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")
