"""PrefetchSource, driven by hand: the items of a pull, and the start of a refill."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.sources import PrefetchSource
from drainq.sources.prefetch_buffer_size import AutoSize
from drainq.testing import ManualClock
from tests.sources.by_hand import EXACT, HandExecutor, Scripted

# -- what it refuses --------------------------------------------------------------------------


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


def test_a_largest_capacity_may_be_the_capacity():
    assert PrefetchSource(lambda n: [], 4, 1, max_capacity=4).capacity == 4


# -- pull and refill --------------------------------------------------------------------------


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
    prefetch.get_next_batch(0)  # asks for nothing, and so finds nothing missing
    assert prefetch.stats().starved_pulls == 4
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
    prefetch.get_next_batch(0)
    background.run()
    assert not prefetch.finished  # but its end is known
    assert prefetch.get_next_batch(1) == [1]
    assert prefetch.finished
    for _ in range(3):
        assert prefetch.get_next_batch(1) == []
    assert background.waiting == []
    assert source.asked == [4, 3]


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
        Scripted(*answers),
        capacity,
        threshold,
        executor=background,
        clock=clock,
        backoff=EXACT,
        on_error=lambda e: None,
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


# -- the size that finds itself ---------------------------------------------------------------


def test_the_capacity_doubles_while_pulls_come_away_empty_and_shrinks_after(make, background):
    source = Scripted(*[lambda n: range(n)] * 100)
    prefetch = make(source, capacity=4, threshold=1, max_capacity=10, key=lambda item: object())
    for _ in range(4):
        prefetch.get_next_batch(100)
        prefetch.get_next_batch(100)  # nothing there while the refill is still to run
        background.run()
    assert source.asked == [4, 8, 10, 10] and prefetch.stats().capacity == prefetch.capacity == 10
    for _ in range(40):
        prefetch.get_next_batch(100)
        background.run()
    assert prefetch.capacity == 4
    assert source.asked[-1] == 4


def test_a_capacity_shrinks_after_sixteen_calm_refills_in_a_row():
    size = AutoSize(10, 80, threshold=4)

    def refills(count):
        for _ in range(count):
            size.refilled()
        return size.capacity, size.threshold

    size.starved()
    assert refills(1) == (20, 8) and refills(15) == (20, 8)
    size.starved()  # the calm ones before it count no more
    assert refills(1) == (40, 16) and refills(15) == (40, 16) and refills(1) == (20, 8)
    assert refills(15) == (20, 8) and refills(1) == (10, 4) and refills(32) == (10, 4)
    for _ in range(5):
        size.starved()
        refills(1)
    assert refills(15) == (80, 32)
    size.starved()  # at the largest, too
    assert refills(16) == (80, 32) and refills(1) == (40, 16)
