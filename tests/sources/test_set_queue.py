"""SetQueue: order, duplicates, waiting, life after the queue, and foreign code that misbehaves."""

from __future__ import annotations

import gc
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq import SetQueue, ShutDown


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


def test_a_duplicate_is_refused_and_keeps_its_place():
    waiting = SetQueue()
    assert [waiting.put(item) for item in ("a", "b", "a", "c", "b")] == [True, True, False, True, False]
    assert list(waiting) == ["a", "b", "c"]
    assert waiting.get_many(10) == ["a", "b", "c"]


def test_a_taken_item_is_forgotten_and_may_enter_again():
    waiting = SetQueue()
    assert waiting.put("a")
    assert waiting.get() == "a"
    assert waiting.put("a")


def test_none_is_an_item():
    waiting = SetQueue()
    assert waiting.put(None)
    assert not waiting.put(None)
    assert None in waiting
    assert waiting.get() is None


def test_with_a_key_the_key_decides_and_the_first_item_stays():
    waiting = SetQueue(key=lambda row: row["id"])
    assert waiting.put({"id": 1, "text": "first"})
    assert not waiting.put({"id": 1, "text": "second"})
    assert {"id": 1} in waiting
    assert waiting.get_nowait() == {"id": 1, "text": "first"}


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
            assert waiting.get_many(n) == model[:n]
            del model[:n]
        assert len(waiting) == len(model)
        assert list(waiting) == model


def test_put_many_counts_what_went_in():
    waiting = SetQueue()
    assert waiting.put_many([1, 2, 1, 3, 2]) == 3
    assert waiting.put_many(iter([3, 4])) == 1
    assert list(waiting) == [1, 2, 3, 4]


def test_iteration_is_a_snapshot():
    waiting = SetQueue()
    waiting.put_many([1, 2, 3])
    seen = []
    for item in waiting:
        seen.append(item)
        waiting.put(item + 10)
        waiting.get()
    assert seen == [1, 2, 3]


def test_clear_hands_back_what_waited_and_forgets_it():
    waiting = SetQueue()
    waiting.put_many("abc")
    assert waiting.clear() == ["a", "b", "c"]
    assert len(waiting) == 0
    assert waiting.put("a")


def test_stats_account_for_every_offer():
    waiting = SetQueue(in_flight="ack")
    waiting.put_many([1, 2, 3, 1])
    waiting.get_many(2)
    stats = waiting.stats()
    assert (stats.size, stats.in_flight, stats.put, stats.got, stats.duplicates) == (1, 2, 3, 2, 1)


# -- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_capacity_below_one_is_refused(capacity):
    with pytest.raises(ValueError, match=f"got {capacity}"):
        SetQueue(capacity)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"in_flight": "later"}, "'forget', 'ack' or 'ttl', got \"later\""),
        ({"in_flight": "ttl"}, "needs ttl="),
        ({"ttl": 1.0}, "needs in_flight="),
        ({"in_flight": "ttl", "ttl": -1.0}, "got -1"),
        ({"in_flight": "ttl", "ttl": float("nan")}, "got NaN"),
    ],
)
def test_a_life_after_the_queue_that_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        SetQueue(**arguments)


def test_a_key_that_is_no_callable_is_refused():
    with pytest.raises(TypeError, match="'id'"):
        SetQueue(key="id")


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_bad_timeout_is_refused_before_anything_else(timeout):
    waiting = SetQueue()
    with pytest.raises(ValueError, match="timeout"):
        waiting.put(1, timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        waiting.get(timeout=timeout)
    assert len(waiting) == 0


def test_a_negative_count_is_refused():
    with pytest.raises(ValueError, match="got -1"):
        SetQueue().get_many(-1)


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


# -- foreign code that uses the queue -------------------------------------------------------


def test_an_eq_that_takes_the_item_it_is_asked_about_finds_a_queue_in_order():
    waiting = SetQueue()
    taken = []
    waiting.put(Keyed(1))
    late = Keyed(1, on_eq=lambda: taken or taken.append(waiting.get_nowait()))
    assert waiting.put(late)  # when it was asked, the equal one had just been taken
    assert [item.number for item in taken] == [1]
    assert list(waiting) == [late]


def test_an_eq_that_puts_the_same_item_makes_the_outer_put_a_duplicate():
    waiting = SetQueue()
    inner = []
    waiting.put(Keyed(1))
    outer = Keyed(2, on_eq=lambda: inner or (inner.append(1), inner.append(waiting.put(Keyed(2)))))
    assert not waiting.put(outer)
    assert inner == [1, True]
    assert [item.number for item in waiting] == [1, 2]


def test_a_del_that_uses_the_queue_does_not_deadlock():
    waiting = SetQueue(key=lambda item: item.key)
    deleted = []

    class Key:
        def __del__(self):
            deleted.append(len(waiting))

    class Item:
        def __init__(self):
            self.key = Key()

    waiting.put(Item())
    item = waiting.get()
    del item
    waiting.put(Item())
    waiting.clear()
    gc.collect()
    assert deleted == [0, 0]


def test_eq_may_wait_for_another_thread_that_uses_the_queue():
    waiting = SetQueue()
    waiting.put(Keyed(1))

    def let_another_thread_in():
        other = threading.Thread(target=waiting.put_many, args=([10, 11],))
        other.start()
        other.join(30)
        assert not other.is_alive()

    assert waiting.put(Keyed(2, on_eq=let_another_thread_in))
    assert len(waiting) == 4


# -- waiting --------------------------------------------------------------------------------


def test_empty_and_full_are_the_standard_librarys():
    waiting = SetQueue(1)
    with pytest.raises(queue.Empty):
        waiting.get_nowait()
    with pytest.raises(queue.Empty):
        waiting.get(timeout=0)
    assert waiting.put(1)
    with pytest.raises(queue.Full, match="1"):
        waiting.put_nowait(2)
    with pytest.raises(queue.Full):
        waiting.put(2, timeout=0.001)
    assert waiting.full()
    assert waiting.remaining_capacity() == 0


def test_a_duplicate_of_a_full_queue_is_a_duplicate_not_full():
    waiting = SetQueue(1)
    waiting.put(1)
    assert waiting.put(1) is False


def test_put_many_stops_where_there_is_no_room():
    waiting = SetQueue(2)
    assert waiting.put_many([1, 1, 2, 3], block=False) == 2
    assert waiting.put_many([1, 2, 3], timeout=0) == 0
    assert list(waiting) == [1, 2]


def test_a_blocked_get_wakes_for_an_item():
    waiting, got = SetQueue(), []
    getter = threading.Thread(target=lambda: got.append(waiting.get()))
    getter.start()
    waiting.put("a")
    getter.join(30)
    assert got == ["a"]


def test_a_blocked_put_wakes_for_room_and_may_find_a_duplicate_by_then():
    waiting, went_in = SetQueue(1), []
    waiting.put("x")
    putters = [threading.Thread(target=lambda: went_in.append(waiting.put("a"))) for _ in range(3)]
    for putter in putters:
        putter.start()
    assert waiting.get() == "x"
    for putter in putters:
        putter.join(30)
    assert sorted(went_in) == [False, False, True]
    assert list(waiting) == ["a"]


def test_a_clear_wakes_as_many_puts_as_it_makes_room_for():
    waiting = SetQueue(2)
    waiting.put_many(["w", "x"])
    putters = [threading.Thread(target=waiting.put, args=(item,)) for item in "ab"]
    for putter in putters:
        putter.start()
    while waiting.stats().blocked_putters < 2:
        os.sched_yield()
    assert waiting.clear() == ["w", "x"]
    for putter in putters:
        putter.join(30)
    assert sorted(waiting) == ["a", "b"]


def test_threads_lose_and_double_nothing():
    """Each of 4 putters offers all of 0..n; every number comes out at least once, and each acceptance exactly once."""
    waiting, n = SetQueue(50), 2000
    accepted, got, ready = [], [], threading.Barrier(8)

    def put():
        ready.wait()
        for item in range(n):
            if waiting.put(item):
                accepted.append(item)

    def get():
        ready.wait()
        while (item := waiting.get()) is not None:
            got.append(item)

    putters = [threading.Thread(target=put) for _ in range(4)]
    getters = [threading.Thread(target=get) for _ in range(4)]
    for thread in putters + getters:
        thread.start()
    for thread in putters:
        thread.join(60)
    for _ in getters:
        while not waiting.put(None):  # one None at a time: the next is a duplicate until this one is taken
            pass
    for getter in getters:
        getter.join(60)
    assert sorted(got) == sorted(accepted)
    assert set(got) == set(range(n))
    stats = waiting.stats()
    assert (stats.size, stats.put, stats.put + stats.duplicates >= 4 * n) == (0, len(accepted) + 4, True)


def test_shutdown_ends_puts_at_once_and_gets_when_it_is_empty():
    waiting = SetQueue()
    waiting.put(1)
    waiting.shutdown()
    with pytest.raises(ShutDown):
        waiting.put(2)
    assert waiting.get() == 1
    with pytest.raises(ShutDown):
        waiting.get()


def test_shutdown_wakes_all_that_wait():
    waiting, ended = SetQueue(), []

    def get():
        try:
            waiting.get()
        except ShutDown:
            ended.append(True)

    getters = [threading.Thread(target=get) for _ in range(3)]
    for getter in getters:
        getter.start()
    waiting.shutdown(immediate=True)
    for getter in getters:
        getter.join(30)
    assert ended == [True] * 3


CTRL_C = """
import os, signal, threading, time
from drainq import SetQueue
waiting = SetQueue(1)
{before}
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
class Armed:
    # its hash is taken by the call that is about to block, so the signal comes with or after it
    def __hash__(self):
        threading.Timer(0.2, interrupt).start()
        return 1
    def __eq__(self, other):
        return self is other
try:
    {call}
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
    print("ok" if {after} else "changed", "late" if late > 5 else "soon")
"""


@pytest.mark.parametrize(
    ("before", "call", "after"),
    [
        ("waiting.put(1)", "waiting.put(Armed())", "list(waiting) == [1]"),
        ("", "hash(Armed()); waiting.get()", "len(waiting) == 0 and waiting.put(2) and waiting.get() == 2"),
    ],
    ids=["put", "get"],
)
def test_ctrl_c_ends_a_blocked_call_and_loses_nothing(before, call, after):
    script = CTRL_C.format(before=before, call=call, after=after)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("ok soon\n", "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")
def test_an_interrupted_getter_hands_its_wake_up_on():
    """The main thread is woken and interrupted at once; the other getter must not sleep beside the item."""
    waiting, got = SetQueue(), []

    def interrupt(*_):
        waiting.put("a")
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            waiting.get(timeout=30)
    finally:
        signal.signal(signal.SIGUSR1, before)
    other = threading.Thread(target=lambda: got.append(waiting.get(timeout=30)))
    other.start()
    other.join(30)
    assert got == ["a"]


# -- the life after the queue ---------------------------------------------------------------


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


def test_done_wants_items_not_a_text():
    with pytest.raises(TypeError, match=r"such as \[item\], got 'ab'"):
        SetQueue(in_flight="ack").done("ab")


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
    early = waiting.begin_poll()
    waiting.done(["a"])
    late = waiting.begin_poll()
    assert not waiting.put("a")
    assert waiting.end_poll(early)
    assert waiting.put("a")
    assert waiting.end_poll(late)
    assert not waiting.end_poll(late)


def test_a_clock_that_goes_wrong_is_an_error_before_any_change(clock):
    waiting = SetQueue(in_flight="ttl", ttl=5.0, clock=clock)
    waiting.put("a")
    clock.set(-1.0)
    with pytest.raises(ValueError, match="got -1"):
        waiting.get()
    clock.set(0.0)
    assert waiting.get() == "a"


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
def test_a_cycle_through_the_queue_is_collected(in_flight):
    class Item:
        pass

    waiting, item = SetQueue(in_flight=in_flight), Item()
    item.queue = waiting
    waiting.put(item)
    if in_flight == "ack":
        waiting.get()
    seen = weakref.ref(item)
    del item, waiting
    gc.collect()
    assert seen() is None


def test_its_help_teaches():
    for name in ("put", "get", "get_many", "done", "begin_poll", "shutdown", "stats"):
        assert len(getattr(SetQueue, name).__doc__.splitlines()[0]) > 20, name
    assert ">>> queue.get_many(10)" in SetQueue.__doc__
