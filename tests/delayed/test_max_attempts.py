"""A message's own limit takes the place of the queue's and the consumer's. On every back end."""

from __future__ import annotations

import threading

import pytest

from drainq import Backoff
from drainq.delayed import OfferOutcome, ScheduledMessage, consume_prefetch
from drainq.delayed.storage.postgres.offer_batch import some_integers


@pytest.mark.parametrize("of_queue", [None, 1, 5])
def test_a_message_is_given_up_on_after_its_own_number_of_deliveries(world, of_queue):
    queue = world.open(max_attempts=of_queue)
    queue.offer("a", 1, world.now, max_attempts=2)
    assert queue.try_poll().nack() and queue.try_poll().nack()
    assert queue.try_poll() is None
    (letter,) = queue.dead_letters()
    assert (letter.attempts, letter.error, letter.max_attempts) == (2, "given back 2 times", 2)


@pytest.mark.parametrize("of_queue", [None, 1, 5])
def test_a_message_whose_consumers_die_is_given_up_on_after_its_own_number(world, of_queue):
    queue = world.open(max_attempts=of_queue)
    queue.offer("a", 1, world.now, max_attempts=2)
    for attempt in (1, 2):
        assert queue.try_poll().attempt == attempt
        world.clock.advance(30)
    assert queue.try_poll() is None
    (letter,) = queue.dead_letters()
    assert letter.error == "not acknowledged in 2 deliveries"


def test_a_consumer_tries_each_message_as_often_as_it_may_be(world):
    queue, seen, stop = world.open(), [], threading.Event()
    limits = {"a": 1, "b": 3, "c": None}
    queue.offer_batch([ScheduledMessage(key, key, world.now, max_attempts=most) for key, most in limits.items()])

    def fail(envelope):
        seen.append(envelope.payload)
        if len(seen) >= 6:
            stop.set()
        raise ValueError("no")

    queue.consume(fail, stop=stop, max_attempts=2, backoff=Backoff(0, 0))
    assert {key: seen.count(key) for key in "abc"} == {"a": 1, "b": 3, "c": 2}
    assert {(letter.key, letter.max_attempts) for letter in queue.dead_letters()} == set(limits.items())


@pytest.mark.parametrize("by", ["offer", "offer_or_update", "offer_if_not_exists"])
def test_each_way_to_offer_passes_the_number_on(world, by):
    queue = world.open()
    getattr(queue, by)("a", 1, world.now, max_attempts=7)
    assert queue.peek()[0].max_attempts == 7


@pytest.mark.parametrize("count", [1, 2, 1001])
def test_another_number_is_an_update_and_an_equal_one_is_none(world, count):
    queue = world.open()

    def offers(*of_last, update=True):
        limits = [None] * (count - 1) + list(of_last)
        batch = [ScheduledMessage(f"{n}", n, 5.0, update, 0, most) for n, most in enumerate(limits)]
        return queue.offer_batch(batch)[-1], queue.peek(1, key=f"{count - 1}")[0].max_attempts

    assert offers(None) == (OfferOutcome.CREATED, None)
    assert offers(3) == (OfferOutcome.UPDATED, 3)
    assert offers(3) == (OfferOutcome.IGNORED, 3)
    assert offers(2**31 - 1) == (OfferOutcome.UPDATED, 2**31 - 1)
    assert offers(4, update=False) == (OfferOutcome.IGNORED, 2**31 - 1)
    assert offers(None) == (OfferOutcome.UPDATED, None)


def test_a_dead_letter_that_is_put_back_keeps_its_number(world):
    queue = world.open()
    queue.offer("a", 1, world.now, max_attempts=1)
    for _ in range(2):
        assert queue.try_poll().nack(error="no")
        assert queue.redrive() == 1
    assert queue.peek()[0].max_attempts == 1


@pytest.mark.parametrize("wrong", [0, -1, True, "2", 1.0, 2**31])
def test_what_is_no_number_of_deliveries_is_refused(world, wrong):
    queue = world.open()
    with pytest.raises(ValueError, match="max_attempts must be a whole number of at least 1"):
        queue.offer("a", 1, max_attempts=wrong)
    with pytest.raises(ValueError, match="message 8 of the batch: max_attempts must be"):
        queue.offer_batch([ScheduledMessage(f"{n}", n, max_attempts=wrong if n == 8 else 1) for n in range(10)])
    assert queue.peek() == []


def test_a_batch_without_numbers_sends_none():
    assert some_integers((None, None)) is None
    assert some_integers((None, 7))[:20] == b"\0\0\0\1\0\0\0\1\0\0\0\x17\0\0\0\2\0\0\0\1"


@pytest.mark.parametrize("place", range(4))
def test_a_message_with_one_attempt_does_not_wait_behind_another(postgres, monkeypatch, place):
    """If the process ended meanwhile, its only attempt would be lost."""
    monkeypatch.setattr(consume_prefetch, "_BUDGET", float("inf"))
    monkeypatch.setattr(consume_prefetch, "_ENOUGH", 0)
    queue, other, seen, stop = postgres.open(), postgres.open(), [], threading.Event()
    queue.offer_batch([ScheduledMessage(f"{n}", n, n / 10, max_attempts=1 if n == place else None) for n in range(4)])

    def handle(envelope):
        row = other.peek(key=f"{place}")
        seen.append((envelope.payload, row[0].attempts if row else None))
        if len(seen) == 4:
            stop.set()

    queue.consume(handle, stop=stop)
    assert [payload for payload, _ in seen] == [0, 1, 2, 3] and queue.dead_letters() == []
    assert [attempts for _, attempts in seen[: place + 1]] == [0] * place + [1]
