"""PrefetchSource: which items enter the buffer, and when; items in flight, items held, items that come as they are read."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest

from drainq import Backoff, SetQueue
from drainq.sources import PrefetchSource
from drainq.sources.prefetch_buffer_size import AutoSize
from drainq.sources.prefetch_read import Intake, Refill
from drainq.sources.source_shapes import SourceBatch
from tests.sources.by_hand import Raises, Scripted

# -- the life of an item after it was taken ---------------------------------------------------


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


def test_what_is_in_flight_or_known_keeps_the_source_alone_until_it_is_forgotten(make, background):
    source = make(Scripted([1, 2], [1, 2], [3]), in_flight="ack")
    source.get_next_batch(0)
    background.run()
    assert source.get_next_batch(1) == [1] and background.run() == 1  # which brings only what is known
    assert source.get_next_batch(1) == [2] and background.waiting == []
    assert source.done([2]) == 1 and background.run() == 1 and not source.finished

    def meanwhile(n):
        yield 1
        taken.append(pulled.get_next_batch(1))

    taken, pulled = [], make(Scripted([1, 2], meanwhile), threshold=2)
    pulled.get_next_batch(0)
    background.run()
    pulled.get_next_batch(0)
    background.run()
    assert taken == [[1]] and len(background.waiting) == 1  # for 1, which was known when it came


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


# -- overshoot, and items as they come --------------------------------------------------------


def test_a_pull_that_falls_into_a_refill_lets_the_source_bring_nothing_twice(make, background):
    """What is held enters before the source is asked again, also if a pull makes room at the worst moment."""
    pending, hook, taken = [1, 2, 3, 4, 5], [], []

    def key(item):
        if hook and hook[0] == item:
            hook.clear()
            taken.extend(source.get_next_batch(2))
        return item

    source = make(lambda n: list(pending), capacity=2, key=key, in_flight="ack", backoff=Backoff(0.001, 0.001))
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


def test_an_item_that_is_held_is_overtaken_by_none_although_there_is_room_again():
    """The answer is let in by parts; a consumer makes room between two of them when the first is held already."""
    buffer, taken, room_while_held = SetQueue(), [], []

    def pull_if_something_is_held():
        if intake.held:
            taken.extend(buffer.get_many(4, min_items=0))
            room_while_held.append(4 - len(buffer))

    answers = Scripted(list(range(2_500)))
    intake = Intake(
        answers.get_next_batch, buffer, key=None, size=AutoSize(4, 4, threshold=3), report=pytest.fail,
        arrived=pull_if_something_is_held, ended=False,
    )  # fmt: skip
    intake.fill(Refill())
    assert 4 in room_while_held
    while len(taken) < 2_500:
        intake.fill(Refill())
        taken.extend(buffer.get_many(4, min_items=0))
    assert taken == list(range(2_500))


def test_what_is_held_enters_in_parts_between_which_a_consumer_may_run():
    put, size = [], AutoSize(5000, 5000, threshold=0)
    intake = Intake(
        lambda n: None, SetQueue(), key=None, size=size, report=pytest.fail, arrived=lambda: put.append(len(buffer)),
        ended=False,
    )  # fmt: skip
    buffer = intake._buffer
    intake._held.put_many(range(2500))
    intake.fill(Refill())
    assert put == [1000, 2000, 2500] and intake.ended


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
    assert (source.stats().refills, source.stats().empty_refills) == (1, 0), "the source was asked once"


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
    assert (source.stats().refilling, source.stats().fetched) == (True, 1)
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


def test_a_close_ends_a_batch_that_is_read_as_it_comes_with_the_next_item(make, background):
    given = []

    def endless(n):
        try:
            for number in itertools.count():
                given.append(number)
                if number == 1:
                    assert not source.close()
                yield number
        finally:
            given.append("let go")

    source = make(endless, capacity=9)
    source.get_next_batch(0)
    background.run()
    assert given == [0, 1, "let go"] and repr(source) == "<PrefetchSource 'endless': 2 of 9 items>"
    assert source.get_next_batch(sys.maxsize + 1) == [0, 1]


def test_a_list_that_its_source_changes_afterwards_is_read_as_it_was():
    answer = [1, 2, 3]
    batch = SourceBatch(answer)
    assert (batch.comes_as_read, SourceBatch(type("Lazy", (list,), {})()).comes_as_read) == (False, True)
    answer.clear()
    assert (batch.take(2), batch.ended, batch.take(2), batch.ended) == ([1, 2], False, [3], True)


def test_a_batch_ends_with_the_error_of_its_iterator():
    error = OSError("away")
    for read in (SourceBatch.take, lambda batch, n: list(batch.one_by_one(n))):
        batch = SourceBatch(map(Raises(error, 2, then=int), "123"))
        assert (read(batch, 1), batch.ended, read(batch, 9), batch.ended, batch.error) == ([1], False, [], True, error)


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


@pytest.mark.parametrize("held", [1, 4])
def test_a_close_while_what_is_held_is_let_in_keeps_the_order_and_asks_no_more(make, background, held):
    answers, early, armed = Scripted(list(range(2 + held))), [], []

    def key(item):
        if armed and armed.pop():
            assert not source.close(), "the refill runs"
            early.extend(source.get_next_batch(9))
        return item

    source = make(answers, capacity=2, key=key)
    source.get_next_batch(0)
    background.run()
    taken = source.get_next_batch(2)
    armed.append(True)
    background.run()
    assert source.closed and early == [] and answers.asked == [2]
    assert taken + source.get_next_batch(9) == list(range(2 + held))


def test_what_is_held_is_told_to_a_consumer_before_the_source_is_asked_again(make, background):
    told, told_before = [], []
    source = make(Scripted([1, 2, 3], lambda n: told_before.extend(told) or []), capacity=2)
    source.subscribe(lambda: told.append(len(source)))
    source.get_next_batch(0)
    background.run()
    assert source.get_next_batch(2) == [1, 2] and source.get_next_batch(1) == []
    told.clear()
    background.run()
    assert told_before == [1]


def test_room_that_comes_while_one_item_too_many_is_read_is_used(make, background):
    taken = []

    def endless(n):
        for number in itertools.count():
            if number == 3:
                taken.extend(source.get_next_batch(3))
            yield number

    source = make(endless, capacity=3, threshold=0)
    source.get_next_batch(0)
    background.run()
    assert taken == [0, 1, 2] and source.get_next_batch(9) == [3, 4, 5] and source.stats().held == 1
    assert source.close()


@pytest.mark.parametrize("failure", [OSError("away"), 5], ids=["error", "no batch"])
def test_an_answer_that_is_no_batch_leaves_no_poll_open(make, background, clock, failure):
    """While a poll is open, what is done stays known."""
    source = make(Scripted([1], failure, [1]), in_flight="ack")
    source.get_next_batch(0)
    background.run()
    assert source.get_next_batch(1) == [1]
    background.run()
    assert source.stats().errors == 1 and source.done([1]) == 1
    clock.advance(1)
    source.get_next_batch(0)
    background.run()
    assert source.get_next_batch(1) == [1]
    assert source.stats().duplicates == 0


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
