"""Items merged by key."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.testing import ManualClock
from drainq.workers import MetricsAggregator


def counting(sink, **more):
    return MetricsAggregator(key=lambda item: item[0], merge=lambda a, b: (a[0], a[1] + b[1]), sink=sink, **more)


@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_a_plain_counter(seed):
    rng, sent, expected = random.Random(seed), [], Counter()
    with counting(sent.extend, flush_interval=0.0) as totals:
        for _ in range(200):
            item = (rng.choice("abc"), rng.randrange(10))
            expected[item[0]] += item[1]
            assert totals.produce(item)
    found = Counter()
    for key, n in sent:
        found[key] += n
    assert found == expected and totals.stats().sent == 200


def test_the_interval_decides_when_a_batch_or_idleness_flushes():
    clock, sent = ManualClock(), []
    totals = counting(sent.append, flush_interval=0.5, clock=clock)
    totals([("a", 1)])
    totals.on_idle()
    assert sent == []
    clock.advance(0.5)
    totals.on_idle()
    assert sent == [[("a", 1)]]
    totals([("a", 2)])
    clock.advance(0.5)
    totals([("a", 3)])
    assert sent[1:] == [[("a", 5)]]


def test_what_the_sink_refuses_is_kept_and_handed_on_with_what_comes():
    sent, broken = [], [True]

    def sink(items):
        if broken:
            raise OSError("down")
        sent.extend(items)

    totals = counting(sink, flush_interval=None)
    totals([("a", 1)])
    assert not totals.flush()
    totals([("a", 2)])
    broken.clear()
    assert totals.close()
    assert sent == [("a", 3)]
    stats = totals.stats()
    assert (stats.sent, stats.retried, stats.lost, stats.pending) == (2, 1, 0, 0)


def test_what_cannot_be_handed_on_at_close_is_lost_and_said_so(caplog):
    calls = []

    def sink(items):
        calls.append(items)
        raise OSError("down")

    totals = counting(sink)
    totals([("a", 1), ("a", 2)])
    assert not totals.close() and not totals.close() and totals.flush() is False and len(calls) == 1
    assert (totals.stats().sent, totals.stats().lost) == (0, 2)
    name = "metrics-aggregator"
    assert caplog.messages == [
        f"{name} could not hand on 2 items; they are kept", f"{name}: close() gives up 2 items that were not sent"
    ]  # fmt: skip


def test_two_workers_share_a_queue_by_type():
    pairs, numbers = [], []
    with BatchQueue("shared-by-workers", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
        one = counting(pairs.extend, queue=queue)
        other = MetricsAggregator(key=lambda n: n % 2, merge=int.__add__, sink=numbers.extend, queue=queue)
        assert one.produce(("a", 1)) and other.produce_many([1, 2, 3]) == 3 and one.produce(("a", 2))
        assert one.close() and other.close()
        assert queue.running
    assert (pairs, numbers) == ([("a", 3)], [4, 2])
