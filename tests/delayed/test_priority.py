"""Of the messages that are due, those with a lower number come first. On every back end."""

from __future__ import annotations

import itertools
import sqlite3
import threading

import pytest

from drainq.delayed import ScheduledMessage, TimeConfig
from drainq.delayed.storage.records import Row
from tests.soak.ledger import wait_until


def message(world, key, priority=0, at=0.0):
    return ScheduledMessage(key, key, world.now + at, priority=priority)


def taken(queue, n=100):
    return [envelope.payload for envelope in iter(queue.try_poll, None)][:n]


def test_consume_and_its_limit_go_by_priority(world):
    queue = world.open()
    queue.offer_batch([message(world, f"{n}", -(n % 3), -n) for n in range(9)])
    stop, seen = threading.Event(), []

    def handle(envelope):
        seen.append(int(envelope.payload))
        if len(seen) == 4 or len(seen) == 9:
            stop.set()

    queue.consume(handle, stop=stop)
    stop.clear()
    queue.consume(handle, stop=stop, max_in_flight=1)
    assert seen == [8, 5, 2, 7, 4, 1, 6, 3, 0]


@pytest.mark.parametrize("by", ["offer", "offer_or_update", "offer_if_not_exists"])
def test_each_way_to_offer_passes_the_priority_on(world, by):
    queue = world.open()
    for key, priority in (("last", 2), ("first", -1), ("next", 0)):
        getattr(queue, by)(key, key, world.now, priority=priority)
    assert [(message.key, message.priority) for message in queue.peek(prefix="")] == [
        ("last", 2),
        ("first", -1),
        ("next", 0),
    ]
    assert taken(queue) == ["first", "next", "last"]


def test_other_queues_know_nothing_of_a_queues_priorities(world):
    queue, other = world.open(), world.open("other")
    queue.offer_or_update("a", "a", world.now, priority=1)
    other.offer_batch([message(world, "late", 0, -1), message(world, "early", 0, -2)])
    assert taken(other) == ["early", "late"]


def test_an_offer_with_a_priority_in_a_callers_transaction_is_part_of_it(sqlite):
    queue = sqlite.open()
    for end in ("rollback", "commit"):
        connection = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"))
        queue.offer_or_update("urgent", "urgent", sqlite.now, priority=-1, connection=connection)
        getattr(connection, end)()
        connection.close()
        state = queue._session.storage._ask("STATE", {"kind": queue._session.kind})
        assert any(ranked for _, ranked in state) == (end == "commit")
        queue.offer_or_update("plain", "plain", sqlite.now - 10)
        assert taken(queue) == (["plain"] if end == "rollback" else ["urgent", "plain"])
        sqlite.clock.advance(-1)


def test_taken_rows_are_in_order_of_priority_then_time_then_number(world):
    rows = [
        Row(number, "", b"", time, 0, 1, 0, True, priority)
        for priority, time, number in itertools.product((-1, 0, 2), (5, 7), (3, 4))
    ]
    assert world.open()._session.storage._in_order(rows[::-1]) == rows


@pytest.mark.parametrize("priority", [2**31 - 1, -(2**31)])
def test_the_greatest_priorities_are_stored(queue, world, priority):
    queue.offer_or_update("a", 1, world.now, priority=priority)
    assert queue.peek()[0].priority == priority
    assert queue.try_poll().payload == 1
    if world.backend == "sqlite":  # one statement tells it, once
        assert queue._session.storage._by_priority == {queue._session.kind}


def indexes(world):
    """Return the names of the indexes on a world's table."""
    if world.backend == "sqlite":
        with sqlite3.connect(world.url.removeprefix("sqlite:///")) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    else:
        import psycopg

        with psycopg.connect(world.url) as connection:
            found = connection.execute(
                "SELECT indexname FROM pg_indexes WHERE tablename = %s", [world.table]
            ).fetchall()
    return {name.removeprefix(world.table) for (name,) in found}


RANK_INDEX = "__KindPlusPriorityIndex"


def test_the_index_for_priorities_costs_a_queue_without_them_nothing(database):
    queue = database.open()
    queue.offer_batch([message(database, f"{n}") for n in range(3)])
    database.open().close()
    if database.backend == "sqlite":
        assert RANK_INDEX not in indexes(database)
    else:
        size = f"SELECT pg_catalog.pg_relation_size('\"{database.table}{RANK_INDEX}\"')"
        with queue._session.storage._pool.cursor() as cursor:
            assert cursor.execute(size).fetchone()[0] == 8192, "an index without entries"
    queue.offer_or_update("urgent", "urgent", database.now, priority=-1)
    wait_until(lambda: RANK_INDEX in indexes(database), "the index")
    assert taken(database.open()) == ["urgent", "0", "1", "2"]


def test_the_index_for_priorities_that_could_not_be_made_is_made_by_the_next_open(database):
    queue = database.open(migrate=False) if database.open() else None
    queue.offer_or_update("urgent", "urgent", database.now, priority=-1)
    database.lose_the_priority_index()
    assert RANK_INDEX not in indexes(database)
    database.open()
    assert RANK_INDEX in indexes(database)


def test_offers_with_priorities_in_open_transactions_wait_for_none(postgres):
    """The second transaction gives up after a second if it must wait for the first, and pausing would, too."""
    import psycopg

    one, other = postgres.open("one"), postgres.open("other")
    with psycopg.connect(postgres.url) as first, psycopg.connect(postgres.url) as second:
        second.execute("SET lock_timeout = '1s'")
        for which, (queue, again) in enumerate([(one, other), (other, one)]):
            for number, connection in enumerate((first, second)):
                queue.offer(f"{which} {number}", 1, priority=1, connection=connection)
                again.offer(f"more {which} {number}", 1, priority=1, connection=connection)
        assert one.pause() and one.resume()
        second.rollback()
    assert (len(one.peek()), len(other.peek())) == (2, 2)


def test_a_message_without_priority_is_found_behind_many_with_a_lower_one(postgres, monkeypatch):
    """Slow polls skip the messages before the first of priority 0, until the queue offers an earlier one."""
    from drainq.delayed.storage.postgres import scan_floor

    monkeypatch.setattr(scan_floor, "SLOW", 0.0)
    monkeypatch.setattr(scan_floor, "IN_A_ROW", 1)
    monkeypatch.setattr(scan_floor, "HELPS", 0.0)
    queue = postgres.open(time=TimeConfig(poll_period=3600))  # however slow the machine is
    queue.offer_batch([message(postgres, f"low {n}", 1, n - 100) for n in range(50)])
    assert len(taken(queue)) == 50
    assert queue._session.storage._mark(queue._session.kind).start() > scan_floor.LOWEST
    queue.offer_batch([message(postgres, f"more {n}", 1, n - 100) for n in range(50)])
    queue.offer("plain", "plain", postgres.now - 1000)
    assert taken(queue)[:2] == ["plain", "more 0"]


def test_a_slow_poll_that_was_answered_by_priority_or_by_pause_hides_no_message(postgres, monkeypatch):
    """The poll did not search: it says nothing about what is due."""
    from drainq.delayed.storage.postgres import scan_floor

    monkeypatch.setattr(scan_floor, "SLOW", -1.0)
    monkeypatch.setattr(scan_floor, "IN_A_ROW", 1)
    queue, other = postgres.open(), postgres.open()
    other.offer("urgent", "urgent", postgres.now - 3600, priority=-1)
    other.offer("plain", "plain", postgres.now - 3600)
    assert taken(queue) == ["urgent", "plain"]  # its first poll learns that there are priorities
    other.offer("later", "later", postgres.now - 3600)
    assert queue.pause() and taken(queue) == []
    assert queue.resume() and taken(queue) == ["later"]


def test_a_poll_by_priority_does_not_look_at_the_backlog(postgres):
    import json

    import psycopg

    from drainq.delayed.storage.postgres.scan_floor import LOWEST
    from drainq.delayed.storage.postgres.take_sql import TAKE

    queue = postgres.open(migrate=False) if postgres.open() else None
    queue.offer_batch([message(postgres, f"{n}", n % 7 - 3, -1) for n in range(5000)])
    queue.offer_batch([message(postgres, f"later {n}", n % 2 * -5, 1000) for n in range(5000)])
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"VACUUM ANALYZE {postgres.table}")
    session = queue._session
    values = {
        "kind": session.kind,
        "now": int(postgres.now * 1000),
        "until": 1,
        "lock": "x",
        "holder": "",
        "start": LOWEST,
        "soon": int(postgres.now * 1000) + 3000,
    }
    for limit, most in ((1, 60), (100, 3500)):
        take = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + session.storage._fill(TAKE["priority", False], limit)
        with session.storage._pool.transaction() as cursor:
            plan = cursor.execute(take, values).fetchone()[0]
        assert '"Sort"' not in json.dumps(plan), plan
        assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < most
