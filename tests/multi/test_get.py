"""Taking: one by one, with keys, in bulk, by peeking."""

import queue as std
import time

import pytest

from drainq import MultiQueue, SetQueue

from .helpers import PATIENCE, blocked_getters, drain, ended, eventually, in_thread, totals_add_up


def test_none_is_an_item(queue):
    sub = queue.add_sub_queue(None)
    sub.put(None)
    assert None in sub
    assert queue.get_item() == (None, None)


@pytest.mark.parametrize("call", ["get", "get_item"])
def test_a_timeout_waits_at_least_that_long_then_raises_empty(queue, call):
    for seconds in (0, 0.05):
        started = time.monotonic()
        with pytest.raises(std.Empty):
            getattr(queue, call)(timeout=seconds)
        assert time.monotonic() - started >= seconds
    assert queue.stats().blocked_getters == 0


@pytest.mark.parametrize("timeout", [None, 10 * PATIENCE, float("inf")])
def test_a_call_that_may_not_block_does_not_wait_whatever_the_timeout(queue, timeout):
    full, known = queue.add_sub_queue("full", capacity=1, enabled=False), SetQueue(1)
    for call in (queue.get, queue.get_item, known.get):
        assert isinstance(in_thread(call, False, timeout).exception(PATIENCE), std.Empty)
    assert in_thread(queue.get_many, 9, min_items=0, timeout=timeout).result(PATIENCE) == []
    for end in (full, known):
        end.put(1)
        assert isinstance(in_thread(end.put, 2, False, timeout).exception(PATIENCE), std.Full)
        assert in_thread(end.put_many, [2, 3], False, timeout).result(PATIENCE) == 0
        assert list(end) == [1]


def test_a_timeout_beyond_any_clock_never_comes(queue):
    got = in_thread(queue.get, timeout=float("inf")), in_thread(queue.get, timeout=1e300)
    eventually(blocked_getters(queue, 2))
    queue.add_sub_queue("a").put_many([1, 2])
    assert {future.result(PATIENCE) for future in got} == {1, 2}


@pytest.mark.parametrize("block", ["queue.get", "queue.get_item", "sub.put"])
def test_the_time_of_a_call_runs_out_on_any_thread(queue, block):
    """Ctrl-C is looked for on the main thread alone, the time on all."""
    sub = queue.add_sub_queue("a", capacity=1, enabled=False)
    sub.put(0)
    calls = {
        "queue.get": lambda: queue.get(timeout=0.01),
        "queue.get_item": lambda: queue.get_item(timeout=0.01),
        "sub.put": lambda: sub.put(1, timeout=0.01),
    }
    ended = in_thread(calls[block]).exception(PATIENCE)
    assert isinstance(ended, std.Full if block == "sub.put" else std.Empty)
    stats = queue.stats()
    assert (stats.put, stats.got, stats.rejected) == (1, 0, int(block == "sub.put"))
    assert (stats.blocked_getters, stats.blocked_putters) == (0, 0)


def test_a_blocked_get_is_woken_by_a_sub_queue_added_later(queue):
    got = in_thread(queue.get_item, timeout=10 * PATIENCE)
    eventually(blocked_getters(queue, 1))
    queue.add_sub_queue("late").put(1)
    assert got.result(PATIENCE) == ("late", 1)


def test_each_put_wakes_one_of_several_getters(queue):
    sub = queue.add_sub_queue("a")
    getters = [in_thread(queue.get) for _ in range(3)]
    eventually(blocked_getters(queue, 3))
    sub.put(0)
    eventually(blocked_getters(queue, 2))
    sub.put_many([1, 2])
    assert sorted(getter.result(PATIENCE) for getter in getters) == [0, 1, 2]


def test_one_enable_serves_all_getters(queue):
    sub = queue.add_sub_queue("a", enabled=False)
    sub.put_many([1, 2, 3])
    getters = [in_thread(queue.get) for _ in range(3)]
    eventually(blocked_getters(queue, 3))
    sub.enable()
    assert sorted(getter.result(PATIENCE) for getter in getters) == [1, 2, 3]


def test_get_many_waits_for_the_first_item_only(queue):
    sub = queue.add_sub_queue("a")
    got = in_thread(queue.get_many, 10)
    eventually(blocked_getters(queue, 1))
    sub.put_many([1, 2])
    assert got.result(PATIENCE) == [1, 2]


def test_get_many_makes_room_for_blocked_putters(queue):
    sub = queue.add_sub_queue("a", capacity=2)
    sub.put_many([0, 1])
    putters = [in_thread(sub.put, item) for item in (2, 3, 4)]
    eventually(lambda: sub.stats().blocked_putters == 3)
    assert queue.get_many(2) == [0, 1]
    eventually(lambda: sub.stats().blocked_putters == 1 and sub.qsize() == 2)
    with ended(*putters):
        assert len(queue.get_many(3, min_items=3)) == 3
    totals_add_up(queue)


def test_what_get_many_took_goes_back_when_the_wait_is_broken():
    class Broken:
        calls = 0

        def select(self, groups):
            self.calls += 1
            if self.calls == 3:
                raise RuntimeError("broken")
            return groups[0][0]

    queue = MultiQueue(Broken())
    queue.add_sub_queue("a").put_many([1, 2, 3])
    with pytest.raises(RuntimeError, match="broken"):
        queue.get_many(3)
    assert drain(queue) == [1, 2, 3]
    totals_add_up(queue)
