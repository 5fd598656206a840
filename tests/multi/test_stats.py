"""Counters: exact, per sub-queue and in total."""

import gc
import time
import weakref

import pytest

from drainq import MultiQueue, ShutDown

from .helpers import PATIENCE, eventually, in_thread


def test_stats_by_key_are_those_of_the_sub_queue(queue):
    sub = queue.add_sub_queue(None)
    sub.put(1)
    assert queue.stats()[None].put == queue.stats().sub_queues[None].put == sub.stats().put == 1
    with pytest.raises(KeyError):
        queue.stats()["missing"]


def test_the_age_is_that_of_the_head(queue):
    old, new = queue.add_sub_queue("old"), queue.add_sub_queue("new")
    old.put(1)
    new.put(2)
    first = queue.stats()
    assert first["old"].oldest_age >= first["new"].oldest_age >= 0
    assert first.oldest_age == first["old"].oldest_age
    eventually(lambda: queue.stats()["old"].oldest_age > first["old"].oldest_age)
    queue.get()
    assert queue.stats()["old"].oldest_age is None
    last = queue.stats()
    assert last.oldest_age == last["new"].oldest_age


def test_repr_names_the_counters(queue):
    """Each number is another one."""
    sub = queue.add_sub_queue("a")
    assert sub.put_many(range(9)) == 9 and queue.get_many(2) == [0, 1] and sub.remove(5)
    sub.disable()
    sub.capacity = 6
    assert sub.put_many(range(8), block=False) == 0
    waiting = [in_thread(sub.put, 9) for _ in range(3)] + [in_thread(queue.get) for _ in range(4)]
    eventually(lambda: (queue.stats().blocked_putters, queue.stats().blocked_getters) == (3, 4))
    stats, counters = queue.stats(), "depth=6, high_water=9, put=9, got=2, rejected=8, duplicates=0, removed=1"
    assert repr(stats["a"]) == (f"SubQueueStats({counters}, oldest_age={stats['a'].oldest_age}, blocked_putters=3)")
    assert repr(stats) == (
        f"MultiQueueStats({counters}, oldest_age={stats.oldest_age}, blocked_putters=3, blocked_getters=4, sub_queues={{'a': {stats['a']!r}}})"
    )
    queue.shutdown(immediate=True)
    assert [type(one.exception(PATIENCE)) for one in waiting] == [ShutDown] * 7


def test_the_oldest_item_is_as_old_as_its_wait_in_seconds():
    queue = MultiQueue()
    sub, before = queue.add_sub_queue("a"), time.monotonic()
    assert (sub.stats().oldest_age, queue.stats().oldest_age) == (None, None)
    sub.put(1)
    eventually(lambda: sub.stats().oldest_age > 0)
    age, total, elapsed = sub.stats().oldest_age, queue.stats().oldest_age, time.monotonic() - before
    assert 0 < age <= total <= elapsed + 0.1, "the clock is a coarse one"
    queue.get()
    assert (sub.stats().oldest_age, queue.stats().oldest_age) == (None, None)


def test_a_key_that_holds_the_counters_of_its_queue_is_collected_after_the_queue():
    class Key:
        pass

    key, queue = Key(), MultiQueue()
    queue.add_sub_queue(key).put(1)
    key.stats, gone = queue.stats(), weakref.ref(key)
    del key, queue
    gc.collect()
    assert gone() is None
