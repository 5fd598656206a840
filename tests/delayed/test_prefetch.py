"""Messages that are taken ahead for a quick handler: nothing that a program can see depends on it, but the statements."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from drainq import Backoff
from drainq.delayed import OfferOutcome, RetryConfig, ScheduledMessage, consume_prefetch
from drainq.delayed.consume_prefetch import Pace, Prefetched
from drainq.delayed.storage.records import Held


@pytest.fixture
def at_once(monkeypatch):
    """Make every handler count as quick, from its first call on."""
    monkeypatch.setattr(consume_prefetch, "_BUDGET", float("inf"))
    monkeypatch.setattr(consume_prefetch, "_ENOUGH", 0)


@pytest.fixture
def queue(postgres, at_once):
    return postgres.open()


def offered(queue, count, *, at=0.0):
    queue.offer_batch([ScheduledMessage(f"{n:03}", n, at + n / 1000) for n in range(count)])


def test_a_consumer_that_ends_leaves_the_messages_of_another_registered(queue):
    one, other, settled = object(), object(), []
    session = queue._session
    session._settle = lambda: settled.append(list(session._prefetched))
    with session.prefetching(one):
        with session.prefetching(other):
            session.settle()
        session.settle()
    session.settle()
    assert settled == [[one, other], [one]]


def test_settling_that_failed_is_done_again_whole():
    calls, fails = [], [OSError("away"), None, OSError("away"), None]

    def call(held, *_):
        calls.append(held.ids)
        if (error := fails.pop(0)) is not None:
            raise error
        return len(held.ids)

    rows = [SimpleNamespace(id=number) for number in (1, 2, 3)]
    prefetched = Prefetched(rows, "abc", "lock", now=lambda: 0, ack=call, release=call)
    first, _ = prefetched.next()
    prefetched.handled(Held("lock", (first.id,)))
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            prefetched.settle()
        assert not prefetched.was_settled
    prefetched.settle()
    assert calls == [(1,), (1,), (2, 3), (2, 3)] and prefetched.was_settled and prefetched.next() is None


def statements(queue, monkeypatch):
    """Return the limits of the statements that took messages, as they come."""
    limits, acquire = [], queue._session.storage.acquire

    def noted(kind, limit, *arguments, **more):
        limits.append(limit)
        return acquire(kind, limit, *arguments, **more)

    monkeypatch.setattr(queue._session.storage, "acquire", noted)
    return limits


class Enough:
    """Stops a consumer that was told to, or that found nothing a hundred times: a lost message must not hang a test."""

    def __init__(self):
        self._told, self._looks = False, 0

    def handled(self, *, last):
        self._told, self._looks = last, 0

    def is_set(self):
        self._looks += 1
        return self._told or self._looks > 100


def consumed(queue, handle, count, **more):
    """Consume until ``count`` messages were handled; return them."""
    seen, stop = [], Enough()

    def handler(envelope):
        seen.append(envelope.payload)
        stop.handled(last=len(seen) == count)
        handle(envelope)

    queue.consume(handler, stop=stop, **more)
    return seen


def nothing(envelope):
    """Handle a message in no time."""


def test_a_call_in_the_handler_finds_nothing_taken_ahead(queue):
    offered(queue, 8)
    found = []

    def look(envelope):
        if envelope.payload == 2:
            stats = queue.stats()
            found.append((stats.ready, stats.in_flight))

    assert consumed(queue, look, 8) == list(range(8))
    assert found == [(5, 1)]


def test_a_call_in_another_thread_finds_nothing_taken_ahead_either(queue):
    offered(queue, 8)
    found = []

    def look(envelope):
        if envelope.payload == 2:
            with ThreadPoolExecutor(1) as pool:
                found.append(pool.submit(queue.contains_message, "001").result(30))
                found.append(pool.submit(lambda: queue.stats().ready).result(30))

    assert consumed(queue, look, 8) == list(range(8))
    assert found == [False, 5]


def test_a_key_that_was_just_handled_may_be_offered_again(queue):
    """Its acknowledgement was still to come with the next fetch, and must not delete the new message."""
    offered(queue, 4)
    outcomes = []

    def handle(envelope):
        if envelope.payload == 1:
            outcomes.append(queue.offer_or_update("000", 0, 0))

    assert consumed(queue, handle, 5) == [0, 1, 0, 2, 3]
    assert outcomes == [OfferOutcome.CREATED]


def test_so_it_may_in_a_transaction_of_the_handler(queue, postgres):
    import psycopg

    offered(queue, 4)
    outcomes = []

    def handle(envelope):
        if envelope.payload == 1:
            with psycopg.connect(postgres.url) as connection:
                outcomes.append(queue.offer_or_update("000", 0, 0, connection=connection))

    assert sorted(consumed(queue, handle, 5)) == [0, 0, 1, 2, 3]
    assert outcomes == [OfferOutcome.CREATED]


def test_pausing_or_dropping_in_the_handler_holds_for_what_was_taken_ahead(queue):
    offered(queue, 8)
    stop, seen = threading.Event(), []

    def handle(envelope):
        seen.append(envelope.payload)
        if envelope.payload == 0:
            assert queue.drop_message("001")
        if envelope.payload == 2:
            queue.pause()
            stop.set()

    queue.consume(handle, stop=stop)
    assert seen == [0, 2]
    stats = queue.stats()
    assert (stats.ready, stats.in_flight) == (5, 0)


def test_a_failure_spoils_no_delivery_of_the_messages_that_waited(postgres, at_once):
    queue = postgres.open(retry=RetryConfig(Backoff(1000, 1000, jitter=0)))
    offered(queue, 6)
    attempts = []

    def failing(envelope):
        attempts.append(envelope.attempt)
        if envelope.payload == 1:
            raise ValueError("not now")

    assert consumed(queue, failing, 6) == list(range(6))
    assert attempts == [1] * 6
    assert queue.stats().scheduled == 1


def test_nothing_is_handed_over_after_half_of_its_lease(queue, postgres):
    offered(queue, 4)

    def slow_by_the_clock(envelope):
        if envelope.payload == 1:
            postgres.clock.advance(15)

    stop = threading.Event()
    seen = []

    def handle(envelope):
        seen.append((envelope.payload, postgres.now - envelope.timestamp.timestamp()))
        slow_by_the_clock(envelope)
        if len(seen) == 4:
            stop.set()

    limits = []
    take = queue._session.take_once
    queue._session.take_once = lambda *arguments, **more: limits.append(arguments[1]) or take(*arguments, **more)
    queue.consume(handle, stop=stop)
    assert [payload for payload, _ in seen] == [0, 1, 2, 3]
    assert limits == [10, 1, 1]  # what waited was given back, and taken again one by one
    assert queue.stats().in_flight == 0


def test_two_consumers_of_one_queue_object_take_ahead_side_by_side(queue):
    offered(queue, 200)
    seen, lock, stop = [], threading.Lock(), threading.Event()

    def handle(envelope):
        with lock:
            seen.append(envelope.payload)
            if len(seen) == 200:
                stop.set()

    with ThreadPoolExecutor(2) as pool:
        loops = [pool.submit(queue.consume, handle, stop=stop) for _ in range(2)]
        assert sum(loop.result(60) for loop in loops) == 200
    assert sorted(seen) == list(range(200))
    stats = queue.stats()
    assert (stats.ready, stats.in_flight) == (0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_a_program_sees_the_same_with_and_without_it(postgres, at_once, monkeypatch, seed):
    """Handlers that offer, drop, look, fail and answer for themselves: the same deliveries, the same answers.

    What fails is due much later: among messages that came back, the order of those that were taken ahead is another.
    """
    monkeypatch.setattr(consume_prefetch, "_REST", 2)

    def life(most):
        queue = postgres.open(f"life-{most}", retry=RetryConfig(Backoff(1000, 1000, jitter=0)))
        rng, log, stop = random.Random(seed), [], threading.Event()
        offered(queue, 30)

        def handle(envelope):
            log.append((envelope.message_id, envelope.payload, envelope.attempt))
            key = f"{rng.randrange(30):03}"
            match rng.randrange(12):
                case 0:
                    log.append(queue.offer_or_update(key, rng.randrange(100), rng.randrange(30) / 1000))
                case 1:
                    log.append(queue.offer_if_not_exists(key, rng.randrange(100), rng.randrange(30) / 1000))
                case 2:
                    log.append(queue.drop_message(key))
                case 3:
                    stats = queue.stats()
                    log.append((stats.ready, stats.in_flight, stats.dead))
                case 4:
                    log.append(envelope.ack())
                case 5:
                    log.append(envelope.nack(delay=1000))
                case 6:
                    raise ValueError(key)
                case 7:
                    log.append(queue.contains_message(key))
            if len(log) > 200:
                stop.set()

        queue.offer_or_update("zzz", "last", 1)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(queue.consume, handle, stop=stop, prefetch=most)
            ticks = threading.Event()
            session = queue._session
            while not running.done():
                ready, _, in_flight, *_ = session.storage.counts(session.kind, session.now())  # of one moment
                if not ready and not in_flight:
                    break
                ticks.wait(0.02)  # until nothing is ready or in flight: there is no event for an idle loop
            stop.set()
            running.result(60)
        stats = queue.stats()
        return log, (stats.ready, stats.in_flight, stats.scheduled, stats.dead)

    for with_it, without in zip(life(4), life(1)):
        assert list(map(str, with_it)) == list(map(str, without))


def test_the_pace_starts_and_ends_alone():
    pace = Pace(4)

    def sizes(*calls):
        found = []
        for seconds in calls:
            found.append(pace.size())
            pace.handled(seconds)
        return found

    quick, slow = 0.003, 0.004
    assert sizes(*[quick] * 10) == [1] * 10
    assert sizes(slow, *[quick] * 5) == [4] + [1] * 5
    assert sizes(*[quick] * 30) == [4] * 30  # to its credit, of which there is a most
    assert sizes(slow, quick, slow, slow, slow) == [4, 4, 4, 4, 1]
    assert sizes(*[slow] * 20) == [1] * 20
    assert sizes(*[quick] * 10) == [1] * 10  # however slow it was before
    assert pace.size() == 4
    pace.disturbed()
    pace.handled(slow)  # ends the rest no sooner
    for _ in range(100):
        assert pace.size() == 1
        pace.handled(0.0)
    assert pace.size() == 4
