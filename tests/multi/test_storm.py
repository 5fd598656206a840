"""Threads and tasks that do everything at once: nothing lost, doubled or hung."""

import asyncio
import queue as std
import random
import threading

import pytest

from drainq import MultiQueue, ShutDown, SubQueueRemoved
from tests.time_limit import at_most

from .helpers import in_thread, totals_add_up

pytestmark = pytest.mark.system

KEYS = range(6)
PRODUCERS = 4
ITEMS = 1500
PATIENCE = 120.0  # a storm takes seconds


@pytest.fixture(autouse=True)
def time_limit():
    with at_most(PATIENCE):
        yield


class Storm:
    """One queue, and what every thread did to it."""

    def __init__(self, seed: int, selection: object) -> None:
        self.queue = MultiQueue(selection)
        self.seed = seed
        self.stop = threading.Event()
        for key in KEYS:
            self.add(random.Random(seed), key)

    def add(self, rng, key):
        capacity = rng.choice([None, 1, 3, 50])
        weight = rng.randint(1, 3)
        return self.queue.add_sub_queue(key, rng.randint(0, 2), capacity, weight=weight, exist_ok=True)

    def produce(self, number):
        """Offer every item once; who is refused tries elsewhere. Returns what went in."""
        rng = random.Random(f"{self.seed} producer {number}")
        accepted = []
        for index in range(ITEMS):
            item = (number, index)
            while not self.offer(rng, item):
                pass
            accepted.append(item)
        return accepted

    def offer(self, rng, item):
        sub = self.queue.get_sub_queue(rng.choice(KEYS))
        if sub is None:
            return False
        try:
            if rng.random() < 0.2:
                return sub.put_many([item], timeout=0.001) == 1
            sub.put(item, timeout=rng.choice([0, 0.001, 0.002]))
        except (std.Full, SubQueueRemoved):
            return False
        return True

    def consume(self, number):
        rng = random.Random(f"{self.seed} consumer {number}")
        got = []
        while True:
            try:
                if rng.random() < 0.3:
                    got += self.queue.get_many(rng.randint(1, 20), timeout=0.002)
                else:
                    got.append(self.queue.get(timeout=rng.choice([None, 0.001])))
            except std.Empty:
                pass
            except ShutDown:
                return got

    async def consume_in_loop(self):
        got = []

        async def one():
            async for item in self.queue.stream_async():
                got.append(item)

        await asyncio.gather(*(one() for _ in range(3)))
        return got

    def meddle(self, number):
        """Remove, add, disable, enable, re-prioritise; returns the leftovers of what was removed."""
        rng = random.Random(f"{self.seed} meddler {number}")
        leftovers = []
        while not self.stop.is_set():
            key = rng.choice(KEYS)
            sub = self.queue.get_sub_queue(key)
            action = rng.randrange(7)
            if sub is None or action == 0:
                self.add(rng, key)
            elif action == 1:
                sub.disable(str(number))
            elif action == 2:
                sub.priority = rng.randint(0, 2)
            elif action == 3:
                sub.capacity = rng.choice([None, 1, 10])
            elif action == 4:
                leftovers += sub.clear()
            elif action == 5 and rng.random() < 0.3:
                try:
                    removed = self.queue.remove_sub_queue(key)
                except KeyError:
                    continue
                leftovers += removed.clear()
            else:
                sub.enable()
        return leftovers


@pytest.mark.parametrize("selection", ["priority", "weighted"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_doubled_or_hung(seed, selection):
    storm = Storm(seed, selection)
    producers = [in_thread(storm.produce, number) for number in range(PRODUCERS)]
    consumers = [in_thread(storm.consume, number) for number in range(3)]
    consumers.append(in_thread(asyncio.run, storm.consume_in_loop()))
    meddlers = [in_thread(storm.meddle, number) for number in range(2)]
    offered = [item for producer in producers for item in producer.result(PATIENCE)]
    storm.stop.set()
    leftovers = [item for meddler in meddlers for item in meddler.result(PATIENCE)]
    queue = storm.queue
    for key in queue:
        queue[key].enable()
    queue.shutdown()
    got = [item for consumer in consumers for item in consumer.result(PATIENCE)]
    assert sorted(got + leftovers) == sorted(offered)
    stats = queue.stats()
    assert (queue.qsize(), stats.depth, stats.blocked_getters, stats.blocked_putters) == (0, 0, 0, 0)
    assert stats.put == len(offered) == stats.got + stats.removed
    assert stats.got == len(got)
    totals_add_up(queue)


def test_many_producers_and_consumers_keep_each_producers_order():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", capacity=3)

    def produce(number):
        for index in range(ITEMS):
            sub.put((number, index))

    def consume():
        got = []
        while True:
            try:
                got.append(queue.get())
            except ShutDown:
                return got

    consumers = [in_thread(consume) for _ in range(3)]
    producers = [in_thread(produce, number) for number in range(3)]
    for producer in producers:
        producer.result(PATIENCE)
    queue.shutdown()
    results = [consumer.result(PATIENCE) for consumer in consumers]
    for got in results:
        for number in range(3):
            indices = [index for producer, index in got if producer == number]
            assert indices == sorted(indices)
    assert sorted(item for got in results for item in got) == [
        (number, index) for number in range(3) for index in range(ITEMS)
    ]
