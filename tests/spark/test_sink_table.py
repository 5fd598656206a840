"""A table gets each row of a DataFrame exactly once, whatever becomes of the tasks."""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import contextmanager

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark_session import by_value

from drainq.errors import DrainqError
from drainq.spark import sink_table
from drainq.spark.sink import PartitionReport
from drainq.spark.sink_table import StagingTable, _Writer
from drainq.sql import Database, DatabaseError, Upsert

by_value(__name__)
ROWS = 4_000


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """Yields a database that has no table of a call at the end."""
    url = f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Database(url) as opened:
        yield opened
        assert staged_tables(opened) == []


@pytest.fixture
def table(database):
    """Yields a table without a key whose name must be quoted."""
    name = f'sa"les % {uuid.uuid4().hex}'
    quoted = database.dialect.quote(name)
    database.execute(f"CREATE TABLE {quoted} (n BIGINT, name TEXT NOT NULL, price NUMERIC)")
    yield name
    database.execute(f"DROP TABLE {quoted}")


def staged_tables(database):
    catalog = "pg_catalog.pg_tables" if database.dialect.is_server else "sqlite_master"
    column = "tablename" if database.dialect.is_server else "name"
    return [
        name for (name,) in database.execute(f"SELECT {column} FROM {catalog}") if name.startswith("drainq_staged_")
    ]


def rows_of(database, table, columns="n, name, price"):
    return sorted(database.execute(f"SELECT {columns} FROM {database.dialect.quote(table)}"))


def sales(spark):
    """Rows of which each is there twice."""
    return spark.range(0, ROWS, 1, 4).selectExpr(
        "id div 2 as n", "concat('é', id div 2) as name", "cast(null as int) as price"
    )


SALES = sorted((n // 2, f"é{n // 2}", None) for n in range(ROWS))


def dying(url, mark, act):
    """Passes rows on, and in one task does something once some of its rows are in the table of the call."""

    def with_fault(batches):
        for batch in batches:
            yield batch
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            with Database(url) as database:
                while not any(rows_of(database, name, "n") for name in staged_tables(database)):
                    pass
            act()

    return with_fault


def fail():
    raise RuntimeError("a fault in the middle of a task")


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("act", [fail, pytest.param(kill_worker, marks=pytest.mark.system)])
def test_rows_without_a_key_are_there_once_also_if_a_task_dies_after_it_has_written_some(
    spark, database, table, tmp_path, act
):
    frame = sales(spark).mapInArrow(
        dying(str(database.url), str(tmp_path / "mark"), act), "n long, name string, price int"
    )
    report = sink_table(frame, str(database.url), table, max_batch_rows=50)
    assert (tmp_path / "mark").exists()
    assert (report.rows, report.retries, len(report.partitions)) == (ROWS, 0, 4)
    assert rows_of(database, table) == SALES


def test_a_job_that_fails_has_written_nothing(spark, database, table):
    whole = sales(spark).coalesce(1)  # four tries of one task
    frame = whole.selectExpr("n", "if(n = 1700, null, name) as name", "price")
    with pytest.raises(DatabaseError, match=r"cannot write to 'sa\"les % \w+' in .*(NOT NULL|23502)"):
        sink_table(frame, str(database.url), table)
    with pytest.raises(Exception, match="a fault in the middle"):
        sink_table(whole.mapInArrow(lambda batches: fail(), "n long"), str(database.url), table, columns=["n"])
    assert rows_of(database, table) == []


def report(rows):
    return PartitionReport(0, rows, 1, 0, 0, 0, 0, 1.0)


@contextmanager
def staging(database, table, **more):
    call = StagingTable(database.url, Upsert(table, ["n", "name"], **more), f"drainq_staged_{uuid.uuid4().hex}")
    call.create()
    yield call
    database.execute(f"DROP TABLE IF EXISTS {call.quoted}")


def write(call, attempt, rows):
    writer = _Writer(call, attempt)
    writer.write(rows)
    writer.close()


def test_rows_of_a_speculative_copy_and_of_a_failed_attempt_change_nothing(database, table):
    with staging(database, table) as call:
        write(call, 7, [(1, "a"), (1, "a"), (2, "b")])
        write(call, 8, [(1, "a"), (1, "a"), (2, "b")])  # the copy, which was as quick
        write(call, 9, [(3, "c")])  # of another partition, and then it failed
        call.move({8: report(3)})
        with pytest.raises(Exception, match="(?i)no such table|does not exist"):
            write(call, 7, [(2, "b")])  # a late one
    assert rows_of(database, table, "n, name") == [(1, "a"), (1, "a"), (2, "b")]


def test_rows_that_are_missing_in_the_table_of_the_call_are_noticed(database, table):
    with staging(database, table) as call:
        write(call, 7, [(1, "a")])
        with pytest.raises(DrainqError, match="has 1 rows, and the tasks wrote 2"):
            call.move({7: report(2)})
    assert rows_of(database, table) == []


@pytest.mark.parametrize(("committed", "answers"), [(True, True), (False, True), (False, False)])
def test_a_commit_without_an_answer_is_looked_up(database, table, monkeypatch, committed, answers):
    class Silent:
        """A connection that is lost at COMMIT, before or after the database has done it."""

        def __init__(self, connection):
            self._connection = connection

        def execute(self, statement, *values):
            if statement == "COMMIT":
                if committed:
                    self._connection.execute(statement)
                raise database.errors("the connection is lost")
            return self._connection.execute(statement, *values)

        def __getattr__(self, name):
            return getattr(self._connection, name)

    with staging(database, table) as call:
        write(call, 7, [(1, "a")])
        begin = Database.transaction

        def transaction(self):
            self.connection = Silent(self.connection)
            return begin(self)

        def silent(self, statement, *values):
            if statement.startswith("SELECT 1 "):
                raise database.errors("the server is away")
            return execute(self, statement, *values)

        execute = Database.execute
        monkeypatch.setattr(Database, "transaction", transaction)
        if not answers:
            monkeypatch.setattr(Database, "execute", silent)
        if committed:
            call.move({7: report(1)})
        else:
            with pytest.raises(DatabaseError, match="cannot write to"):
                call.move({7: report(1)})
    assert rows_of(database, table, "n, name") == [(1, "a")] * committed


def test_rows_of_one_key_are_added_up_to_each_other_and_to_the_stored_row(spark, database, table):
    quoted = database.dialect.quote(table)
    database.execute(f"CREATE UNIQUE INDEX {database.dialect.quote(uuid.uuid4().hex)} ON {quoted} (name)")
    database.execute(f"INSERT INTO {quoted} VALUES (5, 'a', 9), (5, 'c', 1)")
    frame = spark.createDataFrame(
        [(1, "a", 2), (10, "b", 3), (100, "a", 11), (None, "a", None)] * 50, "n long, name string, price int"
    )
    sink_table(frame, str(database.url), table, key=["name"], merge={"n": "sum", "price": "max"}, max_batch_rows=7)
    assert rows_of(database, table) == [(5, "c", 1), (500, "b", 3), (5_055, "a", 11)]


def test_rows_whose_key_is_null_are_all_kept(database, table):
    database.execute(
        f"CREATE UNIQUE INDEX {database.dialect.quote(uuid.uuid4().hex)} ON {database.dialect.quote(table)} (n)"
    )
    with staging(database, table, key=["n"]) as call:
        write(call, 1, [(None, "a"), (None, "a"), (2, "b"), (2, "b")])
        call.move({1: report(4)})
    assert sorted(rows_of(database, table, "name, n"), key=str) == [("a", None), ("a", None), ("b", 2)]


def test_a_table_that_cannot_take_the_rows_is_refused_before_spark_runs(spark, database, table):
    frame, url = sales(spark), str(database.url)
    with pytest.raises(
        DatabaseError, match=r"no unique index has exactly the columns \['n'\]; make one: CREATE UNIQUE"
    ):
        sink_table(frame, url, table, key=["n"])
    with pytest.raises(DatabaseError, match="cannot write to 'none'"):
        sink_table(frame, url, "none")
    for wrong in ({"threads": 0}, {"max_batch_rows": 0}, {"merge": {"n": "sum"}}, {"key": ["x"]}):
        with pytest.raises(ValueError):
            sink_table(frame, url, table, **wrong)
