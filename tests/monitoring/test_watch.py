"""Names for queues, workers and sources, and the samples of objects that are written in Python."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, ThreadPolicy
from drainq._native import read_samples
from drainq.monitoring import watch
from drainq.sources import Fair, PrefetchSource, SourceScheduler
from drainq.timer import Repeat
from drainq.workers import TopN

from ..patience import PATIENCE, Call
from ..sources.by_hand import HandExecutor, Scripted

DelayedQueue = pytest.importorskip("drainq.delayed", reason="msgspec is for CPython with a GIL, or 3.14").DelayedQueue


def values(family: str) -> dict[tuple[str, ...], float]:
    return {tuple(labels): value for name, labels, value in read_samples() if name == family}


def test_a_delayed_queue_is_published_as_its_stats_say(monkeypatch):
    waits = []
    monkeypatch.setattr(Repeat, "wake_after", lambda repeat, seconds: waits.append(seconds))
    with DelayedQueue.open("memory:", "mail") as queue:
        queue.offer_or_update("due", "x", 0)
        queue.offer_or_update("later", "x", time.time() + 1000)
        watched, stats = watch(queue, "mail", interval=7), queue.stats()
        assert (stats.ready, stats.scheduled, waits, watched._turn()) == (1, 1, [7], 7)
        for field in ("ready", "scheduled", "in_flight", "redelivered", "dead"):
            assert values(f"drainq_delayed_{field}")["mail",] == getattr(stats, field)
        assert values("drainq_sample_age_seconds")["delayed", "mail"] >= 0


def test_a_child_of_fork_may_watch_its_own_under_the_names_of_its_parent():
    with DelayedQueue.open("memory:", "mail") as queue:
        inherited = watch(queue, "inherited")
        inherited._renew_in_child()
        own = watch(queue, "inherited")
        inherited.close()
        assert own.name == "inherited" and own._turn()
        assert values("drainq_delayed_ready")["inherited",] == 0
        own.close()


def test_sources_and_schedulers_are_published_as_their_stats_say():
    background = HandExecutor()
    source = PrefetchSource(Scripted([1, 2, 3]), 10, 2, executor=background)
    scheduler = SourceScheduler({"x": source}, lambda name, items: None, Fair("x"))
    watched = watch(source, "source"), watch(scheduler, "scheduler")
    scheduler.step()
    background.run()
    assert scheduler.step() == 3
    for it in watched:
        it.sample()
    stats = source.stats()
    assert values("drainq_source_fetched")["source",] == stats.fetched == 3
    assert [values(f"drainq_scheduler_{field}")["scheduler", "x"] for field in ("moved", "failed", "errors")] == [
        3,
        0,
        0,
    ]
    assert [it._interval for it in watched] == [5.0, 5.0]
    watched[0].close()
    assert watched[0]._repeat.stopped and not watched[1]._repeat.stopped
    source.close()


def test_a_worker_is_published_as_its_stats_say():
    with TopN(2, score=float, sink=lambda items: None) as top:
        top.produce_many([1, 2, 3])
        top.flush()
        watch(top, "top")
        assert values("drainq_worker_accepted")["top",] == top.stats().accepted == 3


def test_an_object_without_another_name_is_published_under_its_own():
    with (
        TopN(2, score=float, sink=lambda items: None, name="longest") as top,
        DelayedQueue.open("memory:", "q") as queue,
    ):
        assert (watch(top).name, watch(queue).name) == ("longest", "q")
    for nameless in (MultiQueue(), SetQueue()):
        with pytest.raises(ValueError, match="name must be a string with at least 1 character, .* got None"):
            watch(nameless)


class Broken:
    def __init__(self) -> None:
        self.broken = False

    def stats(self):
        if self.broken:
            raise OSError("the database is away")
        return DelayedQueue.open("memory:", "q").stats()

    def activity(self):
        return DelayedQueue.open("memory:", "q").activity()


def test_what_cannot_be_read_keeps_its_last_samples_and_is_counted(caplog):
    thing = Broken()
    watched = watch(thing, "away")
    thing.broken = True
    watched.sample(), watched.sample()
    assert values("drainq_sample_errors")["delayed", "away"] == 2
    assert values("drainq_delayed_ready")["away",] == 0
    assert "the counters of delayed 'away' could not be read" in caplog.text


def test_what_was_collected_or_closed_is_published_no_more():
    thing, queue = Broken(), MultiQueue()
    watched, closed = watch(thing, "gone"), watch(queue, "closed")
    assert ("gone",) in values("drainq_delayed_ready")
    assert ("closed",) in values("drainq_multi_depth")
    closed.close()
    del thing
    gc.collect()
    watched._turn()
    assert ("gone",) not in values("drainq_delayed_ready")
    assert ("closed",) not in values("drainq_multi_depth")


def test_what_is_closed_while_its_counters_are_read_is_published_no_more():
    reading, read = threading.Event(), threading.Event()
    thing = Broken()
    watched, stats = watch(thing, "read"), thing.stats
    thing.stats = lambda: reading.set() or (read.wait(PATIENCE) and stats())
    watched._repeat.wake()
    assert reading.wait(PATIENCE)
    assert watched.close(0) is False
    closing = Call(lambda: watched._repeat.stop(PATIENCE))
    read.set()
    assert closing.result()
    assert ("read",) not in values("drainq_delayed_ready")


def test_a_taken_name_gets_a_number_and_a_second_name_replaces_the_first():
    things = Broken(), Broken()
    assert [watch(thing, "same").name for thing in things] == ["same", "same-2"]
    queues = SetQueue(), SetQueue()
    assert [watch(queue, "set").name for queue in queues] == ["set", "set-2"]
    assert watch(queues[0], "other").name == "other"
    assert {("other",), ("set-2",)} <= values("drainq_set_size").keys()
    assert ("set",) not in values("drainq_set_size")


def test_the_watch_of_what_was_collected_ends_nothing_of_the_one_that_took_its_name():
    thing, other = Broken(), Broken()
    first = watch(thing, "reused")
    del thing
    gc.collect()
    second = watch(other, "reused")
    assert first._repeat.stopped
    first.close()
    assert second.name == "reused" and ("reused",) in values("drainq_delayed_ready")
    second.close()
    assert ("reused",) not in values("drainq_delayed_ready")


def test_a_batch_queue_can_get_another_name():
    with BatchQueue("plain", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
        assert ("plain",) in values("drainq_batch_queued")
        watch(queue, "better")
        assert ("better",) in values("drainq_batch_queued")
        assert ("plain",) not in values("drainq_batch_queued")


@pytest.mark.parametrize("thing", [3, object(), [], "queue"])
def test_what_has_no_counters_of_drainq_is_refused(thing):
    with pytest.raises(TypeError, match="thing must be a queue, a source, a scheduler, a worker or an exporter"):
        watch(thing, "name")
