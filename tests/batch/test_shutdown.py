"""The end of a queue: nothing accepted is lost, and no wait is for ever."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    DrainBalancer,
    PartitionPolicy,
    ShutDown,
    ThreadPolicy,
)
from tests.batch.conftest import PATIENCE, Gate, accounts


def config(**settings):
    return BatchQueueConfig(threads=ThreadPolicy.fixed(settings.pop("n", 1)), **settings)


def test_everything_accepted_is_handled_before_shutdown_returns(make_queue):
    queue, gate = make_queue(partitions=PartitionPolicy.fixed(4)), Gate()
    queue.add_handler(int, gate)
    queue.produce_many(range(5_000))
    assert queue.shutdown(PATIENCE) is True
    assert gate.items == list(range(5_000))
    assert not queue.running


def test_after_shutdown_items_are_rejected_as_closed(make_queue):
    drops = []
    queue = make_queue(on_drop=lambda reason, count: drops.append((reason, count)))
    assert queue.shutdown() is True
    assert queue.produce(1) is False
    assert queue.offer(1, timeout=PATIENCE) is False
    assert queue.produce_many([1, 2, 3]) == 0
    stats = queue.stats()
    assert (stats.rejected["closed"], stats.accepted) == (5, 0)
    assert drops[0] == ("closed", 1)
    assert queue.shutdown() is True
    assert queue.flush() is True


def test_producers_racing_a_shutdown_are_either_handled_or_told():
    for _ in range(20):
        gate = Gate()
        queue = BatchQueue("race", config(consumer=gate, buffer_size=4))
        barrier, accepted = threading.Barrier(9), []

        def produce(producer, queue=queue, barrier=barrier, accepted=accepted):
            barrier.wait(PATIENCE)
            for n in range(100):
                if queue.produce((producer, n)):
                    accepted.append((producer, n))

        producers = [threading.Thread(target=produce, args=(p,)) for p in range(8)]
        for producer in producers:
            producer.start()
        barrier.wait(PATIENCE)
        assert queue.shutdown(PATIENCE) is True
        for producer in producers:
            producer.join(PATIENCE)
            assert not producer.is_alive(), "a producer that waited for room was not released"
        stats = queue.stats()
        accounts(stats)
        assert sorted(gate.items) == sorted(accepted)
        assert stats.offered == 800
        assert stats.rejected["closed"] == 800 - len(accepted)


def test_a_second_caller_waits_for_the_first(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate)
    queue.produce(1)
    gate.wait_entered()
    results = []
    callers = [threading.Thread(target=lambda: results.append(queue.shutdown(PATIENCE))) for _ in range(3)]
    for caller in callers:
        caller.start()
    assert results == []
    gate.open()
    for caller in callers:
        caller.join(PATIENCE)
    assert results == [True] * 3


def test_a_handler_that_hangs_is_left_behind_at_the_deadline(make_queue):
    drops = []
    gate = Gate(is_open=False)
    queue = make_queue(max_batch=3, on_drop=lambda reason, count: drops.append((reason, count)))
    queue.add_handler(int, gate)
    queue.add_handler(str, gate)
    queue.produce_many([1, 2, 3])
    gate.wait_entered()
    queue.produce_many([4, "a", "b", 5])
    assert queue.shutdown(timeout=0.01) is False
    stats = queue.stats()
    accounts(stats)
    held = sum(map(len, gate.batches))
    assert (stats.abandoned, stats.queued, stats.handled) == (7, 0, 0)
    assert ("abandoned", 7) in drops
    gate.open()
    assert queue.shutdown(PATIENCE) is False, "what was abandoned stays abandoned"
    assert queue.flush(PATIENCE) is False
    assert sum(map(len, gate.batches)) == held, "nothing is handed out after the deadline"
    accounts(queue.stats())
    assert queue.stats().abandoned == 7


def test_the_configured_shutdown_timeout_is_the_default():
    gate = Gate(is_open=False)
    queue = BatchQueue("slow", config(consumer=gate, shutdown_timeout=0.01))
    queue.produce(1)
    gate.wait_entered()
    assert queue.shutdown() is False
    assert queue.stats().abandoned == 1
    gate.open()


def test_the_timeout_of_the_call_comes_before_the_configured_one():
    gate = Gate(is_open=False)
    queue = BatchQueue("patient", config(consumer=gate, shutdown_timeout=0))
    queue.produce(1)
    gate.wait_entered()
    with ThreadPoolExecutor(1) as pool:
        clean = pool.submit(queue.shutdown, PATIENCE)
        while queue.running and not clean.done():
            os.sched_yield()
        gate.open()
        assert clean.result() is True


def test_a_hanging_handler_does_not_keep_other_types_from_being_handled():
    slow, quick = Gate(is_open=False), Gate()
    queue = BatchQueue("mixed", config(n=2, partitions=PartitionPolicy.fixed(2)))
    queue.add_handler(int, slow)
    queue.add_handler(str, quick)
    queue.produce(1)
    slow.wait_entered()
    queue.produce_many(["a"] * 100)
    while queue.stats().handled < 100:
        os.sched_yield()
    assert queue.shutdown(timeout=0.01) is False
    assert quick.items == ["a"] * 100
    stats = queue.stats()
    assert (stats.handled, stats.abandoned) == (100, 1)
    accounts(stats)
    slow.open()


def test_flush_waits_for_what_was_accepted_and_not_for_more(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate)
    queue.produce(1)
    gate.wait_entered()
    assert queue.flush(timeout=0.01) is False
    gate.open()
    assert queue.flush(PATIENCE) is True
    assert queue.stats().handled == 1


def test_the_context_manager_drains():
    gate = Gate()
    with BatchQueue("block", config(consumer=gate)) as queue:
        queue.produce_many(range(10))
    assert sorted(gate.items) == list(range(10))
    assert not queue.running


def ended(threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def drain_threads(name):
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"drainq-{name}-")]


def test_on_close_waits_for_an_on_idle_and_is_called_by_the_last_drain_thread():
    class Consumer:
        idle, entered, leave, events = [], threading.Event(), threading.Event(), []

        def consume(self, batch):
            raise AssertionError("there was no item")

        def on_idle(self):
            if not self.idle:
                self.idle.append(threading.current_thread())
                self.entered.set()
                assert self.leave.wait(PATIENCE)
                self.events.append("on_idle returns")

        def on_close(self):
            self.events.append("on_close" if [threading.current_thread()] == self.idle else threading.current_thread())

    consumer, planning, plan = Consumer(), threading.Event(), threading.Event()

    def balancer(*_):
        planning.set()
        assert plan.wait(PATIENCE)

    settings = config(
        n=2, partitions=PartitionPolicy.fixed(2), consumer=consumer, balancer=balancer, rebalance_interval=0.001
    )
    queue = BatchQueue("closing", settings)
    threads = drain_threads("closing")
    assert len(threads) == 3 and consumer.entered.wait(PATIENCE) and planning.wait(PATIENCE)
    ending = threading.Thread(target=queue.shutdown)
    ending.start()
    others = [thread for thread in threads if thread not in consumer.idle]
    ended([thread for thread in others if thread.name != "drainq-closing-balancer"])
    plan.set()  # the balancer's thread ends while one drain thread is left
    ended(others)
    assert consumer.events == []
    consumer.leave.set()
    ending.join(PATIENCE)
    assert consumer.events == ["on_idle returns", "on_close"]


def test_a_queue_that_nobody_holds_delivers_its_items_and_ends():
    gate = Gate(is_open=False)
    queue = BatchQueue("orphan", config(n=2, partitions=PartitionPolicy.fixed(2)))
    queue.add_handler(int, gate)
    queue.produce_many(range(100))
    gate.wait_entered()
    threads = drain_threads("orphan")
    assert len(threads) == 2
    del queue
    gate.open()
    ended(threads)
    assert gate.items == list(range(100))


@pytest.mark.parametrize("how", ["shutdown", "with", "shutdown_all"])
def test_the_threads_of_a_queue_have_ended_when_its_shutdown_returns(how):
    policies = {"threads": ThreadPolicy.fixed(3), "partitions": PartitionPolicy.fixed(3)}
    config = BatchQueueConfig(
        consumer=Gate(), balancer=DrainBalancer.throughput_weighted(), rebalance_interval=1000.0, **policies
    )
    for _ in range(20):  # a thread may end by itself as quickly
        queue = BatchQueueManager.create("ends", config) if how == "shutdown_all" else BatchQueue("ends", config)
        assert queue.produce_many(range(100)) == 100
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("drainq-ends-")]
        assert len(threads) == 4
        if how == "with":
            with queue:
                pass
        else:
            assert (queue.shutdown if how == "shutdown" else BatchQueueManager.shutdown_all)(PATIENCE) is True
        assert [thread.is_alive() for thread in threads] == [False] * 4


@pytest.mark.parametrize("method", ["__enter__", "__aenter__"])
def test_a_block_that_could_produce_nothing_is_refused(make_queue, method):
    async def enter():
        entered = getattr(queue, method)()
        return await entered if method == "__aenter__" else entered

    queue = make_queue()
    assert asyncio.run(enter()) is queue
    queue.shutdown(PATIENCE)
    with pytest.raises(
        ShutDown, match='^queue "test-0" was shut down and takes no more items; make a new one to enter$'
    ):
        asyncio.run(enter())


def test_what_was_abandoned_is_not_handled_afterwards(make_queue):
    """The thread comes back from a handler that hung, with the rest of its pass in hand."""
    first, either = Gate(is_open=False), Gate(is_open=False)
    queue = make_queue()
    queue.add_handler(str, first)
    queue.add_handler(int, either)
    queue.add_handler(float, either)
    assert queue.produce("hold")
    first.wait_entered()
    assert queue.produce_many([1, 2.0]) == 2  # these are one pass, with a batch for each type
    first.open()
    either.wait_entered()
    assert queue.shutdown(0) is False
    threads = [thread for thread in threading.enumerate() if thread.name == "drainq-test-0-0"]
    either.open()
    for thread in threads:
        thread.join(PATIENCE)
    stats = queue.stats()
    assert (first.items, len(either.items)) == (["hold"], 1)
    assert (stats.accepted, stats.handled, stats.abandoned, stats.queued) == (3, 1, 2, 0)
