"""The counters of a process and its histograms tell exactly what it did with a queue. On every back end."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from drainq.delayed import NO_RETRIES, ScheduledMessage
from drainq.delayed.activity import BOUNDS, COUNTERS, Activity
from drainq.monitoring import prometheus_text, watch


def counts(queue, *names):
    done = queue.activity()
    return {name: getattr(done, name) for name in names or COUNTERS if getattr(done, name)}


def times(histogram):
    """Return the bounds above which the histogram's times lie."""
    found, before = [], 0
    for (_, up_to), below in zip(histogram.up_to, (0.0, *BOUNDS)):
        found += [below] * (up_to - before)
        before = up_to
    return found + [BOUNDS[-1]] * (histogram.count - before)


def test_offers_count_what_they_store(world):
    queue = world.open()
    queue.offer_or_update("a", 1, world.now)
    queue.offer_or_update("a", 1, world.now)  # ignored
    queue.offer_or_update("a", 2, world.now)
    queue.offer_batch([ScheduledMessage(key, 3, world.now) for key in "abb"])  # the second b changes nothing
    assert counts(queue) == {"offered": 4, "replaced": 2}
    assert counts(world.open()) == {}  # another object's own


def test_every_way_to_settle_a_message_is_counted_once(world):
    queue = world.open(max_attempts=2)
    queue.offer_batch([ScheduledMessage(key, 3, world.now) for key in "abcdef"])
    first = queue.try_poll_many(6)
    assert first.ack_some(["a", "b"])
    assert counts(queue) == {"offered": 6, "delivered": 6, "acknowledged": 2}
    assert first.nack(error="no")
    assert counts(queue, "failed", "retried", "acknowledged") == {"failed": 4, "retried": 4, "acknowledged": 2}
    again = queue.get_next_batch(2)
    assert queue.done(again[:1]) == 1 and again[1].nack()  # twice delivered is the most
    last = queue.try_poll_many(5)
    assert last.snooze(0)
    queue.drop_message("f")
    late = queue.try_poll_many(5)
    queue.offer_or_update("e", 9, world.now)
    assert not late.ack()
    assert counts(queue) == {
        **{"offered": 7, "replaced": 1, "delivered": 6 + 2 + 2 + 1, "acknowledged": 3, "failed": 4, "retried": 4},
        **{"buried": 1, "lost": 1},
    }


def test_only_messages_that_were_still_leased_count_as_given_back(world):
    queue = world.open()
    queue.offer_batch([ScheduledMessage(key, 3, world.now) for key in "abc"])
    batch = queue.try_poll_many(3)
    queue.drop_message("b")
    assert not batch.nack(error="no")
    assert counts(queue, "failed", "retried") == {"failed": 2, "retried": 2}


def test_a_handler_is_counted_with_its_errors_its_time_and_its_dead_letters(world):
    queue = world.open(retry=NO_RETRIES)
    queue.offer_batch([ScheduledMessage(str(n), n, world.now) for n in range(50)])

    def handle(envelope):
        if envelope.payload % 5 == 0:
            raise ValueError("no")

    assert queue.consume(handle, until="empty") == 40
    assert counts(queue) == {"offered": 50, "delivered": 50, "acknowledged": 40, "failed": 10, "buried": 10}
    assert queue.activity().handler_time.count == 50
    assert queue.activity().handler_time.sum < 50 * BOUNDS[-1]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_time_of_a_handler_that_fails_is_counted_too(world, is_async):
    queue, took = world.open(retry=NO_RETRIES), 0.02
    queue.offer("a", 1, world.now)

    def handle(_envelope):
        time.sleep(took)
        raise ValueError("no")

    async def handle_async(envelope):
        handle(envelope)

    if is_async:
        asyncio.run(queue.consume_async(handle_async, until="empty"))
    else:
        queue.consume(handle, until="empty")
    assert queue.activity().handler_time.sum >= took


def test_a_message_that_cannot_be_decoded_is_buried_and_not_delivered(world):
    from drainq.delayed import BytesCodec, JsonCodec

    class Wrong(BytesCodec):
        type_name = JsonCodec().type_name

    world.open(codec=Wrong()).offer("a", b"{", world.now)
    queue = world.open(codec=JsonCodec())
    assert queue.try_poll() is None
    assert counts(queue) == {"buried": 1}


def test_with_history_an_acknowledgement_is_counted_once(world):
    queue = world.open(history=5)
    queue.offer_batch([ScheduledMessage(str(n), n, world.now) for n in range(30)])
    assert queue.consume(lambda envelope: None, until="empty") == 30
    assert counts(queue, "acknowledged", "lost") == {"acknowledged": 30}


def test_lateness_is_that_of_first_deliveries_from_the_due_time_or_the_later_offer(world):
    queue = world.open()
    queue.offer_or_update("past", 1, 0)
    queue.offer_or_update("due", 1, world.now + 10)
    world.clock.advance(2)
    assert queue.try_poll().message_id == "past"
    world.clock.advance(8 + 40)  # the lease of 30 seconds has ended
    late = queue.try_poll_many(5)
    assert sorted(late.message_id) == ["due", "past"]
    lateness = queue.activity().lateness
    assert (times(lateness), lateness.sum, lateness.count) == ([1.0, 30.0], 42.0, 2)
    assert queue.stats().expired == 0
    world.clock.advance(31)
    assert (queue.stats().expired, queue.stats().ready) == (2, 2)
    assert (queue.stats().oldest_ready_age, queue.stats().longest_held) == (1.0, 0.0)


def test_the_longest_held_message_is_told_while_its_lease_is_extended(world):
    queue = world.open()
    queue.offer("a", 1, world.now)
    held = queue.try_poll()
    for seconds in (20, 20, 20):
        world.clock.advance(seconds)
        assert held.extend(30)
    queue.offer("b", 1, world.now)
    assert queue.try_poll() is not None and queue.stats().longest_held == 60.0
    assert held.ack() and queue.stats().longest_held == 0.0


def test_the_age_of_a_message_that_was_due_when_it_was_offered_is_that_of_its_offer(world):
    queue = world.open()
    queue.offer_or_update("past", 1, 0)
    world.clock.advance(3)
    assert queue.stats().oldest_ready_age == 3.0
    queue.offer_or_update("past", 2, 5)
    assert queue.stats().oldest_ready_age == 0.0
    world.clock.advance(-7)  # a clock that was ahead
    assert queue.stats().oldest_ready_age == 0.0


def test_schedules_and_backfills_count_as_offers(world):
    queue = world.open()
    with queue.cron.install_periodic_tick("tick", 60, lambda at: 1):
        made = queue.stats().scheduled + queue.stats().ready
        assert made and counts(queue) == {"offered": made}
        start = datetime.fromtimestamp(world.now, timezone.utc) - timedelta(hours=1)
        again = queue.cron.backfill("tick", start, start + timedelta(minutes=10))
        assert again and counts(queue) == {"offered": made + again}


def test_a_schedule_that_fails_is_counted_at_each_check(world):
    def fail(at):
        raise ValueError("no")

    queue = world.open()
    with queue.cron.install_periodic_tick("tick", 60, fail) as handle:
        before = queue.activity().schedule_errors
        with pytest.raises(ValueError):
            handle.look()
        assert (before, queue.activity().schedule_errors) == (1, 2)


def test_an_offer_and_an_ack_in_the_callers_transaction_are_counted(sqlite):
    queue = sqlite.open()
    connection = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"))
    queue.offer("a", 1, sqlite.now, connection=connection)
    connection.commit()
    assert queue.try_poll().ack(connection=connection)
    connection.commit()
    connection.close()
    assert counts(queue) == {"offered": 1, "delivered": 1, "acknowledged": 1}


def test_sums_of_many_threads_are_exact():
    activity = Activity()
    gate = threading.Barrier(4)

    def work():
        gate.wait()
        for _ in range(5_000):
            activity.acknowledged(3, 2)
            activity.handled(0.5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = activity.read()
    assert (read.acknowledged, read.lost, read.handler_time.count) == (40_000, 20_000, 20_000)
    assert times(read.handler_time) == [0.1] * 20_000


def test_the_counters_and_histograms_are_published_under_their_names(world):
    queue = world.open()
    queue.offer("a", 1, world.now)
    world.clock.advance(2)
    queue.consume(lambda envelope: None, until="empty")
    queue.pause()
    watched = watch(queue, "published")
    try:
        lines = [line for line in prometheus_text().splitlines() if 'queue="published"' in line]
    finally:
        watched.close()
    shown = dict(line.rsplit(" ", 1) for line in lines)
    labels = '{queue="published"}'
    for counter in COUNTERS:
        assert shown[f"drainq_delayed_{counter}_total{labels}"] == str(getattr(queue.activity(), counter))
    assert shown[f"drainq_delayed_paused{labels}"] == "1"
    assert shown[f"drainq_delayed_longest_held_seconds{labels}"] == "0.0"
    assert shown[f"drainq_delayed_expired{labels}"] == shown[f"drainq_delayed_elsewhere{labels}"] == "0"
    at_most = 'drainq_delayed_lateness_seconds_bucket{queue="published",le="%s"}'
    assert [shown[at_most % bound] for bound in ("1.0", "5.0", "+Inf")] == ["0", "1", "1"]
    assert shown[f"drainq_delayed_lateness_seconds_sum{labels}"] == "2.0"
    assert shown[f"drainq_delayed_handler_seconds_count{labels}"] == "1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.system
def test_a_forked_child_counts_from_zero(world):
    queue = world.open()
    queue.offer("a", 1, world.now)
    child = os.fork()
    if child == 0:
        os._exit(0 if counts(queue) == {} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
