"""The history of a queue: the acknowledged messages, up to the requested number. On every back end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest

from drainq import Backoff
from drainq.delayed import QueueBroken, RetryConfig, ScheduledMessage
from drainq.delayed.storage.postgres.direct_libpq import Statement
from tests.soak.ledger import wait_until


def offer(queue, world, keys):
    queue.offer_batch([ScheduledMessage(key, key, world.now) for key in keys])


def test_without_a_history_nothing_is_remembered(queue, world):
    offer(queue, world, "a")
    queue.try_poll().ack()
    assert queue.history() == []


def test_a_history_remembers_what_was_acknowledged_in_every_way_and_no_more(world):
    queue = world.open(history=100)
    offer(queue, world, "abcdefg")
    assert queue.try_poll().ack()
    batch = queue.try_poll_many(2)
    assert batch.ack_some(["c"]) and batch.ack()
    assert queue.done(queue.get_next_batch(1)) == 1
    stop, handled = threading.Event(), []

    def handle(envelope):
        handled.append(envelope.payload)
        if len(handled) == 2:
            stop.set()

    world.clock.advance(5)
    assert queue.consume(handle, stop=stop) == 2
    queue.drop_message("g")
    past = queue.history()
    assert [message.key for message in past] == ["f", "e", "d", "b", "c", "a"]
    assert {(message.attempt, message.outcome, message.error) for message in past} == {(1, "acknowledged", None)}
    assert past[0].finished_at == past[-1].finished_at + timedelta(seconds=5)
    assert past[0].finished_at == datetime.fromtimestamp(world.now, timezone.utc)
    assert past[0].scheduled_at == past[0].finished_at - timedelta(seconds=5)
    assert [message.key for message in queue.history(limit=2)] == ["f", "e"]
    assert world.open("other", history=5).history() == []


def test_a_history_tells_of_each_attempt_how_long_it_took_and_how_it_ended(world):
    queue = world.open(history=100, consumer="press", max_attempts=3)
    offer(queue, world, "ab")
    first = queue.try_poll()
    world.clock.advance(2)
    assert first.nack(error=OSError("no paper"))
    assert queue.try_poll_many(2).nack()

    def handle(envelope):
        world.clock.advance(4)
        if envelope.payload == "a":
            raise OSError("no ink")

    assert queue.consume(handle, until="empty") == 1
    past = [(it.key, it.attempt, it.outcome, it.error) for it in queue.history()]
    assert past == [
        ("b", 2, "acknowledged", None),
        ("a", 3, "dead", "OSError: no ink"),
        ("b", 1, "given back", None),
        ("a", 2, "given back", None),
        ("a", 1, "given back", "OSError: no paper"),
    ]
    assert queue.history(2, key="a") == [it for it in queue.history() if it.key == "a"][:2]
    assert [(it.finished_at - it.started_at).total_seconds() for it in queue.history()] == [4, 4, 0, 0, 2]
    assert {it.holder.rpartition("/")[2] for it in queue.history()} == {"press"}
    assert first.nack() is False and len(queue.history()) == 5, "a message that is no longer leased is not entered"


def test_an_attempt_that_was_released_or_whose_lease_ended_is_not_entered(world):
    queue = world.open(history=100)
    offer(queue, world, "ab")
    assert queue.try_poll_many(2) and queue.release(key="a") == 1
    world.clock.advance(31)
    assert queue.try_poll_many(2).ack()
    assert [(it.key, it.attempt) for it in queue.history()] == [("b", 2), ("a", 2)]


@contextmanager
def trimming_held_up(postgres):
    """Have every trimming of the history wait, for another transaction has locked its oldest entry; the block gets a
    function that tells how many wait."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.url) as holder, psycopg.connect(postgres.url, autocommit=True) as observer:
        holder.execute(f'SELECT FROM "{postgres.table}__history" ORDER BY "id" LIMIT 1 FOR UPDATE')
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        yield lambda: observer.execute(waiting, [f"%{postgres.table}\\_\\_history%"]).fetchone()[0]


def test_a_history_keeps_its_size_when_two_consumers_acknowledge_at_once(postgres):
    queue = postgres.open(history=3)
    offer(queue, postgres, "abcde")
    assert queue.try_poll_many(3).ack()
    with ThreadPoolExecutor(2) as pool:
        with trimming_held_up(postgres) as waiting:
            acks = [pool.submit(queue.try_poll().ack) for _ in range(2)]
            wait_until(lambda: waiting() == 2, "both to wait for the oldest entry")
        assert [ack.result(60) for ack in acks] == [True, True]
    assert {message.key for message in queue.history()} == {"c", "d", "e"}


def test_an_acknowledgement_counts_although_the_history_could_not_be_trimmed(postgres):
    queue = postgres.open(history=2, retry=RetryConfig(Backoff(0), try_timeout=0.5))
    offer(queue, postgres, "abcd")
    assert queue.try_poll_many(2).ack()
    with trimming_held_up(postgres):
        assert queue.try_poll().ack() is True
    assert [message.key for message in queue.history()] == ["c", "b", "a"]
    assert queue.try_poll().ack()
    assert [message.key for message in queue.history()] == ["d", "c"]


def test_a_history_that_no_waiting_lets_anyone_trim_is_an_error_of_the_acknowledgement(postgres, monkeypatch):
    queue = postgres.open(history=2)
    offer(queue, postgres, "a")
    storage, held = queue._session.storage, queue.try_poll()
    trim = "DELETE FROM no_such_table WHERE %(kind)s::text = '' AND %(keep)s::int = 0"
    monkeypatch.setitem(storage._direct, "TRIM_HISTORY", Statement(trim))
    with pytest.raises(QueueBroken, match="no_such_table"):
        held.ack()


def test_a_history_that_no_acknowledgement_could_trim_is_refused_when_the_queue_is_opened(world):
    with pytest.raises(ValueError, match="history must be a whole number"):
        world.open(history=10**30)
