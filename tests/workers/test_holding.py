"""Workers that hold items: batches are taken whole or not at all, deadlines kept, too old or unranked items refused."""

from __future__ import annotations

import contextlib
import heapq
import math
import random
import threading
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.delivery.accounting import Outcome
from drainq.delivery.worker import Worker
from drainq.errors import WouldDeadlock
from drainq.export import MetricPoint, OtlpMetricsExporter
from drainq.testing import ManualClock
from drainq.workers import BatchWriter, DeclaredMetrics, Metric, MetricsAggregator, MetricsPersister, TopN, Value
from tests.delivery.helpers import agree, counts
from tests.patience import Call, eventually

PATIENCE = 60.0


def totals(sink, **more):
    return MetricsAggregator(
        **{
            "key": lambda item: item[0],
            "merge": lambda a, b: (a[0], a[1] + b[1]),
            "sink": sink,
            "flush_interval": None,
            **more,
        }
    )


def test_a_batch_whose_merge_raises_in_the_middle_is_not_merged_in_part():
    sent = []
    worker = totals(sent.extend)
    worker([("a", 1), ("c", 1)])
    with pytest.raises(TypeError):
        worker([("a", 1), ("a", 2), ("b", "x"), ("b", 1), ("a", 4)])
    worker([("c", 1)])
    assert worker.flush() is False and sent == [("a", 1), ("c", 2)]
    assert counts(worker) == (3, 5, 0, 0, 0)


def test_that_holds_for_a_merge_that_changes_what_it_is_given_and_what_that_holds():
    def merge(a, b):
        a["sums"]["n"] += b["sums"]["n"]
        return a

    def item(key, n):
        return {"k": key, "sums": {"n": n}}

    sent = []
    worker = MetricsAggregator(key=lambda item: item["k"], merge=merge, sink=sent.extend, flush_interval=None)
    worker([item("a", 1)])
    with pytest.raises(TypeError):
        worker([item("a", 10), item("b", 1), item("a", None)])
    worker.close()
    assert sent == [item("a", 1)] and counts(worker) == (1, 3, 0, 0, 0)


def test_a_tuple_is_restored_with_the_list_that_the_merge_changed_and_one_that_has_no_copy_is_merged():
    def merge(a, b):
        a[1].append(b[1][0] + 0)
        return a

    class Single:
        def __deepcopy__(self, known):
            raise RuntimeError("there is one of it")

    sent, lock = [], Single()
    worker = MetricsAggregator(key=lambda item: item[0], merge=merge, sink=sent.extend, flush_interval=None)
    worker([("a", [1]), ("b", [lock])])
    with pytest.raises(TypeError):
        worker([("a", [2]), ("a", ["x"])])
    worker([("b", [3])])
    worker.close()
    assert sent == [("a", [1]), ("b", [lock, 3])]


def test_items_that_are_too_old_are_refused_and_counted():
    clock, sent = ManualClock(1_000.0), []
    worker = totals(sent.extend, time=lambda item: item[2], expire_after=100.0, clock=clock)
    worker([("a", 1, 950.0), ("a", 1, 899.0), ("a", 1, 900.0), ("b", 1, 800.0)])
    assert worker.close() is False
    assert sent == [("a", 2)] and counts(worker) == (2, 2, 0, 0, 0) and worker.stats().expired == 2
    for alone in ({"expire_after": 1.0}, {"time": len}):
        with pytest.raises(ValueError, match="belong together"):
            totals(print, **alone)


@pytest.mark.parametrize(("error", "at_last"), [(None, (2, 0, 0, 1, 0)), (OSError("down"), (0, 0, 0, 3, 0))])
def test_flush_and_close_return_while_the_sink_hangs_and_a_late_answer_counts(error, at_last):
    go, entered = threading.Event(), threading.Event()

    def sink(items):
        entered.set()
        assert go.wait(PATIENCE)
        if error is not None:
            raise error

    clock = ManualClock()
    worker = totals(sink, flush_interval=10.0, clock=clock)
    worker.produce_many([("a", 1), ("b", 1)])
    assert worker.flush(0.05) is False and entered.wait(PATIENCE)
    assert worker.flush(0) is False  # nothing is held, and the sink has not answered
    clock.advance(10.0)
    Call(lambda: worker([("c", 1)])).result()  # draining does not wait for the sink, also if a flush is due
    assert agree(worker).pending == 3
    assert worker.close(0.1) is False
    assert counts(worker) == (0, 0, 0, 3, 0)
    go.set()
    worker.flush(PATIENCE)  # waits for the sink
    assert counts(worker) == at_last


def test_what_comes_while_the_sink_fails_is_merged_behind_what_is_put_back():
    sent, come = [], [("a", "new")]

    def sink(items):
        if come:
            worker([come.pop()])
            raise OSError("down")
        sent.extend(items)

    worker = totals(sink)
    worker([("a", "old"), ("b", "old")])
    assert worker.flush() is False and agree(worker).pending == 3
    assert worker.flush() and sent == [("a", "oldnew"), ("b", "old")]
    assert counts(worker) == (3, 0, 0, 0, 0) and worker.stats().retried == 2


def test_a_sink_may_flush_its_own_worker_and_an_interrupt_passes_and_loses_nothing():
    sent, errors = [], [KeyboardInterrupt()]

    def sink(items):
        assert worker.flush()
        if errors:
            raise errors.pop()
        sent.extend(items)

    worker = totals(sink)
    worker([("a", 1)])
    with pytest.raises(KeyboardInterrupt):
        worker.flush()
    assert counts(worker) == (0, 0, 0, 0, 1)
    assert worker.close() and sent == [("a", 1)] and counts(worker) == (1, 0, 0, 0, 0)


def test_a_merge_that_calls_its_own_worker_is_refused_and_not_hung():
    worker = MetricsAggregator(key=str, merge=lambda a, b: worker.flush(), sink=print, flush_interval=None)
    with pytest.raises(WouldDeadlock):
        worker([1, 1])
    assert counts(worker) == (0, 2, 0, 0, 0)


@pytest.mark.parametrize("seed", range(100))
def test_top_n_is_that_of_heapq_and_nan_has_no_rank(seed):
    rng = random.Random(seed)
    items = [(rng.choice([rng.randrange(9), rng.random(), math.nan]), place) for place in range(rng.randrange(80))]
    n, sent = rng.randrange(1, 12), []
    top = TopN(n, score=lambda item: item[0], sink=sent.extend)
    for start in range(0, len(items), 7):
        top(items[start : start + 7])
    top.close()
    ranked = [item for item in items if item[0] == item[0]]
    assert sent == heapq.nlargest(n, ranked, key=lambda item: item[0])
    assert counts(top) == (len(ranked), len(items) - len(ranked), 0, 0, 0)


def test_scores_that_cannot_be_compared_refuse_their_batch_whole():
    sent = []
    top = TopN(2, score=lambda item: item[1], group=lambda item: item[0], sink=sent.extend)
    top([("a", 3), ("a", 1)])
    with pytest.raises(TypeError):
        top([("a", 5), ("new", 2), ("a", "x")])
    assert top.close() is False
    assert sent == [("a", [("a", 3), ("a", 1)])] and counts(top) == (2, 3, 0, 0, 0)


def test_best_items_that_were_put_back_keep_their_place_before_equal_later_ones():
    sent, broken = [], [True]

    def sink(items):
        if broken:
            broken.clear()
            raise OSError("down")
        sent.extend(items)

    top = TopN(2, score=lambda item: item[0], sink=sink)
    top([(1, "first"), (2, "a")])
    assert top.flush() is False
    top([(1, "second"), (2, "b")])
    assert top.close() and sent == [(2, "a"), (2, "b")]
    broken.append(True)
    sent.clear()
    best = TopN(1, score=lambda item: item[0], sink=lambda items: (broken and best([(1, "later")]), sink(items)))
    best([(1, "first")])
    assert best.flush() is False and best.close() and sent == [(1, "first")]


@dataclass
class Letter:
    at: float


@pytest.fixture
def shared():
    with BatchQueue("workers-share-it", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
        yield queue


def test_an_item_type_of_a_shared_queue_belongs_to_one_worker(shared):
    first, second = totals(print, queue=shared), TopN(1, score=len, sink=print, queue=shared)
    assert first.produce(("a", 1))
    with pytest.raises(ValueError, match="items of type tuple on this queue belong to another MetricsAggregator"):
        second.produce(("a", 1))
    assert second.produce("text") and second.produce(b"more") and second.produce_many([[1], "text", [2]]) == 3
    assert shared.flush(PATIENCE) and shared.stats().unrouted == 0
    assert first.close() and second.close()


def test_a_flush_sends_what_is_held_also_if_the_queue_is_not_empty_in_time(shared):
    entered, over, sent = threading.Event(), threading.Event(), threading.Event()
    shared.add_handler(str, lambda batch: (entered.set(), over.wait(PATIENCE)))
    shared.produce("text")
    assert entered.wait(PATIENCE)
    worker = totals(lambda items: sent.set(), queue=shared)
    worker([("a", 1)])
    assert worker.flush(0) is False and sent.wait(PATIENCE)
    over.set()
    assert worker.close()


class Visit(NamedTuple):
    id: int
    v: int


def test_items_that_come_by_a_shared_queue_reach_their_worker_from_the_beginning(shared, table, rows):
    url = table("id INTEGER PRIMARY KEY, v INTEGER")
    where = {"url": url, "table": "t", "columns": ["id", "v"], "key": ["id"], "queue": shared}
    tuples, visits = BatchWriter(**where), MetricsPersister(**where, merge={"v": "sum"})
    visits.route(Visit)
    declared = DeclaredMetrics(
        url=url, metrics=[Metric("n", Letter, keys={}, time="at", values={"n": Value.count()})], queue=shared
    )
    points = OtlpMetricsExporter(endpoint="127.0.0.1:1", insecure=True, queue=shared, retry_for=0)
    for item in ((1, 1), Visit(2, 2), Letter(0.0), MetricPoint("m", 1)):
        assert shared.produce(item)
    assert shared.flush(60)
    assert [agree(worker).accepted for worker in (tuples, visits, declared, points)] == [1, 1, 1, 1]
    assert shared.stats().unrouted == 0
    assert tuples.close() and visits.close() and declared.close() and not points.close()
    assert rows(url) == [(1, 1), (2, 2)]
    with pytest.raises(ValueError, match="has a queue of its own; give it queue= to share one"):
        totals(print).route(tuple)


def test_a_worker_leaves_a_shared_queue_that_goes_on(shared):
    sent, numbers = [], []
    first = totals(sent.extend, queue=shared, weight=0.05)
    other = MetricsAggregator(
        key=lambda n: 0, merge=int.__add__, sink=numbers.extend, flush_interval=None, queue=shared
    )
    first.produce_many([("a", 1), ("a", 2)])
    other.produce(1)
    assert first.close() and sent == [("a", 3)]
    assert first.produce(("a", 1)) is False
    assert other.produce_many([2, 3]) == 2
    again = totals(sent.extend, queue=shared)  # the type is free again
    assert again.produce(("b", 1)) and again.close() and other.close()
    assert sent == [("a", 3), ("b", 1)] and numbers == [6] and shared.running
    assert [counts(worker)[0] for worker in (first, other, again)] == [2, 3, 1]
    assert other.stats().per_type == {int: 3}


def test_a_worker_that_leaves_a_shared_queue_waits_for_what_it_accepted(shared):
    entered, over = threading.Event(), threading.Event()
    shared.add_handler(str, lambda batch: (entered.set(), over.wait(PATIENCE)))
    shared.produce("text")
    assert entered.wait(PATIENCE)
    worker = Leaves(shared, int)
    assert worker.produce(("a", 1))
    closes = Call(worker.close)
    eventually(lambda: not worker.produce(("a", 2)))  # it has begun to close
    accepted = worker.stats().accepted
    over.set()
    assert closes.result() is True and counts(worker) == (accepted, 0, 0, 0, 0)


def test_what_reaches_a_shared_queue_after_its_worker_left_has_no_handler(shared):
    sent = []
    left = totals(sent.extend, queue=shared)
    left.produce(("a", 1))
    assert left.close()
    assert shared.produce(("a", 2)) and shared.flush(60)
    assert shared.stats().unrouted == 1 and sent == [("a", 1)]
    assert agree(left).accepted == 1


class Leaves(Worker):
    """Sends each batch to nobody, and lets something happen between leaving its queue and closing its books."""

    def __init__(self, queue, meanwhile):
        super().__init__("leaves", queue=queue)
        self._start()
        self._meanwhile = meanwhile

    def _take(self, batch):
        self.pending = counts(self)[-1]
        refuses = ("bad", 0) in batch
        self._books.move(len(batch), Outcome.PENDING, Outcome.REFUSED if refuses else Outcome.SENT)
        if refuses:
            raise ValueError("bad")

    def _end(self, deadline):
        self._meanwhile()
        return True

    def _forget(self):
        raise AssertionError("nothing forks here")


@pytest.mark.parametrize("drains_before", [True, False])
def test_a_worker_leaves_a_shared_queue_in_time_and_loses_what_it_accepted_and_no_more(shared, drains_before):
    entered, over = threading.Event(), threading.Event()

    def hold_the_drain_thread(_batch):
        entered.set()
        assert over.wait(PATIENCE)

    def drain():
        over.set()
        assert shared.flush(PATIENCE)

    shared.produce(("before", 1))
    assert shared.flush(PATIENCE) and shared.stats().unrouted == 1
    worker = Leaves(shared, drain if drains_before else int)
    worker.produce(("bad", 0))
    assert worker.flush(PATIENCE) is False and worker.pending == 1
    worker.produce(("a", 1))
    assert worker.flush(PATIENCE) and counts(worker) == (1, 1, 0, 0, 0) and worker.pending == 1
    shared.add_handler(str, hold_the_drain_thread)
    shared.produce("text")
    assert entered.wait(PATIENCE)
    assert worker.produce_many([("a", 2), ("b", 3), ("c", 4)]) == 3 and counts(worker) == (1, 1, 0, 0, 3)
    assert worker.close(timeout=0) is False and counts(worker) == (1, 1, 0, 3, 0)
    drain()
    assert shared.stats().unrouted == 4 and counts(worker) == (1, 1, 0, 3, 0)


@pytest.mark.parametrize("end", [int, lambda: 1 / 0])
def test_a_batch_that_comes_after_the_books_were_closed_is_counted_once(end):
    entered, over, done = threading.Event(), threading.Event(), threading.Event()

    class Late(Leaves):
        def _from_queue(self, batch):
            entered.set()
            assert over.wait(PATIENCE)
            super()._from_queue(batch)
            done.set()

    worker = Late(None, end)
    assert worker.produce(("a", 1)) and entered.wait(PATIENCE)
    with contextlib.suppress(ZeroDivisionError):
        worker.close(timeout=0)
    assert worker.close() is False and counts(worker) == (0, 0, 0, 1, 0)
    over.set()
    assert done.wait(PATIENCE) and counts(worker) == (1, 0, 0, 0, 0)
