"""Of the messages of a group at most one is in flight, in the order of their due times. On every back end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq import Backoff
from drainq.delayed import OfferOutcome, ScheduledMessage, TimeConfig
from drainq.delayed.storage.postgres.offer_batch import some_texts
from drainq.delayed.storage.records import Held

from ..patience import PATIENCE


def offer(queue, world, *keys, at=0.0, priority=0):
    """Offer messages a second apart; the group is the first letter of a key, none if that is a digit."""
    queue.offer_batch(
        [
            ScheduledMessage(
                key, key, world.now - 100 + at + n, True, priority, None, key[0] if key[0].isalpha() else None
            )
            for n, key in enumerate(keys)
        ]
    )


def taken(queue):
    return [envelope.payload for envelope in iter(queue.try_poll, None)]


def test_a_group_is_delivered_one_by_one_in_the_order_of_due_times(queue, world):
    offer(queue, world, "a2", "b1", "1", "a3", "b2", "2")
    offer(queue, world, "a1", at=-1)
    batch = queue.try_poll_many(10)
    assert batch.payload == ["a1", "b1", "1", "2"]
    assert taken(queue) == []
    assert batch.ack_some(["a1"])
    second = queue.try_poll()
    assert second.payload == "a2" and taken(queue) == []
    assert second.ack() and taken(queue) == ["a3"]


def test_messages_of_one_due_time_go_by_their_order_of_offer(queue, world):
    queue.offer_batch([ScheduledMessage(key, key, world.now, group="g") for key in ("c", "a", "b")])
    seen = []
    while (envelope := queue.try_poll()) is not None:
        seen.append(envelope.payload)
        envelope.ack()
    assert seen == ["c", "a", "b"]


def test_every_way_to_take_messages_takes_one_of_a_group(world):
    queue = world.open()
    offer(queue, world, "a1", "a2", "b1", "b2", "1")
    assert [envelope.payload for envelope in queue.get_next_batch(9)] == ["a1", "b1", "1"]
    queue.release(prefix="a"), queue.release(prefix="b")
    seen, stop = [], threading.Event()

    def handle(batch):
        seen.append(batch.payload)
        stop.set()

    queue.consume(handle, batch_size=9, stop=stop)
    assert seen == [["a1", "b1"]]


def test_a_message_that_waits_for_its_next_try_holds_back_its_group(queue, world):
    offer(queue, world, "a1", "a2", "b1")
    assert queue.try_poll().nack(delay=20)
    assert taken(queue) == ["b1"]
    world.clock.advance(20)
    again = queue.try_poll()
    assert (again.payload, again.attempt) == ("a1", 2) and taken(queue) == []


def test_a_message_that_becomes_a_dead_letter_lets_the_next_one_go(world):
    queue = world.open()
    offer(queue, world, "a2", at=1)
    queue.offer("a1", "a1", world.now - 200, group="a", max_attempts=1)
    assert queue.try_poll().nack()
    assert queue.try_poll().payload == "a2"


def test_an_expired_lease_is_taken_over_before_the_next_message(queue, world):
    offer(queue, world, "a1", "a2")
    lost = queue.try_poll()
    world.clock.advance(31)
    again = queue.try_poll()
    assert again.payload == "a1" and taken(queue) == []
    assert not lost.ack() and taken(queue) == []
    assert again.ack() and taken(queue) == ["a2"]


def test_a_message_that_is_not_due_holds_back_no_earlier_one(queue, world):
    offer(queue, world, "a9", at=1000)
    offer(queue, world, "a1")
    assert taken(queue) == ["a1"]


def test_an_earlier_message_waits_for_the_one_in_flight(queue, world):
    offer(queue, world, "a2")
    held = queue.try_poll()
    offer(queue, world, "a1", at=-50)
    assert taken(queue) == []
    assert held.nack()
    assert queue.try_poll().payload == "a1"


def test_a_message_that_is_put_off_lets_the_others_pass(queue, world):
    offer(queue, world, "a1", "a2")
    assert queue.try_poll().snooze(500)
    assert taken(queue) == ["a2"]


def test_an_offer_for_the_key_of_a_message_in_flight_ends_its_lease_and_gives_it_another_group(queue, world):
    offer(queue, world, "a1", "a2")
    assert queue.try_poll().payload == "a1"
    assert queue.offer("a1", "new", world.now, group="b") is OfferOutcome.UPDATED
    assert sorted(taken(queue)) == ["a2", "new"]
    assert queue.offer("a1", "new", world.now, group="b") is OfferOutcome.IGNORED
    assert queue.offer("a1", "new", world.now) is OfferOutcome.UPDATED


def test_other_queues_have_other_groups(world):
    queue, other = world.open(), world.open("other")
    offer(queue, world, "a1"), offer(other, world, "a1")
    assert (taken(queue), taken(other)) == (["a1"], ["a1"])


def test_the_first_of_a_group_comes_first_whatever_its_priority(queue, world):
    offer(queue, world, "a1", priority=7)
    offer(queue, world, "a2", "b1", at=1, priority=-7)
    offer(queue, world, "1", at=2)
    first = queue.try_poll_many(9)
    assert first.payload == ["b1", "1", "a1"]
    assert first.ack() and taken(queue) == ["a2"]


@pytest.mark.parametrize("priority", [0, -1])
def test_a_limit_and_groups_hold_together(queue, world, priority):
    offer(queue, world, "a1", "a2", "b1", "b2", "c1", "1", priority=priority)

    def take(limits, done=None):
        return [row.key for row in queue._session.take_once(done, 9, limits)[0].rows]

    assert take({"": 2}) == ["a1", "b1"]
    assert take({"": 4, "c": 1}) == ["c1", "1"]
    assert take({"": 99}) == []


@pytest.mark.parametrize("priority", [0, -1])
@pytest.mark.parametrize("limit", [1, 4, 5])
def test_one_call_acknowledges_a_message_and_takes_the_next_of_its_group(queue, world, priority, limit):
    offer(queue, world, "a1", "a2", "a3", priority=priority)
    session, done = queue._session, None
    for key in ("a1", "a2", "a3"):
        fetched, lock = session.take_once(done, limit, {})
        assert [row.key for row in fetched.rows] == [key]
        assert fetched.acked == (done is not None)
        done = Held(lock, (fetched.rows[0].id,))
    assert session.take_once(done, limit, {})[0].acked == 1


@pytest.mark.parametrize("count", [1, 2, 1001])
def test_another_group_is_an_update_and_an_equal_one_is_none(world, count):
    queue = world.open()

    def offers(group, update=True):
        groups = [None] * (count - 1) + [group]
        batch = [ScheduledMessage(f"{n}", n, 5.0, update, group=group) for n, group in enumerate(groups)]
        return queue.offer_batch(batch)[-1], queue.peek(1, key=f"{count - 1}")[0].group

    assert offers(None) == (OfferOutcome.CREATED, None)
    assert offers("é" * 200) == (OfferOutcome.UPDATED, "é" * 200)
    assert offers("é" * 200) == (OfferOutcome.IGNORED, "é" * 200)
    assert offers("h", update=False) == (OfferOutcome.IGNORED, "é" * 200)
    assert offers(None) == (OfferOutcome.UPDATED, None)


def test_a_dead_letter_that_is_put_back_keeps_its_group(world):
    queue = world.open(max_attempts=1)
    offer(queue, world, "a1")
    assert queue.try_poll().nack(error="no")
    assert queue.dead_letters()[0].group == "a"
    assert queue.redrive() == 1 and queue.peek()[0].group == "a"


@pytest.mark.parametrize("wrong", ["", "g" * 201, 3, b"g", "a\0", "\ud800"])
def test_what_is_no_group_is_refused(world, wrong):
    queue = world.open()
    with pytest.raises(ValueError, match="a group"):
        queue.offer("a", 1, group=wrong)
    with pytest.raises(ValueError, match="message 8 of the batch: a group"):
        queue.offer_batch([ScheduledMessage(f"{n}", n, group=wrong if n == 8 else None) for n in range(10)])
    assert queue.peek() == []


def test_a_batch_without_groups_sends_none():
    assert some_texts((None, None)) is None
    assert some_texts((None, "ab"))[-10:] == b"\xff\xff\xff\xff\0\0\0\2ab"


@pytest.mark.parametrize("how", ["ack", "drop", "bury", "read", "connection"])
def test_what_frees_a_group_wakes_a_consumer_that_waits(world, how):
    import sqlite3

    if how == "connection" and world.backend != "sqlite":
        pytest.skip("one back end is enough for a wake-up")
    queue = world.open(time=TimeConfig(poll_period=3600), max_attempts=1)
    offer(queue, world, "a1", "a2")
    held = queue.try_poll()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.poll, PATIENCE)
        while not queue._session.wakeup._waiting:
            threading.Event().wait(0.001)
        if how == "ack":
            held.ack()
        elif how == "drop":
            queue.drop_message("a1")
        elif how == "bury":
            held.nack(error="no")
        elif how == "read":
            queue.read("a1").ack()
        else:
            connection = sqlite3.connect(world.url.removeprefix("sqlite:///"))
            held.ack(connection=connection)
            connection.commit()
            connection.close()
        assert waiting.result(PATIENCE + 5).payload == "a2"


def test_a_consumer_wakes_others_only_if_it_leaves_a_group_to_them(world, monkeypatch):
    queue, seen, wakes, stop = world.open(), [], [], threading.Event()
    offer(queue, world, "a1", "b1")
    offer(queue, world, "a2", "a3", at=10)
    monkeypatch.setattr(queue._session.wakeup, "wake", lambda: wakes.append(len(seen)))

    def handle(envelope):
        seen.append(envelope.payload)
        if len(seen) == 4:
            stop.set()

    queue.consume(handle, stop=stop, prefetch=1)
    assert seen == ["a1", "b1", "a2", "a3"]
    assert wakes[:2] == [1, 2], "another consumer may take what follows a1 and b1"
    assert 3 not in wakes, "a3 follows a2 in the same consumer"


def test_a_failing_head_of_a_group_is_tried_again_before_the_next(world):
    queue, seen, stop = world.open(max_attempts=3), [], threading.Event()
    offer(queue, world, "a1", "a2", "a3")

    def handle(envelope):
        seen.append(envelope.payload)
        if envelope.payload == "a2":
            raise ValueError("no")
        if envelope.payload == "a3":
            stop.set()

    queue.consume(handle, stop=stop, backoff=Backoff(0, 0))
    assert seen == ["a1", "a2", "a2", "a2", "a3"]


def test_two_consumers_that_cross_never_hold_two_of_a_group(postgres):
    """One has taken a message and not committed; meanwhile an earlier one is offered, which the other would take."""
    import psycopg

    queue = postgres.open()
    offer(queue, postgres, "a2")
    session = queue._session
    with psycopg.connect(postgres.url) as first, ThreadPoolExecutor(1) as pool:
        take = f'UPDATE {postgres.table} SET "lockUuid" = %s, "scheduledAt" = %s WHERE "pKey" = %s'
        first.execute(take, ("first", int(postgres.now * 1000) + 30_000, "a2"))
        offer(queue, postgres, "a1", at=-50)
        second = pool.submit(session.take_once, None, 1, {})
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        with psycopg.connect(postgres.url, autocommit=True) as observer:
            for _ in range(5000):
                if observer.execute(waiting, (f"%{postgres.table}%",)).fetchone()[0]:
                    break
                threading.Event().wait(0.001)
            else:
                raise AssertionError("the second consumer does not wait for the first")
        first.commit()
        assert second.result(PATIENCE)[0].rows == []
    queue.release(key="a2")
    assert session.take_once(None, 9, {})[0].rows[0].key == "a1"


@pytest.mark.parametrize("in_flight", [0, 4])
@pytest.mark.parametrize("order", ["near", "groups"])
def test_a_long_group_costs_a_fetch_as_much_as_a_short_one(postgres, order, in_flight):
    import json

    import psycopg

    from drainq.delayed.storage.postgres.scan_floor import LOWEST
    from drainq.delayed.storage.postgres.take_sql import TAKE

    queue = postgres.open()
    queue.offer_batch([ScheduledMessage(f"{n:05}", n, postgres.now - 9000 + n, group=f"{n % 4}") for n in range(5000)])
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"VACUUM ANALYZE {postgres.table}")
    held = queue.try_poll_many(in_flight)
    session, now = queue._session, int(postgres.now * 1000)
    values = {"kind": session.kind, "now": now, "until": now + 1, "lock": "x", "holder": "", "start": LOWEST}
    for acknowledge in (False, True) if order == "near" else (False,):
        more = {"done": [], "held": "none"} if acknowledge else {}
        take = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + session.storage._fill(TAKE[order, acknowledge], 1)
        with session.storage._pool.transaction() as cursor:
            plan = cursor.execute(take, {**values, **more, "soon": now + 3000, "after": "1"}).fetchone()[0]
        assert '"Sort"' not in json.dumps(plan), plan
        assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 200
    assert len(held.payload) == in_flight


@pytest.fixture
def crowd(queue, world):
    """A queue in whose front 200 messages of one group wait for the first, which is in flight."""
    offer(queue, world, *(f"a{n}" for n in range(200)), at=-900)
    return queue, queue.try_poll()


def test_messages_behind_a_long_group_are_delivered(crowd, world):
    queue, held = crowd
    offer(queue, world, "b1", "b2", "1", "c1", "2")
    seen = taken(queue)
    assert held.payload == "a0" and sorted(seen) == ["1", "2", "b1", "c1"]
    assert seen.index("1") < seen.index("2")
    assert held.ack() and taken(queue) == ["a1"]


def test_a_batch_behind_a_long_group_holds_one_message_of_each_group(crowd, world):
    queue, _ = crowd
    offer(queue, world, "b1", "b2", "c1", "1")
    found = [*queue.try_poll_many(9).payload, *queue.try_poll_many(9).payload]
    assert sorted(found) == ["1", "b1", "c1"] and taken(queue) == []


def test_an_expired_lease_behind_a_long_group_is_taken_over(crowd, world):
    queue, held = crowd
    offer(queue, world, "b1", "b2")
    lost = queue.try_poll()
    world.clock.advance(20)
    assert held.extend(100) and lost.payload == "b1"
    world.clock.advance(11)
    again = queue.try_poll()
    assert (again.payload, again.attempt) == ("b1", 2) and taken(queue) == []


def test_a_paused_queue_delivers_nothing_behind_a_long_group(crowd, world):
    queue, _ = crowd
    offer(queue, world, "b1", "1")
    queue.pause()
    assert taken(queue) == []
    queue.resume()
    assert sorted(taken(queue)) == ["1", "b1"]


def test_groups_behind_a_long_one_have_a_turn_each_and_leave_one_to_messages_without_a_group(postgres):
    queue = postgres.open()
    offer(queue, postgres, *(f"a{n}" for n in range(200)), at=-900)
    held = queue.try_poll()
    offer(queue, postgres, *(f"{group}{n}" for group in "bcd" for n in range(9)), "1", "2")
    seen = []
    for _ in range(20):
        envelope = queue.try_poll()
        seen.append(envelope.payload)
        assert envelope.ack()
    assert held.payload == "a0" and {"1", "2"} < set(seen)
    groups = "".join(key[0] for key in seen if key not in "12")
    assert groups in "bcd" * 9


def test_an_sqlite_file_finds_the_messages_in_flight_by_their_locks(sqlite):
    storage = sqlite.open()._session.storage
    values = {"kind": "k", "now": 0, "limit": 1, "lock": "x", "until": 1, "holder": ""}
    plan = "\n".join(
        step for *_, step in storage._opened.execute(f"EXPLAIN QUERY PLAN {storage._sql['ACQUIRE']}", values)
    )
    assert "SEARCH h USING INDEX" in plan and "LockUuidPlusIdIndex (lockUuid>?)" in plan
    assert "KindPlusGroupIndex (pKind=? AND inGroup=?)" in plan and "FOR ORDER BY" not in plan.split("h USING")[-1]
