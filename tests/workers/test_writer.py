"""Tuples into a table, with refused rows found alone."""

from __future__ import annotations

import contextlib
import sqlite3
from types import SimpleNamespace

import pytest

from drainq.delayed import DelayedQueue
from drainq.delivery import Failure, Unavailable
from drainq.delivery.sink_contract import Attempt
from drainq.sql import Database, DatabaseError, Upsert
from drainq.testing import ManualClock
from drainq.workers import BatchWriter, sql_sink
from drainq.workers.sql_sink import TableSink
from tests.patience import Call, eventually


@pytest.fixture
def url(table):
    return table("id INTEGER PRIMARY KEY, what TEXT NOT NULL")


def writer(url, **more):
    return BatchWriter(url=url, table="t", columns=["id", "what"], **more)


@pytest.mark.parametrize("threads", [1, 3])
def test_every_row_is_written_and_of_one_key_the_last(url, rows, threads):
    with writer(url, key=["id"], threads=threads) as t:
        assert t.produce_many([(n % 50, f"v{n}") for n in range(500)]) == 500
    assert rows(url) == [(n, f"v{450 + n}") for n in range(50)]
    assert t.stats().sent == 500


def test_a_sink_that_was_cancelled_and_closed_connects_again(url, rows):
    sink = TableSink(url, Upsert("t", ["id", "what"]))
    sink.cancel()
    sink.close()
    assert sink.send([(1, "read after the end")]) == [] and len(rows(url)) == 1


@pytest.mark.parametrize("committed", [True, False, None])
def test_an_attempt_in_doubt_is_asked_for_first_and_written_again_unless_it_was_committed(committed, url, rows):
    sink, asked = TableSink(url, Upsert("t", ["id", "what"])), []
    [database] = sink._idle
    database.dialect = SimpleNamespace(
        was_committed=lambda *of: asked.append(of) or committed, limit_waits=database.dialect.limit_waits
    )
    database.marked_transaction = lambda: contextlib.nullcontext("second")
    attempt = Attempt(None, "first")
    attempt.refused = [(0, "odd")]
    seen = []
    sink.upsert.write = lambda database, rows: seen.append((rows, attempt.doubt))
    refused = sink.send_within([(1, "a"), "odd"], attempt)
    assert asked == [(database.connection, "first")] and attempt.is_unsure is (committed is None)
    assert attempt.doubt is None
    if committed:
        assert (refused, seen) == ([(0, "odd")], [])
    else:
        assert [place for place, _ in refused] == [1] and seen == [([(1, "a")], None)]
        assert attempt.refused == refused  # what the next try returns if this COMMIT is not answered and arrived


def test_of_one_key_the_last_wins_also_beside_poison(url, rows):
    t = writer(url, key=["id"])
    t([(1, "first"), (2, None), (3, None), (1, "second"), (4, None), (1, "last")])
    assert rows(url) == [(1, "last")]
    assert (t.stats().sent, t.stats().refused) == (3, 3)
    assert not t.close()


def test_poison_goes_to_the_delayed_queue_and_is_sent_again(url, rows):
    clock = ManualClock()
    with DelayedQueue.open("memory:", "rows", clock=clock) as delayed:
        t = writer(url, delayed=delayed, clock=clock)
        t([(1, "a"), (2, None), (3, "c")])
        assert rows(url) == [(1, "a"), (3, "c")]
        assert (t.stats().sent, t.stats().dead_lettered) == (2, 1)
        with Database(url) as database:
            database.execute("DROP TABLE t")
            database.execute("CREATE TABLE t (id INTEGER, what TEXT)")
        assert t.flush() and rows(url) == []  # not due yet
        clock.advance(3600.0)
        assert t.flush()
        assert rows(url) == [(2, None)]
        assert (t.stats().sent, t.stats().dead_lettered) == (3, 0)
        assert t.close()


@pytest.mark.parametrize("more, message", [({"threads": 0}, "got 0"), ({"key": ["nope"]}, "nope")])
def test_what_cannot_be_is_refused(url, more, message):
    with pytest.raises(ValueError, match=message):
        writer(url, **more)


def test_the_sink_names_each_refused_row_by_its_place_whoever_refuses_it(url, rows):
    sink = TableSink(url, Upsert("t", ["id", "what"]))
    refused = sink.send([(1, "a"), "no row", (2, None), (3, "c"), (4,), (5, None)])
    assert sorted(place for place, _ in refused) == [1, 2, 4, 5] and rows(url) == [(1, "a"), (3, "c")]


def test_a_connection_waits_half_a_second_for_a_lock_and_is_closed_after_a_failure(url, monkeypatch):
    closed = []
    monkeypatch.setattr(Database, "close", lambda database: closed.append(database.connection.close()))
    sink = TableSink(url, Upsert("t", ["id", "what"]))
    with sink._connection() as database:
        assert database.execute("PRAGMA busy_timeout") == [(500,)] and closed == []
    with pytest.raises(KeyError), sink._connection() as again:
        assert again is database
        raise KeyError
    assert len(closed) == 1
    with sink._connection() as another:
        assert another is not database


def test_a_cancel_ends_statements_and_attempts_to_connect_and_cuts_off_what_does_not_end(url, monkeypatch):
    sink, told, attempts = TableSink(url, Upsert("t", ["id", "what"])), [], []
    sink.close()

    def busy(name, ends):
        def cancel(connection, within):
            told.append(("cancel", connection, 0 < within <= 0.1))
            if ends:
                sink._give_back(database)

        dialect = SimpleNamespace(cancel=cancel, cut=lambda connection: told.append(("cut", connection)))
        database = SimpleNamespace(connection=name, dialect=dialect, close=lambda: told.append(("close", name)))
        sink._busy.append(database)
        return database

    slow = [busy("a", True), busy("b", False)][1]
    monkeypatch.setattr(sql_sink, "start_thread", lambda run, *, name, args: attempts.append(lambda: run(*args)))
    opening = Call(lambda: sink._take(None))
    eventually(lambda: sink._lock._waiters)
    sink.cancel()
    for call in (opening.result, lambda: sink._take(None)):  # the one that waits, and a later one
        with pytest.raises(Unavailable, match="the time ran out while sqlite:.* was opened"):
            call()
    assert told == [("cancel", "a", True), ("cancel", "b", True), ("cut", "b")]
    monkeypatch.setattr(sql_sink, "Database", lambda url: busy("late", True))
    attempts[0]()  # it connects after all: nobody wants the connection any more
    assert told[3:] == [("close", "late")]
    sink._put_away(slow)
    sink.close()
    assert told[4:] == [("close", "b"), ("close", "a")]
    monkeypatch.undo()
    assert sink.send([(1, "x")]) == []


@pytest.mark.parametrize("moment", ["BEGIN", "INSERT"])
def test_what_waits_for_a_lock_while_it_is_cancelled_writes_nothing_when_it_gets_the_lock(url, moment):
    sink = TableSink(url, Upsert("t", ["id", "what"]))

    def cancel_at(statement):
        sink._is_cancelled = sink._is_cancelled or statement.startswith(moment)

    with sink._connection() as database:
        database.connection.set_trace_callback(cancel_at)
    with pytest.raises(Unavailable, match=r"^the time of close\(\) ran out before they were written$"):
        sink.send([(1, "x")])
    sink.close()
    assert sink.send([(2, "y")]) == []
    with Database(url) as database:
        assert list(database.execute("SELECT id FROM t")) == [(2,)]


def test_a_key_of_several_columns_is_all_of_them(table):
    t = BatchWriter(
        url=table("a INTEGER, b INTEGER, c TEXT, PRIMARY KEY (b, c)"), table="t", columns=["a", "b", "c"],
        key=["b", "c"],
    )  # fmt: skip
    assert t._key_of((1, 2, "x")) == (2, "x") and t.close()


def test_an_error_of_the_database_means_what_its_cause_means(url):
    sink = TableSink(url, Upsert("t", ["id", "what"]))
    locked = sqlite3.OperationalError("database is locked")
    for cause, meaning in ((locked, Failure.PASSES), (KeyError(), Failure.CANNOT_PASS), (None, Failure.CANNOT_PASS)):
        error = DatabaseError("cannot open")
        error.__cause__ = cause
        assert sink.failure_of(error) is meaning
    assert sink.failure_of(locked) is sink.failure_of(Unavailable("out of time")) is Failure.PASSES
    assert sink.failure_of(KeyError()) is Failure.DATA


def test_a_missing_table_is_said_at_once(url):
    with pytest.raises(DatabaseError, match="missing"):
        BatchWriter(url=url, table="missing", columns=["a"])


def test_postgresql_takes_big_and_small_batches(postgres_url):
    with Database(postgres_url) as database:
        database.execute('CREATE TABLE "writer t%%" (id INTEGER PRIMARY KEY, what TEXT NOT NULL)')
        try:
            with BatchWriter(url=postgres_url, table="writer t%", columns=["id", "what"], key=["id"]) as t:
                t([(n, "old") for n in range(1_000)])
                t([(n, None if n == 500 else "new") for n in range(1_000)])
                t([(1_000, "small"), (1_001, "nul\0")])
            found = dict(database.execute('SELECT id, what FROM "writer t%%"'))
        finally:
            database.execute('DROP TABLE "writer t%%"')
    assert found == {**dict.fromkeys(range(1000), "new"), 500: "old", 1_000: "small"}
    assert (t.stats().sent, t.stats().refused) == (2_000, 2)
