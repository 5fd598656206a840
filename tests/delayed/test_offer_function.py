"""``<table>_offer``: offers from SQL, such as a trigger's, mean what ``offer`` means."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("psycopg")

import psycopg

from drainq.delayed import BytesCodec, StrCodec, TimeConfig
from drainq.sql.quoting import quote

from ..patience import PATIENCE


@pytest.fixture
def offer(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as connection:

        def offer(queue, key, payload, *more, cast="", table=postgres.table):
            options = "".join(f", {option}" for option in more)
            text = f"SELECT {quote(table + '_offer').replace('%', '%%')}(%s, %s, %s{cast}{options})"
            return connection.execute(text, (queue, key, payload)).fetchone()[0]

        offer.connection = connection
        yield offer


def test_an_offer_is_due_now_and_has_the_payload_of_the_codec(postgres, offer):
    queue, binary = postgres.open(clock=None), postgres.open("raw", clock=None, codec=BytesCodec())
    assert offer("mail", "a", '{"to": "ännchen"}') == "created"
    assert offer("mail", "b", json.dumps({"n": 1}), cast="::jsonb::text") == "created"
    assert offer("raw", "c", b"\x00\xff") == "created"
    taken = {envelope.message_id: envelope for envelope in iter(queue.try_poll, None)}
    assert {key: envelope.payload for key, envelope in taken.items()} == {"a": {"to": "ännchen"}, "b": {"n": 1}}
    age = datetime.now(timezone.utc) - taken["a"].timestamp
    assert timedelta(0) <= age < timedelta(seconds=PATIENCE)
    assert binary.try_poll().payload == b"\x00\xff"
    assert queue.try_poll() is None and queue.stats().in_flight == 2


def test_a_key_is_replaced_or_left_and_an_equal_offer_is_ignored(postgres, offer):
    queue, at = postgres.open(clock=None), "at => '2031-01-02 03:04:05.6789+00'"
    assert offer("mail", "a", "1", at) == "created"
    assert offer("mail", "a", "1", at) == "ignored"
    assert offer("mail", "a", "2", at, "replace => false") == "ignored"
    assert queue.read("a").payload == 1
    assert offer("mail", "a", "2", at) == "updated"
    assert queue.read("a").payload == 2
    assert queue.read("a").schedule_at == datetime(2031, 1, 2, 3, 4, 5, 678_000, timezone.utc)
    assert offer("mail", "a", "2", at, "priority => 3") == "updated"
    queue.offer("b", 1)
    assert offer("mail", "b", "3") == "updated"
    envelope = queue.try_poll()
    assert (envelope.payload, offer("mail", "b", "4")) == (3, "updated")
    assert envelope.ack() is False and queue.try_poll().payload == 4


def test_priorities_order_what_is_due(postgres, offer):
    queue = postgres.open(clock=None)
    queue.offer("plain", 0)
    assert [offer("mail", key, "1", f"priority => {n}") for key, n in (("last", 5), ("first", -5))] == ["created"] * 2
    assert [envelope.message_id for envelope in iter(queue.try_poll, None)] == ["first", "plain", "last"]


def test_an_offer_has_its_own_number_of_attempts(postgres, offer):
    queue, at = postgres.open(clock=None), "at => '2001-01-02'"
    assert [offer("mail", "a", "1", at, f"max_attempts => {most}") for most in (2, 2, 3)] == [
        "created",
        "ignored",
        "updated",
    ]
    assert offer("mail", "b", "1", at, "max_attempts => 1", "replace => false") == "created"
    assert {row.key: row.max_attempts for row in queue.peek()} == {"a": 3, "b": 1}


def test_an_offer_has_its_group(postgres, offer):
    queue = postgres.open(clock=None)
    for key in ("a", "b"):
        assert offer("mail", key, "1", "in_group => 'g'", f"replace => {key == 'a'}") == "created"
    assert [row.group for row in queue.peek()] == ["g", "g"]
    assert queue.try_poll().message_id == "a" and queue.try_poll() is None


@pytest.mark.parametrize("more", ["", ", max_attempts INTEGER DEFAULT NULL"])
def test_a_function_with_fewer_arguments_is_replaced(postgres, offer, more):
    postgres.open()
    name = quote(f"{postgres.table}_offer")
    for kind in ("BYTEA", "TEXT"):
        offer.connection.execute(
            f"CREATE FUNCTION {name}(queue TEXT, key TEXT, payload {kind}, at TIMESTAMPTZ DEFAULT NULL, priority INTEGER"
            f" DEFAULT 0, replace BOOLEAN DEFAULT true, codec TEXT DEFAULT NULL{more}) RETURNS TEXT LANGUAGE sql"
            " AS $$ SELECT 'old' $$"
        )
    offer.connection.execute(f'DELETE FROM "{postgres.table}__migrations" WHERE "number" = 15')
    postgres.open()
    assert offer("mail", "a", "1") == offer("mail", "b", b"1") == "created"


def test_a_trigger_offers_with_the_commit_and_not_after_a_rollback(postgres, offer):
    queue, run = postgres.open(clock=None), offer.connection.execute
    orders, function = quote(f"{postgres.table}_orders"), quote(f"{postgres.table}_ordered")
    run(f"CREATE TABLE {orders} (id int, total int)")
    run(
        f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"PERFORM {quote(postgres.table + '_offer')}('mail', 'order/' || NEW.id, to_jsonb(NEW)::text); "
        "RETURN NEW; END $$"
    )
    run(f"CREATE TRIGGER ordered AFTER INSERT ON {orders} FOR EACH ROW EXECUTE FUNCTION {function}()")
    try:
        with pytest.raises(ZeroDivisionError), offer.connection.transaction():
            run(f"INSERT INTO {orders} VALUES (1, 10)")
            raise ZeroDivisionError
        assert queue.try_poll() is None
        run(f"INSERT INTO {orders} VALUES (2, 20)")
        envelope = queue.try_poll()
        assert (envelope.message_id, envelope.payload) == ("order/2", {"id": 2, "total": 20})
    finally:
        run(f"DROP TABLE {orders}")
        run(f"DROP FUNCTION {function}()")


def test_a_waiting_consumer_is_woken(postgres, offer):
    queue = postgres.open(clock=None, notify=True, time=TimeConfig(poll_period=3600))
    queue._session.listen()
    assert queue._session.listener.listening.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(queue.poll, PATIENCE)
        while not queue._session.wakeup._waiting:
            threading.Event().wait(0.001)
        assert offer("mail", "a", "1") == "created"
        assert polling.result(PATIENCE).payload == 1


def test_what_cannot_be_is_refused_with_the_remedy(postgres, offer):
    postgres.open(), postgres.open(codec=StrCodec())
    for arguments, says in (
        (("nowhere", "a", "1"), "no delayed queue has this name and codec\nHINT:  DelayedQueue.open makes a queue"),
        (("mail", "a", "1"), "delayed queues with several codecs have this name\nHINT:  Pass codec =>"),
        (("mail", "a", "1", "codec => 'no such'"), "no delayed queue has this name and codec"),
        (("mail", "", "1", "codec => 'json'"), "key must have 1 to 200 characters"),
        (("mail", "k" * 201, "1", "codec => 'json'"), "value too long"),
        (("mail", "a", "1", "codec => 'json'", "max_attempts => 0"), "max_attempts must be at least 1"),
        (("mail", "a", "1", "codec => 'json'", "in_group => ''"), "in_group must have 1 to 200 characters"),
        (("mail", "a", "1", "codec => 'json'", f"in_group => '{'g' * 201}'"), "in_group must have 1 to 200"),
        (("mail", None, "1", "codec => 'json'"), "null value"),
        (("mail", "a", "1", "codec => 'json'", "at => 'infinity'"), "out of range|infinity"),
    ):
        with pytest.raises(psycopg.Error, match=says):
            offer(*arguments)
    assert offer("mail", "a", "1", "codec => 'json'") == "created"


@pytest.mark.parametrize("table", ['an "odd" name', "50%", "Groß", "$body$", "$body_$body$"])
def test_a_table_of_any_name_has_its_function(postgres, offer, table):
    queue = postgres.open(table=table, clock=None)
    assert offer("mail", "a", "1", table=table) == "created"
    assert queue.try_poll().payload == 1
