"""Staged rows are published whole, once, and only those that the driver names."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from drainq.datasource.payload_form import PayloadForm
from drainq.datasource.stage import KEPT, StagedRows
from drainq.datasource.tables import Tables
from drainq.datasource.transactions import Transactions
from drainq.delayed import DelayedQueue
from drainq.errors import DrainqError
from drainq.sql.url import DatabaseUrl


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/stage.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def at(url, request):
    """Return a stage in tables of the test's own."""
    return At(url, f"t{abs(hash(request.node.name)) % 10**8}")


class At:
    def __init__(self, url, table):
        self.url, self.table = url, table
        self.tables = Tables(table, DatabaseUrl.parse(url).dialect)
        self.stage, self.transactions = StagedRows(self.tables), Transactions(url)
        self.transactions.run(self.tables.create)
        self.queue = DelayedQueue.open(url, "q", codec=PayloadForm.TEXT.codec, table=table)

    def add(self, token, keys, *, first=0, write="w", batch=0):
        messages = [(key, PayloadForm.TEXT.encode(f"of {token}"), 1000) for key in keys]
        self.transactions.run(
            lambda database: self.stage.add(database, token, first, messages, write_id=write, batch=batch)
        )

    def publish(self, tokens, *, name="w", batch=0, update=True):
        return self.transactions.run(
            lambda database: self.stage.publish(
                database, self.queue, tokens, published_as=(name, batch), staged_as="w", update=update
            )
        )

    def staged(self):
        count = self.tables.fill("SELECT count(*) FROM {stage}")
        return self.transactions.run(lambda database: database.execute(count))[0][0]

    def polled(self):
        envelope = self.queue.try_poll_many(100_000)
        envelope.ack()
        return dict(zip(envelope.message_id, (PayloadForm.TEXT.decode(each) for each in envelope.payload)))


def test_what_is_named_is_published_and_everything_else_is_forgotten(at):
    at.add("dead", ["a", "b"])
    at.add("alive", ["a", "c"])
    assert at.publish([("alive", 2)])
    assert at.polled() == {"a": "of alive", "c": "of alive"}
    assert at.staged() == 0


def test_rows_of_another_write_are_kept_for_days_and_then_swept(at, monkeypatch):
    at.add("slow", ["a", "b"], write="other")
    for days, left in ((1, 2), (KEPT / 86_400 - 0.01, 2), (KEPT / 86_400 + 0.01, 0)):
        monkeypatch.setattr("drainq.datasource.stage._now", lambda days=days: int(1000 * (time.time() + days * 86_400)))
        at.publish([], name=f"w{days}")
        assert at.staged() == left, days


def test_the_same_write_is_published_once_however_often_it_is_tried(at):
    at.add("one", ["a"])
    assert at.publish([("one", 1)])
    assert at.polled() == {"a": "of one"}
    at.add("two", ["a"])
    assert not at.publish([("two", 1)])
    assert at.polled() == {} and at.staged() == 0
    at.add("three", ["b"], batch=1)
    assert at.publish([("three", 1)], batch=1)
    assert at.polled() == {"b": "of three"}


def test_if_rows_are_missing_nothing_is_published(at):
    at.add("one", ["a", "b"])
    with pytest.raises(DrainqError, match="staged 3 rows and 2 are there: nothing is published"):
        at.publish([("one", 3)])
    assert at.polled() == {} and at.staged() == 2
    at.add("one", ["c"], first=2)
    assert at.publish([("one", 3)])
    assert set(at.polled()) == {"a", "b", "c"}


@pytest.mark.parametrize("at_once", [2, 3])
def test_if_there_are_more_rows_than_named_nothing_is_published(at, at_once, monkeypatch):
    monkeypatch.setattr("drainq.datasource.stage.MESSAGES_AT_ONCE", at_once)
    at.add("one", ["a", "b", "c"])
    with pytest.raises(DrainqError, match="staged 2 rows and 3 are there: nothing is published"):
        at.publish([("one", 2)])
    assert at.polled() == {} and at.publish([("one", 3)])


def test_rows_of_a_batch_that_was_never_published_go_with_a_later_batch(at):
    at.add("lost", ["a"], batch=0)
    at.add("one", ["b"], batch=2)
    at.add("next", ["c"], batch=3)
    assert at.publish([("one", 1)], batch=2) and at.staged() == 1


def test_many_rows_keep_their_order_so_the_last_of_a_key_wins(at):
    at.add("one", [f"k{n % 6000}" for n in range(5000)])
    at.add("one", [f"k{n % 6000}" for n in range(5000, 12_000)], first=5000)
    assert at.publish([("one", 12_000)])
    assert len(at.polled()) == 6000


def test_a_call_that_is_repeated_stages_no_row_twice(at):
    at.add("one", ["a", "b"])
    at.add("one", ["a", "b"])
    assert at.staged() == 2


def test_messages_that_are_there_stay_as_they_are_if_asked_for(at):
    at.add("one", ["a"])
    at.publish([("one", 1)], name="first")
    at.add("two", ["a", "b"])
    at.publish([("two", 2)], name="second", update=False)
    assert at.polled() == {"a": "of one", "b": "of two"}


def test_forgetting_deletes_staged_rows_and_nothing_that_is_published(at):
    at.add("one", ["a"])
    at.publish([("one", 1)])
    at.add("two", ["b"])
    at.add("three", ["c"])
    at.add("four", ["d"])
    at.transactions.run(lambda database: at.stage.forget(database, ["two", "three"], None))
    assert at.staged() == 1
    at.transactions.run(lambda database: at.stage.forget(database, [], "w"))
    assert at.staged() == 0 and at.polled() == {"a": "of one"}


def test_a_stream_remembers_its_last_thousand_batches(at):
    for batch in (0, 1, 999, 1000):
        at.add(f"t{batch}", ["a"], batch=batch)
        assert at.publish([(f"t{batch}", 1)], batch=batch) is True
    assert [at.publish([], batch=batch) for batch in (0, 1, 999, 1000)] == [False] * 4
    assert at.publish([], batch=1001) is True
    assert [at.publish([], batch=batch) for batch in (1, 999)] == [False, False]
    assert at.publish([], batch=0) is True  # forgotten; Spark replays the last batch alone
