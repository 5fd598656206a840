"""No call of the native module changes the reference count of an object that is no longer in a queue. An
item that only the queue refers to is freed on a drain thread.

CPython does not count immortal objects. If the module raised the count of an immortal object, it would never fall.
After 2^30 calls the object would be mortal, and then freed.
"""

import ctypes
import sys
import sysconfig
import threading

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, PartitionSelector, SetQueue, ThreadPolicy

CALLS = 1_000
NOISE = 100
"""What other threads and the test itself may add or take: far less than one for each call."""

ITEMS = (True, None, b"a", 7, sys.intern("interned"))
"""Immortal on CPython 3.12 and later, but for the bytes and the string of some versions."""


def count(thing):
    """Return the count: the lower half of the first word in a CPython with a GIL, else the sum of two counts."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return ctypes.c_uint32.from_address(id(thing)).value
    own, shared = ctypes.c_uint32.from_address(id(thing) + 12), ctypes.c_ssize_t.from_address(id(thing) + 16)
    return own.value + (shared.value >> 2)


def batch_queue(consumer=len, **settings):
    return BatchQueue("counts", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=consumer, **settings))


def produce(queue, item):
    queue.produce(item)


def offer(queue, item):
    queue.offer(item)
    queue.offer(item, timeout=0)


def produce_many(queue, item):
    queue.produce_many([item, item])
    queue.produce_many((item, item))
    queue.produce_many(item for _ in range(2))


def multi_queue():
    queue = MultiQueue()
    queue.add_sub_queue("key", priority=1)
    return queue


def put_and_get(queue, item):
    part = queue["key"]
    part.put(item)
    assert item in part
    queue.peek()
    queue.get()
    part.put_nowait(item)
    queue.get_item()
    part.put_many([item, item])
    queue.get_many(2)
    part.put(item)
    part.remove(item)
    part.put(item)
    part.clear()
    queue.stats()


def put_and_get_once(queue, item):
    queue.put(item)
    queue.put(item)
    assert item in queue
    queue.get()
    queue.put_many([item, item])
    queue.get_many(2)
    queue.put_nowait(item)
    queue.clear()
    queue.stats()


CASES = {
    "produce": (batch_queue, produce),
    "produce, by key": (lambda: batch_queue(dispatch_key=str), produce),
    "produce, by length": (lambda: batch_queue(len_of=lambda item: 2), produce),
    "produce, in turn": (lambda: batch_queue(partition_selector=PartitionSelector.round_robin()), produce),
    "offer": (batch_queue, offer),
    "produce_many": (batch_queue, produce_many),
    "multi-queue": (multi_queue, put_and_get),
    "set queue": (SetQueue, put_and_get_once),
}


def drift(make, use, item):
    """Return by how much each count differs after many calls, in which the queue takes the item and gives it up."""
    queue = make()
    for _ in range(10):
        use(queue, item)
    before = [count(thing) for thing in ITEMS]
    for _ in range(CALLS):
        use(queue, item)
    assert not isinstance(queue, BatchQueue) or queue.flush(60)
    after = [count(thing) for thing in ITEMS]
    queue.shutdown()
    return {repr(thing): b - a for thing, a, b in zip(ITEMS, before, after) if abs(b - a) > NOISE}


def test_no_call_leaves_a_reference_behind():
    wrong = {
        (name, repr(item)): found for name, case in CASES.items() for item in ITEMS if (found := drift(*case, item))
    }
    assert wrong == {}


def test_an_object_that_several_producers_and_drain_threads_have_at_once_keeps_its_count():
    """Without a GIL they count at the same moment."""

    class Item:
        pass

    item, gate = Item(), threading.Barrier(3)

    def produce(call, *arguments):
        gate.wait(60)
        for _ in range(20_000):
            call(*arguments)

    with BatchQueue("shared", consumer=len, threads=2, buffer_size=1_000_000) as queue:
        before = count(item)
        calls = ((queue.produce, item), (queue.produce, item), (queue.produce_many, [item, item]))
        threads = [threading.Thread(target=produce, args=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert queue.flush(60)
        del calls, threads
    assert count(item) == before


def test_an_item_that_only_the_queue_has_ends_on_the_drain_thread_with_its_batch():
    """The producer does nothing meanwhile: without a GIL, its local count of an item is merged only when it runs."""
    ended, handled = [], threading.Event()  # the handler returns when the producer has no item left

    class Item:
        def __del__(self):
            ended.append(threading.current_thread().name)

    kept = {"by key": {"dispatch_key": str}, "by length": {"len_of": lambda item: 2}, "by class": {}}
    for settings in kept.values():
        with batch_queue(lambda batch: handled.wait(60), **settings) as queue:
            for _ in range(100):
                assert queue.produce(Item()) and queue.offer(Item()) and queue.produce_many([Item(), Item()]) == 2
            handled.set()
        handled.clear()
    assert set(ended) == {"drainq-counts-0"} and len(ended) == 1200
