"""SetQueue against a plain model: long random programs of all its calls, and after each call every answer compared."""

from __future__ import annotations

import itertools
import queue
import random

import pytest

from drainq import SetQueue, ShutDown
from drainq.testing import ManualClock
from tests.sources.threads import PATIENCE, blocked, waits


class Model:
    """What a set queue is: a list of what waits, a set of what is in flight, and what is remembered until when."""

    def __init__(self, capacity, in_flight, ttl, clock):
        self.capacity, self.mode, self.ttl, self.clock = capacity, in_flight, ttl, clock
        self.waiting, self.flight, self.remembered, self.polls = [], [], {}, set()
        self.counts = {"put": 0, "got": 0, "duplicates": 0}

    def knows(self, item):
        for known, (due, polls) in list(self.remembered.items()):
            if self.clock.now() >= due and not polls & self.polls:
                del self.remembered[known]
        return item in self.waiting or item in self.flight or item in self.remembered

    def put(self, item):
        if self.knows(item):
            self.counts["duplicates"] += 1
            return False
        if self.capacity is not None and len(self.waiting) >= self.capacity:
            return None
        self.waiting.append(item)
        self.counts["put"] += 1
        return True

    def put_many(self, items):
        added = 0
        for item in items:
            went_in = self.put(item)
            if went_in is None:
                break
            added += went_in
        return added

    def take(self, n):
        taken, self.waiting = self.waiting[:n], self.waiting[n:]
        self.counts["got"] += len(taken)
        if self.mode == "ack":
            self.flight += taken
        elif self.mode == "ttl":
            self.remembered.update((item, (self.clock.now() + self.ttl, set())) for item in taken)
        return taken

    def done(self, items):
        were = 0
        for item in items:
            if item in self.flight:
                self.flight.remove(item)
                were += 1
                self.remembered[item] = (self.clock.now() + (self.ttl or 0), set(self.polls))
        return were


def nowait(refusal, call, *arguments, **named):
    """Return what a call answers; None if it raises the refusal of the standard library."""
    try:
        return call(*arguments, **named)
    except refusal:
        return None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("capacity", [None, 3])
@pytest.mark.parametrize(("in_flight", "ttl"), [("forget", None), ("ack", None), ("ack", 4.0), ("ttl", 4.0)])
def test_every_answer_is_the_models(seed, capacity, in_flight, ttl):
    chance, clock = random.Random(f"{seed} {capacity} {in_flight} {ttl}"), ManualClock()
    real = SetQueue(capacity, in_flight=in_flight, ttl=ttl, clock=clock)
    model, tokens = Model(capacity, in_flight, ttl, clock), {}
    for _ in range(300):
        item, some = chance.randrange(8), [chance.randrange(8) for _ in range(chance.randrange(5))]
        match chance.randrange(11):
            case 0 | 1:
                assert nowait(queue.Full, real.put_nowait, item) is model.put(item)
            case 2:
                assert nowait(queue.Full, real.put, item, timeout=0) is model.put(item)
            case 3:
                assert real.put_many(some, block=False) == model.put_many(some)
            case 4:
                assert nowait(queue.Empty, real.get_nowait) == (model.take(1) or [None])[0]
            case 5:
                n = chance.randrange(4)
                assert real.get_many(n, min_items=0) == model.take(n)
            case 6 if in_flight != "ttl":
                assert real.done(some) == model.done(some)
            case 7:
                clock.advance(chance.choice([0.5, 1, 2, 4]))
            case 8 if chance.random() < 0.2:
                expected, model.waiting = model.waiting, []
                assert real.clear() == expected
            case 9 if in_flight == "ack":
                token = real._begin_poll()
                assert token not in tokens
                model.polls.add(token)
                tokens[token] = True
            case 10 if tokens:
                token = chance.choice(list(tokens))
                assert real._end_poll(token) is tokens[token]
                model.polls.discard(token)
                tokens[token] = False
        assert [real.knows(item) for item in range(8)] == [model.knows(item) for item in range(8)]
        assert [item in real for item in range(8)] == [item in model.waiting for item in range(8)]
        assert list(real) == model.waiting
        assert len(real) == real.qsize() == len(model.waiting)
        assert real.empty() is (not model.waiting)
        left = None if capacity is None else capacity - len(model.waiting)
        assert (real.remaining_capacity(), real.full(), real.capacity) == (left, left == 0, capacity)
        stats = real.stats()
        assert {name: getattr(stats, name) for name in model.counts} == model.counts
        assert (stats.size, stats.blocked_getters, stats.blocked_putters) == (len(model.waiting), 0, 0)
        if in_flight != "ttl":
            assert stats.in_flight == real.in_flight == len(model.flight)
    assert repr(real) == f"<SetQueue of {len(model.waiting)} items, capacity {capacity}>"


MAKES_ROOM = {
    "get": (lambda waiting: waiting.get() == "a", [True]),
    "get_nowait": (lambda waiting: waiting.get_nowait() == "a", [True]),
    "get, timed": (lambda waiting: waiting.get(timeout=10 * PATIENCE) == "a", [True]),
    "get_many": (lambda waiting: waiting.get_many(9) == ["a"], [True]),
    "clear": (lambda waiting: waiting.clear() == ["a"], [True]),
    "shutdown": (lambda waiting: waiting.shutdown() is None, [ShutDown]),
    "shutdown at once": (lambda waiting: waiting.shutdown(immediate=True) is None, [ShutDown]),
}


@pytest.mark.parametrize("put", ["put", "put, timed", "put_many"])
@pytest.mark.parametrize("how", MAKES_ROOM)
def test_whatever_makes_room_wakes_who_waits_for_it(how, put):
    waiting, outcome, (call, expected) = SetQueue(1), [], MAKES_ROOM[how]
    waiting.put("a")
    puts = {
        "put": lambda: waiting.put("b"),
        "put, timed": lambda: waiting.put("b", timeout=10 * PATIENCE),
        "put_many": lambda: waiting.put_many(["b"]) == 1,
    }
    thread = blocked(puts[put], outcome)
    waits(waiting, putters=1)
    assert call(waiting)
    thread.result()
    assert outcome == expected
    waits(waiting)
    assert list(waiting) == ([] if how == "shutdown at once" else ["a"] if how == "shutdown" else ["b"])


BRINGS_AN_ITEM = {
    "put": (lambda waiting: waiting.put("a"), ["a"]),
    "put_nowait": (lambda waiting: waiting.put_nowait("a"), ["a"]),
    "put, timed": (lambda waiting: waiting.put("a", timeout=10 * PATIENCE), ["a"]),
    "put_many": (lambda waiting: waiting.put_many(["a"]), ["a"]),
    "shutdown": (lambda waiting: waiting.shutdown() is None, [ShutDown]),
    "shutdown at once": (lambda waiting: waiting.shutdown(immediate=True) is None, [ShutDown]),
}


@pytest.mark.parametrize("timeout", [None, 10 * PATIENCE, 1e300, float("inf")])
@pytest.mark.parametrize("how", BRINGS_AN_ITEM)
def test_whatever_brings_an_item_wakes_who_waits_for_it(how, timeout):
    waiting, outcome, (call, expected) = SetQueue(), [], BRINGS_AN_ITEM[how]
    thread = blocked(lambda: waiting.get(timeout=timeout), outcome)
    waits(waiting, getters=1)
    assert call(waiting)
    thread.result()
    assert outcome == expected
    waits(waiting)
    assert waiting.empty()


def test_several_items_wake_as_many_getters_and_no_more():
    waiting, outcome = SetQueue(), []
    threads = [blocked(waiting.get, outcome) for _ in range(5)]
    waits(waiting, getters=5)
    assert waiting.put_many(list("abc")) == 3
    waits(waiting, getters=2)
    assert waiting.put_many(list("de")) == 2
    for thread in threads:
        thread.result()
    assert sorted(outcome) == list("abcde") and waiting.empty()


def test_after_the_shutdown_gets_go_on_until_it_is_empty_and_puts_do_not():
    waiting = SetQueue()
    waiting.put_many(list("abc"))
    waiting.shutdown()
    for call, item in itertools.product((waiting.put, waiting.put_nowait), ["a", "d"]):
        with pytest.raises(ShutDown):
            call(item)
    with pytest.raises(ShutDown) as caught:
        waiting.put_many(list("de"))
    assert caught.value.accepted == 0
    assert waiting.get() == "a" and waiting.get_many(1) == ["b"] and waiting.get_nowait() == "c"
    for call in (
        waiting.get,
        waiting.get_nowait,
        lambda: waiting.get_many(1),
        lambda: waiting.get_many(1, min_items=0),
    ):
        with pytest.raises(ShutDown):
            call()
    assert waiting.get_many(0) == []
    stats = waiting.stats()
    assert (stats.put, stats.got, stats.duplicates) == (3, 3, 0)


@pytest.mark.parametrize(("in_flight", "ttl"), [("forget", None), ("ack", None), ("ttl", 5.0)])
def test_with_a_key_the_items_come_out_and_the_keys_are_compared(in_flight, ttl):
    def make():
        waiting = SetQueue(key=lambda row: row[0], in_flight=in_flight, ttl=ttl)
        assert waiting.put_many(rows) == 3
        return waiting

    rows = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]
    kept = [rows[0], rows[1], rows[3]]
    assert list(make()) == kept and make().clear() == kept and make().get_many(9) == kept
    waiting = make()
    assert [waiting.get(), waiting.get_nowait()] == kept[:2]
    assert (("c", 0) in waiting, ("a", 0) in waiting, waiting.knows(("c", 0))) == (True, False, True)
    assert waiting.knows(("a", 0)) is (in_flight != "forget")
    if in_flight == "ack":
        assert waiting.done([("a", 0), ("b", 0), ("c", 0)]) == 2
