"""SetQueue: order, duplicates, waiting, life after the queue, and foreign code that misbehaves."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq import SetQueue


class Keyed:
    """An item that is equal to another by its number, and lets a test into ``__eq__``."""

    def __init__(self, number, on_eq=None):
        self.number = number
        self.on_eq = on_eq

    def __hash__(self):
        return 7  # all collide

    def __eq__(self, other):
        for one in (self, other):
            if one.on_eq is not None:
                one.on_eq()
        return self.number == other.number


# -- order and identity ---------------------------------------------------------------------


def test_none_is_an_item():
    waiting = SetQueue()
    assert waiting.put(None)
    assert not waiting.put(None)
    assert None in waiting
    assert waiting.get() is None


class EqualToNothing:
    __hash__ = object.__hash__

    def __eq__(self, other):
        return False


@pytest.mark.parametrize("item", [float("nan"), (float("nan"),), EqualToNothing()], ids=["nan", "tuple", "object"])
@pytest.mark.parametrize("key", [None, lambda item: item])
def test_an_item_is_its_own_duplicate_even_if_it_is_equal_to_nothing(item, key):
    waiting = SetQueue(key=key, in_flight="ack")
    assert [waiting.put(item), waiting.put(item), item in waiting, len(waiting)] == [True, False, True, 1]
    assert waiting.get() is item
    assert [waiting.put(item), waiting.done([item]), waiting.put(item)] == [False, 1, True]


def test_keys_that_are_equal_across_types_are_one():
    waiting = SetQueue()
    assert [waiting.put(item) for item in (1, 1.0, True, "1", b"1")] == [True, False, False, True, True]


@given(st.lists(st.one_of(st.tuples(st.just("put"), st.integers(0, 9)), st.tuples(st.just("get"), st.integers(0, 4)))))
@pytest.mark.parametrize("make", [int, str, float, lambda n: (n, "x"), Keyed])
def test_agrees_with_a_list_that_is_searched(make, steps):
    waiting, model = SetQueue(), []
    for verb, n in steps:
        if verb == "put":
            item = make(n)
            fresh = item not in model
            assert waiting.put(item) is fresh
            if fresh:
                model.append(item)
        else:
            assert waiting.get_many(n, min_items=0) == model[:n]
            del model[:n]
        assert len(waiting) == len(model)
        assert list(waiting) == model


def test_iteration_is_a_snapshot():
    waiting = SetQueue()
    waiting.put_many([1, 2, 3])
    seen = []
    for item in waiting:
        seen.append(item)
        waiting.put(item + 10)
        waiting.get()
    assert seen == [1, 2, 3]


# -- bad input ------------------------------------------------------------------------------


def test_an_unhashable_item_is_a_type_error_before_any_change():
    waiting = SetQueue()
    waiting.put("a")
    with pytest.raises(TypeError, match="key="):
        waiting.put(["b"])
    with pytest.raises(TypeError):
        ["b"] in waiting  # noqa: B015
    assert list(waiting) == ["a"]
    assert waiting.stats().put == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_key_a_hash_or_an_eq_that_raises_changes_nothing(error):
    def fail():
        raise error("on purpose")

    class BadHash:
        def __hash__(self):
            fail()

    by_key = SetQueue(key=lambda _: fail())
    with pytest.raises(error):
        by_key.put(1)
    assert len(by_key) == 0

    waiting = SetQueue()
    waiting.put(Keyed(1))
    with pytest.raises(error):
        waiting.put(BadHash())
    with pytest.raises(error):
        waiting.put(Keyed(2, on_eq=fail))
    assert len(waiting) == 1
    assert waiting.put(Keyed(3))
    assert [item.number for item in waiting] == [1, 3]


# -- memory ---------------------------------------------------------------------------------


def test_what_the_queue_does_not_hold_is_not_kept_alive():
    class Item:
        pass

    waiting, item = SetQueue(), Item()
    seen = weakref.ref(item)
    waiting.put(item)
    del item
    assert seen() is not None
    waiting.get()
    assert seen() is None


@pytest.mark.parametrize("in_flight", ["forget", "ack"])
@pytest.mark.parametrize("key", [None, lambda item: 1], ids=["itself", "a number"])
def test_a_cycle_through_the_queue_is_collected(in_flight, key):
    class Item:
        pass

    waiting, item = SetQueue(key=key, in_flight=in_flight), Item()
    item.queue = waiting
    waiting.put(item)
    if in_flight == "ack" and key is None:
        waiting.get()
    seen = weakref.ref(item)
    del item, waiting
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("in_flight", ["forget", "ack"])
def test_a_cycle_that_the_queue_alone_can_break_is_collected(in_flight):
    """A tuple cannot be emptied: the queue gives its items up.

    The collector kills the weak references of a cycle before it breaks it, so a token in the tuple is counted."""
    token = object()
    before = sys.getrefcount(token)
    waiting = SetQueue(in_flight=in_flight)
    waiting.put((waiting, token))
    if in_flight == "ack":
        waiting.get()
    del waiting
    gc.collect()
    assert sys.getrefcount(token) == before


@pytest.mark.parametrize("held_by", ["key", "clock"])
def test_a_cycle_through_a_key_or_a_clock_is_collected(held_by):
    class Holder:
        def __call__(self, item):
            return item

        def now(self):
            return 0.0

    holder = Holder()
    holder.queue = SetQueue(in_flight="ttl", ttl=1, **{held_by: holder})
    holder.queue.put("a")
    seen = weakref.ref(holder)
    del holder
    gc.collect()
    assert seen() is None
