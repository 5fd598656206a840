"""One key is one message, with any encoding of the database and of the program's environment."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from drainq.delayed import DelayedQueue, OfferOutcome, ScheduledMessage
from drainq.sql.connect import connect
from drainq.sql.url import DatabaseUrl

psycopg = pytest.importorskip("psycopg")

KEY, PAYLOAD = "käse/ß", {"x": "ü"}
ROLE = "drainq_latin1"


@contextmanager
def role_that_sets_latin1(url):
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
        admin.execute(f"ALTER ROLE {ROLE} SET client_encoding TO 'LATIN1'")
    try:
        yield url.replace("drainq@", f"{ROLE}@")
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"DROP ROLE {ROLE}")


@contextmanager
def variable(url):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PGCLIENTENCODING", "LATIN1")
        yield url


@contextmanager
def option(url):
    yield f"{url}{'&' if '?' in url else '?'}options=-c%20client_encoding%3DLATIN1"


@contextmanager
def parameter(url):
    yield f"{url}{'&' if '?' in url else '?'}client_encoding=latin1"


SURROUNDINGS = {"the environment": variable, "an option": option, "the URL": parameter, "a role": role_that_sets_latin1}


@pytest.mark.parametrize("what", SURROUNDINGS)
def test_two_programs_whose_surroundings_set_two_encodings_mean_the_same_key(postgres, what):
    ours = postgres.open(history=9)
    with SURROUNDINGS[what](postgres.url) as url:
        with connect(DatabaseUrl.parse(url)) as connection:  # as the workers do
            assert connection.execute("SELECT 'ü'::text, octet_length('ü')").fetchone() in {("ü", 1), ("ü", 2)}
        with DelayedQueue.open(url, "mail", table=postgres.table, clock=postgres.clock, max_attempts=1) as theirs:
            assert ours.offer_if_not_exists(KEY, PAYLOAD, 0) is OfferOutcome.CREATED
            assert theirs.offer_if_not_exists(KEY, PAYLOAD, 0) is OfferOutcome.IGNORED
            batch = [ScheduledMessage(KEY, PAYLOAD, 0, can_update=False), ScheduledMessage("é", 1, 1)]
            assert theirs.offer_batch(batch) == [OfferOutcome.IGNORED, OfferOutcome.CREATED]
            assert [row.key for row in theirs.peek()] == [row.key for row in ours.peek()] == [KEY, "é"]
            assert theirs.contains_message(KEY) and theirs.read(KEY).payload == PAYLOAD
            assert theirs.drop_message("é")
            taken = theirs.try_poll()
            assert (taken.message_id, taken.payload, taken.nack(error="grün")) == (KEY, PAYLOAD, True)
            for queue in (ours, theirs):
                assert [(dead.key, dead.error) for dead in queue.dead_letters("kä")] == [(KEY, "grün")]
            assert theirs.redrive(prefix="kä") == 1
            assert ours.try_poll().ack()
            assert [done.key for done in ours.history()] == [KEY]
            assert {queue.name for queue in DelayedQueue.queues(url, table=postgres.table)} == {"mail"}


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SQL_ASCII"])
def test_a_callers_connection_may_have_an_encoding_of_its_own_if_its_text_is_converted(postgres, encoding):
    queue = postgres.open()
    assert queue.offer_or_update(KEY, PAYLOAD, 0) is OfferOutcome.CREATED
    with psycopg.connect(postgres.url, client_encoding=encoding) as connection:
        if encoding == "SQL_ASCII" or ("sql_ascii" in postgres.url and encoding != "UTF8"):
            with pytest.raises(ValueError, match=rf"sends text as {encoding}, which the server does not convert: conn"):
                queue.offer_or_update(KEY, 1, 0, connection=connection)
            connection.execute("SET client_encoding TO 'UTF8'")
        assert queue.offer_if_not_exists(KEY, 2, 0, connection=connection) is OfferOutcome.IGNORED
        messages = [ScheduledMessage(KEY, 3, 0), ScheduledMessage("é", 4, 0)]
        assert queue.offer_batch(messages, connection=connection) == [OfferOutcome.UPDATED, OfferOutcome.CREATED]
    assert [row.key for row in queue.peek()] == [KEY, "é"]


def test_a_text_that_the_database_cannot_store_is_refused_in_one_sentence(postgres):
    queue = postgres.open()
    refused = {}
    for key in ("🎉", "é" * 200):
        for offer in (queue.offer_or_update, lambda key, *rest: queue.offer_batch([ScheduledMessage(key, *rest)] * 2)):
            try:
                offer(key, 1, 0)
                assert queue.contains_message(key)
            except ValueError as error:
                assert str(error).startswith("the database cannot store this text: it ") and key not in str(error)
                refused.setdefault(key[0], []).append("bytes" if "counts bytes" in str(error) else "characters")
    expected = {"drainq_latin1": {"🎉": ["characters"] * 2}, "drainq_sql_ascii": {"é": ["bytes"] * 2}}
    assert refused == next((found for name, found in expected.items() if name in postgres.url), {})


def test_an_error_that_the_database_cannot_store_is_kept_with_escapes(postgres):
    queue = postgres.open(max_attempts=2)
    queue.offer_or_update("a", 1, 0)
    assert queue.try_poll().nack(error="→ ü")
    assert queue.try_poll().nack(error="→ ü")
    expected = "\\u2192 \\xfc" if "latin1" in postgres.url else "→ ü"
    assert [dead.error for dead in queue.dead_letters()] == [expected]


def test_a_limit_by_prefix_counts_keys_in_every_encoding(postgres):
    import threading

    queue, stop, seen = postgres.open(), threading.Event(), []
    for n in range(3):
        queue.offer_or_update(f"kä/{n}", n, 0)

    def handle(envelope):
        seen.append(envelope.message_id)
        if len(seen) == 3:
            stop.set()

    queue.consume(handle, stop=stop, max_in_flight={"kä/": 1})
    assert sorted(seen) == ["kä/0", "kä/1", "kä/2"]
