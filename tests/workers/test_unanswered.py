"""A database that does not answer: nothing waits for longer than ``retry_for``, and what was written counts once."""

from __future__ import annotations

import math
from collections import namedtuple
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.parse import unquote

import psycopg
import pytest

from drainq.delayed import DelayedQueue
from drainq.delivery import DeliveryError
from drainq.delivery.sink_contract import Failure
from drainq.sql import Database, Dialect, postgres_connection
from drainq.testing import ManualClock
from drainq.workers import BatchWriter, DeclaredMetrics, Metric, MetricsPersister, Value
from tests.delivery.helpers import agree, counts
from tests.export.tcp import Proxy
from tests.patience import Call, eventually

Hit = namedtuple("Hit", "id at")
TABLES = {"rows": "id INTEGER, v INTEGER NOT NULL", "sums": "id INTEGER PRIMARY KEY, v INTEGER NOT NULL"}
COMMIT = b"COMMIT\0"  # the statement alone
OPEN = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"
SECONDS = "extract(epoch FROM current_setting('{}')::interval)"


def run(url, statement):
    with Database(url) as database:
        return database.execute(statement)


def drop(url):
    for table in (*TABLES, "hits_day"):
        run(url, f"DROP TABLE IF EXISTS {table}")


def writer(url, **more):
    return BatchWriter(url=url, table="rows", columns=["id", "v"], **more)


def persister(url, **more):
    columns = {"columns": ["id", "v"], "key": ["id"], "merge": {"v": "sum"}}
    return MetricsPersister(url=url, table="sums", flush_interval=None, **columns, **more)


def declared(url, **more):
    metric = Metric("hits", Hit, keys={"id": "id"}, time="at", values={"v": Value.count()}, every=("day",))
    return DeclaredMetrics(url=url, metrics=[metric], flush_interval=None, **more)


WORKERS = {writer: "rows", persister: "sums", declared: "hits_day"}


def total(url, open_one):
    """Return what the worker has added up in its table."""
    return run(url, f"SELECT coalesce(sum(v), 0) FROM {WORKERS[open_one]}")[0][0]


@pytest.fixture
def proxy(postgres_url):
    """Yield a way to the database that can be cut, with the URL of both."""
    drop(postgres_url)
    for table, columns in TABLES.items():
        run(postgres_url, f"CREATE TABLE {table} ({columns})")
    with Proxy(unquote(postgres_url.partition("?host=")[2]) + "/.s.PGSQL.5432") as proxy:
        proxy.url, proxy.far_url = f"postgresql://drainq@{proxy.address}/postgres", postgres_url
        yield proxy
    drop(postgres_url)


@pytest.mark.parametrize("open_one", WORKERS)
def test_what_a_commit_without_an_answer_wrote_is_not_written_again(open_one, proxy):
    poison = [] if open_one is declared else [Hit(2, None)]
    with open_one(proxy.url) as out:
        for flush in range(6):
            proxy.cut_after = COMMIT if flush % 2 else None
            out([Hit(1, 1)] * 99 + poison)
            assert out.flush() is not poison and proxy.cut_after is None
    stats = agree(out)
    assert (total(proxy.far_url, open_one), stats.sent, stats.refused) == (594, 594, 6 * len(poison))
    assert stats.unknown == 0 and stats.retried >= 297


@pytest.mark.parametrize("open_one", WORKERS)
@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_kept_after_a_commit_without_an_answer_is_written_once(open_one, arrives, proxy):
    clock = ManualClock()
    with DelayedQueue.open("memory:", "doubt", clock=clock) as delayed:
        out = open_one(proxy.url, delayed=delayed, retry_for=0)
        setattr(proxy, "cut_after" if arrives else "cut_before", COMMIT)
        out([Hit(1, 1)] * 100)
        out.flush()
        assert counts(out) == (0, 0, 100, 0, 0) and agree(out).unknown == 100
        assert total(proxy.far_url, open_one) == (100 if arrives else 0)
        eventually(lambda: not run(proxy.far_url, OPEN), "the server noticed no end of its client")
        clock.advance(3600)
        assert out.flush() and counts(out) == (100, 0, 0, 0, 0) and out.close()
    assert total(proxy.far_url, open_one) == 100


@pytest.mark.parametrize("open_one", WORKERS)
@pytest.mark.parametrize("kept", [True, False])
def test_what_may_be_there_twice_is_counted(open_one, kept, proxy, monkeypatch):
    """A replica has taken over: it does not know the transaction."""
    monkeypatch.setattr(type(Dialect.POSTGRESQL), "was_committed", lambda dialect, connection, mark: None)
    clock = ManualClock()
    with DelayedQueue.open("memory:", "doubt", clock=clock) as delayed:
        out = open_one(proxy.url, **({"delayed": delayed, "retry_for": 0} if kept else {}))
        proxy.cut_after = COMMIT
        out([Hit(1, 1)] * 100)
        out.flush()
        clock.advance(3600)
        assert out.flush() and counts(out) == (100, 0, 0, 0, 0) and out.close()
    assert total(proxy.far_url, open_one) == 200 and out.stats().unknown == (200 if kept else 100)


def test_the_server_tells_whether_a_transaction_was_committed(proxy):
    dialect = Dialect.POSTGRESQL
    with Database(proxy.far_url) as one, Database(proxy.far_url) as other:
        for end in ("COMMIT", "ROLLBACK"):
            mark = dialect.begin_marked(one.connection)
            one.execute("INSERT INTO rows VALUES (1, 1)")
            with pytest.raises(other.errors, match="not ended") as unended:
                dialect.was_committed(other.connection, mark)
            assert dialect.failure_of(unended.value) is Failure.PASSES
            one.execute(end)
            assert dialect.was_committed(other.connection, mark) is (end == "COMMIT")
        history, _, number = mark.partition(":")
        for of_another in (f"{int(history, 16) + 1:08X}:{number}", f"0:{int(number) + 10**9}", ""):
            assert dialect.was_committed(other.connection, of_another) is None


def test_a_session_keeps_its_shorter_limits_and_gets_its_own_back(proxy):
    dialect, names = Dialect.POSTGRESQL, ("statement_timeout", "idle_in_transaction_session_timeout")
    for own, expected in (((), [5, 30]), (("2s", "2min"), [2, 30]), (("1h", "7s"), [5, 7])):
        options = "%20".join(f"-c%20{name}%3D{value}" for name, value in zip(names, own))
        with Database(f"{proxy.far_url}{'&options=' * bool(own)}{options}") as database:

            def limits(database=database):
                [found] = database.execute(f"SELECT {', '.join(SECONDS.format(name) for name in names)}")
                return list(map(round, found))

            before = limits()
            dialect.limit_waits(database.connection, 5.0)
            with pytest.raises(ZeroDivisionError), database.marked_transaction():
                assert limits() == expected
                raise ZeroDivisionError
            assert limits() == before


def test_a_database_without_numbers_of_transactions_gets_no_limits(proxy, monkeypatch):
    monkeypatch.setattr("drainq.sql.postgres._HISTORY", "no_such_function()")
    with writer(proxy.url, retry_for=0) as out:
        out([Hit(1, 1)] * 3)
        proxy.cut_after = COMMIT
        with pytest.raises(DeliveryError):
            out([Hit(1, 1)] * 4)
        out([Hit(1, 1)] * 5)
    assert counts(out) == (8, 0, 0, 4, 0) and out.stats().unknown == 4
    assert total(proxy.far_url, writer) == 12


def test_a_wait_ends_after_a_silence_and_not_while_the_server_gives_signs(monkeypatch):
    clock, ended = ManualClock(0.0), []
    monkeypatch.setattr(postgres_connection, "time", SimpleNamespace(monotonic=clock.now))
    connection = SimpleNamespace(
        _is_cut=False, patience=3.0, pgconn=SimpleNamespace(finish=lambda: ended.append(clock.now()))
    )
    waits = postgres_connection.CuttableConnection._unless_cut(connection, iter_forever())
    next(waits)
    for seconds, is_ready in ((2.9, 0), (0.0, 1), (2.9, 1), (2.9, 0)):
        clock.advance(seconds)
        waits.send(is_ready)
    clock.advance(0.2)
    with pytest.raises(psycopg.OperationalError, match="did not answer in time"):
        waits.send(0)
    assert ended == [clock.now()]


def test_a_wait_and_each_later_one_end_when_another_thread_says_so():
    ended = []
    pgconn = SimpleNamespace(finish=lambda: ended.append(1))
    connection = SimpleNamespace(_is_cut=False, patience=math.inf, pgconn=pgconn)
    first, later = (postgres_connection.CuttableConnection._unless_cut(connection, iter_forever()) for _ in range(2))
    next(first)
    first.send(0)
    postgres_connection.CuttableConnection.cut(connection)
    next(later)
    for waits in (first, later):
        with pytest.raises(psycopg.OperationalError, match="the wait for the server was ended"):
            waits.send(1)
    assert ended == [1, 1]


def iter_forever():
    while True:
        yield


def locked(proxy, stack):
    other = stack.enter_context(Database(proxy.far_url))
    stack.enter_context(other.transaction())
    other.execute("LOCK TABLE rows, sums IN ACCESS EXCLUSIVE MODE")


def frozen(proxy, stack):
    proxy.silent_at = b"INSERT"


def frozen_at_commit(proxy, stack):
    proxy.silent_at = COMMIT


def frozen_at_connect(proxy, stack):
    proxy.silent_to_new = True
    proxy.drop()


@pytest.mark.system
@pytest.mark.parametrize("moment", [locked, frozen, frozen_at_commit, frozen_at_connect])
@pytest.mark.parametrize("open_one", [writer, persister])
def test_retry_for_ends_the_wait_for_a_silent_server(open_one, moment, proxy):
    """A worker that waits for the other side waits for ever."""
    with DelayedQueue.open("memory:", "silent") as delayed, ExitStack() as stack:
        out = open_one(proxy.url, delayed=delayed, retry_for=0.1)
        out([Hit(1, 1)])
        assert out.flush()
        moment(proxy, stack)
        for sent in (1, 2):  # the second when the outage has lasted for longer than ``retry_for``
            out([Hit(1, 1)] * 10)
            assert out.flush() and counts(out) == (1, 0, 10 * sent, 0, 0)
            assert delayed.stats().scheduled == sent


@pytest.mark.system
def test_retry_for_ends_the_wait_for_a_locked_file(tmp_path):
    url = f"sqlite:///{tmp_path}/locked.db"
    run(url, f"CREATE TABLE rows ({TABLES['rows']})")
    with DelayedQueue.open("memory:", "silent") as delayed, Database(url) as other:
        out = writer(url, delayed=delayed, retry_for=0.1)
        other.execute("BEGIN EXCLUSIVE")
        for kept in (10, 20):
            out([Hit(1, 1)] * 10)
            assert (counts(out), delayed.stats().scheduled) == ((0, 0, kept, 0, 0), kept // 10)
            out.sink.close()  # so that the next batch needs a connection


def test_a_commit_for_which_a_file_is_locked_writes_nothing_until_it_is_free(tmp_path):
    url = f"sqlite:///{tmp_path}/read.db"
    run(url, f"CREATE TABLE sums ({TABLES['sums']})")
    with Database(url) as reader, persister(url) as out:
        reader.execute("BEGIN")
        assert reader.execute("SELECT * FROM sums") == []  # it holds a lock until its transaction ends
        out([Hit(1, 1)] * 100)
        flushing = Call(out.flush)
        eventually(lambda: out.stats().retried)
        reader.execute("ROLLBACK")
        assert flushing.result() and counts(out) == (100, 0, 0, 0, 0) and out.stats().unknown == 0
    assert total(url, persister) == 100
