"""One name has one number, even with a strange hash, comparison or class."""

import functools
import operator
import subprocess
import sys
import threading

import pytest

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, PartitionSelector, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate, accounts

LIMIT = 40
"""Seconds after which a process that must end hangs."""

ENDS = """
import signal
if hasattr(signal, "setitimer"):
    signal.setitimer(signal.ITIMER_PROF, 3)  # the kernel ends what turns for ever, after seconds of a processor
"""


def runs(code):
    """Return what a new interpreter prints that runs `code`; a hang fails here."""
    answer = subprocess.run([sys.executable, "-c", ENDS + code], capture_output=True, text=True, timeout=LIMIT)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def held(make_queue, **settings):
    """Return a queue whose drain thread is in a handler call, so that items stay queued; and what ends the call."""
    queue = make_queue(**settings)
    queue.add_handler("hold", gate := Gate(is_open=False))
    assert queue.produce("hold")
    gate.wait_entered()
    return queue, gate


class Name:
    """A name whose hash does something first."""

    def __init__(self, value, before=lambda: None):
        self.value, self.before = value, before

    def __hash__(self):
        self.before()
        return hash(self.value)

    def __eq__(self, other):
        return isinstance(other, Name) and self.value == other.value


def test_threads_that_meet_a_new_key_at_the_same_time_give_it_one_number(make_queue):
    """Both have looked and found nothing when the first of them adds it."""
    names = {}
    queue, hold = held(make_queue, dispatch_key=lambda item: names.get(item, item), partitions=PartitionPolicy.fixed(8))
    for number in range(20):
        both = threading.Barrier(2)
        looks = threading.local()

        def meet(both=both, looks=looks):
            looks.count = getattr(looks, "count", 0) + 1
            if looks.count == 2:  # the first was to look, this one is to add
                both.wait(PATIENCE)

        for which in "ab":
            names[number, which] = Name(number, meet)
        threads = [threading.Thread(target=queue.produce, args=((number, which),)) for which in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    gates = {number: Gate() for number in range(20)}
    for number, gate in gates.items():
        queue.add_handler(Name(number), gate)
    hold.open()
    assert queue.flush(PATIENCE)
    for number, gate in gates.items():
        assert [sorted(batch) for batch in gate.batches] == [[(number, "a"), (number, "b")]]
    assert queue.stats().unrouted == 0


def test_a_key_is_found_again_by_an_equal_one_of_another_type(make_queue):
    queue = make_queue(dispatch_key=lambda item: item[0])
    queue.add_handler(1, gate := Gate())
    items = [(1, "int"), (1.0, "float"), (True, "bool")]
    assert queue.produce_many(items) == 3
    assert queue.flush(PATIENCE)
    assert gate.items == items
    assert {name: counts.handled for name, counts in queue.stats().per_type.items()} == {1: 3}


HASHES = """
import threading
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
class Name:
    def __init__(self, value): self.value = value
    def __hash__(self):
        {hash}
        return hash(self.value)
    def __eq__(self, other):
        {hash}
        return self.value == other.value
with BatchQueue("names", BatchQueueConfig(threads=ThreadPolicy.fixed(1), dispatch_key=lambda item: Name(item % 40))) as queue:
    def produce():
        for number in range(200):
            queue.produce(number)
    threads = [threading.Thread(target=produce) for _ in range({threads})]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
now = queue.stats()
print(now.accepted, now.unrouted, len(now.per_type), sum(counts.accepted for counts in now.per_type.values()))
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("threads", "hash"),
    [
        pytest.param(1, "queue.stats().per_type if threading.current_thread().name != 'MainThread' else 0", id="asks"),
        pytest.param(3, "__import__('time').sleep(0)", id="gives-the-gil-up"),
        pytest.param(2, "queue.running and queue.add_handler(int(self.value) + 1000, print)", id="adds-another-key"),
    ],
)
def test_a_hash_may_call_the_queue_and_give_up_the_gil(threads, hash):
    if "stats" in hash:
        # Not from within the hash that stats itself asks for.
        hash = f"if not getattr(Name, 'asked', False):\n            Name.asked = True; {hash}; Name.asked = False"
    total = str(200 * threads)
    accepted, unrouted, names, per_type = runs(HASHES.format(hash=hash, threads=threads))
    assert (accepted, unrouted, per_type) == (total, total, total)
    assert int(names) >= 40


def test_an_item_goes_by_the_class_that_it_had_when_it_was_produced():
    """The handler changes the class of what it gets, while the producer waits for room with more of it."""

    class Raw:
        pass

    class Cooked:
        pass

    raw, cooked = [], []

    def cook(batch):
        raw.extend(batch)
        for item in batch:
            item.__class__ = Cooked

    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=4)
    items = [Raw() for _ in range(50)]
    with BatchQueue("kitchen", config) as queue:
        queue.add_handler(Raw, cook)
        queue.add_handler(Cooked, cooked.extend)
        assert queue.produce_many(items[:40]) == 40
        assert all(map(queue.produce, items[40:]))
        assert queue.flush(PATIENCE)
        assert raw == items
        assert queue.produce_many(items) == 50
        assert all(map(queue.produce, items))
        assert queue.flush(PATIENCE)
    assert (raw, cooked) == (items, items + items)
    per_type = queue.stats().per_type
    assert {kind: counts.handled for kind, counts in per_type.items()} == {Raw: 50, Cooked: 100}
    accounts(queue.stats())


@pytest.mark.parametrize(
    "selector",
    [PartitionSelector.round_robin(), PartitionSelector.by(lambda item: item > 0), lambda item, count: bool(item)],
    ids=["round_robin", "by", "callable"],
)
def test_removing_a_handler_waits_for_all_partitions_that_hold_its_type(make_queue, selector):
    """Most of the items are in the partition to which their type is not routed, where the selector can say so."""
    queue = make_queue(partitions=PartitionPolicy.fixed(2), partition_selector=selector, max_batch=1)
    queue.add_handler(int, gate := Gate())
    assert queue.produce_many(range(80)) == 80
    assert queue.remove_handler(int)
    assert sorted(gate.items) == list(range(80))
    assert (queue.stats().handled, queue.stats().unrouted) == (80, 0)


def test_a_handler_registered_again_is_still_called_by_one_thread_at_a_time(make_queue):
    """Each call re-registers its own handler, then waits for a second call that must not come."""
    queue = make_queue(
        threads=ThreadPolicy.fixed(2), partitions=PartitionPolicy.fixed(2),
        partition_selector=lambda item, count: item % count, max_batch=1,
    )  # fmt: skip
    met, calls = [], []

    def handle(batch):
        queue.add_handler(int, handle)
        calls.extend(batch)
        second = threading.Barrier(2)
        meetings.append(second)
        try:
            meetings[0].wait(0.02)
            met.append(batch)
        except threading.BrokenBarrierError:
            pass
        meetings.remove(second)

    meetings: list[threading.Barrier] = []
    queue.add_handler(int, handle)
    assert queue.produce_many(range(16)) == 16
    assert queue.flush(PATIENCE)
    assert sorted(calls) == list(range(16))
    assert met == []


def test_so_many_types_and_no_more(make_queue):
    queue = make_queue(dispatch_key=functools.partial(operator.mul, 1), buffer_size=70_000)
    queue.add_handler(0, Gate())
    assert queue.produce_many(range(65_536)) == 65_536
    for _ in range(2):
        with pytest.raises(ValueError, match="at most 65536 types.* and 65536 would be one more"):
            queue.produce(65_536)
    assert queue.produce(65_535)
    assert queue.flush(10 * PATIENCE)  # each type has a warning, which takes a busy machine longer than other waits
    now = queue.stats()
    assert (now.offered, now.handled, now.unrouted, len(now.per_type)) == (65_537, 1, 65_536, 65_536)


@pytest.mark.parametrize("typed", ["by class", "by key"])
def test_each_of_many_types_keeps_its_handler_while_more_are_added(make_queue, typed):
    """The tables of types and of routes grow several times: at 33 types, 65, 129, 257."""
    kinds = [type(f"Kind{number}", (), {}) for number in range(300)]
    queue = make_queue(dispatch_key=None if typed == "by class" else lambda item: type(item).__name__)
    gates, items = [], []
    for number, kind in enumerate(kinds):
        queue.add_handler(kind if typed == "by class" else kind.__name__, gate := Gate())
        gates.append(gate)
        items.append([kind()])
        assert queue.produce(items[number][0])
        # The first type, and one that came some time ago, are known still.
        for old in {0, number // 2} - {number}:
            items[old].append(kinds[old]())
            assert queue.produce(items[old][-1])
    assert queue.flush(PATIENCE)
    assert [gate.items for gate in gates] == items
    stats = queue.stats()
    assert (len(stats.per_type), stats.unrouted) == (300, 0)
    assert [counts.handled for counts in stats.per_type.values()] == [len(some) for some in items]
