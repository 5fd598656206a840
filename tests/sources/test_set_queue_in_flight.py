"""SetQueue: items that stay known after they were taken."""

from __future__ import annotations

import pytest

from drainq import SetQueue
from tests.sources.threads import blocked, waits


def test_ack_keeps_an_item_known_until_it_is_done():
    waiting = SetQueue(in_flight="ack")
    waiting.put_many(["a", "b"])
    assert waiting.get() == "a"
    assert (waiting.in_flight, len(waiting), "a" in waiting, waiting.knows("a")) == (1, 1, False, True)
    assert not waiting.put("a")
    assert waiting.done(["a", "b", "c"]) == 1  # b waits, c is unknown
    assert waiting.done(["a"]) == 0
    assert waiting.put("a")
    assert list(waiting) == ["b", "a"]


def test_items_in_flight_do_not_count_against_the_capacity():
    waiting = SetQueue(1, in_flight="ack")
    waiting.put(1)
    waiting.get()
    assert waiting.put(2, block=False)


def test_ttl_keeps_an_item_known_for_that_long(clock):
    waiting = SetQueue(in_flight="ttl", ttl=5.0, clock=clock)
    waiting.put("a")
    waiting.get()
    clock.advance(4.9)
    assert not waiting.put("a")
    clock.advance(0.1)
    assert not waiting.knows("a")
    assert waiting.put("a")


def test_ttl_counts_from_the_moment_of_the_take_however_long_the_get_had_waited(clock):
    waiting, got = SetQueue(in_flight="ttl", ttl=5.0, clock=clock), []
    getter = blocked(waiting.get, got)
    waits(waiting, getters=1)
    clock.advance(100)
    waiting.put("a")
    getter.result()
    assert (got, waiting.put("a")) == (["a"], False)
    clock.advance(5)
    assert waiting.put("a")


def test_ack_with_a_ttl_counts_from_done(clock):
    waiting = SetQueue(in_flight="ack", ttl=5.0, clock=clock)
    waiting.put("a")
    waiting.get()
    clock.advance(100)
    assert waiting.done(["a"]) == 1
    clock.advance(4)
    assert (waiting.put("a"), waiting.in_flight) == (False, 0)
    clock.advance(1)
    assert waiting.put("a")


def test_a_poll_that_began_before_done_cannot_bring_the_item_back():
    waiting = SetQueue(in_flight="ack")
    waiting.put("a")
    waiting.get()
    early = waiting._begin_poll()
    waiting.done(["a"])
    late = waiting._begin_poll()
    assert not waiting.put("a")
    assert waiting._end_poll(early)
    assert waiting.put("a")
    assert waiting._end_poll(late)
    assert not waiting._end_poll(late)


def test_a_clock_that_goes_wrong_is_an_error_before_any_change(clock):
    waiting = SetQueue(in_flight="ttl", ttl=5.0, clock=clock)
    waiting.put("a")
    clock.set(-1.0)
    with pytest.raises(ValueError, match="got -1"):
        waiting.get()
    clock.set(0.0)
    assert waiting.get() == "a"
