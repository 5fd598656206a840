"""Real databases that go away, refuse, and come back: nothing is lost in silence, and the books agree."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import uuid
from decimal import Decimal

import pytest

from drainq.delayed import DelayedQueue
from drainq.errors import ShutDown
from drainq.sql import Database, DatabaseError
from drainq.testing import ManualClock
from drainq.workers import BatchWriter, DeliveryStopped, MetricsPersister
from tests.delivery.helpers import agree, counts
from tests.patience import Call


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Yield a new table ``faults`` on each database."""
    where = f"sqlite:///{tmp_path}/faults.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    make(where)
    yield where
    run(where, "DROP TABLE IF EXISTS faults")


def make(url, columns="id INTEGER PRIMARY KEY, v INTEGER NOT NULL"):
    run(url, "DROP TABLE IF EXISTS faults")
    run(url, f"CREATE TABLE faults ({columns})")


def run(url, statement):
    with Database(url) as database:
        return database.execute(statement)


def rows(url):
    return sorted(run(url, "SELECT * FROM faults"))


def writer(url, **more):
    return BatchWriter(**{"url": url, "table": "faults", "columns": ["id", "v"], **more})


def persister(url, **more):
    options = {"columns": ["id", "v"], "key": ["id"], "merge": {"v": "sum"}, "flush_interval": None}
    return MetricsPersister(**{"url": url, "table": "faults", **options, **more})


POISON = [(n, None if n % 2 else n) for n in range(10_000)]


@pytest.mark.parametrize("key", [None, ["id"]])
def test_half_poison_is_refused_row_by_row_and_the_other_half_is_written(url, key):
    with writer(url, key=key) as out:
        assert out.produce_many(POISON) == 10_000
    assert rows(url) == [row for row in POISON if row[1] is not None]
    assert counts(out) == (5_000, 5_000, 0, 0, 0)


def test_half_poison_of_a_persister_is_refused_and_the_other_half_is_merged(url):
    with persister(url) as out:
        assert out.produce_many([*POISON, *POISON]) == 20_000
    assert rows(url) == [(n, 2 * n) for n in range(0, 10_000, 2)]
    assert counts(out) == (10_000, 10_000, 0, 0, 0)


def test_rows_that_are_no_rows_are_refused_by_themselves(url):
    with writer(url) as out:
        out.produce_many([(1, 1), "ab", (2,), (3, 3, 3), 7, {"id": 1, "v": 1}, b"xy", [4, 4], (5, object())])
    assert rows(url) == [(1, 1), (4, 4)] and counts(out) == (2, 7, 0, 0, 0)


def test_duplicates_of_a_key_are_refused_by_themselves(url):
    with writer(url) as out:
        out.produce_many([(n % 50, n) for n in range(1_000)])
    assert rows(url) == [(n, n) for n in range(50)] and counts(out) == (50, 950, 0, 0, 0)


def test_null_keys_are_never_the_same(url):
    make(url, "id INTEGER UNIQUE, v INTEGER")
    with writer(url, key=["id"]) as out:
        out.produce_many([(None, n) for n in range(300)] + [(7, n) for n in range(300)])
        assert out.flush()
        for n in range(10):
            out([(None, n)])
    assert len(rows_of_any_order(url)) == 311 and counts(out) == (610, 0, 0, 0, 0)


def rows_of_any_order(url):
    return run(url, "SELECT * FROM faults")


@pytest.mark.parametrize("size", [2, 1_000])
def test_keys_that_the_column_takes_for_the_same_are_one_and_the_last_wins(url, size):
    make(url, "id TEXT PRIMARY KEY, v INTEGER")
    with writer(url, key=["id"]) as out:
        out([(n // 2 if n % 2 else str(n // 2), n) for n in range(size)])
    assert dict(rows(url)) == {str(n // 2): n for n in range(1, size, 2)}
    assert counts(out) == (size, 0, 0, 0, 0)


def test_sums_of_keys_that_the_column_takes_for_the_same_are_one_sum(url):
    make(url, "id TEXT PRIMARY KEY, v INTEGER")
    with persister(url) as out:
        out([(n % 7 if n % 2 else str(n % 7), 1) for n in range(700)])
    assert rows(url) == [(str(n), 100) for n in range(7)] and counts(out) == (700, 0, 0, 0, 0)


def test_a_key_without_a_unique_index_is_refused_with_the_statement_that_makes_it(url):
    key = ["id", 'p"a']
    for open_one in (writer, persister):
        make(url, 'id INTEGER UNIQUE, v INTEGER, "p""a" INTEGER')  # an index on a part of the key is not enough
        with pytest.raises(DatabaseError, match="no unique index has exactly the columns") as refused:
            open_one(url, columns=[*key, "v"], key=key)
        text, _, statement = str(refused.value).partition("; make one: ")
        assert repr(key) in text
        run(url, statement)
        open_one(url, columns=[*key, "v"], key=key).close()


def test_a_table_whose_domain_refuses_null_is_opened(postgres_url):
    run(postgres_url, "DROP DOMAIN IF EXISTS positive CASCADE")
    run(postgres_url, "CREATE DOMAIN positive AS INTEGER NOT NULL CHECK (VALUE > 0)")
    make(postgres_url, "id INTEGER PRIMARY KEY, v positive")
    with writer(postgres_url, key=["id"]) as out:
        out.produce_many([(n, n - 1) for n in range(1, 500)] + [(500, None)])
    assert rows(postgres_url) == [(n, n - 1) for n in range(2, 500)] and counts(out) == (498, 2, 0, 0, 0)
    run(postgres_url, "DROP TABLE faults")
    run(postgres_url, "DROP DOMAIN positive")


def test_values_that_are_too_long_are_refused_and_not_cut(postgres_url):
    make(postgres_url, "id CHAR(3) PRIMARY KEY, v VARCHAR(5), w BIT(2)")
    with writer(postgres_url, columns=["id", "v", "w"], key=["id"]) as out:
        out.produce_many([("a", "short", "10"), ("b", "too long", "10"), ("abcd", "x", "10"), ("c", "x", "101")])
    assert rows(postgres_url) == [("a  ", "short", "10")] and counts(out) == (1, 3, 0, 0, 0)
    run(postgres_url, "DROP TABLE faults")


def test_constraints_that_wait_for_the_commit_refuse_their_row_alone(postgres_url):
    make(postgres_url, "id INTEGER, v INTEGER, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
    with writer(postgres_url) as out:
        out([(n % 300, n) for n in range(600)])
    assert len(rows(postgres_url)) == 300 and counts(out) == (300, 300, 0, 0, 0)
    run(postgres_url, "DROP TABLE faults")


def test_a_dropped_table_stops_the_writer_at_once(url):
    out = writer(url, retry_for=1_000)
    assert out.produce((1, 1)) and out.flush()
    run(url, "DROP TABLE faults")
    assert out.produce_many([(n, n) for n in range(2, 502)]) == 500
    assert out.flush() is False
    with pytest.raises(DeliveryStopped, match="faults"):
        out.produce((1000, 1))
    assert out.close() is False and counts(out) == (1, 0, 0, 500, 0) and out.stats().retried == 0


def test_a_dropped_table_stops_the_persister_which_keeps_what_it_holds(url):
    out = persister(url, retry_for=1_000)
    assert out.produce((1, 1)) and out.flush()
    run(url, "DROP TABLE faults")
    assert out.produce((1, 1)) and out.flush() is False
    with pytest.raises(DeliveryStopped):
        out.produce((1, 1))
    assert agree(out).pending == 1
    make(url)
    assert out.close() and rows(url) == [(1, 1)] and counts(out) == (2, 0, 0, 0, 0)


def test_a_missing_table_is_an_error_of_the_persisters_first_item(url):
    out = MetricsPersister(url=url, table="missing_one", columns=["id", "v"], key=["id"], merge={})
    with pytest.raises(DatabaseError, match="missing_one"):
        out.produce((1, 1))


def test_typed_values_come_back_equal_from_the_dead_letters(postgres_url):
    make(postgres_url, "id INTEGER PRIMARY KEY, a TIMESTAMPTZ, b NUMERIC, c BYTEA, d UUID, f DATE, v TEXT NOT NULL")
    row = (1, dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), Decimal("1.10"), b"\0\xff", uuid.UUID(int=5),
           dt.date(2026, 2, 3), None)  # fmt: skip
    clock = ManualClock()
    with DelayedQueue.open("memory:", "typed", clock=clock) as delayed:
        with writer(postgres_url, columns=["id", "a", "b", "c", "d", "f", "v"], delayed=delayed) as out:
            out([row])
            assert counts(out) == (0, 0, 1, 0, 0)
            run(postgres_url, "ALTER TABLE faults ALTER v DROP NOT NULL")
            clock.advance(3600)
            assert out.flush() and counts(out) == (1, 0, 0, 0, 0)
    assert rows_of_any_order(postgres_url) == [row]
    run(postgres_url, "DROP TABLE faults")


def test_a_locked_sqlite_file_is_waited_for(tmp_path):
    url = f"sqlite:///{tmp_path}/locked.db"
    make(url)
    with Database(url) as other, writer(url) as out:
        other.execute("BEGIN IMMEDIATE")
        out.produce_many([(n, n) for n in range(100)])
        assert out.flush(0.01) is False and agree(out).pending == 100
        other.execute("ROLLBACK")
        assert out.flush()
    assert len(rows(url)) == 100 and counts(out) == (100, 0, 0, 0, 0)


@pytest.mark.parametrize("open_one", [writer, persister])
def test_a_locked_table_holds_close_no_longer_than_its_deadline_and_all_is_kept(postgres_url, open_one, gives_up_early):
    make(postgres_url)
    with DelayedQueue.open("memory:", "locked") as delayed, Database(postgres_url) as other:
        out = open_one(postgres_url, delayed=delayed)
        with other.transaction():
            other.execute("LOCK TABLE faults IN ACCESS EXCLUSIVE MODE")
            out.produce_many([(n, n) for n in range(100)])
            out.flush(0.05)
            out.produce_many([(n, n) for n in range(100, 150)])
            assert out.close(10.0)
        assert counts(out) == (0, 0, 150, 0, 0)
        clock = ManualClock(4e9)
        delayed._session.clock = clock
        again = open_one(postgres_url, delayed=delayed)
        assert again.flush() and again.stats().resent == 150 and again.close()
    assert len(rows(postgres_url)) == 150
    run(postgres_url, "DROP TABLE faults")


@pytest.mark.system
def test_a_flush_that_hangs_beyond_the_time_of_close_is_kept_until_it_is_answered(tmp_path, gives_up_early):
    entered, answer = threading.Event(), threading.Event()

    def hang(*_):
        entered.set()
        assert answer.wait(60)
        return []

    make(url := f"sqlite:///{tmp_path}/hangs.db")
    with DelayedQueue.open("memory:", "hangs") as delayed:
        out = persister(url, delayed=delayed)
        out._table_sink.send_within = hang
        out([(1, 1), (2, 1)])
        flushed = Call(out.flush)
        assert entered.wait(60) and out.close(4.0) and counts(out) == (0, 0, 2, 0, 0)
        answer.set()
        flushed.result()
        assert counts(out) == (2, 0, 0, 0, 0) and delayed.stats().scheduled == 0


def test_a_read_only_server_is_waited_for(own_postgres):
    make(own_postgres.url)
    out = writer(own_postgres.url, key=["id"])
    run(own_postgres.url, "ALTER DATABASE postgres SET default_transaction_read_only = on")
    terminate(own_postgres.url)
    out.produce_many([(n, n) for n in range(500)])
    assert out.flush(0.3) is False and agree(out).pending == 500
    run(own_postgres.url + "&options=-c%20default_transaction_read_only%3Doff",
        "ALTER DATABASE postgres SET default_transaction_read_only = off")  # fmt: skip
    assert out.close() and counts(out) == (500, 0, 0, 0, 0) and len(rows(own_postgres.url)) == 500


def terminate(url):
    run(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
             "AND backend_type = 'client backend'")  # fmt: skip


@pytest.mark.system
@pytest.mark.parametrize("open_one", [writer, persister])
def test_a_server_that_restarts_in_the_middle_loses_nothing(own_postgres, open_one):
    make(own_postgres.url)
    out = open_one(own_postgres.url, key=["id"])
    assert out.produce_many([(n, n) for n in range(1, 101)]) == 100 and out.flush()
    own_postgres.stop("immediate")
    flushed = threading.Event()
    for k in range(1, 40):
        assert out.produce_many([(k * 100 + n, 1) for n in range(1, 101)]) == 100
    assert out.flush(0.2) is False
    threading.Thread(target=lambda: (out.flush(), flushed.set())).start()
    assert agree(out).pending == 3_900
    own_postgres.start()
    assert flushed.wait(60) and out.close()
    assert len(rows(own_postgres.url)) == 4_000 and counts(out) == (4_000, 0, 0, 0, 0)


@pytest.mark.system
def test_an_older_row_that_waited_out_an_outage_in_the_dead_letters_does_not_replace_a_newer_one(own_postgres):
    make(own_postgres.url)
    clock = ManualClock()
    with DelayedQueue.open("memory:", "older", clock=clock) as delayed:
        out = writer(own_postgres.url, key=["id"], delayed=delayed, clock=clock, retry_for=0)
        out([(1, 0), (2, 0)])
        own_postgres.stop("immediate")
        out([(1, 1), (2, 1)])
        own_postgres.start()
        out([(1, 2)])
        clock.advance(3600)
        assert out.flush() and rows(own_postgres.url) == [(1, 2), (2, 1)]
        assert counts(out) == (5, 0, 0, 0, 0) and out.close()


KILLED = """
import sys
from drainq.delayed import DelayedQueue
from drainq.workers import BatchWriter
url, letters = sys.argv[1:]
out = BatchWriter(url=url, table="faults", columns=["id", "v"], delayed=DelayedQueue.open(letters, "killed"))
out([(n, None if n == 3 else n) for n in range(10)])
print("written", flush=True)
out.produce_many([(n, n) for n in range(100, 200)])
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.system
def test_what_a_killed_process_had_written_or_kept_is_there_and_its_letters_are_sent_by_the_next(tmp_path):
    url, letters = f"sqlite:///{tmp_path}/killed.db", f"sqlite:///{tmp_path}/letters.db"
    make(url)
    killed = subprocess.run([sys.executable, "-c", KILLED, url, letters], capture_output=True, text=True, timeout=60)
    assert killed.stdout == "written\n" and killed.returncode < 0
    written = rows(url)
    assert written[:9] == [(n, n) for n in range(10) if n != 3]
    make(url, "id INTEGER PRIMARY KEY, v INTEGER")
    with DelayedQueue.open(letters, "killed", clock=ManualClock(4e9)) as delayed, writer(url, delayed=delayed) as out:
        assert out.flush() and out.stats().resent == 1
        assert rows(url) == [(3, None)] and counts(out) == (0, 0, 0, 0, 0)


def test_a_closed_writer_takes_nothing(url):
    used, unused = writer(url), writer(url)
    used.produce((1, 1))
    assert used.close() and unused.close()
    assert (used.produce((2, 2)), unused.produce((3, 3)), unused.produce_many([(4, 4)])) == (False, False, 0)
    assert rows(url) == [(1, 1)] and counts(used) == (1, 0, 0, 0, 0)
    with pytest.raises(ShutDown, match="^batch-writer/faults is closed$"):
        used.__enter__()


def test_nan_is_refused_where_values_are_added(url):
    with persister(url, columns=["id", "v"]) as out:
        out([(1, 1), (1, float("nan")), (2, 2)])
    assert rows(url) == [(1, 1), (2, 2)] and counts(out) == (2, 1, 0, 0, 0)


def test_draining_does_not_wait_for_the_database_until_the_persister_is_full(postgres_url):
    make(postgres_url)
    out = persister(postgres_url, flush_interval=0.0, max_rows=1_000)
    with Database(postgres_url) as other, other.transaction():
        other.execute("LOCK TABLE faults IN ACCESS EXCLUSIVE MODE")
        for n in range(500):
            assert out.produce((n % 900, 1))
        assert out._queue.flush(30)  # drained, although nothing can be written
        assert agree(out).pending == 500
    assert out.close()
    assert sum(v for _, v in rows(postgres_url)) == 500
    run(postgres_url, "DROP TABLE faults")


@pytest.mark.parametrize("open_one", [writer, persister])
def test_a_worker_opens_while_another_session_holds_the_lock_of_its_table(postgres_url, open_one):
    make(postgres_url)
    with Database(postgres_url) as other, other.transaction():
        other.execute("LOCK TABLE faults IN ACCESS EXCLUSIVE MODE")
        out = open_one(postgres_url)
        assert out.produce((1, 1))
    assert out.close() and rows(postgres_url) == [(1, 1)]
    run(postgres_url, "DROP TABLE faults")


@pytest.mark.system
def test_a_persister_that_is_full_makes_its_producers_wait(own_postgres):
    make(own_postgres.url)
    out = persister(own_postgres.url, max_rows=100)
    own_postgres.stop("immediate")
    done = threading.Event()
    threading.Thread(target=lambda: (out.produce_many([(n, 1) for n in range(20_000)]), done.set())).start()
    while (queue := out.stats().queue) is None or queue.queued < 10_000:
        assert not done.is_set()
    assert agree(out).sent == 0
    own_postgres.start()
    assert done.wait(60) and out.close()
    assert len(rows(own_postgres.url)) == 20_000 and counts(out) == (20_000, 0, 0, 0, 0)
