"""Acknowledging, giving back, extending: by the one that holds the message, and by one that no longer does."""

from __future__ import annotations

import copy
import pickle

import pytest

from drainq.delayed import DeliveryType, ScheduledMessage
from drainq.errors import ShutDown

from .test_offer import _connect


@pytest.mark.parametrize("call", ["ack", "nack", "extend"])
def test_once_taken_over_a_stale_call_does_nothing_and_says_so(queue, world, call):
    queue.offer_or_update("a", 1, world.now)
    stale = queue.try_poll()
    world.clock.advance(30)
    new = queue.try_poll()
    assert (stale.extend(1000) if call == "extend" else getattr(stale, call)()) is False
    assert queue.try_poll() is None
    world.clock.advance(30)
    assert queue.try_poll().attempt == 3
    assert new.ack() is False


@pytest.mark.parametrize("call", ["ack", "nack", "extend"])
def test_once_updated_a_stale_call_does_nothing_and_says_so(queue, world, call):
    queue.offer_or_update("a", "old", world.now)
    stale = queue.try_poll()
    queue.offer_or_update("a", "new", world.now)
    assert (stale.extend(1000) if call == "extend" else getattr(stale, call)()) is False
    fresh = queue.try_poll()
    assert (fresh.payload, fresh.delivery_type) == ("new", DeliveryType.FIRST_DELIVERY)


def test_read_takes_nothing(queue, world):
    queue.offer_or_update("a", 1, world.now)
    assert queue.read("a").payload == 1
    assert queue.read("a").message_id == "a"
    assert queue.read("a").delivery_type is DeliveryType.FIRST_DELIVERY
    assert queue.try_poll().delivery_type is DeliveryType.FIRST_DELIVERY
    assert queue.read("unknown") is None


@pytest.mark.parametrize(("payload", "later"), [(2, 0), (1, 5)])
def test_a_read_message_that_was_changed_since_stays(queue, world, payload, later):
    queue.offer_or_update("a", 1, world.now)
    read = queue.read("a")
    queue.offer_or_update("a", payload, world.now + later)
    assert read.ack() is False
    assert queue.contains_message("a")


def test_nack_makes_a_message_due_again_after_its_delay(queue, world):
    queue.offer_or_update("a", 1, world.now)
    assert queue.try_poll().nack() is True
    envelope = queue.try_poll()
    assert (envelope.delivery_type, envelope.attempt) == (DeliveryType.REDELIVERY, 2)
    assert envelope.nack(delay=10, error=ValueError("no")) is True
    assert envelope.ack() is False
    world.clock.advance(9.999)
    assert queue.try_poll() is None
    world.clock.advance(0.001)
    assert queue.try_poll().attempt == 3


def test_extend_moves_the_end_of_the_lease_to_so_many_seconds_from_now(queue, world):
    queue.offer_or_update("a", 1, world.now)
    envelope = queue.try_poll()
    world.clock.advance(20)
    assert envelope.extend(100) is True
    world.clock.advance(99.999)
    assert queue.try_poll() is None
    world.clock.advance(0.001)
    assert queue.try_poll().attempt == 2
    assert envelope.extend(100) is False


def test_an_envelope_as_a_block_acknowledges_or_gives_back(queue, world):
    queue.offer_or_update("a", 1, world.now)
    with pytest.raises(RuntimeError, match="broken"), queue.try_poll():
        raise RuntimeError("broken")
    with queue.try_poll() as envelope:
        assert envelope.attempt == 2
    assert not queue.contains_message("a")


def test_a_block_that_has_spoken_for_itself_is_left_alone(queue, world):
    queue.offer_or_update("a", 1, world.now)
    with queue.try_poll() as envelope:
        envelope.nack(delay=5)
    assert queue.contains_message("a")


def test_an_envelope_stays_in_its_process(queue, world):
    queue.offer_or_update("a", 1, world.now)
    envelope = queue.try_poll()
    for attempt in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="belongs to the process"):
            attempt(envelope)


def test_an_acknowledgement_on_a_closed_queue_is_refused(queue, world):
    queue.offer_or_update("a", 1, world.now)
    envelope = queue.try_poll()
    queue.close()
    with pytest.raises(ShutDown, match="closed"):
        envelope.ack()


def test_drop_takes_a_message_away_in_flight_or_not(queue, world):
    queue.offer_batch([ScheduledMessage(key, 1, world.now) for key in "ab"])
    envelope = queue.try_poll()
    assert queue.drop_message("a") is True
    assert queue.drop_message("a") is False
    assert envelope.ack() is False
    assert queue.drop_message("b") is True
    assert not queue.contains_message("b")


def test_drop_all_wants_the_exact_words_and_says_how_many(queue, world):
    queue.offer_batch([ScheduledMessage(f"{n}", 1, world.now + n) for n in range(5)])
    queue.try_poll()
    for words in ("yes", "", "Yes, please, I know what I'm doing", None):
        with pytest.raises(ValueError, match="confirm="):
            queue.drop_all_messages(confirm=words)
    assert queue.stats().scheduled == 4
    assert queue.drop_all_messages(confirm="Yes, please, I know what I'm doing!") == 5
    assert queue.drop_all_messages("Yes, please, I know what I'm doing!") == 0


def test_an_acknowledgement_in_the_callers_transaction_happens_when_it_is_committed(database):
    queue = database.open()
    queue.offer_batch([ScheduledMessage(key, key, database.now) for key in "ab"])
    envelope = queue.try_poll_many(2)
    connection = _connect(database)
    try:
        for end, there in (("rollback", True), ("commit", False)):
            assert envelope.ack(connection=connection) is True
            getattr(connection, end)()
            assert queue.contains_message("a") is queue.contains_message("b") is there
        assert envelope.ack(connection=connection) is False
    finally:
        connection.close()


def test_an_acknowledgement_that_cannot_be_in_the_callers_transaction_is_refused(world):
    queue = world.open(history=10)
    queue.offer_or_update("a", 1, world.now)
    with pytest.raises(ValueError, match="leave out connection="):
        queue.try_poll().ack(connection="sqlite:///x")
    with pytest.raises(ValueError, match="only read cannot be acknowledged in your transaction"):
        queue.read("a").ack(connection="sqlite:///x")
    with pytest.raises((TypeError, ValueError), match="connection"):
        plain = world.open()
        plain.offer_or_update("b", 1, world.now)
        plain.try_poll().ack(connection="sqlite:///x")
