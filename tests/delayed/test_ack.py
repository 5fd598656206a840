"""Acknowledging, giving back, extending: by the one that holds the message, and by one that no longer does."""

from __future__ import annotations

import copy
import pickle

import pytest

from drainq.delayed import ScheduledMessage
from drainq.errors import ShutDown

from .test_offer import _connect


@pytest.mark.parametrize("call", ["ack", "nack", "extend"])
def test_once_updated_a_stale_call_does_nothing_and_says_so(queue, world, call):
    queue.offer_or_update("a", "old", world.now)
    stale = queue.try_poll()
    queue.offer_or_update("a", "new", world.now)
    assert (stale.extend(1000) if call == "extend" else getattr(stale, call)()) is False
    fresh = queue.try_poll()
    assert (fresh.payload, fresh.attempt) == ("new", 1)


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
