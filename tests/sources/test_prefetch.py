"""PrefetchSource: the refill by hand, on a hand-driven clock; a few promises that need real threads."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import subprocess
import sys
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq import Backoff, PrefetchSource
from drainq.testing import ManualClock
from tests.sources.by_hand import HandExecutor

EXACT = Backoff(1.0, 8.0, 2.0, jitter=0)


class Scripted:
    """A source that gives what it was told to give, and remembers what it was asked for."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def get_next_batch(self, batch_size):
        self.asked.append(batch_size)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, BaseException):
            raise answer
        return answer(batch_size) if callable(answer) else answer


@pytest.fixture
def make(background, clock):
    """Makes sources whose refills run when the test says ``background.run()``."""

    def make(source, capacity=4, threshold=1, **options):
        options = {"executor": background, "clock": clock, "retry": EXACT, **options}
        return PrefetchSource(source, capacity, threshold, **options)

    return make


# -- what it refuses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "threshold", "error", "says"),
    [
        (None, 1, TypeError, "capacity .* got None"),
        (4, None, TypeError, "replenish_threshold .* got None"),
        (True, 0, TypeError, "got True"),
        (4, -1, ValueError, "replenish_threshold must be >= 0, got -1"),
        (4, 4, ValueError, r"capacity must be > replenish_threshold \(4\), got 4"),
        (0, 0, ValueError, "got 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(capacity, threshold, error, says):
    with pytest.raises(error, match=says):
        PrefetchSource(lambda n: [], capacity, threshold)


@pytest.mark.parametrize("source", [None, 3, [1, 2]])
def test_what_cannot_be_asked_is_refused(source):
    with pytest.raises(TypeError, match="get_next_batch"):
        PrefetchSource(source, 4, 1)


@pytest.mark.parametrize(
    "options",
    [{"on_error": "ignore"}, {"in_flight": "never"}, {"min_interval": -1}, {"max_capacity": 3}, {"in_flight": "ttl"}],
)
def test_an_option_out_of_range_is_refused(options):
    with pytest.raises(ValueError):
        PrefetchSource(lambda n: [], 4, 1, **options)


def test_a_negative_batch_size_is_refused(make):
    with pytest.raises(ValueError, match="got -1"):
        make(Scripted()).get_next_batch(-1)


# -- pull and refill ------------------------------------------------------------------------


def test_the_first_pull_is_empty_and_starts_the_refill(make, background):
    source = Scripted(["a", "b", "c"])
    prefetch = make(source)
    assert prefetch.get_next_batch(2) == []
    assert source.asked == []
    assert background.run() == 1
    assert prefetch.get_next_batch(2) == ["a", "b"]


def test_eager_starts_the_refill_at_once(make, background):
    prefetch = make(Scripted(["a"]), eager=True)
    background.run()
    assert prefetch.get_next_batch(1) == ["a"]


def test_a_threshold_of_zero_refills_when_nothing_is_left(make, background):
    prefetch = make(Scripted(["a", "b"], ["c"]), threshold=0)
    prefetch.get_next_batch(0)
    background.run()
    assert prefetch.get_next_batch(1) == ["a"]
    assert background.waiting == []
    assert prefetch.get_next_batch(1) == ["b"]
    assert len(background.waiting) == 1


def test_a_refill_starts_only_at_or_below_the_threshold(make, background):
    prefetch = make(Scripted([1, 2, 3, 4]), threshold=2)
    prefetch.get_next_batch(1)
    background.run()
    prefetch.get_next_batch(1)
    assert background.waiting == []  # 3 are left
    prefetch.get_next_batch(1)
    assert len(background.waiting) == 1  # 2 are left


def test_one_refill_at_a_time(make, background):
    prefetch = make(Scripted([1], [2]))
    for _ in range(5):
        prefetch.get_next_batch(1)
    assert len(background.waiting) == 1
    assert prefetch.stats().refilling
    background.run()
    assert not prefetch.stats().refilling


def test_the_refill_asks_for_the_remaining_capacity_when_it_runs(make, background):
    source = Scripted([1, 2, 3, 4], [5])
    prefetch = make(source, threshold=2)
    prefetch.get_next_batch(1)
    background.run()
    prefetch.get_next_batch(2)  # starts a refill when 2 are left
    prefetch.get_next_batch(1)  # but 1 is left when it runs
    background.run()
    assert source.asked == [4, 3]


def test_duplicates_within_and_between_refills_are_dropped(make, background):
    prefetch = make(Scripted([1, 2, 1], [2, 3]), capacity=5, threshold=2)
    prefetch.get_next_batch(1)
    background.run()
    assert len(prefetch) == 2
    prefetch.get_next_batch(0)
    background.run()
    assert prefetch.get_next_batch(9) == [1, 2, 3]
    stats = prefetch.stats()
    assert (stats.fetched, stats.duplicates) == (5, 2)


def test_the_capacity_holds_and_the_rest_enters_first_next_time(make, background):
    source = Scripted([1, 2, 3, 4, 5, 6, 2, 6], [7, 8])
    prefetch = make(source)
    prefetch.get_next_batch(1)
    background.run()
    stats = prefetch.stats()
    assert (stats.size, stats.held, stats.fetched, stats.duplicates) == (4, 2, 8, 2)
    assert prefetch.get_next_batch(3) == [1, 2, 3]
    background.run()
    assert source.asked == [4, 1]  # one had stayed, two were held
    assert prefetch.get_next_batch(9) == [4, 5, 6, 7]
    background.run()
    assert prefetch.get_next_batch(9) == [8]


def test_what_is_held_alone_can_fill_the_buffer_without_asking(make, background):
    source = Scripted(list(range(9)))
    prefetch = make(source)
    out = prefetch.get_next_batch(9)
    for _ in range(3):
        background.run()
        out += prefetch.get_next_batch(4)
    assert out == list(range(9))
    assert source.asked == [4, 3]


def test_a_key_decides_what_is_a_duplicate(make, background):
    prefetch = make(Scripted([{"id": 1}, {"id": 1, "n": 2}, {"id": 2}]), key=lambda row: row["id"])
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(9) == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("end", [lambda n: None, StopIteration()])
def test_none_or_stop_iteration_ends_the_stream(make, background, end):
    source = Scripted([1], end)
    prefetch = make(source)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    assert not prefetch.finished
    background.run()
    assert prefetch.finished
    for _ in range(3):
        assert prefetch.get_next_batch(1) == []
    assert background.waiting == []
    assert source.asked == [4, 4]


def test_an_iterator_is_a_source_and_its_end_the_streams(make, background):
    prefetch = make(iter(range(6)))
    out = prefetch.get_next_batch(9)
    for _ in range(3):
        background.run()
        out += prefetch.get_next_batch(9)
    assert out == list(range(6))
    assert prefetch.finished


@given(
    answers=st.lists(st.one_of(st.lists(st.integers(0, 12), max_size=9), st.just(ValueError("down"))), max_size=12),
    pulls=st.lists(st.integers(0, 6), max_size=30),
    capacity=st.integers(1, 5),
    data=st.data(),
)
def test_agrees_with_a_plain_list(answers, pulls, capacity, data):
    """Nothing lost, nothing out of order, never above capacity; the model is one list and one rest."""
    threshold = data.draw(st.integers(0, capacity - 1))
    background, clock = HandExecutor(), ManualClock()
    prefetch = PrefetchSource(
        Scripted(*answers), capacity, threshold, executor=background, clock=clock, retry=EXACT, on_error=lambda e: None
    )
    answers, queue, rest = list(answers), [], []
    for n in pulls:
        assert prefetch.get_next_batch(n) == queue[:n]
        del queue[:n]
        clock.advance(100)
        if background.run():
            while rest and len(queue) < capacity:
                queue.append(rest.pop(0))
            if len(queue) < capacity:
                answer = answers.pop(0) if answers else []
                for item in [] if isinstance(answer, ValueError) else answer:
                    if item not in queue and item not in rest:
                        (queue if len(queue) < capacity else rest).append(item)
        stats = prefetch.stats()
        assert (stats.size, stats.held) == (len(queue), len(rest))
        assert stats.size <= capacity


# -- failing and empty sources --------------------------------------------------------------


def test_an_empty_source_is_asked_again_after_the_back_off_not_at_every_pull(make, background, clock):
    source = Scripted()
    prefetch = make(source)
    prefetch.get_next_batch(1)
    background.run()
    for wait in (1.0, 2.0, 4.0, 8.0, 8.0):
        for _ in range(10):
            prefetch.get_next_batch(1)
        assert background.waiting == []
        clock.advance(wait)
        prefetch.get_next_batch(1)
        assert background.run() == 1
    assert len(source.asked) == 6
    assert prefetch.stats().empty_refills == 6


def test_items_end_the_back_off(make, background, clock):
    source = Scripted([], [], [1], [], [2])
    prefetch = make(source)
    for wait in (0.0, 1.0, 2.0):
        clock.advance(wait)
        prefetch.get_next_batch(0)
        assert background.run() == 1
    assert prefetch.get_next_batch(1) == [1]
    assert background.run() == 1  # at once: the last refill had brought something
    clock.advance(1.0)
    prefetch.get_next_batch(0)
    assert background.run() == 1  # and the delays start again at the first


def test_a_failing_source_is_logged_with_its_name_and_retried_after_the_back_off(make, background, clock, caplog):
    prefetch = make(Scripted(ValueError("down"), [1]), name="orders")
    prefetch.get_next_batch(1)
    with caplog.at_level(logging.ERROR, "drainq"):
        background.run()
    assert "orders" in caplog.text
    assert "down" in caplog.text
    prefetch.get_next_batch(1)
    assert background.waiting == []
    clock.advance(1.0)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    assert prefetch.stats().errors == 1


def test_on_error_raise_raises_at_the_next_pull_once_and_takes_nothing(make, background):
    prefetch = make(Scripted([1, 2], ValueError("down")), on_error="raise")
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    background.run()
    with pytest.raises(ValueError, match="down"):
        prefetch.get_next_batch(1)
    assert prefetch.get_next_batch(1) == [2]


def test_on_error_may_be_a_callable_and_may_fail_itself(make, background, caplog):
    heard = []

    def on_error(error):
        heard.append(error)
        raise RuntimeError("the listener too")

    error = ValueError("down")
    prefetch = make(Scripted(error), on_error=on_error)
    prefetch.get_next_batch(1)
    with caplog.at_level(logging.ERROR, "drainq"):
        background.run()
    assert heard == [error]
    assert "the listener too" in caplog.text
    assert not prefetch.stats().refilling


def test_even_a_system_exit_in_the_source_leaves_it_refillable(make, background, clock):
    prefetch = make(Scripted(SystemExit(1), [1]), on_error=lambda error: None)
    prefetch.get_next_batch(1)
    background.run()
    clock.advance(1.0)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]


def test_what_a_generator_gave_before_it_failed_is_kept(make, background):
    def partly(n):
        yield 1
        yield 2
        raise ValueError("connection lost")

    heard = []
    prefetch = make(partly, on_error=heard.append)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(9) == [1, 2]
    assert [str(error) for error in heard] == ["connection lost"]


def test_an_item_without_a_usable_key_is_an_error_and_costs_no_other_item(make, background):
    heard = []
    prefetch = make(Scripted([1, [2], 3]), on_error=heard.append)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(9) == [1, 3]
    assert [type(error) for error in heard] == [TypeError]


def test_what_is_no_batch_is_an_error(make, background):
    heard = []
    prefetch = make(Scripted(lambda n: 42), on_error=heard.append)
    prefetch.get_next_batch(1)
    background.run()
    assert [type(error) for error in heard] == [TypeError]


def test_min_interval_keeps_refills_apart(make, background, clock):
    prefetch = make(Scripted([1], [2], [3]), min_interval=5.0)
    prefetch.get_next_batch(1)
    background.run()
    prefetch.get_next_batch(1)
    assert background.waiting == []
    clock.advance(5.0)
    prefetch.get_next_batch(1)
    assert len(background.waiting) == 1


def test_a_refill_that_brought_only_duplicates_is_repeated_when_something_was_taken(make, background):
    source = Scripted([1, 2], [1, 2], [1, 2])
    prefetch = make(source, capacity=4, threshold=3)
    prefetch.get_next_batch(0)
    background.run()
    prefetch.get_next_batch(0)
    background.run()
    prefetch.get_next_batch(0)
    assert background.waiting == []  # asking again would bring the same
    assert prefetch.get_next_batch(1) == [1]
    assert background.run() == 1
    assert list(prefetch.get_next_batch(9)) == [2, 1]


def test_an_executor_that_is_shut_down_is_an_error_not_a_hang(clock):
    from concurrent.futures import ThreadPoolExecutor

    executor, heard = ThreadPoolExecutor(1), []
    executor.shutdown()
    prefetch = PrefetchSource(Scripted(), 4, 1, executor=executor, on_error=heard.append, clock=clock)
    assert prefetch.get_next_batch(1) == []
    assert [type(error) for error in heard] == [RuntimeError]
    assert not prefetch.stats().refilling


# -- the life of an item after it was taken ----------------------------------------------------


def test_ack_keeps_an_item_out_until_it_is_done(make, background, clock):
    prefetch = make(lambda n: [1, 2], in_flight="ack")
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(2) == [1, 2]
    assert prefetch.stats().in_flight == 2
    background.run()
    assert prefetch.get_next_batch(2) == []
    assert prefetch.done([1]) == 1
    background.run()
    assert prefetch.get_next_batch(2) == [1]
    assert prefetch.stats().in_flight == 2


def test_a_refill_that_began_before_done_cannot_bring_the_item_back(make, background):
    release = []

    def reads_and_then_is_slow(n):
        rows = [1]
        if release:
            release.pop()()
        return rows

    prefetch = make(reads_and_then_is_slow, in_flight="ack")
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    release.append(lambda: prefetch.done([1]))  # done while the refill has its rows in hand
    assert background.run() == 1
    assert prefetch.get_next_batch(1) == []
    assert prefetch.stats().in_flight == 0
    assert prefetch.stats().duplicates == 1


def test_held_items_cannot_be_brought_back_by_a_done_either(make, background):
    """The rest of a refill is checked when it was fetched: what was in flight then is no part of it."""
    answers = [[1, 2], [3, 4, 5, 6, 1]]
    prefetch = make(Scripted(*answers), capacity=4, threshold=1, in_flight="ack")
    prefetch.get_next_batch(0)
    background.run()
    assert prefetch.get_next_batch(2) == [1, 2]
    background.run()
    assert prefetch.stats().held == 0
    prefetch.done([1, 2])
    assert prefetch.get_next_batch(9) == [3, 4, 5, 6]
    background.run()
    assert prefetch.get_next_batch(9) == []


def test_items_in_flight_do_not_count_against_the_capacity(make, background):
    source = Scripted([1, 2], [3, 4])
    prefetch = make(source, capacity=2, threshold=0, in_flight="ack")
    prefetch.get_next_batch(1)
    background.run()
    prefetch.get_next_batch(2)
    background.run()
    assert source.asked == [2, 2]
    assert prefetch.get_next_batch(2) == [3, 4]


def test_ttl_keeps_an_item_out_for_that_long(make, background, clock):
    prefetch = make(lambda n: [1], in_flight="ttl", ttl=30.0)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    background.run()
    assert prefetch.get_next_batch(1) == []
    clock.advance(30.0)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]


# -- overshoot, and items as they come -----------------------------------------------------------


def test_a_pull_that_falls_into_a_refill_lets_the_source_bring_nothing_twice(make, background):
    """What is held enters before the source is asked again, also if a pull makes room at the worst moment."""
    pending, hook, taken = [1, 2, 3, 4, 5], [], []

    def key(item):
        if hook and hook[0] == item:
            hook.clear()
            taken.extend(source.get_next_batch(2))
        return item

    source = make(lambda n: list(pending), capacity=2, key=key, in_flight="ack", retry=Backoff(0.001, 0.001))
    source.get_next_batch(0)
    background.run()
    taken += source.get_next_batch(1)
    hook.append(3)  # while 3 is let in, a pull makes room
    for _ in range(8):
        background.run()
        batch = source.get_next_batch(2)
        taken += batch
        if 4 in batch:
            pending.remove(4)
        source.done(batch)
    assert taken.count(4) == 1
    assert taken[:5] == [1, 2, 3, 4, 5]


def test_after_an_overshoot_a_refill_moves_only_what_fits(make, background):
    keys = []
    source = make(Scripted(list(range(5_000))), capacity=10, threshold=9, key=lambda item: keys.append(item) or item)
    source.get_next_batch(0)
    background.run()
    assert source.stats().held == 4_990
    for n in range(100):
        keys.clear()
        assert source.get_next_batch(1) == [n]
        background.run()
        assert keys == [n + 10]


def test_items_of_an_iterator_are_there_as_soon_as_it_gives_them():
    gates = [threading.Semaphore(0) for _ in range(3)]

    def slow():
        for number, gate in enumerate(gates):
            assert gate.acquire(timeout=30)
            yield number

    source = PrefetchSource(slow(), 100, 50)
    for number, gate in enumerate(gates):
        gate.release()
        assert source.wait(30)
        assert source.get_next_batch(100) == [number]
    assert source.wait(30)
    assert source.finished
    assert source.close(30)


def test_a_listener_is_told_of_an_item_while_the_refill_goes_on():
    first, told, release = threading.Event(), threading.Event(), threading.Event()

    def slow(n):
        assert first.wait(30)
        yield 1
        assert release.wait(30)

    source = PrefetchSource(slow, 4, 1)
    source.subscribe(told.set)
    assert source.get_next_batch(1) == []
    first.set()
    assert told.wait(30)
    assert source.stats().refilling
    assert source.get_next_batch(1) == [1]
    release.set()
    assert source.close(30)


def test_an_endless_batch_is_read_one_item_beyond_what_fits(make, background):
    given = []

    def endless(n):
        for number in itertools.count():
            given.append(number)
            yield number

    source = make(endless, capacity=3, threshold=0)
    out = source.get_next_batch(0)
    for _ in range(4):
        background.run()
        assert len(given) == len(out) + 4
        out += source.get_next_batch(3)
    assert out == list(range(12))
    assert source.close()


def test_a_batch_that_gave_what_was_asked_for_comes_to_its_own_end(make, background):
    ends = []

    def with_a_connection(n):
        try:
            yield from range(n)
        finally:
            ends.append(n)

    source = make(with_a_connection, capacity=3)
    source.get_next_batch(0)
    background.run()
    assert ends == [3]
    assert source.get_next_batch(9) == [0, 1, 2]


def test_close_ends_a_batch_that_is_not_read_to_its_end(make, background):
    ends = []

    def with_a_connection(n):
        try:
            yield from itertools.count()
        finally:
            ends.append(n)

    source = make(with_a_connection, capacity=3)
    source.get_next_batch(0)
    background.run()
    assert ends == []
    assert source.close()
    assert ends == [3]
    assert source.get_next_batch(9) == [0, 1, 2, 3]


def test_what_is_held_can_be_taken_after_close(make, background):
    source = make(Scripted(list(range(9))))
    source.get_next_batch(0)
    background.run()
    assert source.close()
    assert source.get_next_batch(6) == [0, 1, 2, 3, 4, 5]
    assert source.get_next_batch(6) == [6, 7, 8]
    stats = source.stats()
    assert (stats.held, stats.size, stats.fetched) == (0, 0, 9)


def test_a_done_that_falls_into_a_refill_ends_the_back_off(make, background):
    pending, during = [1], []

    def reads_and_is_slow(n):
        rows = list(pending)
        if during:
            during.pop()()
        return rows

    source = make(reads_and_is_slow, capacity=10, threshold=5, in_flight="ack")
    source.get_next_batch(0)
    background.run()
    assert source.get_next_batch(5) == [1]

    def finish():
        pending[:] = [2]
        source.done([1])

    during.append(finish)
    assert background.run() == 1  # brings only 1 again, which was in flight when it was read
    assert background.run() == 1  # at once
    assert source.get_next_batch(5) == [2]


def test_a_consumer_that_found_nothing_during_a_refill_gets_another(make, background):
    taken = []

    def one_that_another_takes(n):
        yield 1
        taken.extend(source.get_next_batch(1))
        assert source.get_next_batch(1) == []

    source = make(one_that_another_takes)
    source.get_next_batch(0)
    background.run()
    assert taken == [1]
    assert len(background.waiting) == 1


# -- the size that finds itself ---------------------------------------------------------------


def test_the_capacity_doubles_while_pulls_come_away_empty_and_shrinks_after(make, background):
    source = Scripted(*[lambda n: range(n)] * 100)
    prefetch = make(source, capacity=4, threshold=1, max_capacity=10, key=lambda item: object())
    for _ in range(4):
        prefetch.get_next_batch(100)
        prefetch.get_next_batch(100)  # nothing there while the refill is still to run
        background.run()
    assert source.asked == [4, 8, 10, 10]
    for _ in range(40):
        prefetch.get_next_batch(100)
        background.run()
    assert prefetch.capacity == 4
    assert source.asked[-1] == 4


# -- closing, threads, processes --------------------------------------------------------------


def test_close_starts_no_more_refills_and_keeps_what_is_buffered(make, background):
    source = Scripted([1, 2], [3])
    prefetch = make(source)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.close()
    assert prefetch.get_next_batch(2) == [1, 2]
    assert background.waiting == []


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


def test_a_failing_source_is_retried_without_any_pull():
    calls, recovered = [], threading.Event()

    def recovers(n):
        calls.append(n)
        if len(calls) < 3:
            raise ValueError("down")
        recovered.set()
        return [1]

    prefetch = PrefetchSource(recovers, 4, 1, eager=True, retry=Backoff(0.001, 0.01), on_error=lambda error: None)
    assert recovered.wait(30)
    assert prefetch.wait(30)
    assert prefetch.close(30)
    assert prefetch.get_next_batch(1) == [1]


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


def test_a_source_that_nobody_holds_is_collected_and_its_thread_ends():
    prefetch = PrefetchSource(Scripted([1]), 4, 0, name="short-lived", retry=Backoff(60, 60))
    assert prefetch.wait(30)
    thread = next(thread for thread in threading.enumerate() if thread.name == "drainq-short-lived")
    seen = weakref.ref(prefetch)
    del prefetch
    gc.collect()
    assert seen() is None
    thread.join(30)
    assert not thread.is_alive()


def test_a_hanging_source_does_not_hold_up_the_interpreters_exit():
    script = (
        "import threading\n"
        "from drainq import PrefetchSource\n"
        "asked = threading.Event()\n"
        "source = PrefetchSource(lambda n: asked.set() or threading.Event().wait(), 4, 1, eager=True)\n"
        "assert asked.wait(30)\n"
        "print('leaving')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_empty_and_refills_by_itself():
    script = (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from drainq import PrefetchSource\n"
        "source = PrefetchSource(lambda n: [os.getpid()], 4, 0)\n"
        "assert source.wait(30)\n"
        "if os.fork() == 0:\n"
        "    empty = len(source) == 0\n"
        "    assert source.wait(30)\n"
        "    os._exit(0 if empty and source.get_next_batch(1) == [os.getpid()] else 1)\n"
        "code = os.waitstatus_to_exitcode(os.wait()[1])\n"
        "print(code, source.get_next_batch(1) == [os.getpid()])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0 True\n", "")
