"""An operator sees who holds a message and why it failed, and frees, moves and deletes messages. On every back end."""

from __future__ import annotations

import json
import os
import platform
import re

import msgspec
import pytest

from drainq.delayed import BytesCodec, DelayedQueue, MsgspecCodec, ScheduledMessage
from drainq.delayed.lease import LeaseKeeper
from drainq.delayed.storage.operator_calls import stored_message
from drainq.delayed.storage.records import Chosen, leased_at, new_lock
from tests.delayed.test_cli import call  # noqa: F401


class Order(msgspec.Struct):
    """A payload."""

    item: str


class PurchaseOrder(Order):
    """The same under a new name."""


def offer(queue, world, keys, delay=0.0):
    queue.offer_batch([ScheduledMessage(key, key, world.now + delay) for key in keys])


def test_the_holder_its_lease_and_the_last_error_of_a_message_are_shown(world):
    queue = world.open(consumer="worker-7")
    offer(queue, world, ["a"])
    queue.try_poll().nack(error=ValueError("no such address"))
    world.clock.advance(5)
    held = queue.try_poll()
    (row,) = queue.peek(key="a")
    assert (row.last_error, row.attempts, row.in_flight) == ("ValueError: no such address", 2, True)
    assert row.holder == f"{platform.node()}/{os.getpid()}/worker-7"
    assert (row.leased_at.timestamp(), row.due_at.timestamp()) == (world.now, world.now + 30)
    held.nack()
    (row,) = queue.peek(key="a")
    assert (row.holder, row.leased_at, row.last_error) == (None, None, "ValueError: no such address")


@pytest.mark.parametrize("lock", [None, "b" * 32, "6f1ab5c4-40cd-4e5a-a2cf-2aba41c3a1d2"])
def test_a_lock_of_an_older_version_or_of_the_other_library_tells_no_time_and_no_holder(lock):
    assert leased_at(lock) is None
    row = stored_message(("a", b"1", 0, 0, 0, 1, 0, None, "host/1/earlier", lock, None, None))  # who held it before
    assert (row.in_flight, row.holder, row.leased_at) == (lock is not None, None, None)
    assert leased_at(new_lock(1_500)).timestamp() == 1.5 and len(new_lock(253_402_300_799_999)) <= 36
    assert new_lock(-5) < new_lock(5) < new_lock(253_402_300_799_999)


@pytest.mark.parametrize("name", ["", "é", "a\nb", 7])
def test_a_name_of_a_consumer_that_not_every_database_stores_is_refused(name):
    with pytest.raises(ValueError, match="consumer must be printable ASCII"):
        DelayedQueue.open("memory:", consumer=name)


def test_a_message_is_released_by_key_prefix_holder_or_age_and_its_consumer_loses_it(world):
    queue, other = world.open(consumer="one"), world.open(consumer="two")
    offer(queue, world, ["a/1", "a/2", "b/1", "b/2", "c/1"])
    first = queue.try_poll()
    world.clock.advance(10)
    held = [queue.try_poll(), other.try_poll(), other.try_poll()]
    assert queue.release("c/1") == queue.release(prefix="c/") == queue.release(holder="three") == 0
    assert queue.release(older_than=11) == 0
    assert queue.release(older_than=5) == 1
    assert (first.ack(), queue.peek(key="a/1")[0].in_flight) == (False, False)
    assert queue.release(prefix="a/") == 1 and queue.release("a/2") == 0
    assert queue.release(holder="two") == 2
    assert [envelope.ack() for envelope in held] == [False] * 3
    again = queue.try_poll_many(9)
    assert again.message_id == ["a/1", "a/2", "b/1", "b/2", "c/1"] and again.attempt == [2, 2, 2, 2, 1]
    host = platform.node()
    assert queue.release(prefix="a/", holder=f"{host}/{os.getpid()}") == 2
    assert queue.release(holder=host[:-1]) == 0 and queue.release(holder=host) == 3


def test_a_waiting_message_gets_another_time_and_keeps_its_attempts(world):
    queue = world.open()
    offer(queue, world, ["a", "ab", "b"], 100)
    offer(queue, world, ["due", "held"])
    held = queue.get_next_batch(2)[1]
    assert queue.release("due") == 1
    assert queue.reschedule("held") == queue.reschedule("due") == queue.reschedule("nosuch") == 0
    assert queue.reschedule("b") == 1
    assert queue.reschedule(prefix="a", at=world.now + 7) == 2
    assert {row.key: row.due_at.timestamp() - world.now for row in queue.peek() if row.key != "held"} == {
        **{"due": 0, "b": 0},
        **{"a": 7, "ab": 7},
    }
    assert held.nack() and queue.reschedule("held", delay=60) == 1
    assert queue.try_poll_many(9).message_id == ["b", "due"]
    world.clock.advance(60)
    late = queue.try_poll_many(9)
    assert dict(zip(late.message_id, late.attempt)) == {"a": 1, "ab": 1, "held": 2, "due": 3, "b": 2}


def test_a_rescheduled_message_wakes_a_consumer_that_waits(queue, world):
    offer(queue, world, ["a"], 100)
    noted = queue._session.wakeup.count()
    queue.reschedule("a")
    assert queue._session.wakeup.count() != noted


def test_messages_of_a_prefix_are_dropped_in_flight_or_not_and_others_stay(queue, world):
    offer(queue, world, ["a%_1", "a%_2", "axx1", "A%_3", "b"])
    held = queue.try_poll()
    assert queue.drop_messages("a%_") == 2 and not held.ack()
    assert {row.key for row in queue.peek()} == {"axx1", "A%_3", "b"}
    assert [row.key for row in queue.peek(prefix="a")] == ["axx1"] and queue.peek(key="a") == []


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("release", {}, "name the messages"),
        ("release", {"key": "a", "prefix": "b"}, "key or prefix"),
        ("release", {"older_than": -1}, "older_than"),
        ("release", {"holder": 5}, "holder must be a str"),
        ("reschedule", {}, "name the messages"),
        ("reschedule", {"key": "a", "at": 5.0, "delay": 3}, "at or delay"),
        ("drop_messages", {"prefix": ""}, "must not be empty"),
        ("peek", {"key": "a", "prefix": "b"}, "key or prefix"),
    ],
)
def test_conditions_that_mean_nothing_or_by_mistake_all_are_refused(method, arguments, error):
    with DelayedQueue.open("memory:") as queue, pytest.raises((ValueError, TypeError), match=error):
        getattr(queue, method)(**arguments)


def test_one_query_counts_the_messages_of_all_queues_of_a_table(world, monkeypatch):
    queue, bills = world.open(max_attempts=1), world.open("bills")
    monkeypatch.setattr("time.time", world.clock.now)
    offer(queue, world, ["a", "b", "c", "d"])
    offer(queue, world, ["later"], 100)
    queue.try_poll().nack(error="no")
    held = queue.try_poll()
    queue.offer_or_update("now", "N", 0)  # it waits since its offer, and not since 1970
    world.clock.advance(3)
    found = {info.name: info for info in DelayedQueue.queues(world.url, table=world.table)}
    mail, empty = found["mail"], found["bills"]
    assert (mail.ready, mail.scheduled, mail.in_flight, mail.oldest_ready_age, mail.dead) == (3, 1, 1, 3.0, 1)
    assert (empty.ready, empty.scheduled, empty.in_flight, empty.oldest_ready_age, empty.dead) == (0, 0, 0, 0.0, 0)
    assert held.ack() and bills.stats().ready == 0


def test_stats_tell_of_a_pause_and_of_messages_under_another_codec(world):
    queue, renamed = world.open(codec=MsgspecCodec(Order)), world.open(codec=MsgspecCodec(PurchaseOrder))
    queue.offer("a", Order("lamp"))
    world.open("other").offer("b", 1)
    assert (renamed.stats().elsewhere, queue.stats().elsewhere, renamed.stats().paused) == (1, 0, False)
    renamed.pause()
    assert (renamed.stats().paused, queue.stats().paused) == (True, False)


def test_a_class_that_is_renamed_finds_its_messages_by_the_former_name(world):
    world.open(codec=MsgspecCodec(Order)).offer("a", Order("lamp"))
    queue = world.open(codec=MsgspecCodec(PurchaseOrder, name="Order"))
    assert queue.try_poll().payload == PurchaseOrder("lamp") and queue.stats().elsewhere == 0
    assert MsgspecCodec(name="orders").type_name == "json:orders"
    with pytest.raises(ValueError, match="name must be a text"):
        MsgspecCodec(Order, name=" ")


def test_one_message_and_the_first_of_all_are_found_by_index_in_a_long_queue(postgres):
    queue = postgres.open()
    offer(queue, postgres, [f"{n:05}" for n in range(5000)], 100)
    storage, kind = queue._session.storage, queue._session.kind

    def plan(chosen, name="PEEK"):
        with storage._pool.patient() as cursor:
            assert cursor.execute("SHOW plan_cache_mode").fetchone() == ("force_custom_plan",)
            values = {**chosen.values(kind), "limit": 10, "at": 1, "now": 2}
            return str(cursor.execute("EXPLAIN " + storage._sql[name], values).fetchall())

    with storage._pool.cursor() as cursor:
        cursor.execute(f'ANALYZE "{postgres.table}"')
    for name in ("PEEK", "RESCHEDULE", "DROP_ALL"):
        assert "PKeyPlusKindUniqueIndex" in plan(Chosen(key="00077"), name), name
    assert "KindPlusScheduledAtIndex" in plan(Chosen()) and "Sort" not in plan(Chosen())
    assert "LockUuidPlusIdIndex" in plan(Chosen(holder="h"), "FREE")


def test_what_was_planned_while_the_tables_were_empty_finds_keys_by_their_index(postgres):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.url) as connection:
        storage = postgres.open()._session.storage
        values = dict.fromkeys("kind key prefix hash".split(), "k") | dict.fromkeys(("at", "now"), 1)
        values |= {"keys": ["k"], "payload": b""}
        for index, names in (
            ("PKeyPlusKindUniqueIndex", ("READ", "CONTAINS", "DROP", "STORED", "UPDATE_TICK")),
            ("cron_pkey", ("MADE_TICKS", "SCHEDULE_STATE")),
        ):
            for name in names:
                plan = str(connection.execute("EXPLAIN " + storage._sql[name], values).fetchall())
                assert index in plan and "KindPlusScheduledAtIndex" not in plan, name


# --- what a handler does and learns


def test_a_snoozed_message_comes_again_later_and_the_delivery_does_not_count(world):
    queue = world.open(max_attempts=2)
    offer(queue, world, ["a"])
    for _ in range(5):
        envelope = queue.try_poll()
        assert envelope.attempt == 1 and envelope.snooze(10)
        assert (envelope.ack(), envelope.snooze(1), queue.try_poll()) == (False, False, None)
        world.clock.advance(10)
    assert queue.consume(lambda it: it.snooze(5), until="empty") == 1 and queue.stats().scheduled == 1
    assert queue.read("a").snooze(1) is False and queue.try_poll_many(3).snooze(1) is True


def test_a_handler_is_told_that_its_message_was_taken_away(world):
    queue = world.open()
    offer(queue, world, ["a"])
    keeper = LeaseKeeper(queue._session)  # not entered: the checks are the test's to make
    keeper.hold(envelope := queue.try_poll())
    world.clock.advance(10)
    keeper._extend_in_time()
    assert envelope.revoked is False
    queue.drop_message("a")
    world.clock.advance(10)
    keeper._extend_in_time()
    assert envelope.revoked is True


def test_dead_letters_that_are_too_old_are_deleted_once_an_hour_by_a_consumer(world):
    queue, other = world.open(max_attempts=1, keep_dead=100), world.open("other", max_attempts=1)
    for age in (200, 50):
        offer(queue, world, [f"{age} ago"]), offer(other, world, ["old"])
        queue.try_poll().nack(), other.try_poll().nack()
        world.clock.advance(age - 50 or 50)
    assert queue.consume(print, until="empty") == 0
    assert [letter.key for letter in queue.dead_letters()] == ["50 ago"] and other.stats().dead == 2
    world.clock.advance(3599)
    assert queue.consume(print, until="empty") == 0 and queue.stats().dead == 1
    world.clock.advance(1)
    assert queue.consume(print, until="empty") == 0 and queue.stats().dead == 0
    with pytest.raises(ValueError, match="keep_dead"):
        DelayedQueue.open("memory:", keep_dead=-1)


# --- the command


@pytest.mark.parametrize("codec", [None, BytesCodec(), MsgspecCodec(Order)], ids=["json", "bytes", "struct"])
def test_one_message_is_shown_and_freed_whatever_its_codec(call, database, codec):  # noqa: F811
    queue = database.open(clock=None, codec=codec, consumer="w1")
    payload = {None: 1}.get(codec) or (b"\xff\x00" if isinstance(codec, BytesCodec) else Order("lamp"))
    queue.offer("a", payload)
    queue.try_poll().nack(error="no such\naddress")
    held = queue.try_poll()
    shown = json.loads(call("show", "a", "--queue", "mail", "--json")[1])
    assert (shown["last_error"], shown["attempts"], shown["in_flight"]) == ("no such\naddress", 2, True)
    assert shown["holder"].endswith("/w1") and 0 <= shown["held_for"] < 60
    lines = call("show", "a", "--queue", "mail")[1].splitlines()
    assert "last_error    no such\\naddress" in lines and f"holder        {queue._session.storage.holder}" in lines
    peeked = call("peek", "--queue", "mail")[1]
    assert re.search(rf"held by {re.escape(queue._session.storage.holder)} for \d+ s  attempts=2  no such  ", peeked)
    assert call("release", "a", "b", "--queue", "mail") == (
        *(1, "released 1\n"),
        "drainq delayed: there is no message that a consumer holds of key 'b'\n",
    )
    assert not held.ack()
    assert call("show", "b", "--queue", "mail") == (1, "", "drainq delayed: there is no message of key 'b'\n")
    queue.offer("b", payload, max_attempts=1)
    queue.get_next_batch(9)[-1].nack()
    assert call("show", "b", "--queue", "mail")[2].startswith(
        "drainq delayed: there is no live message, but a dead letter"
    )


def test_messages_are_moved_and_deleted_by_prefix(call, database, monkeypatch):  # noqa: F811
    queue = database.open(clock=None)
    queue.offer_batch([ScheduledMessage(key, 1, 4e9) for key in ("a/1", "a/2", "b")])
    at = "2100-01-31T12:00+02:00"
    assert call("reschedule", "b", "--at", at, "--queue", "mail") == (0, "rescheduled 1\n", "")
    assert queue.peek(key="b")[0].due_at.isoformat() == "2100-01-31T10:00:00+00:00"
    assert call("reschedule", "b", "--at", "2100-01-31", "--queue", "mail", "--quiet") == (0, "", "")
    assert queue.peek(key="b")[0].scheduled_at.isoformat() == "2100-01-31T00:00:00+00:00"
    assert call("run-now", "--prefix", "a/", "--queue", "mail") == (0, "rescheduled 2\n", "")
    assert call("run-now", "--queue", "mail")[0] == 2
    assert call("run-now", "a", "b", "--prefix", "a/", "--queue", "mail") == (
        *(2, ""),
        "drainq delayed: pass KEY or --prefix, not both\n",
    )
    assert queue.stats().ready == 2
    assert len(queue.try_poll_many(2).payload) == 2
    assert call("release", "--holder", "nosuch", "--queue", "mail") == (0, "released 0\n", "")
    assert call("release", "--older-than", "0", "--queue", "mail", "--json")[1] == '{"released":2,"missing":[]}\n'
    code, out, err = call("drop", "--prefix", "a/", "--queue", "mail")
    assert (code, out) == (2, "") and "--yes" in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda text: "n" if "begins with 'a/'" in text else "?")
    assert call("drop", "--prefix", "a/", "--queue", "mail")[0] == 2
    monkeypatch.setattr("builtins.input", lambda text: "y")
    assert call("drop", "--prefix", "a/", "--queue", "mail") == (0, "dropped 2\n", "")
    assert call("drop", "--prefix", "b", "--yes", "--queue", "mail") == (0, "dropped 1\n", "")
    assert call("drop", "--prefix", "b", "--dead", "--yes", "--queue", "mail") == (0, "dropped 0\n", "")


def test_stats_name_a_pause_and_another_codec(call, database):  # noqa: F811
    database.open(codec=MsgspecCodec(Order)).offer("a", Order("lamp"))
    queue = database.open()
    assert "the queue is paused" not in call("stats", "--queue", "mail", "--codec", "json")[1]
    queue.pause()
    out = call("stats", "--queue", "mail", "--codec", "json")[1]
    assert "the queue is paused" in out and "elsewhere         1" in out and "see 'drainq delayed queues'" in out
    out = call("stats", "--queue", "mail", "--codec", "json", "--format", "prometheus")[1]
    assert 'drainq_delayed_paused{queue="mail"} 1' in out.splitlines()


def test_a_schedule_is_forgotten_with_its_messages_or_without(call, database):  # noqa: F811
    queue = database.open(clock=None)
    for prefix in ("sweep", "report"):
        queue.cron.install_periodic_tick(prefix, 900, lambda at: 1).close()
    assert call("forget", "sweep", "--queue", "mail")[:2] == (
        *(0,),
        "forgot 1 ticks, dropped 0 messages; a program that still runs it enters it again\n",
    )
    assert json.loads(call("forget", "report", "--drop", "--queue", "mail", "--json")[1])["dropped"] == 1
    assert [row.key.partition("/")[0] for row in queue.peek()] == ["sweep"] and queue.cron.schedules() == []
    assert call("forget", "nosuch", "--queue", "mail")[0] == 2


@pytest.mark.parametrize("at", ["tomorrow", "12:00", ""])
def test_a_time_that_is_none_is_refused(call, at, capsys):  # noqa: F811
    with pytest.raises(SystemExit):
        call("reschedule", "a", f"--at={at}", "--queue", "mail")
    assert "is no time" in capsys.readouterr().err
