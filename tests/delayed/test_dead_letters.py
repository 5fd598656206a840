"""Dead letters: stored with their reason, and put back. On every back end."""

from __future__ import annotations

import pytest

from drainq.delayed import BytesCodec, MsgspecCodec, ScheduledMessage


class Garbled(BytesCodec):
    """Writes bytes that JSON cannot read into a queue that the default codec reads."""

    type_name = MsgspecCodec().type_name


def test_a_payload_that_cannot_be_decoded_never_blocks_the_head(world):
    queue, garbled = world.open(), world.open(codec=Garbled())
    garbled.offer_or_update("poison", b"\xff{", world.now - 10)
    queue.offer_or_update("good", 1, world.now)
    assert queue.try_poll().message_id == "good"
    (letter,) = queue.dead_letters()
    assert (letter.key, letter.payload, letter.attempts) == ("poison", b"\xff{", 1)
    assert "cannot be decoded as json" in letter.error
    assert not queue.contains_message("poison")


def test_a_head_of_nothing_but_poison_is_cleared_in_one_poll(world):
    queue, garbled = world.open(), world.open(codec=Garbled())
    for n in range(5):
        garbled.offer_or_update(f"poison {n}", b"\xff", world.now - 10)
    queue.offer_or_update("good", 1, world.now)
    assert queue.try_poll_many(2).payload == [1]
    assert queue.stats().dead == 5


def test_a_consumer_until_the_queue_is_empty_passes_a_fetch_of_nothing_but_poison(world):
    queue, garbled = world.open(), world.open(codec=Garbled())
    for n in range(3):
        garbled.offer_or_update(f"poison {n}", b"\xff", world.now - 10)
    queue.offer_or_update("good", 1, world.now)
    seen = []
    assert queue.consume(lambda envelope: seen.append(envelope.message_id), until="empty", batch_size=1) == 1
    assert seen == ["good"] and queue.stats().dead == 3


def test_reading_a_payload_that_cannot_be_decoded_says_so_and_leaves_it(world):
    queue, garbled = world.open(), world.open(codec=Garbled())
    garbled.offer_or_update("poison", b"\xff", world.now)
    with pytest.raises(ValueError, match="the payload cannot be decoded as json: DecodeError"):
        queue.read("poison")
    assert queue.contains_message("poison")


def test_a_message_given_back_too_often_is_given_up_on(world):
    queue = world.open(max_attempts=3)
    queue.offer_or_update("a", {"n": 1}, world.now)
    for _ in range(3):
        assert queue.try_poll().nack(error=ValueError("no such address")) is True
    assert queue.try_poll() is None
    (letter,) = queue.dead_letters()
    assert (letter.key, letter.attempts, letter.error) == ("a", 3, "ValueError: no such address")


def test_a_message_whose_consumers_die_is_given_up_on(world):
    queue = world.open(max_attempts=2)
    queue.offer_or_update("a", 1, world.now)
    for attempt in (1, 2):
        assert queue.try_poll().attempt == attempt
        world.clock.advance(30)
    assert queue.try_poll() is None
    (letter,) = queue.dead_letters()
    assert (letter.attempts, letter.error) == (3, "not acknowledged in 2 deliveries")


def test_without_a_limit_a_message_comes_again_and_again(queue, world):
    queue.offer_or_update("a", 1, world.now)
    for attempt in range(1, 30):
        envelope = queue.try_poll()
        assert envelope.attempt == attempt
        envelope.nack()
    assert queue.stats().dead == 0


def test_dead_letters_can_be_dropped(world):
    queue = world.open(max_attempts=1)
    queue.offer_batch([ScheduledMessage(key, key, world.now) for key in "abc"])
    for _ in range(3):
        queue.try_poll().nack(error="no")
    assert queue.drop_all_messages("Yes, please, I know what I'm doing!") == 0
    for unclear in (
        {},
        {"prefix": ""},
        {"everything": 1},
        {"everything": True, "prefix": "a"},
        {"keys": ["a"], "prefix": "a"},
    ):
        with pytest.raises(ValueError, match="^pass keys"):
            queue.drop_dead_letters(**unclear)
    assert queue.drop_dead_letters(prefix="no such") == queue.drop_dead_letters([]) == 0 and queue.stats().dead == 3
    assert queue.drop_dead_letters(["a", "z"]) == 1
    assert queue.drop_dead_letters(prefix="b") == 1
    assert queue.drop_dead_letters(everything=True) == 1
    assert queue.dead_letters() == []


def test_a_reason_of_any_length_and_text_is_kept(world):
    queue = world.open(max_attempts=1)
    queue.offer_or_update("a", 1, world.now)
    queue.try_poll().nack(error=ValueError("nul \x00, surrogate \ud800, " + "x" * 100_000))
    reason = queue.dead_letters()[0].error.replace("\\ufffd", "\ufffd")  # as a database of encoding LATIN1 has it
    assert reason.startswith("ValueError: nul \ufffd, surrogate ?, xxx")
