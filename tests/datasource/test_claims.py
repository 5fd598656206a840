"""Due messages are moved to one consumer, once, and stay there until they are done."""

from __future__ import annotations

import sqlite3
import time
import types

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from drainq import Backoff
from drainq.datasource.claims import AnotherReader, Claims
from drainq.datasource.payload_form import PayloadForm
from drainq.datasource.tables import Tables
from drainq.datasource.transactions import Transactions
from drainq.delayed import DelayedQueue, QueueUnavailable, RetryConfig
from drainq.sql import Database, DatabaseError
from drainq.sql.dialect import Dialect
from drainq.sql.url import DatabaseUrl


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/claims.db"
    return request.getfixturevalue("postgres_url")


class At:
    """A queue with messages ``k0`` to ``k9``, and what a reader's process has."""

    def __init__(self, url, table):
        self.tables, self.transactions = Tables(table, DatabaseUrl.parse(url).dialect), Transactions(url)
        self.transactions.run(self.tables.create)
        self.queue = DelayedQueue.open(url, "q", codec=PayloadForm.TEXT.codec, table=table)
        for n in range(10):
            self.queue.offer_or_update(f"k{n}", b'"text"', 1000 + n)

    def reader(self, consumer="c"):
        return Claims(self.transactions, self.tables, "q", consumer)

    def keys(self, reader, after, upto):
        return [key for key, _, _ in reader.messages(after, upto, 0, 1)]


@pytest.fixture
def at(url, request):
    return At(url, f"t{abs(hash(request.node.name)) % 10**8}")


def test_a_claim_moves_the_earliest_due_messages(at):
    at.queue.offer_or_update("later", b'"text"', time.time() + 3600)
    reader = at.reader()
    assert reader.claim(at.queue, 0, 3) == 1
    assert list(reader.messages(0, 1, 0, 1)) == [(f"k{n}", b'"text"', (1000 + n) * 1000) for n in range(3)]
    assert reader.claim(at.queue, 1, None) == 2
    assert at.keys(reader, 1, 2) == [f"k{n}" for n in range(3, 10)]
    assert reader.claim(at.queue, 2, None) is None
    assert at.queue.stats().scheduled == 1 and at.queue.stats().in_flight == 0


def test_several_claims_have_no_more_messages_than_asked_for(at, monkeypatch):
    monkeypatch.setattr("drainq.datasource.claims.AT_ONCE", 3)
    reader = at.reader()
    last = reader.claim(at.queue, 0, 7)
    assert (last, at.keys(reader, 0, last)) == (3, [f"k{n}" for n in range(7)])
    assert at.queue.stats().ready == 3


def test_what_is_done_goes_and_what_is_left_is_found_by_the_next_process(at):
    reader = at.reader()
    reader.claim(at.queue, 0, 3)
    reader.claim(at.queue, 1, 3)
    assert reader.done(1) == 2
    assert at.keys(reader, 0, 2) == ["k3", "k4", "k5"]
    later = at.reader()
    assert later.done(1) == 2 and later.number() == 2
    assert later.done(2) is None
    assert at.keys(later, 0, 9) == []


def test_numbers_grow_beyond_what_was_ever_seen(at):
    reader = at.reader()
    reader.claim(at.queue, 0, 1)
    reader.done(1)
    assert at.reader().claim(at.queue, 0, 1) == 2
    assert at.reader().claim(at.queue, 41, 1) == 42


def test_of_two_processes_the_later_one_claims(at):
    first, second = at.reader(), at.reader()
    first.claim(at.queue, 0, 1)
    assert second.number() == 1
    with pytest.raises(AnotherReader, match="another streaming query has begun to read with consumer 'c'"):
        first.claim(at.queue, 0, 1)
    with pytest.raises(AnotherReader):
        first.done(1)
    assert at.reader("other").claim(at.queue, 0, 1) == 1
    assert second.claim(at.queue, 1, None) == 2
    keys = at.keys(second, 0, 2) + at.keys(at.reader("other"), 0, 1)
    assert sorted(keys) == [f"k{n}" for n in range(10)]


def test_parts_have_each_message_once(at):
    reader = at.reader()
    reader.claim(at.queue, 0, 4)
    reader.claim(at.queue, 1, None)
    counts = reader.counts(0, 2, 3)
    found = [[key for key, _, _ in reader.messages(0, 2, part, 3)] for part, _ in counts]
    assert [count for _, count in counts] == list(map(len, found))
    assert sorted(key for part in found for key in part) == [f"k{n}" for n in range(10)]


def test_a_message_that_was_updated_before_the_claim_is_claimed_as_it_is_now(at):
    poll = at.queue.try_poll_many
    updated = []

    class Late:
        def try_poll_many(self, n):
            envelope = poll(n)
            if not updated:
                updated.append(at.queue.offer_or_update("k1", b'"new"', 1001))
            return envelope

    reader = at.reader()
    number = reader.claim(Late(), 0, None)
    found = {key: payload for key, payload, _ in reader.messages(0, number, 0, 1)}
    assert len(found) == 10 and found["k1"] == b'"new"'
    assert at.queue.stats().ready == at.queue.stats().in_flight == 0


def test_a_claim_ends_with_the_first_poll_that_brings_less_than_asked_for(at, monkeypatch):
    polls, poll = [], at.queue.try_poll_many
    monkeypatch.setattr(at.queue, "try_poll_many", lambda n: polls.append(n) or poll(n))
    assert at.reader().claim(at.queue, 0, None) == 1 and len(polls) == 1


def test_a_reader_that_is_replaced_while_it_claims_is_refused(at):
    first, second = at.reader(), at.reader()
    assert first.number() == second.number() == 0
    work = first._claiming(at.queue.try_poll_many(1), 0)
    with pytest.raises(AnotherReader):
        at.transactions.run(lambda database: work(database, 0))


def test_a_transaction_that_fails_leaves_no_connection_and_a_locked_database_is_tried_again(at, url, monkeypatch):
    def fails(database):
        raise OverflowError

    with pytest.raises(OverflowError):
        at.transactions.run(fails)
    assert at.transactions._database is None
    tries = [sqlite3.OperationalError("database is locked")]

    def locked(url):
        if tries:
            raise DatabaseError("no") from tries.pop()
        return Database(url)

    monkeypatch.setattr("drainq.datasource.transactions.Database", locked)
    retrying = Transactions(url, retry=RetryConfig(Backoff(0.0)))
    assert retrying.run(lambda database: 7) == 7 and tries == []
    retrying.close()


def test_the_longest_name_of_a_table_is_that_of_which_all_names_fit():
    assert "claims" in Tables("t" * 44, Dialect.SQLITE).fill("{claims}")
    with pytest.raises(ValueError, match="over 63 bytes"):
        Tables("t" * 45, Dialect.SQLITE)


def test_a_claim_that_fails_leaves_the_messages_in_the_queue(at):
    reader = at.reader()

    def broken(*_):
        raise OverflowError("no claim")

    reader._claiming = lambda envelope, after: broken
    with pytest.raises(OverflowError):
        reader.claim(at.queue, 0, None)
    assert at.queue.stats().ready == 10

    def away():
        raise QueueUnavailable("no nack either")

    polled = types.SimpleNamespace(payload=[b""], nack=away)
    with pytest.raises(OverflowError, match="no claim"):
        reader.claim(types.SimpleNamespace(try_poll_many=lambda n: polled), 0, None)
