"""Shared schedulers: several queues on the threads of one pool."""

import gc
import threading
from queue import SimpleQueue

import pytest

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, DrainqWarning, PartitionPolicy, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts
from tests.batch.test_shutdown import ended

pytestmark = pytest.mark.usefixtures("clean_manager")


@pytest.fixture
def pool(request):
    """Return a scheduler's name that no other test has: threads of one may still be ending."""
    return f"io-{request.node.name}"


def on(pool, threads=2, **settings):
    return BatchQueueConfig(shared_scheduler=(pool, ThreadPolicy.fixed(threads)), **settings)


def pool_threads(pool):
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"drainq-pool-{pool}-")]


def test_queues_on_one_scheduler_share_its_threads(pool):
    before = set(threading.enumerate())
    gates = [Gate() for _ in range(5)]
    queues = [BatchQueueManager.create(f"q{n}", on(pool, consumer=gate)) for n, gate in enumerate(gates)]
    new = [
        thread for thread in set(threading.enumerate()) - before if thread.name.startswith(("drainq-q", "drainq-pool-"))
    ]
    assert len(new) == 2 == len(pool_threads(pool))
    for _ in range(20):
        for n, queue in enumerate(queues):
            assert queue.produce_many(range(n * 100, n * 100 + 100)) == 100
    for n, (queue, gate) in enumerate(zip(queues, gates)):
        assert queue.flush(PATIENCE)
        assert sorted(gate.items) == sorted(list(range(n * 100, n * 100 + 100)) * 20)
        accounts(queue.stats())


def test_each_name_has_threads_of_its_own(pool):
    for name in (f"{pool} first", f"{pool} second"):
        BatchQueueManager.create(name, on(name, consumer=len))
        assert len(pool_threads(name)) == 2


def test_one_queue_that_hangs_does_not_starve_the_others(pool):
    stuck, quick = Gate(is_open=False), Gate()
    many = PartitionPolicy.fixed(2)
    hanging = BatchQueueManager.create("hanging", on(pool, partitions=many, consumer=stuck,
                                                     partition_selector=lambda item, count: item))  # fmt: skip
    other = BatchQueueManager.create("other", on(pool, partitions=many, consumer=quick,
                                                 partition_selector=lambda item, count: item % 2))  # fmt: skip
    hanging.produce(0)
    hanging.produce(1)
    stuck.wait_entered()
    for n in range(50):
        other.produce(n)
        assert other.flush(PATIENCE), "the other queue waits for the one that hangs"
    assert quick.items == list(range(50))
    stuck.open()
    assert hanging.flush(PATIENCE)
    assert sorted(stuck.items) == [0, 1]


def test_the_first_policy_wins_and_another_is_warned_of(pool):
    BatchQueueManager.create("a", on(pool, threads=2, partitions=PartitionPolicy.fixed(4)))
    with pytest.warns(DrainqWarning, match=r"exists with ThreadPolicy.fixed\(2\).*asked for: ThreadPolicy.fixed\(3\)"):
        BatchQueueManager.create("b", on(pool, threads=3, partitions=PartitionPolicy.fixed(4)))
    assert len(pool_threads(pool)) == 2
    assert BatchQueueManager.get("b").thread_count == 2


def test_the_scheduler_outlives_its_queues_until_shutdown_all(pool):
    BatchQueueManager.create("a", on(pool, consumer=len))
    BatchQueueManager.shutdown("a", PATIENCE)
    threads = pool_threads(pool)
    assert len(threads) == 2
    gate = Gate()
    queue = BatchQueueManager.create("a", on(pool, consumer=gate))
    queue.produce(1)
    assert queue.flush(PATIENCE)
    assert BatchQueueManager.shutdown_all(PATIENCE) is True
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert gate.items == [1]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_name_is_free_for_any_policy_after_shutdown_all(pool, recwarn, threads):
    gc.collect()  # of other tests, which may warn when they are collected
    recwarn.clear()
    BatchQueueManager.create("a", on(pool, partitions=PartitionPolicy.fixed(4), consumer=len))
    assert BatchQueueManager.shutdown_all(PATIENCE) is True
    ended(pool_threads(pool))
    gate = Gate()
    queue = BatchQueueManager.create("a", on(pool, threads, partitions=PartitionPolicy.fixed(4), consumer=gate))
    assert len(pool_threads(pool)) == queue.thread_count == threads
    assert queue.produce(1) and queue.flush(PATIENCE)
    assert gate.items == [1] and [str(warning.message) for warning in recwarn] == []


def test_shutdown_of_one_queue_drains_it_and_leaves_the_others(pool):
    gates = Gate(), Gate()
    first, second = (BatchQueueManager.create(f"q{n}", on(pool, consumer=gate)) for n, gate in enumerate(gates))
    first.produce_many(range(1_000))
    second.produce_many(range(1_000))
    assert first.shutdown(PATIENCE) is True
    assert sorted(gates[0].items) == list(range(1_000))
    assert second.running and second.produce("more")
    assert second.flush(PATIENCE)
    assert len(gates[1].items) == 1_001


def test_a_handler_that_hangs_at_shutdown_is_left_behind_and_the_pool_goes_on(pool):
    stuck = Gate(is_open=False)
    hanging = BatchQueue("hanging", on(pool, consumer=stuck, max_batch=1))
    hanging.produce_many([1, 2, 3])
    stuck.wait_entered()
    assert hanging.shutdown(0.01) is False
    assert hanging.stats().abandoned == 3
    gate = Gate()
    with BatchQueue("next", on(pool, consumer=gate)) as queue:
        queue.produce(1)
    assert gate.items == [1]
    stuck.open()
    accounts(hanging.stats())


def test_an_item_makes_the_idle_calls_on_a_scheduler_frequent_again(pool):
    """Another queue beats the time on the same thread: its calls come every 10 ms, those after an item after 1 ms."""
    heard = SimpleQueue()

    class Worker:
        def __init__(self, name):
            self.name = name

        def consume(self, batch):
            heard.put("item")

        def on_idle(self):
            heard.put(self.name)

    beat = on(pool, threads=1, consumer=Worker("beat"), min_idle=0.01, max_idle=0.01)
    slower_and_slower = on(pool, threads=1, consumer=Worker("idle"), min_idle=0.001, max_idle=3600)
    with BatchQueue("beat", beat), BatchQueue("idle", slower_and_slower) as queue:
        for n in range(20):
            queue.produce(n)
            while heard.get(timeout=PATIENCE) != "item":
                """What was heard before."""
            beats = 0
            while heard.get(timeout=PATIENCE) != "idle":
                beats += 1
                assert beats < 10, f"no idle call after item {n}"


def test_items_without_weight_are_not_handled_before_their_call_is_over(pool):
    gate = Gate(is_open=False)
    queue = BatchQueue("weightless", on(pool, consumer=gate, len_of=lambda item: 0))
    queue.produce("item")
    gate.wait_entered()
    assert queue.flush(0) is False
    assert queue.shutdown(0) is False
    gate.open()


def test_threads_that_could_not_be_started_are_left_to_the_next_queue(pool, monkeypatch):
    start, left = threading.Thread.start, [1]

    def start_one_only(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one_only)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        BatchQueue("refused", on(pool, consumer=len))
    assert len(pool_threads(pool)) == 1
    monkeypatch.undo()
    gates = [Gate(is_open=False), Gate(is_open=False)]
    queues = [BatchQueue(f"next-{n}", on(pool, consumer=gate)) for n, gate in enumerate(gates)]
    assert len(pool_threads(pool)) == 2
    for queue, gate in zip(queues, gates):
        assert queue.produce(1)
        gate.wait_entered()  # so two threads serve
    for queue, gate in zip(queues, gates):
        gate.open()
        assert queue.shutdown(PATIENCE) is True
        assert gate.items == [1]
