"""PrefetchSource with a source that fails or is empty: the time of the next request."""

from __future__ import annotations

import logging
import math

import pytest

from drainq import Backoff
from drainq.sources import PrefetchSource
from drainq.sources.prefetch_options import Schedule
from drainq.sources.prefetch_read import Refill
from tests.sources.by_hand import EXACT, Scripted

NEVER, DOWN = -math.inf, ValueError("down")
REFILLS = [  # found, added, error, outdated, stream ended: brought items, found only duplicates, the next time
    (2, 1, None, False, False, True, False, 12.0),
    (2, 1, DOWN, False, False, False, False, 14.0),
    (2, 0, None, False, False, False, True, 14.0),
    (2, 0, None, True, False, False, True, 12.0),
    (2, 0, DOWN, True, False, False, False, 14.0),
    (0, 0, None, False, False, False, False, 14.0),
    (0, 0, None, False, True, False, False, NEVER),
    (0, 0, DOWN, False, True, False, False, 14.0),
]


def test_what_a_refill_brought_decides_the_time_of_the_next():
    told = []
    for found, added, error, outdated, ended, *_ in REFILLS:
        schedule, refill = Schedule(Backoff(4.0, 64.0, 2.0, jitter=0), 7.0), Refill()
        assert schedule.not_before == NEVER
        refill.found, refill.added, refill.error, refill.outdated = found, added, error, outdated
        schedule.begun(5.0)
        brought = schedule.ended(refill, 10.0, stream_ended=ended)
        told.append((found, added, error, outdated, ended, brought, schedule.only_duplicates, schedule.not_before))
        again = schedule.not_before
        schedule.forgotten()  # so that what was a duplicate may be new
        assert schedule.not_before == (12.0 if schedule.only_duplicates else again)
        refill.outdated = False
        schedule.ended(refill, 1.0, stream_ended=False)  # the earliest time by the interval counts if it is later
        assert schedule.not_before == 12.0
    assert told == REFILLS


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


def test_a_failing_source_is_logged_with_its_name_and_retried_after_the_back_off(background, clock, caplog):
    prefetch = PrefetchSource(
        Scripted(ValueError("down"), [1]), 4, 1, name="orders", executor=background, clock=clock, backoff=EXACT
    )
    prefetch.get_next_batch(1)
    with caplog.at_level(logging.ERROR, "drainq"):
        background.run()
    assert "orders" in caplog.text
    assert "ValueError at by_hand.py" in caplog.text and "down" not in caplog.text
    prefetch.get_next_batch(1)
    assert background.waiting == []
    clock.advance(1.0)
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    assert prefetch.stats().errors == 1


def test_a_failing_source_is_left_alone_although_items_of_it_are_taken_meanwhile(make, background, clock):
    source = Scripted([1, 2, 3], ValueError("down"), [4])
    prefetch = make(source, capacity=4, threshold=3)
    prefetch.get_next_batch(0)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    assert background.run() == 1
    assert prefetch.get_next_batch(1) == [2]
    assert background.waiting == []
    clock.advance(1.0)
    assert prefetch.get_next_batch(1) == [3]
    assert background.run() == 1 and prefetch.get_next_batch(1) == [4]


def test_each_refill_is_counted_for_what_it_brought(make, background, clock):
    """An error is no empty answer, and neither is the end."""
    source = make(Scripted([], ValueError("away"), [1], None), on_error=lambda error: None)
    seen = []
    for _ in range(4):
        source.get_next_batch(4)
        background.run()
        clock.advance(60)
        stats = source.stats()
        seen.append((stats.refills, stats.empty_refills, stats.errors, stats.fetched))
    assert seen == [(1, 1, 0, 0), (2, 1, 1, 0), (3, 1, 1, 1), (4, 1, 1, 1)] and source.finished


def test_on_error_raise_raises_at_the_next_pull_once_and_takes_nothing(make, background):
    prefetch = make(Scripted([1, 2], ValueError("down")), on_error="raise")
    prefetch.get_next_batch(1)
    background.run()
    assert prefetch.get_next_batch(1) == [1]
    background.run()
    with pytest.raises(ValueError, match="down"):
        prefetch.get_next_batch(1)
    assert prefetch.get_next_batch(1) == [2]


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


@pytest.mark.parametrize("answer", [[1], [], ValueError("down")], ids=["an item", "nothing", "an error"])
def test_min_interval_is_kept_from_start_to_start_whatever_a_refill_brought(make, background, clock, answer):
    def slow(_n):
        clock.advance(2.0)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    prefetch = make(Scripted(slow), min_interval=5.0, on_error=lambda error: None)
    prefetch.get_next_batch(1)
    background.run()
    for wait, refills in ((0.0, 0), (2.5, 0), (0.5, 1)):
        clock.advance(wait)
        prefetch.get_next_batch(1)
        assert len(background.waiting) == refills


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
