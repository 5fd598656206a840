"""The test kit: its objects, and the losses that it notices."""

from __future__ import annotations

import gc
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue
from drainq.delayed import DelayedQueue
from drainq.testing import LostItems, ManualClock, RecordingHandler, drain_now
from drainq.workers import TopN


def queue_of(handler, **settings):
    return BatchQueue("kit", BatchQueueConfig(**{"threads": 1, "consumer": handler, **settings}))


def test_a_recording_handler_keeps_batches_and_items_in_their_order():
    seen = RecordingHandler()
    with queue_of(seen) as queue:
        queue.produce_many([1, 2])
        drain_now(queue)
        queue.produce(3)
        drain_now(queue)
    assert seen.items == [1, 2, 3]
    assert seen.batches[-1] == [3]


def test_a_recording_handler_raises_when_the_test_says_so():
    seen, errors = RecordingHandler(), []
    with queue_of(seen, on_error=lambda batch, error: errors.append((batch, str(error)))) as queue:
        seen.fail_next(OSError("away"))
        queue.produce(1)
        drain_now(queue)
        queue.produce(2)
        drain_now(queue)
    assert (seen.items, errors) == ([2], [([1], "away")])
    seen.fail_next(OSError("first"), times=2)
    seen.fail_next(OSError("last"))
    for said in ("first", "first", "last"):
        with pytest.raises(OSError, match=said):
            seen([3])


@pytest.mark.parametrize(("error", "times"), [("away", 1), (OSError, 1), (OSError(), 0), (OSError(), "2")])
def test_a_recording_handler_refuses_what_it_could_not_raise(error, times):
    with pytest.raises((TypeError, ValueError), match="(error|times) must be"):
        RecordingHandler().fail_next(error, times)


def test_drain_now_takes_out_what_a_queue_without_handlers_holds():
    multi, distinct, clock = MultiQueue(), SetQueue(), ManualClock(0.0)
    multi.add_sub_queue("mail").put_many(["a", "b"])
    distinct.put_many([1, 2, 1])
    assert drain_now(multi) == ["a", "b"]
    assert drain_now(distinct) == [1, 2]
    assert drain_now(multi) == drain_now(distinct) == []
    asked = []  # it waits for nothing, also if another consumer was quicker
    quick = SimpleNamespace(qsize=lambda: 3, get_many=lambda n, **more: asked.append((n, more)) or [])
    assert drain_now(quick) == [] and asked == [(3, {"min_items": 0})]
    with DelayedQueue.open("memory:", "kit", clock=clock) as delayed:
        delayed.offer_or_update("now", 1, 0.0)
        delayed.offer_or_update("later", 2, 60.0)
        assert drain_now(delayed) == [1] and delayed.stats().in_flight == 0
        clock.advance(timedelta(days=1, seconds=60))
        assert clock.now() == 86_460.0
        assert drain_now(delayed) == [2]
        assert drain_now(delayed) == []


def test_a_clock_takes_a_time_of_any_zone_and_stands_until_it_is_moved():
    clock = ManualClock()
    assert clock.now() == clock.now() == 1_700_000_000.0
    for hours in (0, 5):
        there = timezone(timedelta(hours=hours))
        assert ManualClock(datetime(1970, 1, 1, hours, 1, tzinfo=there)).now() == 60.0
        clock.set(datetime(1970, 1, 2, hours, tzinfo=there))
        clock.advance(-3)
        assert clock.now() == 86_397.0


@pytest.mark.parametrize("time", [datetime(2025, 1, 1), float("nan"), float("-inf"), True, "1"])
def test_a_clock_refuses_what_is_no_time(time):
    for call in (ManualClock, ManualClock().set, ManualClock().advance):
        with pytest.raises((TypeError, ValueError), match="needs a zone|must be a (finite )?number of seconds"):
            call(time)


def test_drain_now_flushes_a_worker():
    best = []
    with TopN(1, score=float, sink=best.extend) as top:
        top.produce_many([1, 3, 2])
        assert drain_now(top) is None and drain_now(SimpleNamespace(flush=lambda limit: limit == 7), timeout=7) is None
        assert best == [3]


def test_drain_now_says_that_time_ran_out():
    import threading

    gate = threading.Event()
    with queue_of(lambda batch: gate.wait(60)) as queue:
        queue.produce(1)
        with pytest.raises(
            AssertionError, match=r"kit.* did not handle its items within 0\.0* ?seconds|within 0 seconds"
        ):
            drain_now(queue, timeout=0)
        gate.set()


@pytest.mark.parametrize("thing", [None, 3, [1], object()])
def test_drain_now_refuses_what_is_no_queue(thing):
    with pytest.raises(TypeError, match="queue must be a queue, a worker or an exporter of drainq's, got"):
        drain_now(thing)


def test_losses_are_counted_by_what_became_of_the_items():
    lost = LostItems()
    handled = queue_of(len)
    assert handled.produce(1)
    assert handled.shutdown()
    assert lost.counts() == {}
    assert handled.produce(2) is False
    assert lost.counts() == {"closed": 1}


def test_losses_of_a_queue_that_has_ended_are_kept():
    lost = LostItems()
    queue = BatchQueue("kit", BatchQueueConfig(threads=1))  # no handler at all
    queue.produce_many([1, 2, 3])
    queue.shutdown()
    assert lost.counts() == {"unrouted": 3}
    del queue
    gc.collect()
    assert lost.counts() == {"unrouted": 3}


def test_items_that_still_wait_are_losses_until_they_are_handled():
    import threading

    gate = threading.Event()
    lost = LostItems()
    with queue_of(lambda batch: gate.wait(60)) as queue:
        queue.produce(1)
        try:
            assert lost.counts() == {"queued": 1}
        finally:
            gate.set()
    assert lost.counts() == {}


def test_items_that_a_shutdown_leaves_behind_are_losses_of_their_own_name():
    import threading

    gate = threading.Event()
    lost = LostItems()
    queue = queue_of(lambda batch: gate.wait(60))
    queue.produce(1)
    try:
        assert queue.shutdown(0) is False
        assert lost.counts() == {"abandoned": 1}
    finally:
        gate.set()


def test_a_complaint_names_what_was_lost_and_what_was_expected():
    lost = LostItems()
    lost.expect(full=0)
    assert lost.complaint() is None, "none is none"
    lost.expect()
    queue = queue_of(len)
    queue.shutdown()
    queue.produce(1)
    assert lost.complaint() == "items that batch queues lost: closed 1; expected: none"
    lost.expect(closed=1)
    assert lost.complaint() is None
    lost.expect(closed=2)
    assert lost.complaint() == "items that batch queues lost: closed 1; expected: closed 2"


def test_an_expectation_of_an_unknown_loss_is_refused():
    with pytest.raises(TypeError, match="counts must be among full, closed, .*; got droped"):
        LostItems().expect(droped=1)
