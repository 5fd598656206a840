"""Polls: the delivered message, its time, its order, and its consumer. On every back end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timezone
from types import SimpleNamespace

import pytest

from drainq.delayed import DeliveryType, OfferOutcome, ScheduledMessage, TimeConfig
from drainq.delayed.storage.postgres.scan_floor import LOWEST
from drainq.delayed.storage.records import Held
from drainq.errors import ShutDown

FIRST, AGAIN = DeliveryType.FIRST_DELIVERY, DeliveryType.REDELIVERY


def test_a_due_message_comes_with_its_payload_and_key(queue, world):
    queue.offer_or_update("a", {"to": ["ann"], "n": 1.5, "none": None}, world.now)
    envelope = queue.try_poll()
    assert envelope.payload == {"to": ["ann"], "n": 1.5, "none": None}
    assert envelope.message_id == "a"
    assert envelope.delivery_type is FIRST
    assert envelope.attempt == 1
    assert envelope.timestamp.timestamp() == world.now
    assert envelope.timestamp.tzinfo is timezone.utc


def test_an_envelope_names_its_source(world):
    assert world.open("mail").source == "mail"
    queue = world.open("post", source="post-office")
    queue.offer_or_update("a", 1, world.now)
    assert queue.try_poll().source == "post-office"


@pytest.mark.parametrize("size", [50, 100, 250])
def test_a_batch_comes_in_the_order_of_times_and_one_ack_ends_it(queue, world, size):
    scattered = [(n * 7919) % size for n in range(size)]
    queue.offer_batch([ScheduledMessage(f"key-{n}", n, world.now - size + n) for n in scattered])
    envelope = queue.try_poll_many(size)
    assert envelope.payload == list(range(size))
    assert envelope.message_id == [f"key-{n}" for n in range(size)]
    assert envelope.ack() is True
    assert queue.stats().ready == queue.stats().in_flight == 0


@pytest.mark.parametrize("n", [0, -1])
def test_many_of_none_takes_nothing(queue, world, n):
    queue.offer_or_update("a", 1, world.now)
    nothing = queue.try_poll_many(n)
    assert nothing.payload == [] and nothing.message_id == []
    assert nothing.ack() is True
    assert queue.try_poll_many(5).payload == [1]


def test_a_batch_with_one_redelivery_is_a_redelivery(queue, world):
    queue.offer_or_update("old", 1, world.now)
    queue.try_poll()
    world.clock.advance(30)
    queue.offer_or_update("new", 2, world.now)
    batch = queue.try_poll_many(10)
    assert batch.delivery_type is AGAIN
    assert dict(zip(batch.message_id, batch.delivery_types)) == {"old": AGAIN, "new": FIRST}
    assert dict(zip(batch.message_id, batch.attempt)) == {"old": 2, "new": 1}


def test_poll_gives_up_after_its_timeout(queue):
    assert queue.poll(timeout=0.0) is None
    assert queue.poll(timeout=0.05) is None


def test_poll_wakes_when_another_queue_object_of_this_process_offers(world):
    consumer, producer = world.open(time=TimeConfig(poll_period=3600)), world.open()
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(consumer.poll, 60)
        producer.offer_or_update("a", 1, world.now)
        assert polling.result(30).message_id == "a"


def test_poll_sleeps_only_until_the_next_message_is_due(world):
    queue = world.open(clock=None, time=TimeConfig(poll_period=3600))
    queue.offer_or_update("a", 1, queue.clock.now() + 0.2)
    assert queue.poll(timeout=60).message_id == "a"


def test_poll_notices_a_clock_moved_by_hand_within_a_poll_period(queue, world):
    queue.offer_or_update("a", 1, world.now + 1000)
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(queue.poll, 60)
        world.clock.advance(1000)
        assert polling.result(30).message_id == "a"


def test_close_lets_a_waiting_poll_go(world):
    queue = world.open(time=TimeConfig(poll_period=3600))
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(queue.poll)
        queue.close()
        with pytest.raises(ShutDown, match="closed"):
            polling.result(30)


def test_tables_of_one_database_are_apart(world):
    one, two = world.open(), world.open(table=f"{world.table}_two")
    one.offer_or_update("a", 1, world.now)
    assert two.try_poll() is None
    two.offer_or_update("a", 2, world.now)
    assert two.drop_all_messages("Yes, please, I know what I'm doing!") == 1
    assert one.try_poll().payload == 1


@pytest.mark.parametrize("name", ["'; DROP TABLE x; --", "a|b", "%s", '"quoted"', "{table}", "naïve 😀", "x" * 1000])
def test_a_hostile_queue_name_is_just_a_name(world, name):
    queue, other = world.open(name), world.open("other")
    queue.offer_or_update("a", 1, world.now)
    assert other.try_poll() is None
    assert queue.try_poll().payload == 1


@pytest.mark.parametrize(
    "table",
    [
        "'; DROP TABLE x; --",
        'a "quoted" one',
        "100%s %(key)s",
        "{limit}{but}",
        "na\u00efve \u4e2d",
        "select",
        "$body$",
        "a.b",
    ],
)
def test_a_hostile_table_name_is_just_a_name(world, table):
    queue = world.open(table=table)
    queue.offer_batch([ScheduledMessage("a", 1, world.now), ScheduledMessage("b", 2, world.now)])
    assert queue.try_poll_many(5).payload == [1, 2]
    assert queue.stats().in_flight == 2
    assert queue.drop_all_messages("Yes, please, I know what I'm doing!") == 2


def test_four_producers_of_the_same_keys_and_four_consumers_lose_and_repeat_nothing(queue, world):
    def produce(_):
        return [queue.offer_if_not_exists(f"{n}", n, world.now) for n in range(200)].count(OfferOutcome.CREATED)

    def consume(_):
        taken = []
        while (batch := queue.try_poll_many(7)).payload:
            taken += batch.payload
            assert batch.ack()
        return taken

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(produce, range(4))) == 200
        taken = [payload for part in pool.map(consume, range(4)) for payload in part]
    assert sorted(taken) == list(range(200))
    assert queue.try_poll() is None


def test_a_queue_is_a_source_of_batches(queue, world):
    queue.offer_batch([ScheduledMessage(f"{n}", n, world.now) for n in range(5)])
    batch = queue.get_next_batch(3)
    assert [envelope.payload for envelope in batch] == [0, 1, 2]
    assert queue.done(batch[:2]) == 2
    assert queue.done(batch) == 1
    assert [envelope.payload for envelope in queue.get_next_batch(10)] == [3, 4]
    assert queue.get_next_batch(10) == []
    assert queue.get_next_batch(0) == []


@pytest.mark.parametrize("limit", [1, 4, 5])
def test_a_take_says_how_many_of_the_handled_it_ended_and_looks_below_the_mark_unless_nothing_is_there(postgres, limit):
    queue, at = postgres.open(), int(postgres.now * 1000)
    storage, kind, starts, polled = queue._session.storage, queue._session.kind, [], []
    for key, due in (("a", at), ("b", at), ("c", at + 50), ("d", at + 5_000)):
        queue.offer_or_update(key, key, due / 1000)
    storage._marks[kind] = SimpleNamespace(
        start=lambda: starts.pop(0), polled=lambda *seen: polled.append(seen[0]), heard=lambda: starts.append(LOWEST),
        is_empty=lambda: len(polled) > 2,
    )  # fmt: skip

    def take(most, lock, *starts_at, done=None):
        starts.extend(starts_at)
        return storage.acquire(kind, most, at, at + 60_000, lock, done=done)

    one = take(1, "one", LOWEST)
    two = take(limit, "two", at + 1, done=Held("one", (one.rows[0].id, 0)))
    none = take(limit, "three", at + 1, done=Held("two", (two.rows[0].id,)))
    assert [(fetched.acked, [row.key for row in fetched.rows]) for fetched in (one, two, none)] == [
        (0, ["a"]), (1, ["b"]), (1, [])]  # fmt: skip
    assert none.next_due == at + 50 and polled == [LOWEST, at + 1, LOWEST, at + 1]


def test_a_poll_of_nothing_reads_none_of_the_dead_rows_at_the_ends_of_leases(postgres):
    """While another transaction holds an old snapshot, no vacuum and no other poll can remove them."""
    import psycopg

    from drainq.delayed.storage.postgres.take_sql import TAKE

    queue = postgres.open()
    queue.offer_batch([ScheduledMessage(f"{n}", n, postgres.now - 10) for n in range(3_000)])
    storage, now = queue._session.storage, int(postgres.now * 1000)
    with psycopg.connect(postgres.url) as backup:
        backup.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        backup.execute("SELECT pg_current_snapshot()")
        assert queue.consume(lambda batch: None, batch_size=1_000, until="empty") == 3_000

        def blocks(soon):
            values = {
                "kind": queue._session.kind,
                "now": now,
                "until": 1,
                "lock": "x",
                "holder": "",
                "start": now - 1000,
            }
            poll = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + storage._fill(TAKE["due", False], 1)
            with storage._pool.transaction() as cursor:
                plan = cursor.execute(poll, {**values, "soon": soon}).fetchone()[0][0]["Plan"]
            return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

        assert blocks(now + storage._poll_period_ms) < 50 < 100 < blocks(now + 10**9)


def test_a_take_within_limits_takes_no_more_than_asked_for_and_says_how_many_it_ended(queue, world):
    queue.offer_batch([ScheduledMessage(key, key, world.now) for key in ("a1", "a2", "b1", "b2", "b3")])
    at, takes = int(world.now * 1000), []
    for limits in ({"a": 1}, {"": 0}):
        done = Held("lock", tuple(row.id for fetched in takes for row in fetched.rows))
        takes.append(
            queue._session.storage.acquire_within(queue._session.kind, done, limits, 2, at, at + 60_000, "lock")
        )
    assert [(fetched.acked, [row.key for row in fetched.rows]) for fetched in takes] == [(0, ["a1", "b1"]), (2, [])]
