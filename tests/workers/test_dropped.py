"""A worker that is dropped without `close`: its accepted items reach the sink, and its thread ends."""

import collections
import gc
import threading

import pytest

from drainq.workers import MetricsAggregator, TopN
from tests.batch.test_lifecycle import run

PATIENCE = 20.0


def aggregator(sink):
    return MetricsAggregator(
        key=lambda row: row[0], merge=lambda a, b: (a[0], a[1] + b[1]), sink=sink, flush_interval=0.05
    )


def top(sink):
    return TopN(1_000_000, score=lambda row: row[1], sink=sink, flush_interval=0.05)


@pytest.mark.parametrize("make", [aggregator, top])
def test_everything_that_dropped_workers_accepted_reaches_the_sink(make):
    before = set(threading.enumerate())
    told = collections.Counter()
    for _ in range(20):
        worker = make(lambda rows: told.update(total=sum(row[1] for row in rows)))
        assert worker.produce_many([("key", 1)] * 100) == 100
        del worker
        gc.collect()
    threads = [
        thread for thread in set(threading.enumerate()) - before if thread.name != "drainq-timer"
    ]  # that one stays
    for thread in threads:
        while thread.is_alive():
            gc.collect()
            thread.join(0.05)  # which lets it run
    assert told["total"] == 2_000


@pytest.mark.system
def test_a_worker_that_is_open_at_exit_hands_on_what_it_holds():
    out = run(
        """
        from drainq.workers import MetricsAggregator
        totals = MetricsAggregator(key=len, merge=lambda a, b: a + b, sink=lambda rows: print(rows, flush=True),
                                   flush_interval=None)
        totals.produce_many(["a", "b", "cc"])
        """
    )
    assert out == "['ab', 'cc']\n"
