"""Offers: the stored message, and the outcome. On every back end."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from drainq.delayed import MsgspecCodec, OfferOutcome, ScheduledMessage
from drainq.delayed.encode import encoded_offer, encoded_offers
from drainq.delayed.message import to_ms
from drainq.delayed.storage.records import Offer
from drainq.errors import ShutDown

CREATED, UPDATED, IGNORED = OfferOutcome.CREATED, OfferOutcome.UPDATED, OfferOutcome.IGNORED


def test_offering_the_same_to_the_millisecond_changes_nothing(queue, world):
    queue.offer_or_update("a", {"n": 1}, world.now)
    assert queue.offer_or_update("a", {"n": 1}, world.now + 0.0004) is IGNORED
    assert queue.offer_or_update("a", {"n": 1}, world.now + 0.001) is UPDATED


def test_only_ignored_is_ignored():
    assert [outcome.is_ignored for outcome in (CREATED, UPDATED, IGNORED)] == [False, False, True]


def test_2_500_messages_in_one_batch_are_all_there(queue, world):
    outcomes = queue.offer_batch(ScheduledMessage(f"{n}", n, world.now) for n in range(2500))
    assert outcomes == [CREATED] * 2500
    assert queue.stats().ready == 2500


def test_a_batch_with_one_bad_message_changes_nothing(queue, world):
    good = ScheduledMessage("good", 1, world.now)
    for bad in (
        ScheduledMessage("", 1, world.now),
        ScheduledMessage("k", object(), world.now),
        ScheduledMessage("k", 1, "soon"),
    ):
        with pytest.raises((ValueError, TypeError)):
            queue.offer_batch([good, bad])
    assert not queue.contains_message("good")


@pytest.mark.parametrize("key", ["k" * 200, "😀" * 200])
def test_a_key_of_200_characters_is_taken(queue, world, key):
    assert queue.offer_or_update(key, 1, world.now) is CREATED
    assert queue.try_poll().message_id == key


HOSTILE = [
    "'; DROP TABLE x; --",
    '"',
    "%s %(key)s %%",
    "{table}",
    "a\nb\tc",
    "\\x00",
    " ",
    "é\u0301😀\u202e",
    "a/b/c",
    "?:1",
    "_%",
]


@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_key_is_just_a_key(queue, world, key):
    assert queue.offer_or_update(key, key, world.now) is CREATED
    assert (
        queue.offer_batch([ScheduledMessage(key, key + "!", world.now), ScheduledMessage("other", 1, world.now)])[0]
        is UPDATED
    )
    assert queue.read(key).payload == key + "!"
    assert queue.try_poll().message_id == key
    assert queue.drop_message(key)


@pytest.mark.parametrize("key", ["nul\x00", "lone \ud800 surrogate"])
def test_text_that_no_database_stores_is_refused_everywhere(queue, world, key):
    with pytest.raises(ValueError, match="NUL|surrogate"):
        queue.offer_or_update(key, 1, world.now)


def test_an_aware_datetime_of_any_zone_and_a_number_mean_the_same(queue, world):
    at = datetime(2026, 3, 1, 12, 30, 0, 123_456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    queue.offer_or_update("a", 1, at)
    assert queue.offer_or_update("a", 1, at.timestamp()) is IGNORED
    assert queue.read("a").schedule_at == at.replace(microsecond=123_000)
    assert queue.read("a").schedule_at.tzinfo is timezone.utc


def test_what_the_codec_cannot_encode_is_refused_and_nothing_is_stored(queue, world):
    with pytest.raises(TypeError):
        queue.offer_or_update("a", object(), world.now)
    with pytest.raises(TypeError, match="BytesCodec"):
        queue.offer_or_update("a", b"bytes", world.now)
    assert not queue.contains_message("a")


def test_ten_threads_updating_one_key_create_it_once(queue, world):
    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(lambda n: queue.offer_or_update("a", n, world.now), range(10)))
    assert outcomes.count(CREATED) == 1
    assert set(outcomes) <= {CREATED, UPDATED, IGNORED}


def test_a_batch_racing_single_offers_on_its_keys_has_an_outcome_for_each(queue, world):
    with ThreadPoolExecutor(11) as pool:
        batch = pool.submit(queue.offer_batch, [ScheduledMessage(f"{n}", "batch", world.now) for n in range(20)])
        singles = [pool.submit(queue.offer_or_update, f"{n}", "single", world.now) for n in range(10)]
        outcomes = [single.result() for single in singles]
        assert len(batch.result()) == 20
    created = batch.result().count(CREATED) + outcomes.count(CREATED)
    assert created == 20
    assert queue.stats().ready == 20


def test_batches_with_the_same_keys_in_opposite_order_do_not_lock_each_other_out(queue, world):
    keys = [f"{n:03}" for n in range(200)]
    with ThreadPoolExecutor(4) as pool:
        batches = [
            pool.submit(
                queue.offer_batch, [ScheduledMessage(key, n, world.now) for key in (keys if n % 2 else keys[::-1])]
            )
            for n in range(12)
        ]
        created = sum(batch.result().count(CREATED) for batch in batches)
    assert created == 200


def test_an_offer_on_a_closed_queue_is_refused(queue, world):
    queue.close()
    with pytest.raises(ShutDown, match="closed"):
        queue.offer_or_update("a", 1, world.now)


def test_an_offer_in_the_callers_transaction_happens_when_it_is_committed(database):
    queue = database.open()
    connection = _connect(database)
    try:
        for end, there in (("rollback", False), ("commit", True)):
            assert queue.offer_or_update("a", 1, database.now, connection=connection) is CREATED
            batch = [ScheduledMessage("b", 1, database.now), ScheduledMessage("b", 2, database.now)]
            assert queue.offer_batch(batch, connection=connection) == [CREATED, UPDATED]
            if database.backend == "postgresql":  # SQLite has one writer: a reader of its own connection would do, too
                assert not queue.contains_message("a")
            getattr(connection, end)()
            assert queue.contains_message("a") is there
            assert queue.contains_message("b") is there
    finally:
        connection.close()


def test_a_connection_of_the_wrong_kind_is_refused(queue, world):
    with pytest.raises((TypeError, ValueError), match="connection"):
        queue.offer_or_update("a", 1, world.now, connection="sqlite:///x")


def test_queues_with_different_codecs_do_not_see_each_others_messages(world):
    class Upper(MsgspecCodec):
        def __init__(self):
            super().__init__()
            self.type_name = "upper"

    plain, upper = world.open(), world.open(codec=Upper())
    plain.offer_or_update("a", 1, world.now)
    assert upper.try_poll() is None
    assert upper.offer_or_update("a", 2, world.now) is CREATED
    assert plain.try_poll().payload == 1


def _connect(database):
    if database.backend == "sqlite":
        import sqlite3

        return sqlite3.connect(database.url.removeprefix("sqlite:///"))
    import psycopg

    return psycopg.connect(database.url, client_encoding="utf8")


def test_the_short_form_is_due_now_or_at_a_time_or_after_a_delay(queue, world):
    assert queue.offer("now", 1) is OfferOutcome.CREATED
    assert queue.offer("now", 1) is OfferOutcome.IGNORED  # the clock stands still
    assert queue.offer("now", 2, replace=False) is OfferOutcome.IGNORED
    queue.offer("later", 2, delay=timedelta(seconds=5))
    queue.offer("at", 3, world.now + 7)
    queue.offer_batch([ScheduledMessage("batch", 4), ScheduledMessage("past", 0, 0)])
    queue.offer("first", 0, priority=-1)
    assert (queue.read("now").schedule_at.timestamp(), queue.stats().scheduled) == (world.now, 2)
    assert queue.try_poll_many(5).message_id == ["first", "past", "now", "batch"]
    world.clock.advance(5)
    assert queue.stats().oldest_ready_age == 0.0
    assert queue.try_poll().message_id == "later"
    world.clock.advance(3)
    assert queue.stats().oldest_ready_age == 1.0  # it counts from the time at which it was due
    assert queue.offer("at", 4) is OfferOutcome.UPDATED
    assert queue.stats().oldest_ready_age == 0.0  # and of an offer for now, from the offer


@pytest.mark.parametrize(
    ("when", "error", "says"),
    [
        ({"at": 5, "delay": 5}, ValueError, "at or delay, not both, got at=5 and delay=5"),
        ({"at": datetime(2025, 1, 1)}, ValueError, "at needs a zone"),
        ({"at": "noon"}, TypeError, "at must be an aware datetime or seconds"),
        ({"delay": -1}, ValueError, "delay must be at least 0 seconds"),
    ],
)
def test_a_time_that_is_none_is_refused_by_the_short_form(sqlite, when, error, says):
    with pytest.raises(error, match=says):
        sqlite.open().offer("a", 1, **when)


def test_an_offer_that_is_repeated_has_the_outcome_of_its_first_try(postgres):
    queue, at = postgres.open(), int(postgres.now * 1000)
    storage, kind = queue._session.storage, queue._session.kind
    CREATED, UPDATED, IGNORED = OfferOutcome.CREATED, OfferOutcome.UPDATED, OfferOutcome.IGNORED
    one, two = Offer("a", b"1", at, can_update=True), Offer("b", b"2", at, can_update=True)
    storage.offer(kind, [one], at - 1)
    tried = [Offer("a", b"3", at, can_update=True), two]
    assert storage.offer(kind, tried, at) == [UPDATED, CREATED]
    later = [*tried, Offer("b", b"2", at + 1, can_update=False), Offer("c", b"", at, can_update=True)]
    assert storage.offer(kind, later, at, again=True) == [UPDATED, CREATED, IGNORED, CREATED]


class Picky(MsgspecCodec):
    """Has an error of its own, which is not made of one text."""

    def encode(self, payload):
        if payload == "bad":
            raise UnicodeEncodeError("ascii", "bad", 0, 1, "picky")
        return super().encode(payload)

    def encode_many(self, payloads):
        return [self.encode(payload) for payload in payloads]


@pytest.mark.parametrize(
    ("seconds", "ms"), [(1.0006, 1_000), (1.123, 1_123), (0.0009, 0), (1_700_000_000.9996, 1_700_000_000_999)]
)
def test_a_time_is_the_millisecond_below_it_whatever_its_type(seconds, ms):
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=round(seconds * 1_000_000))
    assert to_ms(seconds) == to_ms(moment) == ms


def test_a_batch_is_encoded_as_its_messages_are_one_by_one():
    now, at = 5_000, datetime(2030, 1, 1, tzinfo=timezone.utc)
    whens = [1.5, 2.0], [None, 3, at, at, 4.25, at.timestamp()], [-1e9]
    for keys, times in itertools.product([["a"], ["a", "\u00e9"]], whens):
        parts = zip(range(12), *map(itertools.cycle, (keys, times, (True, 0, [], "x"), (0, -3))))
        batch = [ScheduledMessage(f"{key}{n}", n, when, may, rank) for n, key, when, may, rank in parts]
        alone = [encoded_offers([message], MsgspecCodec(), now)[0] for message in batch]
        assert repr(encoded_offers(batch, MsgspecCodec(), now)) == repr(alone)
    for wrong in (ScheduledMessage(5, 1), ScheduledMessage("", 1), ScheduledMessage("k", 1, 1e300)):
        with pytest.raises((TypeError, ValueError)) as alone:
            encoded_offer(Picky(), now, *vars(wrong).values())
        with pytest.raises(alone.type, match="^message 10 of the batch: ") as in_batch:
            encoded_offers([*batch[:10], wrong, *batch[10:]], Picky(), now)
        assert in_batch.value.args == (f"message 10 of the batch: {alone.value}",)
    plain = [ScheduledMessage(f"k{n}", n) for n in range(10)]
    for rank in (None, False, 0.0):
        with pytest.raises(TypeError, match="^message 10 of the batch: a priority"):
            encoded_offers([*plain, ScheduledMessage("k", 1, priority=rank)], MsgspecCodec(), now)
    with pytest.raises(UnicodeEncodeError, match="picky"):
        encoded_offers([*batch, ScheduledMessage("k", "bad")], Picky(), now)


def test_a_large_batch_is_encoded_in_pieces_so_that_no_native_call_keeps_the_gil_for_long():
    sizes = []

    class Counting(MsgspecCodec):
        def encode_many(self, payloads):
            sizes.append(len(payloads))
            return super().encode_many(payloads)

    batch = [ScheduledMessage(f"k{n}", n, 1.5) for n in range(2_500)]
    offers = encoded_offers(batch, Counting(), 5_000)
    assert [offer.payload for offer in offers] == [str(n).encode() for n in range(2_500)] and max(sizes) <= 1_000
    with pytest.raises(ValueError, match="^message 2100 of the batch: "):
        encoded_offers([*batch[:2_100], ScheduledMessage("", 1), *batch], Counting(), 5_000)
