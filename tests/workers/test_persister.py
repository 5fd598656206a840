"""Rows merged in memory, then in the table."""

from __future__ import annotations

import math
import random
import threading
from collections import Counter

import pytest

from drainq.delayed import DelayedQueue
from drainq.delivery import Unavailable
from drainq.sql import Database, DatabaseError
from drainq.testing import ManualClock
from drainq.workers import MetricsPersister
from drainq.workers.holding_worker import Holder
from tests.patience import PATIENCE, Call, eventually
from tests.sources.by_hand import Raises

COLUMNS = ["page", "requests", "peak", "low"]
MERGE = {"requests": "sum", "peak": "max", "low": "min"}


def persister(url, **more):
    return MetricsPersister(url=url, table="t", columns=COLUMNS, key=["page"], merge=MERGE, **more)


@pytest.fixture
def url(table):
    return table("page TEXT PRIMARY KEY, requests INTEGER, peak INTEGER, low INTEGER")


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_a_plain_model_over_many_flushes(seed, url, rows):
    rng, requests, values = random.Random(seed), Counter(), {}
    with persister(url, flush_interval=None) as pages:
        for _ in range(100):
            page, n = rng.choice("abcd"), rng.randrange(100)
            requests[page] += n
            values.setdefault(page, []).append(n)
            assert pages.produce((page, n, n, n))
            if rng.random() < 0.1:
                assert pages.flush()
    assert rows(url) == [(page, requests[page], max(v), min(v)) for page, v in sorted(values.items())]


def test_writes_when_the_interval_is_over(url, rows):
    clock = ManualClock()
    pages = persister(url, flush_interval=5.0, clock=clock)
    pages([("a", 1, 1, 1)])
    assert rows(url) == []
    clock.advance(5.0)
    pages.on_idle()
    assert rows(url) == [("a", 1, 1, 1)]
    assert pages.close()


def test_rows_are_merged_and_then_written_when_there_are_more_than_it_may_hold(url, rows):
    pages = persister(url, flush_interval=None, max_rows=2)
    pages([("a", 1, 1, 1), ("b", 1, 1, 1)])
    pages([("a", 1, 1, 1)])
    assert rows(url) == []
    pages([("c", 1, 1, 1)])
    assert [row[:2] for row in rows(url)] == [("a", 2), ("b", 1), ("c", 1)]
    assert pages.close() and pages.stats().sent == 4


def test_held_rows_are_merged_each_time_they_have_doubled_and_after_a_flush_as_at_first(url, monkeypatch):
    monkeypatch.setattr("drainq.workers.persister.ROWS_A_STATEMENT", 4)
    pages, merged = persister(url, flush_interval=None), []
    monkeypatch.setattr(pages, "_merged", lambda rows, merge=pages._merged: merged.append(len(rows)) or merge(rows))
    for _ in range(2):
        for number in range(25):
            pages([(f"/{number}", 1, 1, 1)])
        assert pages.flush() and merged == [5, 11, 23, 25]
        merged.clear()


def test_the_end_of_the_time_of_close_wakes_a_handler_that_is_held_up(url, monkeypatch):
    monkeypatch.setattr("drainq.workers.holding_worker.PAUSE", 3600.0)
    pages = persister(url, flush_interval=None, max_rows=1)
    with Database(url) as database:
        database.execute("DROP TABLE t")
    taking = Call(lambda: pages([("a", 1, 1, 1), ("b", 1, 1, 1)]))
    eventually(lambda: pages._holding._waiters)
    pages._closed = True
    pages._give_up()
    taking.result()


def test_what_a_stopped_worker_holds_is_said_at_each_flush_and_when_it_is_given_up(url, caplog, monkeypatch):
    pages, ends = persister(url, flush_interval=None), []
    with Database(url) as database:
        database.execute("DROP TABLE t")
    pages([("a", 1, 1, 1), ("a", 1, 1, 1)])
    pages._handing_on = -1
    pages._flush_aside()  # another thread flushes: it does not wait
    pages._handing_on = None
    assert not pages.flush() and not pages.flush() and pages.stats().retried == 4
    monkeypatch.setattr(Holder, "_flush_held", lambda self, deadline: ends.append(deadline))
    pages._reserve = 2.0
    assert pages._end(100.0) and ends == [98.0] and pages.stats().lost == 2
    assert [message.partition(": ")[2].partition(": ")[0] for message in caplog.messages] == [
        "stopped, until what is wrong is put right", "2 items are not written yet, and are kept",
        "2 items are not written yet, and are kept", "close() gives up 2 items that were not sent",
    ]  # fmt: skip


def test_a_handler_that_is_held_up_because_the_worker_is_full_and_stopped_ends_with_close(url):
    pages = persister(url, flush_interval=None, max_rows=1)
    with Database(url) as database:
        database.execute("DROP TABLE t")
    taking = Call(lambda: pages([("a", 1, 1, 1), ("b", 1, 1, 1)]))
    eventually(lambda: pages.stats().retried)
    assert not taking.done() and pages.close(0.1) is False
    taking.result()
    assert pages.stats().lost == 2


def test_each_interval_that_is_over_at_a_batch_has_the_rows_written_aside(url, rows):
    clock, taken = ManualClock(), 0
    pages = persister(url, flush_interval=5.0, clock=clock)
    for _ in range(3):
        sent = pages.stats().sent
        while pages.stats().sent == sent:  # by a thread of its own
            clock.advance(5.0)
            pages([("a", 1, 1, 1)])
            taken += 1
    assert pages.close()
    assert rows(url) == [("a", taken, 1, 1)]


@pytest.mark.parametrize("most", [True, 2.0, "2", None])
def test_what_is_no_number_of_rows_is_refused(url, most):
    with pytest.raises(TypeError, match=rf"max_rows must be a whole number \(int\), got {most!r}"):
        persister(url, max_rows=most)


def test_what_a_stop_leaves_after_close_is_lost_and_sent_no_more(url):
    entered, go, calls = threading.Event(), threading.Event(), []

    def send(items, *_):
        calls.append(items)
        entered.set()
        assert go.wait(PATIENCE)
        raise DatabaseError("no right to write")

    pages = persister(url, flush_interval=None)
    pages._table_sink.send_within = send
    pages([("a", 1, 1, 1)])
    flushed = Call(pages.flush)
    closed, pages._delivery.sink.close = [], lambda: closed.append(1)
    assert entered.wait(PATIENCE) and pages.close(0.2) is False and pages.stats().lost == 1
    assert closed == []  # a call of the sink has not returned
    go.set()
    assert flushed.result() is False
    pages.flush()
    assert len(calls) == 1 and (pages.stats().lost, pages.stats().pending) == (1, 0)


def test_a_flush_waits_for_the_rows_of_the_delayed_queue_and_these_end_a_stop(url, rows):
    clock, errors = ManualClock(), [DatabaseError("no right to write"), Unavailable("away")]
    with DelayedQueue.open("memory:", "letters", clock=clock) as delayed:
        pages = persister(url, flush_interval=None, delayed=delayed, retry_for=0)
        send = pages._table_sink.send_within
        pages._table_sink.send_within = lambda *of: (_ for _ in ()).throw(errors.pop()) if errors else send(*of)
        pages([("a", 1, 1, 1)])
        assert pages.flush() and pages.stats().dead_lettered == 1
        clock.advance(3600)
        pages([("b", 1, 1, 1)])
        assert pages.flush() is False and pages.stats().pending == 1  # stopped, and then the letter was written
        assert rows(url) == [("a", 1, 1, 1)] and pages.produce(("b", 1, 1, 1))
        assert pages.close() and [row[:2] for row in rows(url)] == [("a", 1), ("b", 2)]


def test_an_older_row_from_the_delayed_queue_is_added_and_leaves_the_newer_last_value(table, rows):
    url, clock = table("id INTEGER PRIMARY KEY, v INTEGER, note TEXT"), ManualClock()
    columns = {"columns": ["id", "v", "note"], "key": ["id"], "merge": {"v": "sum"}}
    with DelayedQueue.open("memory:", "letters", clock=clock) as delayed:
        pages = MetricsPersister(url=url, table="t", flush_interval=None, delayed=delayed, retry_for=0, **columns)
        send = pages._table_sink.send_within
        pages._table_sink.send_within = lambda *of: (_ for _ in ()).throw(Unavailable("away"))
        pages([(1, 1, "old"), (2, 1, "old")])
        assert pages.flush() and pages.stats().dead_lettered == 2
        pages._table_sink.send_within = send
        pages([(1, 10, "new")])
        assert pages.flush()
        clock.advance(3600)
        assert pages.flush() and pages.close()
    assert rows(url) == [(1, 11, "new"), (2, 1, "old")]


def test_rows_that_could_not_be_made_ready_are_written_by_the_next_flush(url, rows):
    pages = persister(url, flush_interval=None)
    pages([("a", 1, 1, 1)])
    assert pages.flush()
    pages([("a", 1, 1, 1)])
    to_send, pages._to_send = pages._to_send, lambda taken: setattr(pages, "_to_send", to_send) or 1 / 0
    assert pages.flush() is False and pages.flush() is True
    assert pages.close() and rows(url) == [("a", 2, 1, 1)] and pages.stats().sent == 2


def test_a_refused_flush_writes_nothing_and_the_next_writes_it_once(url, rows, caplog):
    pages = persister(url, flush_interval=None)
    pages([("a", 1, 1, 1), ("a", 0, 1, 1)])
    with Database(url) as database:
        database.execute("ALTER TABLE t RENAME TO gone")
        assert not pages.flush() and "2 items are not written yet, and are kept: " in caplog.text
        database.execute("ALTER TABLE gone RENAME TO t")
    pages([("a", 2, 2, 2)])
    assert pages.close()
    assert rows(url) == [("a", 3, 2, 1)]
    assert (pages.stats().sent, pages.stats().retried, pages.stats().lost) == (3, 2, 0)


def test_rows_that_are_given_up_are_lost_once_and_said_once(url, caplog):
    pages = persister(url, flush_interval=None, retry_for=0)
    pages._table_sink.send_within = Raises(Unavailable("away"), 1)
    pages([("a", 1, 1, 1)])
    assert not pages.flush() and pages.stats().lost == 1
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "the other side fails; trying again for 0 s: Unavailable: away",
        "1 items are lost: Unavailable: away",
    ]
    assert pages.flush() and not pages.close() and (pages.stats().sent, pages.stats().retried) == (0, 0)


def test_rows_that_are_on_their_way_at_the_end_of_close_go_to_the_delayed_queue(url):
    entered, go, stopped = threading.Event(), threading.Event(), []
    with DelayedQueue.open("memory:", "letters") as delayed:
        pages = persister(url, flush_interval=None, delayed=delayed)
        pages._table_sink.send_within = lambda *of: entered.set() or go.wait(PATIENCE) or []
        stop, pages._resender.stop = pages._resender.stop, lambda deadline: stopped.append(deadline) or stop(deadline)
        pages([("a", 1, 1, 1)])
        flushed = Call(pages.flush)
        assert entered.wait(PATIENCE)
        pages.close(0.5)
        eventually(lambda: pages.stats().dead_lettered == 1 and [None] != stopped != [])
        go.set()
        flushed.result()


def test_what_a_failed_flush_leaves_is_older_than_what_comes_after_it(tmp_path):
    url = f"sqlite:///{tmp_path}/late.db"
    worker = MetricsPersister(url=url, table="late", columns=["page", "title"], key=["page"], merge={})
    worker([("a", "old"), ("b", "old"), ("c", "old")])
    send = worker._table_sink.send_within

    def send_meanwhile(*of):
        worker._table_sink.send_within = send
        worker([("a", "new")])
        return send(*of)

    worker._table_sink.send_within = send_meanwhile
    assert worker.flush() is False  # the table is not there yet
    worker([("b", "new")])
    with Database(url) as database:
        database.execute("CREATE TABLE late (page TEXT PRIMARY KEY, title TEXT)")
    assert worker.flush()
    with Database(url) as database:
        assert sorted(database.execute("SELECT page, title FROM late")) == [("a", "new"), ("b", "new"), ("c", "old")]
    assert worker.close()


def test_a_row_is_kept_up_to_its_age_and_one_with_nan_where_values_are_compared_is_refused(url, rows):
    nan, clock = math.nan, ManualClock(1000.0)
    with persister(url, time=lambda row: row[1], expire_after=100, clock=clock) as pages:
        pages([("a", 900, 1, 1), ("b", 899, 1, 1), ("c", 950, nan, 1), ("d", 950, 1, nan)])
        assert (pages.stats().refused, pages.stats().expired) == (3, 1)
    assert rows(url) == [("a", 900, 1, 1)]


def test_values_that_python_cannot_add_are_left_to_the_database(url, rows):
    with persister(url, flush_interval=None) as pages:
        pages([("a", 1, 1, 1), ("a", "2", 1, 1)])
    assert rows(url) == [("a", 3, 1, 1)]
    with persister(url, flush_interval=None) as pages:
        pages([("b", 0.5, 1, 1), ("b", 10**400, 1, 1)])  # one cannot be added to the other, nor stored
    assert rows(url)[1:] == [("b", 0.5, 1, 1)] and pages.stats().refused == 1


def test_only_a_missing_table_may_come_later(url):
    pages = persister(url)
    assert (pages._may_wait(), pages.close()) == (False, True)
    assert pages._delivery.sink.described(("a", 1)) == f"a tuple for the columns {COLUMNS!r}"
    late = MetricsPersister(url=url, table="late", columns=["page"], key=["page"], merge={})
    with pytest.raises(DatabaseError, match="late"):
        late.produce(("a",))
    late.close()
    with pytest.raises(DatabaseError, match="nope"):
        MetricsPersister(url=url, table="t", columns=["page", "nope"], key=["page"], merge={})


def test_a_row_of_the_wrong_width_is_refused_without_its_values(url):
    with persister(url) as pages, pytest.raises(ValueError, match="a row needs 4 values for the columns .*, got 2"):
        pages([("a", 1)])


def test_no_key_and_no_database_are_refused(url, tmp_path):
    with pytest.raises(ValueError, match="key"):
        MetricsPersister(url=url, table="t", columns=COLUMNS, key=[], merge={})
    with pytest.raises(DatabaseError, match="cannot open"):
        persister(f"sqlite:///{tmp_path}/missing/x.db")
