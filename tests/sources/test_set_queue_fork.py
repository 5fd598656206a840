"""A forked child's set queue starts empty and works; the parent keeps its items."""

import gc
import os
import queue as std
import threading

import pytest

from drainq import SetQueue, ShutDown
from tests.forked import in_child, needs_fork
from tests.sources.threads import Call, waits

pytestmark = needs_fork


def test_a_child_knows_nothing_of_the_parents_items_counters_and_polls():
    waiting = SetQueue(3, in_flight="ack")
    waiting.put_many(["a", "b", "a"])
    assert waiting.get() == "a"
    poll = waiting._begin_poll()

    def check():
        stats = waiting.stats()
        assert (stats.size, stats.in_flight, stats.put, stats.got, stats.duplicates) == (0, 0, 0, 0, 0)
        assert (waiting.knows("a"), waiting.knows("b"), waiting.capacity) == (False, False, 3)
        assert waiting._begin_poll() != poll
        assert not waiting._end_poll(poll)

    assert in_child(check) == 0
    assert waiting._end_poll(poll)


def test_a_shutdown_before_the_fork_holds_in_the_child():
    waiting = SetQueue()
    waiting.put(1)
    waiting.shutdown()

    def check():
        with pytest.raises(ShutDown):
            waiting.get()

    assert in_child(check) == 0
    assert waiting.get() == 1


def test_a_child_waits_and_wakes_by_itself_beside_the_waiters_of_its_parent():
    waiting, full = SetQueue(), SetQueue(1)
    full.put(0)
    threads = [threading.Thread(target=waiting.get, daemon=True) for _ in range(3)]
    threads += [threading.Thread(target=full.put, args=(1,), daemon=True)]
    for thread in threads:
        thread.start()
    waits(waiting, getters=3)
    waits(full, putters=1)

    def check():
        assert (waiting.stats().blocked_getters, full.stats().blocked_putters) == (0, 0)
        for item in range(20):
            mine = Call(waiting.get)
            waits(waiting, getters=1)
            waiting.put(item)
            assert mine.result() == item
        full.put("child's")
        putter = threading.Thread(target=full.put, args=("second",))
        putter.start()
        waits(full, putters=1)
        assert full.get() == "child's"
        putter.join()
        assert full.get() == "second"

    assert in_child(check) == 0
    waiting.put_many(range(3))
    assert full.get() == 0
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert list(full) == [1]


def test_the_items_of_the_parent_are_not_finalised_in_a_child():
    class Item:
        def __del__(self):
            os.write(writing, b"x")

    reading, writing = os.pipe()
    waiting = SetQueue()
    waiting.put(Item())

    def check():
        nonlocal waiting
        waiting.clear()
        del waiting
        gc.collect()

    assert in_child(check) == 0
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    waiting.clear()
    assert os.read(reading, 5) == b"x"
    os.close(reading)
    os.close(writing)


def test_no_lock_is_left_taken_by_threads_that_wait():
    waiting, over = SetQueue(), []

    def wait():
        while not over:
            try:
                waiting.get(timeout=0.0002)
            except std.Empty:
                pass

    def check():
        assert (len(waiting), waiting.put(1), waiting.get()) == (0, True, 1)

    threads = [threading.Thread(target=wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert [in_child(check) for _ in range(40)] == [0] * 40
    over.append(True)
    for thread in threads:
        thread.join(30)
