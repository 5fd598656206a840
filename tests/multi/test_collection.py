"""A sub-queue as a collection: contains, remove, clear, iteration, repr."""

import pytest

from drainq import MultiQueue

from .helpers import PATIENCE, eventually, in_thread, totals_add_up


@pytest.fixture
def sub(queue):
    sub = queue.add_sub_queue("a")
    sub.put_many(["x", "y", "x", "z"])
    return sub


def test_contains_compares_by_equality(sub):
    assert "x" in sub
    assert "w" not in sub
    assert 1.0 not in sub
    sub.put(1)
    assert 1.0 in sub


def test_contains_finds_the_very_object_even_if_it_equals_nothing(sub):
    nan = float("nan")
    sub.put(nan)
    assert nan in sub
    assert float("nan") not in sub
    assert sub.remove(nan)


def test_remove_takes_the_first_match_only(queue, sub):
    assert sub.remove("x")
    assert list(sub) == ["y", "x", "z"]
    assert not sub.remove("w")
    assert queue.qsize() == 3
    totals_add_up(queue)


@pytest.mark.parametrize("make_room", [lambda sub: sub.clear(), lambda sub: sub.remove(0)])
def test_clear_and_remove_wake_a_blocked_put(queue, make_room):
    sub = queue.add_sub_queue("b", capacity=1)
    sub.put(0)
    put = in_thread(sub.put, 1)
    eventually(lambda: sub.stats().blocked_putters == 1)
    make_room(sub)
    put.result(PATIENCE)
    assert list(sub) == [1]


def test_remove_if_takes_what_the_predicate_holds_for(queue, sub):
    assert sub.remove_if(lambda item: item == "x") == ["x", "x"]
    assert list(sub) == ["y", "z"]
    totals_add_up(queue)


def test_remove_if_removes_nothing_when_the_predicate_raises(sub):
    def picky(item):
        if item == "z":
            raise RuntimeError("no z")
        return True

    with pytest.raises(RuntimeError, match="no z"):
        sub.remove_if(picky)
    assert list(sub) == ["x", "y", "x", "z"]


def test_iteration_is_a_snapshot_in_order(queue, sub):
    iterator = iter(sub)
    queue.get()
    sub.put("late")
    assert list(iterator) == ["x", "y", "x", "z"]
    assert list(sub) == ["y", "x", "z", "late"]
    with pytest.raises(StopIteration):
        next(iter(queue.add_sub_queue("empty")))


def test_repr_shows_key_priority_size_capacity_and_condition(queue):
    sub = queue.add_sub_queue(("k", 1), 3, capacity=4, weight=2)
    sub.put_many([1, 2])
    assert repr(sub) == "<SubQueue ('k', 1) priority=3 weight=2 size=2 capacity=4 enabled>"
    sub.disable("full disk")
    sub.capacity = None
    assert repr(sub) == "<SubQueue ('k', 1) priority=3 weight=2 size=2 capacity=unbounded disabled by [\"full disk\"]>"
    queue.remove_sub_queue(("k", 1))
    assert repr(sub).endswith(" removed>")


def test_repr_of_a_multi_queue_shows_how_much_it_holds(queue, sub):
    assert repr(queue) == "<MultiQueue sub_queues=1 size=4>"
    queue.shutdown()
    assert repr(queue) == "<MultiQueue sub_queues=1 size=4 shut down>"


def test_remove_if_takes_out_as_many_of_one_object_as_it_said_yes_to():
    sub = MultiQueue().add_sub_queue("a")
    one, answers = object(), iter([True, False, True])
    sub.put_many([one, "x", one, one])
    assert sub.remove_if(lambda item: item is one and next(answers)) == [one, one]
    assert list(sub) == ["x", one]
    stats = sub.stats()
    assert (stats.put, stats.removed, stats.depth) == (4, 2, 2)


def test_remove_if_leaves_equal_objects_that_came_after_it_asked():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    one = object()
    sub.put_many([one, one])

    def puts_one_more(item):
        sub.put(item)
        return True

    assert sub.remove_if(puts_one_more) == [one, one]
    assert list(sub) == [one, one]
    assert (sub.stats().put, sub.stats().removed, queue.qsize()) == (4, 2, 2)


def test_remove_if_takes_out_only_what_it_was_asked_about_and_is_still_there():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    sub.put_many([1, 2, 3, 4])
    assert sub.remove_if(lambda item: queue.get() if item == 1 else item % 2 == 0) == [2, 4]
    assert list(sub) == [3]
