"""The fast path, which opens with the second item of a class, does what the slow path does."""

import contextlib
import random
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, PartitionPolicy, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts

TYPES = [type(f"Kind{number}", (), {"__slots__": ("n",)}) for number in range(300)]


def item(kind, number):
    made = TYPES[kind]()
    made.n = number
    return made


produced = st.lists(
    st.one_of(
        st.integers(0, 2),
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300)), max_size=4),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(calls=produced, buffer_size=st.one_of(st.integers(1, 12), st.integers(500, 1100)), as_list=st.booleans())
def test_produce_and_produce_many_fill_a_partition_as_a_list_would(calls, buffer_size, as_list):
    gate = Gate(is_open=False)
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(1), buffer_size=buffer_size, consumer=gate, strategy=BufferStrategy.IF_POSSIBLE
    )
    with BatchQueue("fast", config) as queue, contextlib.ExitStack() as at_end:
        at_end.callback(gate.open)
        first = item(0, -1)
        assert queue.produce(first)
        gate.wait_entered()  # From here on no thread takes an item.
        number, expected, offered = 0, [], 1
        for call in calls:
            runs = [(call, 1)] if isinstance(call, int) else call
            items = [item(kind, number + index) for kind, count in runs for index in range(count)]
            number += len(items)
            offered += len(items)
            room = buffer_size - len(expected)
            if isinstance(call, int):
                assert queue.produce(items[0]) == (room > 0)
            else:
                assert queue.produce_many(items if as_list else iter(items)) == min(room, len(items))
            expected += items[:room]
        now = queue.stats()
        accounts(now)
        assert (now.offered, now.queued, now.total_used) == (offered, 1 + len(expected), len(expected))
        by_type = {kind: counts.accepted for kind, counts in now.per_type.items()}
        for kind in set(map(type, expected)):
            assert by_type[kind] == sum(type(one) is kind for one in [first, *expected])
        gate.open()
    assert gate.items == [first, *expected]


@pytest.mark.parametrize("threads", [1, 3])
def test_hundreds_of_types_keep_their_order_and_their_counts(make_queue, threads):
    queue = make_queue(threads=ThreadPolicy.fixed(threads), partitions=PartitionPolicy.fixed(7), buffer_size=2_000)
    gates = [Gate() for _ in TYPES]
    for kind, gate in zip(TYPES, gates, strict=True):
        queue.add_handler(kind, gate)
    chance = random.Random(7)
    sent = [[] for _ in TYPES]
    for _ in range(400):
        kinds = chance.choices(range(len(TYPES)), k=20)
        items = [item(kind, len(sent[kind])) for kind in sorted(kinds) for _ in range(chance.randrange(1, 4))]
        for one in items:
            sent[TYPES.index(type(one))].append(one)
        if chance.random() < 0.5:
            assert queue.produce_many(items) == len(items)
        else:
            assert all(map(queue.produce, items))
    assert queue.flush(PATIENCE)
    assert [gate.items for gate in gates] == sent
    now = queue.stats()
    accounts(now)
    expected = {kind: len(items) for kind, items in zip(TYPES, sent, strict=True)}
    assert {kind: counts.accepted for kind, counts in now.per_type.items()} == expected
    assert {kind: counts.handled for kind, counts in now.per_type.items()} == expected


def test_a_shutdown_closes_the_fast_path_too(make_queue):
    queue = make_queue(consumer=(gate := Gate()))
    assert all(queue.produce(number) for number in range(600))
    assert queue.shutdown(PATIENCE)
    assert not queue.produce(1)
    assert queue.produce_many([1, 2, 3]) == 0
    now = queue.stats()
    assert (now.accepted, dict(now.rejected)["closed"]) == (600, 4)
    assert gate.items == list(range(600))


@pytest.mark.parametrize("settings", [{}, {"len_of": lambda item: 1}], ids=["its pointer", "with its weight"])
def test_each_accepted_item_holds_one_reference(make_queue, settings):
    gate = Gate(is_open=False)
    queue = make_queue(consumer=gate, buffer_size=1_000, strategy=BufferStrategy.IF_POSSIBLE, **settings)
    one = object()
    assert queue.produce(object())
    gate.wait_entered()
    before = sys.getrefcount(one)
    assert sum(queue.produce(one) for _ in range(700)) == 700
    assert queue.produce_many([one] * 500) == 300
    assert sys.getrefcount(one) == before + 1_000
    gate.open()
    assert queue.flush(PATIENCE)
    gate.batches.clear()
    queue.shutdown(PATIENCE)
    assert sys.getrefcount(one) == before


def test_only_the_thread_that_owns_a_watching_type_looks_up(make_queue):
    class Watching(Gate):
        def __init__(self):
            super().__init__()
            self.idle, self.called = [], threading.Semaphore(0)

        def consume(self, batch):
            self(batch)

        def on_idle(self):
            self.idle.append(threading.current_thread().name)
            self.called.release()

    queue = make_queue(threads=ThreadPolicy.fixed(3), partitions=PartitionPolicy.fixed(3), max_idle=0.002)
    queue.add_handler(int, Gate())
    queue.add_handler(str, watching := Watching())
    queue.add_handler(float, Gate())
    assert queue.produce_many([1, "two", 3.0]) == 3
    assert queue.flush(PATIENCE)
    assert all(watching.called.acquire(timeout=PATIENCE) for _ in range(5))
    assert len(set(watching.idle)) == 1
    (owner,) = set(watching.idle)
    assert queue.remove_handler(str)
    before = len(watching.idle)
    assert queue.flush(PATIENCE)
    assert len(watching.idle) <= before + 1, "nobody calls a handler that is gone"
    assert owner in {thread.name for thread in queue.stats().threads}


def test_a_dispatch_key_may_change_the_list_that_is_produced(make_queue):
    items = [("a", number) for number in range(600)]

    def key(item):
        if item[1] == 300:
            del items[400:]
        return item[0]

    queue = make_queue(dispatch_key=key)
    queue.add_handler("a", gate := Gate())
    assert queue.produce_many(items) == 400
    assert queue.flush(PATIENCE)
    assert gate.items == [("a", number) for number in range(400)]
    assert queue.stats().per_type["a"].accepted == 400


def test_a_long_list_of_a_class_that_the_queue_has_not_met_goes_in_whole_and_in_order(make_queue):
    gate, items = Gate(), list(range(5_000))
    queue = make_queue(consumer=gate)
    assert queue.produce_many(items) == len(items)
    assert queue.flush(PATIENCE)
    assert gate.items == items


def test_an_item_is_handed_over_by_position_alone(make_queue):
    queue = make_queue(consumer=len)
    for call in (lambda: queue.produce(item=1), lambda: queue.produce_many(items=[1])):
        with pytest.raises(TypeError, match="takes no keyword arguments"):
            call()
    assert queue.stats().offered == 0
