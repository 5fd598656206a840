"""Cycles: an object that a queue holds may hold the queue. Each such cycle is collected."""

import asyncio
import gc
import operator
import weakref

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from tests.batch.conftest import PATIENCE
from tests.batch.test_shutdown import drain_threads, ended


class Holder:
    """An object that holds its queue, and can be called wherever a queue calls something."""

    queue = None

    def __call__(self, *arguments):
        return 0

    def assign(self, throughput, owners, threads):
        return None


class Parts:
    """An object with some of the methods of a handler; only the named one holds the holder."""

    def __init__(self, part, holder):
        self.consume = self.on_idle = self.on_close = lambda *batch: None
        setattr(self, part, lambda *batch, held=holder: None)


def handled_by(make):
    """Return a queue with what `make` returns as the handler of a type."""

    def opened(name, holder):
        queue = made(name)
        queue.add_handler(int, make(holder))
        return queue

    return opened


def made(name, **settings):
    return BatchQueue(
        name, BatchQueueConfig(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), **settings)
    )


def setting(key, make=lambda holder: holder):
    """Return a queue with what `make` returns as this setting."""
    return lambda name, holder: made(name, **{key: make(holder)})


def of_loop(name, holder):
    """Return a queue with an event loop that has the holder."""
    loop = asyncio.new_event_loop()
    loop.holder = holder
    loop.close()
    return made(name, loop=loop)


def named(name, holder):
    """Return a queue one of whose types has the holder as its name."""
    queue = made(name, dispatch_key=lambda item: item[0], consumer=len)
    assert queue.produce([holder]) and queue.flush(PATIENCE)
    return queue


def of_class(name, holder):
    """Return a queue one of whose types is a class that has the holder."""
    queue = made(name, consumer=len)
    held = type("Held", (), {"holder": holder})
    assert queue.produce(held()) and queue.flush(PATIENCE)
    return queue


def counted(name, holder):
    """Return a queue with a type whose name holds the counters of the queue."""
    queue = named(name, holder)
    holder.stats = queue.stats()
    return queue


def awaited(name, holder):
    """Return a queue that an item waits for, which a coroutine of the holder offers."""
    queue = made(name, consumer=holder)
    holder.attempt = queue._attempt("item")
    return queue


PARTS = ("consume", "on_idle", "on_close")

NO_CLASS_ENDS = pytest.mark.needs_gil("CPython 3.13 without one frees no class, not even that of a plain cycle")

PLACES = {
    **{f"consumer.{part}": setting("consumer", lambda holder, part=part: Parts(part, holder)) for part in PARTS},
    **{f"handler.{part}": handled_by(lambda holder, part=part: Parts(part, holder)) for part in PARTS},
    "consumer": setting("consumer"),
    "handler": handled_by(lambda holder: holder),
    "on_error": setting("on_error"),
    "on_drop": setting("on_drop"),
    "len_of": setting("len_of"),
    "balancer": setting("balancer"),
    "partition_selector": setting("partition_selector"),
    "PartitionSelector.by": setting("partition_selector", PartitionSelector.by),
    "dispatch_key": setting("dispatch_key"),
    "itemgetter": setting("dispatch_key", operator.itemgetter),
    "loop": of_loop,
    "name of a type": named,
    "class of a type": of_class,
    "counters": counted,
    "an awaited produce": awaited,
}


@pytest.mark.parametrize("is_shut_down", [False, True], ids=["open", "shut down"])
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, id=name, marks=[NO_CLASS_ENDS] if name == "class of a type" else [])
        for name, place in PLACES.items()
    ],
)
def test_a_cycle_through_anything_that_a_queue_holds_is_collected(place, is_shut_down):
    holder = Holder()
    holder.queue = place("cycles", holder)
    if is_shut_down:
        assert holder.queue.shutdown(PATIENCE) is True
    gone, threads = weakref.ref(holder), drain_threads("cycles")
    threads_gone = [weakref.ref(thread) for thread in threads]
    assert bool(threads) is not is_shut_down
    del holder
    gc.collect()
    ended(threads)
    del threads
    gc.collect()
    assert gone() is None
    assert [thread() for thread in threads_gone] == [None] * len(threads_gone), "the objects of its threads"


def test_a_type_that_holds_the_counters_of_its_queue_is_collected_after_the_queue():
    holder = Holder()
    queue = named("counters", holder)
    holder.stats = queue.stats()
    assert queue.shutdown(PATIENCE) is True
    gone = weakref.ref(holder)
    del holder, queue
    gc.collect()
    assert gone() is None


def test_an_item_that_holds_the_coroutine_which_offers_it_is_collected_while_the_queue_lives():
    queue, holder = made("offered", consumer=len), Holder()
    holder.attempt = queue._attempt(holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None
    assert queue.shutdown(PATIENCE) is True and queue.stats().offered == 0
