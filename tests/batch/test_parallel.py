"""What two threads may do at the same moment, at many moments: without a GIL they truly do.

On an interpreter with a GIL these tests pass as well; `make test-free-threaded` runs them without.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from concurrent.futures import ThreadPoolExecutor

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
from drainq.monitoring import MetricsServer
from tests.batch.conftest import PATIENCE
from tests.monitoring.endpoint import sample, samples

THREADS, ROUNDS = 4, 300


def queue_of_threads(**settings):
    fixed = {"threads": ThreadPolicy.fixed(THREADS), "partitions": PartitionPolicy.fixed(THREADS)}
    return BatchQueue("parallel", BatchQueueConfig(**fixed, **settings))


def test_on_close_is_called_once_whichever_drain_thread_ends_last():
    class Consumer:
        def __init__(self):
            self.closed = []

        def consume(self, batch):
            pass

        def on_close(self):
            self.closed.append(threading.get_ident())

    consumers = [Consumer() for _ in range(ROUNDS)]
    for consumer in consumers:
        queue = queue_of_threads(consumer=consumer)
        assert queue.produce(1) and queue.shutdown(PATIENCE)
    assert [len(consumer.closed) for consumer in consumers] == [1] * ROUNDS


def test_a_key_is_one_type_and_no_item_is_lost_whichever_threads_produce_its_first_items():
    items = [(number,) for number in range(20_000)]

    def produce(queue):
        """Produce in the same order as all others: a thread that is behind catches up with the one that adds types."""
        for item in items:
            assert queue.produce(item)

    settings = {"consumer": lambda batch: None, "dispatch_key": operator.itemgetter(0)}
    with queue_of_threads(**settings) as queue, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(produce, [queue] * THREADS))
        assert queue.flush(PATIENCE)
        types = queue.stats().types
    assert [counts for _, counts in types] == [(THREADS, THREADS, 0, 0)] * len(items)


def test_the_histograms_count_the_calls_of_handlers_that_run_side_by_side():
    with queue_of_threads(consumer=len, max_batch=1) as queue, ThreadPoolExecutor(THREADS) as pool:
        classes = [type(f"Item{number}", (), {}) for number in range(THREADS)]
        list(pool.map(lambda made: queue.produce_many([made() for _ in range(10_000)]), classes))
        assert queue.flush(PATIENCE)
        with MetricsServer(port=0) as server:
            found = samples(server.url)
    counted = [sample(found, f"drainq_batch_size_{part}", queue="parallel") for part in ("sum", "count")]
    assert counted == [10_000 * THREADS] * 2


def test_a_list_that_another_thread_changes_is_produced_without_an_object_that_has_ended():
    """Items that another thread takes out of the list end at once, unless the queue has them."""
    over, handled = threading.Event(), []

    class Item:
        def __init__(self):
            self.text = "alive"

    def change(items):
        for _ in range(2_000):
            items.clear()
            items.extend([Item() for _ in range(50)])
        over.set()

    def handle(batch):
        handled.extend(item.text for item in batch)

    items: list[Item] = []
    accepted = 0
    with BatchQueue("changed", handlers={Item: handle}) as queue:
        with ThreadPoolExecutor(1) as pool:
            changes = pool.submit(change, items)
            while not over.is_set():
                accepted += queue.produce_many(items)
            changes.result(PATIENCE)
        assert queue.flush(PATIENCE)
    assert len(handled) == accepted and set(handled) <= {"alive"}


def test_a_task_that_waits_for_room_is_woken_whenever_a_pass_makes_some():
    """One task, whose lost wake-up no other would make good: the pass makes room while the task looks for the last time."""

    async def main(queue):
        async def produce():
            for number in range(20_000):
                assert await queue.produce_async(number)

        await asyncio.wait_for(produce(), 2 * PATIENCE)

    handled = []
    with BatchQueue("small", consumer=handled.extend, buffer_size=1) as queue:
        asyncio.run(main(queue))
        assert queue.flush(PATIENCE)
    assert handled == list(range(20_000))
