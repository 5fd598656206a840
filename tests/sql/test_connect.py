"""How a connection is opened: what PostgreSQL is told, and what becomes of an SQLite file that cannot be written."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
import pickle
import sqlite3
import sys
from types import SimpleNamespace

import pytest

from drainq.sql import Database, DatabaseError, Dialect
from drainq.sql.connect import connect_postgres, connect_sqlite
from drainq.sql.dialect import registered
from drainq.sql.url import DatabaseUrl

SILENCE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
           "tcp_user_timeout": 30_000}  # fmt: skip
SAID = "?connect_timeout=3&keepalives_idle=5&keepalives=0&keepalives_interval=2&keepalives_count=1&tcp_user_timeout=9"


@pytest.mark.parametrize(
    ("query", "more", "settings"),
    [
        ("", {}, {**SILENCE, "connect_timeout": 10}),
        (SAID + "&client_encoding=LATIN1&fallback_application_name=mine", {"timeout": 7.0}, {}),
        ("", {"timeout": 0.2}, {**SILENCE, "connect_timeout": 1}),
        ("", {"timeout": 2.6, "options": "-c a=1"}, {**SILENCE, "connect_timeout": 3, "options": "-c a=1"}),
        (SAID + "&options=-c%20a%3D2", {"options": "-c a=1"}, {"options": "-c a=1 -c a=2"}),  # the later one holds
    ],
)
def test_postgresql_is_told_what_the_url_does_not_say(query, more, settings):
    pytest.importorskip("psycopg")
    url, told = DatabaseUrl.parse(f"postgresql://me:secret@h/db{query}"), []
    connect_postgres(url, connection_class=SimpleNamespace(connect=lambda *of, **all: told.append((of, all))), **more)
    usual = {"autocommit": True, "client_encoding": "UTF8", "password": "secret"}
    usual["fallback_application_name"] = "mine" if "fallback" in query else "drainq"
    assert told == [((url.target,), {**usual, **settings})] and "secret" not in url.target


@pytest.mark.parametrize(
    ("statement", "text", "opened"),
    [
        ("PRAGMA journal_mode", "attempt to write a readonly database", 1),
        ("PRAGMA journal_mode", "disk I/O error", None),
        ("SELECT", "unable to open database file", 2),
        ("SELECT", "attempt to write a readonly database", 2),
        ("SELECT", "disk I/O error", None),
    ],
)
def test_a_file_that_cannot_be_written_is_opened_for_reading(statement, text, opened, tmp_path, monkeypatch):
    path, names, closed, real = str(tmp_path / "a?b%.db"), [], [], sqlite3.connect
    real(path).execute("CREATE TABLE t (a)").connection.close()

    class Fails(sqlite3.Connection):
        def execute(self, sql, *values):
            if sql.startswith(statement):
                raise sqlite3.OperationalError(text)
            return super().execute(sql, *values)

        def close(self):
            closed.append(1)
            super().close()

    def open_one(name, **options):
        names.append((name, options["uri"]))
        return real(name, **options, **({"factory": Fails} if len(names) == 1 else {}))

    monkeypatch.setattr(sqlite3, "connect", open_one)
    if opened is None:
        with pytest.raises(sqlite3.Error, match=text) as failed:
            connect_sqlite(path, write_ahead=True)
        assert closed and path in repr(str(failed.value)) and "no directory" not in str(failed.value)
        return
    connection = connect_sqlite(path, write_ahead=True)
    assert len(names) == opened and bool(closed) is (opened == 2)
    if opened == 2:
        assert names[1] == (f"file:{tmp_path}/a%3Fb%25.db?mode=ro&immutable=1", True)
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("INSERT INTO t VALUES (1)")
    connection.close()


def test_a_file_that_is_not_there_and_cannot_be_made_is_not_opened_for_reading(tmp_path):
    with pytest.raises(sqlite3.Error, match="unable to open .*; there is no directory"):
        connect_sqlite(f"{tmp_path}/no/x.db")
    with pytest.raises(sqlite3.Error) as failed:
        connect_sqlite(str(tmp_path))
    assert "no directory" not in str(failed.value)


def test_a_missing_driver_is_an_error_of_the_database_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DatabaseError, match=r"pip install 'drainq\[postgres\]'"):
        Database("postgresql://127.0.0.1:1/db")


def test_a_transaction_has_the_write_lock_at_its_start_and_raises_what_ended_it(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    with Database(url) as one, Database(url) as other:
        one.execute("CREATE TABLE t (a INTEGER)")
        other.execute("CREATE TABLE u (a INTEGER)")
        other.dialect.limit_waits(other.connection, 0)
        with one.transaction(), pytest.raises(other.errors, match="locked"), other.transaction():
            raise AssertionError("it has no lock")
        with pytest.raises(KeyError), one.transaction():
            one.execute("ROLLBACK")  # so that the second one fails
            raise KeyError
        assert one.dialect.tables_among(one.connection, ["t", "v"]) == {"t"}
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        one.execute("SELECT 1")


def test_what_is_no_row_is_the_drivers_error_also_beside_dates(tmp_path):
    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        database.execute("CREATE TABLE t (a TEXT)")
        for rows in ([5], [[datetime.date(2030, 1, 31)], 5]):
            with pytest.raises(sqlite3.ProgrammingError):
                database.execute_many("INSERT INTO t VALUES (?)", rows)


def test_two_paths_of_one_file_have_one_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Dialect.SQLITE.address("x.db") == Dialect.SQLITE.address(f"{tmp_path}/sub/../x.db")


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        ({}, ("delete", 1, 60_000, 128)),
        ({"write_ahead": True, "lock_timeout": 1.5, "cached_statements": 7}, ("wal", 1, 1500, 7)),
    ],
)
def test_an_sqlite_connection_has_its_settings(asked, settings, tmp_path, monkeypatch):
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, **all: opened.append(all) or connect(name, **all))
    connection = connect_sqlite(f"{tmp_path}/x.db", **asked)
    found = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "busy_timeout")
    ]
    connection.close()
    assert (*found, opened[0].pop("cached_statements")) == settings
    assert opened == [
        {"timeout": settings[2] / 1000, "isolation_level": None, "check_same_thread": False, "uri": False}
    ]


class Told:
    """A connection and its cursor, which note what they are told."""

    limits, patience, itersize = (math.inf, math.inf), 1.5, None

    def __init__(self):
        self.told = []

    def execute(self, statement, *values, **options):
        self.told.append((statement, *values))
        return self

    def cursor(self, **options):
        self.told.append(options)
        return contextlib.nullcontext(self)

    def transaction(self):
        return contextlib.nullcontext()

    def fetchone(self):
        return ("mark",)

    def nextset(self):
        return None

    def __getattr__(self, name):
        return lambda *values, **more: self.told.append((name, *values, *more.items()))

    def __iter__(self):
        return iter([(self.itersize,)])


def test_each_dialect_tells_its_connection_what_is_asked_of_it():
    told = {}
    for dialect in (Dialect.SQLITE, Dialect.POSTGRESQL):
        connection = Told()
        dialect.plan(connection, "SELECT 1")
        dialect.lock_table(connection, "a%")
        dialect.lock_creation(connection, "it's")
        dialect.cancel(connection, 0.25)
        dialect.cut(connection)
        connection.told += list(dialect.stream(connection, "SELECT 2", (3,)))
        connection.told.append(dialect.begin_marked(connection))
        told[dialect] = connection.told
        assert pickle.loads(pickle.dumps(dialect)) is dialect
    *most, begun, mark = told[Dialect.POSTGRESQL]
    assert most == [
        ("SET LOCAL lock_timeout = '1s'",),
        ("EXPLAIN SELECT 1", ()),
        ('LOCK TABLE "a%%" IN EXCLUSIVE MODE',),
        ("SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('it''s', 0))",),
        ("cancel_safe", ("timeout", 0.25)),
        ("cut",),
        {"name": "drainq_stream"},
        ("SELECT 2", (3,)),
        (10_000,),
    ]
    limits = "SET LOCAL statement_timeout = 500; SET LOCAL idle_in_transaction_session_timeout = 30000; SELECT "
    assert begun[0].startswith("BEGIN; " + limits) and mark == "mark"
    assert told[Dialect.SQLITE] == [
        ("EXPLAIN SELECT 1", ()), ("interrupt",), ("SELECT 2", (3,)), (None,), ("BEGIN IMMEDIATE",), None,
    ]  # fmt: skip
    assert str(sorted(registered(), key=repr)) == "[Dialect.POSTGRESQL, Dialect.SQLITE]"
    hurried = Told()
    hurried.patience = 0.5
    Dialect.POSTGRESQL.begin_marked(hurried)
    assert "statement_timeout = 10;" in hurried.told[0][0]


def test_a_statement_is_filled_in_the_form_of_each_driver():
    template = "{text} {int} {float} {number} {bytes} ? 5% {t}"
    assert [Dialect.SQLITE.fill(template, {"t": '?a%"'}), Dialect.POSTGRESQL.fill(template, {"t": '?a%"'})] == [
        'TEXT INTEGER REAL NUMERIC BLOB ? 5% "?a%"""',
        'TEXT BIGINT DOUBLE PRECISION NUMERIC BYTEA %s 5%% "?a%%"""',
    ]


def test_a_database_is_closed_twice_and_in_time_and_by_an_async_block(tmp_path):
    url = f"sqlite:///{tmp_path}/closed.db"

    async def main():
        async with Database(url) as database:
            database.execute("CREATE TABLE t (a INTEGER)")
        return database

    database = asyncio.run(main())
    assert database.close(timeout=0) and database.close()
    with pytest.raises(sqlite3.ProgrammingError):
        database.execute("SELECT 1")
    with pytest.raises(ValueError, match="timeout"):
        Database(url).close(timeout=-1)
