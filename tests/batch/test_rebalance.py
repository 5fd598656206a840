"""Rebalancing and growth while items flow: nothing lost, doubled, reordered or concurrent."""

import random
import threading

import pytest

from drainq import BufferStrategy, DrainBalancer, PartitionPolicy, PartitionSelector, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts
from tests.batch.test_lifecycle import run
from tests.batch.test_shutdown import drain_threads


class Mover:
    """A balancer that moves every partition at every look."""

    def __init__(self):
        self.looks = 0

    def assign(self, throughput, owners, threads):
        assert len(throughput) == len(owners)
        assert all(0 <= owner < threads for owner in owners)
        self.looks += 1
        return [(owner + 1) % threads for owner in owners]


def test_skewed_load_is_spread_after_one_look(make_queue):
    queue = make_queue(
        threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(8), consumer=len,
        partition_selector=lambda item, count: item, balancer=DrainBalancer.throughput_weighted(),
        rebalance_interval=3600,
    )  # fmt: skip
    load = [24, 4, 24, 4, 8, 1, 8, 1]
    for partition, count in enumerate(load):
        queue.produce_many([partition] * count * 10)
    assert queue.flush(PATIENCE)
    assert queue.rebalance() > 0
    assert queue.flush(PATIENCE)
    loads = [sum(load[p] for p in partitions) for partitions in queue.assignments()]
    assert max(loads) / min(loads) <= 1.05
    assert queue.stats().rebalances == 1
    assert queue.rebalance() == 0, "nothing has come in since"


def test_a_custom_balancer_may_be_a_callable_and_may_decline(make_queue):
    seen = []

    def balancer(throughput, owners, threads):
        seen.append((throughput, owners, threads))

    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), consumer=len,
                       partition_selector=PartitionSelector.round_robin(), balancer=balancer,
                       rebalance_interval=3600)  # fmt: skip
    queue.produce_many(range(10))
    assert queue.rebalance() == 0
    assert seen == [([5, 5], [0, 1], 2)]
    assert queue.stats().rebalances == 0


def test_a_balancer_may_shut_its_queue_down(make_queue):
    made, answers, done = threading.Event(), [], threading.Event()

    def balancer(*_load):
        made.wait(PATIENCE)
        try:
            answers.append(queue.shutdown(PATIENCE))
        finally:
            done.set()

    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), consumer=len,
                       balancer=balancer, rebalance_interval=0.001)  # fmt: skip
    made.set()
    assert done.wait(PATIENCE) and answers == [True]


@pytest.mark.parametrize("plan", [[0], [1, 0, 1], [0, 2], [0, -1], "ab"])
def test_a_plan_that_makes_no_sense_is_refused_and_changes_nothing(make_queue, plan):
    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), consumer=len,
                       balancer=lambda *_: plan, rebalance_interval=3600)  # fmt: skip
    with pytest.raises((ValueError, TypeError)):
        queue.rebalance()
    assert queue.assignments() == [[0], [1]]


def test_without_a_balancer_or_with_one_thread_nothing_moves(make_queue):
    assert make_queue(consumer=len).rebalance() == 0
    mover = Mover()
    queue = make_queue(consumer=len, balancer=mover, partitions=PartitionPolicy.fixed(3), rebalance_interval=0.001)
    queue.produce_many(range(10))
    assert queue.flush(PATIENCE)
    assert queue.assignments() == [[0, 1, 2]]
    assert [thread.name for thread in drain_threads(queue.name)] == [f"drainq-{queue.name}-0"], (
        "nor is there a balancer"
    )


def test_a_partition_in_a_handler_call_changes_hands_when_the_call_ends(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), balancer=Mover(),
                       rebalance_interval=3600)  # fmt: skip
    queue.add_handler(int, gate)
    queue.produce(1)
    gate.wait_entered()
    assert queue.rebalance() == 2, "the balancer does not wait for the call"
    assert 0 in queue.assignments()[0], "the old owner keeps it until then"
    queue.produce(2)
    gate.open()
    assert queue.flush(PATIENCE)
    assert queue.assignments() == [[1], [0]]
    assert gate.items == [1, 2]


class Judge:
    """Checks, for one type: no concurrent call, each producer's items in order, each once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.last = {}
        self.count = 0
        self.wrong = []

    def __call__(self, batch):
        if not self.lock.acquire(blocking=False):
            self.wrong.append("two calls at once")
            return
        try:
            for producer, n in batch:
                if self.last.get(producer, -1) >= n:
                    self.wrong.append((producer, self.last[producer], n))
                self.last[producer] = n
            self.count += len(batch)
            if self.count % 7 == 0:
                raise ValueError("a batch fails now and then")
        finally:
            self.lock.release()


@pytest.mark.parametrize("strategy", [BufferStrategy.BLOCKING, BufferStrategy.IF_POSSIBLE])
def test_growth_moves_and_failures_under_load_lose_nothing(make_queue, strategy):
    """Four producers, handlers registered meanwhile, every partition moved all the time."""
    queue = make_queue(
        threads=ThreadPolicy.fixed(3), partitions=PartitionPolicy.adaptive(multiplier=30), buffer_size=64,
        strategy=strategy, balancer=Mover(), rebalance_interval=0.001, on_error=lambda batch, error: None,
    )  # fmt: skip
    kinds = [type(f"Kind{n}", (tuple,), {}) for n in range(120)]
    judges = {kind: Judge() for kind in kinds}
    queue.add_handler(kinds[0], judges[kinds[0]])
    registered, accepted = [kinds[0]], [0] * 4

    def produce(producer):
        rng = random.Random(producer)
        for n in range(4_000):
            live = len(registered)
            kind = registered[min(int(rng.expovariate(6 / live)), live - 1)]
            accepted[producer] += queue.produce(kind((producer, n)))

    producers = [threading.Thread(target=produce, args=(p,)) for p in range(4)]
    for producer in producers:
        producer.start()
    for kind in kinds[1:]:
        queue.add_handler(kind, judges[kind])
        registered.append(kind)
    for producer in producers:
        producer.join()
    assert queue.shutdown(PATIENCE)
    stats = queue.stats()
    accounts(stats)
    assert [judge.wrong for judge in judges.values() if judge.wrong] == []
    assert stats.offered == 16_000
    assert stats.accepted == sum(accepted) == stats.handled + stats.failed
    assert sum(judge.count for judge in judges.values()) == stats.accepted
    assert stats.rebalances > 0
    if strategy == BufferStrategy.BLOCKING:
        assert stats.accepted == 16_000


def test_a_balancer_that_raises_is_asked_again(make_queue, caplog):
    asked, planned = [], threading.Event()

    def balance(throughput, owners, threads):
        asked.append(list(owners))
        if len(asked) <= 2:
            raise ZeroDivisionError(len(asked))
        if len(asked) == 3:
            return [threads] * len(owners)  # no thread has this number
        planned.set()
        return [0] * len(owners)

    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2), consumer=len,
                       balancer=balance, rebalance_interval=0.001)  # fmt: skip
    assert planned.wait(PATIENCE)
    assert queue.shutdown(PATIENCE)
    failures = [record for record in caplog.records if record.getMessage() == 'the balancer of queue "test-0" failed']
    assert [record.exc_info[0] for record in failures] == [ZeroDivisionError, ZeroDivisionError, ValueError]


def test_a_balancer_may_ask_for_a_plan_itself():
    out = run("""
import faulthandler
from drainq import BatchQueue, BatchQueueConfig
faulthandler.dump_traceback_later(50, exit=True)
asked = []
def balancer(throughput, owners, threads):
    asked.append(owners)
    if len(asked) == 1:
        assert queue.rebalance() == 1
    return [1, 1]
queue = BatchQueue("asks", BatchQueueConfig(threads=2, partitions=2, balancer=balancer, consumer=print))
print(queue.rebalance(), asked, queue.assignments(), queue.shutdown(20))
""")
    assert out == "0 [[0, 1], [0, 1]] [[], [0, 1]] True\n"
