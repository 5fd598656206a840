"""The handlers of a queue by type: which handler gets the items, the idle calls and the end, and the rest of a former
handler.
"""

import os
import pickle
import threading

import pytest

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
from tests.batch.conftest import PATIENCE, Gate
from tests.batch.test_shutdown import drain_threads


def test_the_lack_of_a_handler_is_logged_once_and_again_after_a_handler_was_removed(make_queue, caplog):
    queue = make_queue()
    for times in (1, 2):
        for number in range(3):
            queue.produce(number)
            assert queue.flush(PATIENCE)
        lacks = [record for record in caplog.records if "has no handler for" in record.message]
        assert len(lacks) == times
        queue.add_handler(int, len)
        assert queue.remove_handler(int)


def test_the_weight_of_a_removed_handler_does_not_count(make_queue):
    def partitions(removed):
        queue = make_queue(partitions=PartitionPolicy.adaptive(3))
        for number in range(removed):
            kind = type(f"Removed{number}", (), {})
            queue.add_handler(kind, len)
            assert queue.remove_handler(kind)
        for number in range(20):
            queue.add_handler(type(f"Kept{number}", (), {}), len)
        return queue.partition_count

    assert partitions(removed=20) == partitions(removed=0) > 3


class Worker:
    """A handler whose idle calls can be counted and awaited."""

    def __init__(self):
        self.items, self.idle = [], threading.Semaphore(0)

    def consume(self, batch):
        self.items += batch

    def on_idle(self):
        self.idle.release()

    def wait_idle(self, times=1):
        for _ in range(times):
            assert self.idle.acquire(timeout=PATIENCE)


def test_a_type_without_items_hears_of_an_idle_pass_while_another_type_keeps_the_thread_busy(make_queue):
    """The other handler produces the next item of its own, so there is always one: no pass is idle as a whole."""
    queue, worker, enough = make_queue(), Worker(), threading.Event()

    class Busy:
        """It has an item in each pass, so it hears of none."""

        batches, idle = 0, 0

        def consume(self, batch):
            self.batches += 1
            if not enough.is_set():
                assert queue.produce("next")

        def on_idle(self):
            self.idle += self.batches > 0 and not enough.is_set()

    busy = Busy()
    queue.add_handler(str, busy)
    queue.produce("first")
    queue.add_handler(int, worker)
    worker.wait_idle(50)
    enough.set()
    assert queue.flush(PATIENCE)
    assert (worker.items, busy.idle) == ([], 0)


def test_only_the_handler_of_now_hears_of_idle_passes(make_queue):
    queue, first, second = make_queue(max_idle=0.001), Worker(), Worker()
    queue.add_handler(int, first)
    first.wait_idle()
    queue.add_handler(int, second)
    second.wait_idle(3)
    while first.idle.acquire(blocking=False):
        pass
    second.wait_idle(20)
    assert not first.idle.acquire(blocking=False)
    assert queue.remove_handler(int)
    while second.idle.acquire(blocking=False):
        pass
    again = Worker()
    queue.add_handler(str, again)
    again.wait_idle(20)
    assert not second.idle.acquire(blocking=False)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs the counters of Linux")
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_thread_whose_idle_passes_nobody_hears_of_any_more_sleeps(how):
    worker, moment = Worker(), threading.Event()
    with BatchQueue(f"not heard, {how}", BatchQueueConfig(threads=ThreadPolicy.fixed(1), max_idle=0.001)) as queue:
        queue.add_handler(int, worker)
        worker.wait_idle(3)
        assert queue.remove_handler(int) if how == "removed" else queue.add_handler(int, len) is None
        (thread,) = drain_threads(queue.name)

        def sleeps():
            with open(f"/proc/self/task/{thread.native_id}/status") as status:
                return status.read().split("\nvoluntary_ctxt_switches:")[1].split()[0]

        for _ in range(10):
            before = sleeps()
            moment.wait(0.05)  # fifty idle passes
            if sleeps() == before:
                return
        raise AssertionError("it goes on to wake up")


def ten_behind_a_call(make_queue):
    """Return a queue whose thread is in a call while ten items wait, that call's handler, and that of the items."""
    queue, hold, gate = make_queue(), Gate(is_open=False), Gate()
    queue.add_handler(str, hold)
    queue.add_handler(int, gate)
    queue.produce("hold")
    hold.wait_entered()
    assert queue.produce_many(range(10)) == 10
    return queue, hold, gate


def test_a_removed_handler_has_handled_what_was_accepted_before(make_queue):
    queue, hold, gate = ten_behind_a_call(make_queue)
    answers = []
    remover = threading.Thread(daemon=True, target=lambda: answers.append(queue.remove_handler(int)))
    remover.start()
    assert answers == []
    hold.open()
    remover.join(PATIENCE)
    assert (answers, gate.items) == ([True], list(range(10)))
    assert queue.produce(10) and queue.flush(PATIENCE)
    stats = queue.stats()
    assert (gate.items, stats.unrouted, stats.per_type[int].handled) == (list(range(10)), 1, 10)
    assert queue.remove_handler(int) is False and queue.remove_handler(float) is False


def test_a_handler_whose_items_wait_too_long_goes_and_what_is_queued_is_unrouted(make_queue):
    queue, hold, gate = ten_behind_a_call(make_queue)
    with pytest.raises(ValueError, match="timeout must be None .wait for ever. or a number of seconds >= 0, got -1"):
        queue.remove_handler(int, -1)
    assert queue.remove_handler(int, timeout=0) is True
    assert queue.remove_handler(int, timeout=0) is False
    hold.open()
    assert queue.flush(PATIENCE)
    of_type = queue.stats().per_type[int]
    assert (gate.items, of_type.handled, of_type.unrouted) == ([], 0, 10)


def test_a_handler_that_comes_in_anothers_place_gets_what_waits(make_queue):
    queue, hold, first, second = make_queue(), Gate(is_open=False), Gate(), Gate()
    queue.add_handler(str, hold)
    queue.add_handler(int, first)
    queue.produce("hold")
    hold.wait_entered()
    queue.produce_many([1, 2])
    queue.add_handler(int, second)
    hold.open()
    assert queue.flush(PATIENCE)
    assert (first.items, second.items) == ([], [1, 2])


def test_handler_as_a_decorator_adds_the_function_and_returns_it(make_queue):
    queue, items = make_queue(), []

    @queue.handler(int, weight=2.0)
    def add(batch):
        items.extend(batch)

    assert callable(add) and add([0]) is None
    assert queue.produce_many([1, 2]) == 2 and queue.flush(PATIENCE)
    assert items == [0, 1, 2]
    with pytest.raises(ValueError, match="weight must be a number > 0 and .* got 0.0"):
        queue.handler(str, 0)(len)
    with pytest.raises(
        ValueError, match="weight must be a number > 0 and at most 1048576, .* partitions .* got 1e300$"
    ):
        queue.add_handler(str, len, weight=1e300)
    assert queue.remove_handler(str) is False


def test_each_handler_of_now_is_told_once_of_the_end_and_a_former_one_never(make_queue):
    class Closing:
        def __init__(self):
            self.items, self.closed = [], 0

        def consume(self, batch):
            assert not self.closed
            self.items += batch

        def on_close(self):
            self.closed += 1

    queue, replaced, removed, kept, other = make_queue(), Closing(), Closing(), Closing(), Closing()
    queue.add_handler(int, replaced)
    queue.add_handler(str, removed)
    queue.add_handler(int, kept)
    queue.add_handler(float, other)
    assert queue.remove_handler(str)
    queue.produce_many([1, 2.0, 3])
    assert queue.shutdown(PATIENCE) is True and queue.shutdown(PATIENCE) is True
    assert [it.closed for it in (replaced, removed, kept, other)] == [0, 0, 1, 1]
    assert (kept.items, other.items) == ([1, 3], [2.0])


@pytest.mark.parametrize("equal", [10**6, 1e6, "".join(["a ", "name"]), ("a", 10**6)], ids=str)
def test_a_handler_is_removed_by_a_name_that_equals_that_of_its_type(make_queue, equal):
    queue = make_queue(dispatch_key=lambda item: item)
    queue.add_handler(pickle.loads(pickle.dumps(equal)), gate := Gate())
    assert queue.produce(equal) and queue.remove_handler(equal)
    assert gate.items == [equal]
    assert not queue.remove_handler(equal)


def test_what_is_no_type_of_the_queue_has_no_handler_that_could_be_removed(make_queue):
    with pytest.raises(TypeError, match="type must be a class, .*got 'mail'"):
        make_queue().remove_handler("mail")
    with pytest.raises(TypeError, match=r"type must be hashable, .*got \[\]"):
        make_queue(dispatch_key=len).remove_handler([])
