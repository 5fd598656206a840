"""The batch queue from outside: dispatch, order, room, errors."""

import threading

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    DrainqWarning,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from tests.batch.conftest import PATIENCE, Gate


class Request:
    def __init__(self, n):
        self.n = n


class Special(Request):
    pass


def test_a_batch_goes_to_the_handler_of_its_exact_type(make_queue):
    queue, requests, specials, words = make_queue(), Gate(), Gate(), Gate()
    queue.add_handler(Request, requests)
    queue.add_handler(Special, specials)
    queue.add_handler(str, words)
    items = [Request(1), Special(2), "three", Request(4)]
    assert queue.produce_many(items) == 4
    assert queue.flush(PATIENCE)
    assert requests.items == [items[0], items[3]]
    assert specials.items == [items[1]]
    assert words.items == ["three"]
    per_type = queue.stats().per_type
    assert (per_type[Request].accepted, per_type[Request].handled) == (2, 2)
    assert per_type[Special].handled == per_type[str].handled == 1


def test_a_single_consumer_gets_everything_together(make_queue):
    consumer = Gate()
    queue = make_queue(consumer=consumer, partitions=PartitionPolicy.fixed(4))
    assert queue.produce_many([1, "two", 3.0, None]) == 4
    assert queue.flush(PATIENCE)
    assert sorted(map(str, consumer.items)) == ["1", "3.0", "None", "two"]
    assert {kind: counts.handled for kind, counts in queue.stats().per_type.items()} == {
        int: 1, str: 1, float: 1, type(None): 1,
    }  # fmt: skip


def test_a_handler_for_a_consumer_queue_is_warned_of(make_queue):
    queue = make_queue(consumer=Gate())
    with pytest.warns(DrainqWarning, match="has a consumer"):
        queue.add_handler(str, Gate())


def test_a_dispatch_key_types_plain_tuples(make_queue):
    queue, gets, posts = make_queue(dispatch_key=lambda item: item[0]), Gate(), Gate()
    queue.add_handler("GET", gets)
    queue.add_handler(("POST", 1), posts)
    queue.produce_many([("GET", 1), (("POST", 1), 2), ("GET", 3)])
    assert queue.flush(PATIENCE)
    assert gets.items == [("GET", 1), ("GET", 3)]
    assert posts.items == [(("POST", 1), 2)]
    assert queue.stats().per_type["GET"].handled == 2


def test_a_dispatch_key_that_fails_raises_at_produce_and_offers_nothing(make_queue):
    queue = make_queue(dispatch_key=lambda item: item["kind"])
    with pytest.raises(KeyError):
        queue.produce({})
    with pytest.raises(TypeError, match="unhashable"):
        queue.produce({"kind": []})
    assert queue.stats().offered == 0


def test_a_selector_names_the_partition(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(
        consumer=gate, partitions=PartitionPolicy.fixed(3), partition_selector=lambda item, count: item % count
    )
    queue.produce(0)
    gate.wait_entered()
    queue.produce_many([1, 2, 4, 7])
    stats = queue.stats()
    assert [stats.partition_used(i) for i in range(3)] == [0, 3, 1]
    gate.open()


@pytest.mark.parametrize("answer", [3, -1, 2**64, "first", None])
def test_a_selector_that_names_no_partition_raises_and_offers_nothing(make_queue, answer):
    queue = make_queue(
        consumer=Gate(), partitions=PartitionPolicy.fixed(3), partition_selector=lambda item, count: answer
    )
    with pytest.raises(ValueError, match="from 0 to 2"):
        queue.produce("x")
    with pytest.raises(ValueError, match="from 0 to 2"):
        queue.produce_many(["x"])
    assert queue.stats().offered == 0


def test_items_of_a_producer_and_type_arrive_in_order(make_queue):
    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.adaptive(), max_batch=64)
    kinds = [type(f"Kind{n}", (tuple,), {}) for n in range(8)]
    seen = {kind: Gate() for kind in kinds}
    for kind in kinds:
        queue.add_handler(kind, seen[kind])

    def produce(producer):
        for n in range(2_000):
            assert queue.produce(kinds[n % 8]((producer, n)))

    producers = [threading.Thread(target=produce, args=(p,)) for p in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    assert queue.flush(PATIENCE)
    for gate in seen.values():
        assert len(gate.items) == 4 * 250
        assert max(map(len, gate.batches)) <= 64
        for producer in range(4):
            mine = [n for p, n in gate.items if p == producer]
            assert mine == sorted(mine)


@pytest.mark.parametrize("threads", [3, ThreadPolicy.fixed(3)])
def test_without_other_settings_all_threads_of_a_consumer_work_at_the_same_time(make_queue, recwarn, threads):
    """And none warns: each call waits for two others."""
    together = threading.Barrier(3, timeout=PATIENCE)
    queue = make_queue(consumer=lambda batch: together.wait(), threads=threads)
    assert queue.produce_many([1, 2, 3]) == 3 and queue.flush(2 * PATIENCE)
    assert (queue.thread_count, queue.partition_count, queue.stats().handled, list(recwarn)) == (3, 3, 3, [])


@pytest.mark.parametrize(
    "kept", [{"partitions": 2}, {"partition_selector": PartitionSelector.type_hash()}, {"dispatch_key": type}]
)
def test_what_keeps_the_items_of_a_type_in_order_keeps_them_so_with_several_threads_too(make_queue, kept):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate, threads=2, **kept)
    assert (queue.thread_count, queue.partition_count) == (2, 2) and queue.produce(0)
    gate.wait_entered()
    assert queue.produce_many(range(1, 10)) == 9
    assert sorted(usage.used for usage in queue.stats().top_n(2)) == [0, 9]
    gate.open()
    assert queue.flush(PATIENCE) and gate.items == list(range(10))


@pytest.mark.parametrize("key", [None, type, lambda item: item % 7])
def test_partitions_take_turns_item_by_item_on_every_path(make_queue, key):
    """On the fast path of a known type, on the way that reopens it, with and without room, and from a list."""
    gate = Gate(is_open=False)
    turns = PartitionSelector.round_robin()
    queue = make_queue(consumer=gate, partitions=PartitionPolicy.fixed(4), partition_selector=turns, dispatch_key=key,
                       buffer_size=100, strategy="if_possible")  # fmt: skip
    assert queue.produce(0)
    gate.wait_entered()
    assert all(queue.produce(n) for n in range(1, 203))
    assert queue.produce_many(list(range(203, 302))) == queue.produce_many(range(302, 401)) == 99
    assert [usage.used for usage in queue.stats().top_n(4)] == [100] * 4
    assert not queue.produce(-1) and queue.produce_many([-1, -1, -1]) == 0
    gate.open()
    assert queue.flush(PATIENCE) and sorted(gate.items) == list(range(401))
    assert turns("the next", 4) == 405 % 4


def test_handlers_of_two_types_are_called_at_the_same_time(make_queue):
    turns, both = PartitionSelector.round_robin(), threading.Barrier(2, timeout=PATIENCE)
    queue = make_queue(threads=2, partition_selector=turns)
    for kind in (int, str):
        queue.add_handler(kind, lambda batch: both.wait())
    assert queue.produce(1) and queue.produce("a")
    assert queue.flush(2 * PATIENCE) and queue.stats().handled == 2


def test_max_batch_is_a_hard_bound(make_queue):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate, partitions=PartitionPolicy.fixed(4), max_batch=10,
                       partition_selector=PartitionSelector.round_robin())  # fmt: skip
    queue.produce_many(range(400))
    gate.open()
    assert queue.flush(PATIENCE)
    assert sorted(gate.items) == list(range(400))
    assert max(map(len, gate.batches)) <= 10


def test_a_type_without_a_handler_is_counted_every_time_and_logged_once(make_queue, caplog):
    drops = []
    queue = make_queue(on_drop=lambda reason, count: drops.append((reason, count)))
    for _ in range(3):
        queue.produce(1.5)
        assert queue.flush(PATIENCE)
    stats = queue.stats()
    assert (stats.unrouted, stats.per_type[float].unrouted) == (3, 3)
    assert sum("no handler for <class 'float'>" in record.getMessage() for record in caplog.records) == 1
    queue.shutdown(PATIENCE)
    assert sum(count for reason, count in drops if reason == "unrouted") == 3


def test_a_late_handler_gets_what_comes_after(make_queue):
    queue, gate = make_queue(), Gate()
    queue.produce("early")
    assert queue.flush(PATIENCE)
    queue.add_handler(str, gate)
    queue.produce("late")
    assert queue.flush(PATIENCE)
    assert gate.items == ["late"]


def test_an_object_with_consume_is_a_handler_and_hears_of_idle_passes(make_queue):
    class Worker:
        def __init__(self):
            self.items, self.idle = [], threading.Event()

        def consume(self, batch):
            self.items += batch

        def on_idle(self):
            self.idle.set()

    queue, worker, other = make_queue(max_idle=0.002), Worker(), Worker()
    queue.add_handler(int, worker)
    assert worker.idle.wait(PATIENCE), "without any item"
    queue.add_handler(str, other)
    worker.idle.clear()
    queue.produce(1)
    assert queue.flush(PATIENCE)
    assert worker.items == [1]
    assert worker.idle.wait(PATIENCE) and other.idle.wait(PATIENCE)


@pytest.mark.parametrize("place", [{"threads": 3}, {"shared_scheduler": ("idle-made", ThreadPolicy.fixed(3))}])
def test_on_idle_is_not_called_before_the_program_has_the_queue(make_queue, monkeypatch, place):
    """Each start of a thread, in the call that makes the queue, lasts until another queue's thread was idle 20 times."""
    heard, starting = [], []

    class Worker:
        def __init__(self):
            self.calls = threading.Semaphore(0)

        def consume(self, batch):
            pass

        def on_idle(self):
            heard.append((self, bool(starting)))
            self.calls.release()

    beat, worker, start = Worker(), Worker(), threading.Thread.start
    make_queue(consumer=beat, min_idle=0.001, max_idle=0.001)

    def start_slowly(thread):
        starting.append(thread)
        start(thread)
        for _ in range(20):
            assert beat.calls.acquire(timeout=PATIENCE)
        starting.remove(thread)

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    config = BatchQueueConfig(**place, partitions=PartitionPolicy.fixed(3), consumer=worker, min_idle=0, max_idle=0.001)
    with BatchQueue("idle", config):
        assert worker.calls.acquire(timeout=PATIENCE)
    assert (beat, True) in heard
    assert (worker, True) not in heard


def test_on_idle_that_raises_is_logged_and_the_thread_goes_on(make_queue, caplog):
    class Worker:
        calls = threading.Semaphore(0)

        def consume(self, batch):
            pass

        def on_idle(self):
            self.calls.release()
            raise ValueError("idle trouble")

    queue = make_queue(max_idle=0.002)
    queue.add_handler(int, Worker())
    for _ in range(3):
        assert Worker.calls.acquire(timeout=PATIENCE)
    assert queue.produce(1) and queue.flush(PATIENCE)
    assert any("on_idle raised" in record.getMessage() for record in caplog.records)


def test_partitions_grow_with_the_weight_of_the_handlers(make_queue):
    queue = make_queue(threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.adaptive(multiplier=3))
    assert queue.partition_count == 2
    kinds = [type(f"Kind{n}", (), {}) for n in range(10)]
    counts = []
    for kind in kinds:
        queue.add_handler(kind, Gate())
        counts.append(queue.partition_count)
    assert counts == [2, 2, 3, 4, 5, 6, 6, 7, 7, 8]
    owned = queue.assignments()
    assert sorted(p for partitions in owned for p in partitions) == list(range(8))
    queue.add_handler(kinds[0], Gate(), weight=0.05)
    assert queue.partition_count == 8, "partitions never shrink"


def test_growth_keeps_the_route_of_a_live_type(make_queue):
    queue, gate = make_queue(partitions=PartitionPolicy.adaptive()), Gate(is_open=False)
    queue.add_handler(int, gate)
    queue.produce(0)
    gate.wait_entered()
    queue.produce_many(range(1, 100))
    for n in range(30):
        queue.add_handler(type(f"Kind{n}", (), {}), Gate())
    queue.produce_many(range(100, 200))
    assert sorted(usage.used for usage in queue.stats().top_n(2)) == [0, 199]
    gate.open()
    assert queue.flush(PATIENCE)
    assert gate.items == list(range(200))


def test_fewer_partitions_than_threads_cut_the_threads_with_a_warning():
    with pytest.warns(DrainqWarning, match="4 drain threads were asked for"):
        queue = BatchQueue(
            "cut", BatchQueueConfig(threads=ThreadPolicy.fixed(4), partitions=PartitionPolicy.fixed(2), consumer=len)
        )
    assert (queue.thread_count, queue.partition_count) == (2, 2)
    assert queue.shutdown(PATIENCE)


def test_an_iterable_that_fails_leaves_what_came_before_queued(make_queue):
    gate = Gate()
    queue = make_queue(consumer=gate)

    def items():
        yield 1
        yield 2
        raise OSError("torn")

    with pytest.raises(OSError, match="torn"):
        queue.produce_many(items())
    assert queue.flush(PATIENCE)
    assert gate.items == [1, 2]
    with pytest.raises(TypeError):
        queue.produce_many(5)


def test_a_batch_is_the_handlers_own_list(make_queue):
    errors = []
    queue = make_queue(on_error=lambda batch, error: errors.append(list(batch)))

    def handler(batch):
        batch.pop(0)
        raise ValueError

    queue.add_handler(int, handler)
    queue.produce(1)
    assert queue.flush(PATIENCE)
    assert errors == [[]]
    assert queue.stats().failed == 1


def test_items_are_let_go_after_their_batch(make_queue):
    import weakref

    queue = make_queue()
    queue.add_handler(Request, lambda batch: None)
    item = Request(1)
    watch = weakref.ref(item)
    queue.produce(item)
    del item
    assert queue.flush(PATIENCE)
    assert queue.shutdown(PATIENCE)
    assert watch() is None


def test_the_repr_of_a_queue_says_whether_it_runs(make_queue):
    queue = make_queue(consumer=Gate(), partitions=PartitionPolicy.fixed(3), threads=ThreadPolicy.fixed(2))
    assert repr(queue) == '<BatchQueue "test-0" running, 3 partitions, 2 threads>'
    assert queue.shutdown(PATIENCE)
    assert repr(queue) == '<BatchQueue "test-0" shut down, 3 partitions, 2 threads>'
