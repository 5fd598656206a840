"""Rows merged in memory, then in the table."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from drainq.sql import Database, DatabaseError
from drainq.testing import ManualClock
from drainq.workers import MetricsPersister

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
    with pytest.raises(TypeError, match=f"max_rows must be a number of rows, got {most!r}"):
        persister(url, max_rows=most)


def test_a_refused_flush_writes_nothing_and_the_next_writes_it_once(url, rows):
    pages = persister(url, flush_interval=None)
    pages([("a", 1, 1, 1)])
    with Database(url) as database:
        database.execute("ALTER TABLE t RENAME TO gone")
        assert not pages.flush()
        database.execute("ALTER TABLE gone RENAME TO t")
    pages([("a", 2, 2, 2)])
    assert pages.close()
    assert rows(url) == [("a", 3, 2, 1)]
    assert (pages.stats().sent, pages.stats().retried, pages.stats().lost) == (2, 1, 0)


def test_what_a_failed_flush_leaves_is_older_than_what_comes_after_it(tmp_path):
    url = f"sqlite:///{tmp_path}/late.db"
    worker = MetricsPersister(url=url, table="late", columns=["page", "title"], key=["page"], merge={})
    worker([("a", "old"), ("b", "old"), ("c", "old")])
    send = worker._table_sink.send

    def send_meanwhile(*of):
        worker._table_sink.send = send
        worker([("a", "new")])
        return send(*of)

    worker._table_sink.send = send_meanwhile
    assert worker.flush() is False  # the table is not there yet
    worker([("b", "new")])
    with Database(url) as database:
        database.execute("CREATE TABLE late (page TEXT PRIMARY KEY, title TEXT)")
    assert worker.flush()
    with Database(url) as database:
        assert sorted(database.execute("SELECT page, title FROM late")) == [("a", "new"), ("b", "new"), ("c", "old")]
    assert worker.close()


def test_a_row_of_the_wrong_width_is_refused_without_its_values(url):
    with persister(url) as pages, pytest.raises(ValueError, match="a row needs 4 values for the columns .*, got 2"):
        pages([("a", 1)])


def test_no_key_and_no_database_are_refused(url, tmp_path):
    with pytest.raises(ValueError, match="key"):
        MetricsPersister(url=url, table="t", columns=COLUMNS, key=[], merge={})
    with pytest.raises(DatabaseError, match="cannot open"):
        persister(f"sqlite:///{tmp_path}/missing/x.db")
