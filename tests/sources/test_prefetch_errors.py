"""PrefetchSource when foreign code raises: nothing is lost, nothing dies, everything is counted, close() returns."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from types import SimpleNamespace

import pytest

import drainq.sources.prefetch_refill
import drainq.sources.steady_clock
from drainq import Backoff
from drainq.sources import PrefetchSource
from drainq.sources.prefetch_reports import Reports
from drainq.sources.steady_clock import SteadyClock
from drainq.testing import ManualClock
from drainq.timer import Timer
from tests.sources.by_hand import EXACT, Raises, balanced

EXITS = [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit]


# -- what is refused at the door ------------------------------------------------------------


@pytest.mark.parametrize("answer", ["abc", b"abc", bytearray(b"abc"), {"id": 1}, 42, object()])
def test_letters_numbers_and_keys_are_not_taken_for_items(make, background, heard, answer):
    source = make(lambda n: answer)
    source.get_next_batch(1)
    background.run()
    assert source.get_next_batch(9) == []
    (error,) = heard
    assert isinstance(error, TypeError)
    assert "a source answers with a list of items" in str(error)
    assert type(answer).__name__ in str(error)


# -- key ------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False], ids=["list", "as it comes"])
@pytest.mark.parametrize("error", EXITS)
def test_an_item_whose_key_raises_is_counted_and_costs_no_other(make, background, heard, error, whole):
    def key(item):
        if item == 2:
            raise error("no key")
        return item

    items = [1, 2, 3, 4, 5, 2, 6]  # with 2 among those that fit, and among those that are held
    answers = [items if whole else iter(items)]
    source = make(lambda n: answers.pop() if answers else [], capacity=4, key=key)
    source.get_next_batch(0)
    background.run()
    taken = source.get_next_batch(3)
    background.run()
    taken += source.get_next_batch(9)
    assert taken == [1, 3, 4, 5, 6]
    assert source.stats().unusable == 2
    assert {type(one) for one in heard} == {error}
    assert source.stats().errors == len(heard)
    assert balanced(source, len(taken))
    assert source.close(0)


@pytest.mark.parametrize(("calls", "items"), [((2,), [1, 2, 3]), ((2, 3), [1, 3])], ids=["once", "twice"])
def test_an_interrupt_in_a_key_says_nothing_about_the_item(make, background, heard, calls, items):
    source = make(lambda n: [1, 2, 3], key=Raises(KeyboardInterrupt(), *calls, then=lambda item: item))
    source.get_next_batch(0)
    background.run()
    assert source.get_next_batch(9) == items
    assert source.stats().unusable == 3 - len(items)
    assert len(heard) == len(calls)


def test_an_error_within_a_refill_wakes_the_consumer_that_is_to_raise_it():
    release = threading.Event()

    def slow(n):
        yield "no number"
        assert release.wait(30)

    source = PrefetchSource(slow, 4, 1, key=int, on_error="raise")
    try:
        assert source.wait(30)
        assert source.stats().refilling
        with pytest.raises(ValueError, match="no number"):
            source.get_next_batch(1)
    finally:
        release.set()
    assert source.close(30)


# -- on_error, listeners, clock ------------------------------------------------------------


@pytest.mark.parametrize("error", EXITS)
def test_an_on_error_that_raises_ends_no_refill_and_both_errors_count(make, background, clock, error, caplog):
    source = make(Raises(ValueError("down"), 1, then=lambda n: [1]), on_error=Raises(error("worse"), 1))
    source.get_next_batch(1)
    with caplog.at_level(logging.ERROR, "drainq"):
        background.run()
    assert f"{error.__name__} at by_hand.py" in caplog.text and "worse" not in caplog.text
    assert source.stats().errors == 2
    clock.advance(1.0)
    source.get_next_batch(1)
    background.run()
    assert source.get_next_batch(1) == [1]
    assert source.close(0)


@pytest.mark.parametrize("error", EXITS)
def test_a_listener_that_raises_ends_no_refill_and_the_others_are_told(make, background, error, caplog):
    told = []
    source = make(lambda n: [1, 2])
    source.subscribe(Raises(error("deaf"), 1))
    source.subscribe(lambda: told.append(len(source)))
    source.get_next_batch(0)
    with caplog.at_level(logging.ERROR, "drainq"):
        background.run()
    assert told == [2]
    assert f"{error.__name__} at by_hand.py" in caplog.text and "deaf" not in caplog.text
    assert source.stats().errors == 1
    assert not source.stats().refilling
    assert source.close(0)


def test_the_time_goes_on_by_the_machine_while_a_clock_fails(monkeypatch):
    machine, reports = ManualClock(), Reports("example", "log", threading.Condition())
    monkeypatch.setattr(drainq.sources.steady_clock, "time", SimpleNamespace(monotonic=machine.now))
    answers = iter([1000.0, "noon", math.inf, -1.0, 1001.0, 1002.0, 1001.5, 1002.5, 100.0, 110.0, 10.0, 11.0])
    steady = SteadyClock(SimpleNamespace(now=lambda: next(answers)), reports.report)
    told = []
    for passed in (0, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0):
        machine.advance(passed)
        told.append(steady.now())
    assert told == [1000, 1005, 1007, 1007, 1007, 1008, 1008, 1008.5, 1008.5, 1018.5, 1018.5, 1019.5]
    assert reports.errors == 3


@pytest.mark.parametrize("error", EXITS)
def test_a_source_that_is_woken_outlives_a_clock_and_a_log_that_raise(make, clock, error, caplog, monkeypatch):
    source = make(lambda n: [1], on_error="log", name="orders")
    monkeypatch.setattr(clock, "now", Raises(error("no time"), 1, 2, then=lambda: 1.0))
    with caplog.at_level(logging.ERROR, "drainq"):
        source._woken(0.0)
    (record,) = caplog.records
    assert (
        record.getMessage().startswith("source 'orders': refill failed: ")
        and record.exc_info[0].__name__ == error.__name__
    )
    monkeypatch.setattr(logging.getLogger("drainq"), "handle", Raises(error("full disk"), 1))
    source._woken(0.0)
    assert source.stats().errors == 2


def test_a_listener_that_comes_while_others_are_compared_is_not_lost():
    class Odd:
        def __eq__(self, other):
            if meanwhile:
                reports.subscribe(meanwhile.pop())
            return self is other

        __hash__ = object.__hash__
        __call__ = int

    odd, meanwhile, reports = Odd(), [], Reports("example", "log", threading.Condition())
    reports.subscribe(odd)
    meanwhile.append(int)
    reports.subscribe(float)
    assert reports.listeners == (odd, int, float)
    reports.unsubscribe(float)
    assert reports.listeners == (odd, int)


def test_a_clock_that_is_set_back_stops_no_refill(make, background, clock):
    asked = []
    source = make(lambda n: asked.append(n) or [])
    source.get_next_batch(1)
    background.run()
    clock.advance(-3600)
    source.get_next_batch(1)
    assert background.waiting == []  # the back-off of a second is not over
    clock.advance(1.0)
    source.get_next_batch(1)
    assert background.run() == 1
    assert len(asked) == 2


def test_the_refill_thread_outlives_whatever_a_source_raises():
    errors, answers = [], [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), [1]]

    def source(n):
        answer = answers.pop(0) if answers else []
        if isinstance(answer, BaseException):
            raise answer
        return answer

    prefetch = PrefetchSource(source, 4, 1, backoff=Backoff(0.001, 0.001), on_error=errors.append, eager=True)
    assert prefetch.wait(30)
    assert prefetch.get_next_batch(1) == [1]
    assert [type(error) for error in errors] == [SystemExit, KeyboardInterrupt, GeneratorExit]
    assert prefetch.close(30)


# -- the interpreter's exit -------------------------------------------------------------------


def test_every_item_is_accounted_for_whatever_raises(background, clock):
    """Everything that can raise does so now and then; one plain account of what was given is the judge."""
    numbers, given, taken = itertools.count(), [], []
    every = {"source": 3, "batch": 5, "key": 7, "clock": 11, "on_error": 2, "listener": 2}
    turns = dict.fromkeys(every, 0)

    def perhaps(what):
        turns[what] += 1
        if turns[what] % every[what] == 0:
            raise (ValueError, SystemExit, GeneratorExit)[turns[what] % 3](what)

    def source(n):
        perhaps("source")
        items = [next(numbers) for _ in range(n + 2)]

        def batch():
            for item in items:
                perhaps("batch")
                given.append(item)
                yield item

        if turns["source"] % 2:
            given.extend(items)
            return items
        return batch()

    class Clock(ManualClock):
        def now(self):
            if background.running:
                perhaps("clock")
            return super().now()

    def key(item):
        if item % 10 == 9:
            raise ValueError("no key")
        return item

    clock = Clock()
    prefetch = PrefetchSource(
        source, 6, 2, key=key, clock=clock, executor=background, backoff=EXACT, on_error=lambda e: perhaps("on_error")
    )
    prefetch.subscribe(lambda: perhaps("listener"))
    logging.getLogger("drainq").addFilter(quiet := lambda record: False)
    try:
        for n in range(300):
            taken += prefetch.get_next_batch(n % 5)
            clock.advance(10)
            background.run()
        assert prefetch.close(0)
    finally:
        logging.getLogger("drainq").removeFilter(quiet)
    while batch := prefetch.get_next_batch(7):
        taken += batch
    assert len(given) > 300
    assert taken == sorted(set(taken))
    assert set(taken) == {item for item in given if item % 10 != 9}
    stats = prefetch.stats()
    assert (stats.fetched, stats.size, stats.held) == (len(given), 0, 0)
    assert balanced(prefetch, len(taken))


def test_a_back_off_ends_although_no_thread_could_be_started_when_it_began(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    heard = []
    soon = Backoff(0.2, 0.2, 1.0, jitter=0)
    monkeypatch.setattr(drainq.sources.prefetch_refill, "TIMER", Timer())  # it has no thread yet
    source = PrefetchSource(lambda n: [1], 4, 1, backoff=soon, on_error=heard.append)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert source.get_next_batch(1) == []  # neither a refill nor the wait for the next one begins
    assert [str(error) for error in heard] == ["can't start a thread for a source"] * 2
    assert source.wait(30)
    assert source.get_next_batch(1) == [1]
    assert source.close(30)
