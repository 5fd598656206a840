"""SetQueue: blocked calls, and the events that wake and end them."""

from __future__ import annotations

import sys
import threading

import pytest

from drainq import SetQueue, ShutDown
from tests.sources.threads import Call, blocked, eventually, waits


def test_a_blocked_put_wakes_for_room_and_may_find_a_duplicate_by_then():
    waiting = SetQueue(1)
    waiting.put("x")
    putters = [Call(lambda: waiting.put("a")) for _ in range(3)]
    assert waiting.get() == "x"
    assert sorted(putter.result() for putter in putters) == [False, False, True]
    assert list(waiting) == ["a"]


def test_a_clear_wakes_as_many_puts_as_it_makes_room_for():
    waiting = SetQueue(2)
    waiting.put_many(["w", "x"])
    putters = [Call(lambda item=item: waiting.put(item)) for item in "ab"]
    waits(waiting, putters=2)
    assert waiting.clear() == ["w", "x"]
    assert [putter.result() for putter in putters] == [True, True]
    assert sorted(waiting) == ["a", "b"]


@pytest.mark.needs_gil("one thread runs at a time, by a long switch interval")
def test_a_get_that_was_woken_in_vain_keeps_its_place():
    class Clock:
        reads = 0

        def now(self):
            self.reads += 1
            return 0.0

    clock, first, second = Clock(), [], []
    waiting, interval = SetQueue(in_flight="ttl", ttl=1.0, clock=clock), sys.getswitchinterval()
    elder = blocked(waiting.get, first)
    waits(waiting, getters=1)
    younger = blocked(waiting.get, second)
    waits(waiting, getters=2)
    sys.setswitchinterval(1000.0)  # this thread keeps the GIL
    try:
        assert waiting.put("a") and waiting.get_many(1) == ["a"]
        tries = clock.reads
    finally:
        sys.setswitchinterval(interval)
    eventually(lambda: clock.reads != tries, "the elder one was not woken")
    waiting.put("b")
    elder.result()
    assert (first, second) == (["b"], [])
    waiting.shutdown()
    younger.result()
    assert second == [ShutDown]


def test_the_repr_of_the_counters_names_them():
    """Each number is another one."""
    waiting, outcome = SetQueue(2, in_flight="ack"), []
    for item in range(9):
        waiting.put(item)
        waiting.done(waiting.get_many(1 if item < 7 else 0)[: int(item < 4)])
    assert not waiting.put(8)
    threads = [blocked(lambda item=item: waiting.put(item), outcome) for item in range(20, 24)]
    waits(waiting, putters=4)
    expected = "SetQueueStats(size=2, in_flight=3, put=9, got=7, duplicates=1, blocked_getters=0, blocked_putters=4)"
    assert repr(waiting.stats()) == expected
    waiting.shutdown(immediate=True)
    for thread in threads:
        thread.result()
    assert outcome == [ShutDown] * 4


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

    putters = [threading.Thread(daemon=True, target=put) for _ in range(4)]
    getters = [threading.Thread(daemon=True, target=get) for _ in range(4)]
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
