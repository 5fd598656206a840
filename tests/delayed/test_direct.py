"""Statements that go straight to libpq: they end in time, leave the connection usable or closed, and lose no byte."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

from drainq.delayed.deadline import set_deadline
from drainq.delayed.storage.postgres.connection import Opener
from drainq.delayed.storage.postgres.direct_libpq import Statement, TryTimedOut
from drainq.delayed.storage.postgres.pool import PostgresPool
from drainq.sql.url import DatabaseUrl


@pytest.fixture(params=[None, False], ids=["prepared", "not prepared"])
def connection(postgres_url, request):
    opened = Opener(DatabaseUrl.parse(postgres_url), try_timeout=None, prepare=request.param).open()
    yield opened
    opened.close()


@pytest.fixture
def deadline():
    yield lambda seconds: set_deadline(time.monotonic() + seconds)
    set_deadline(None)


def test_values_go_there_and_come_back(connection):
    statement = Statement("SELECT %(n)s::bigint + 1, %(bytes)b::bytea, %(text)s::text, %(none)s::int, '%%'")
    for number in (-(2**62), 0, 2**62):
        answer = connection.ask(statement, {"n": number, "bytes": b"\0\xff%s", "text": "ä'%s", "none": None})
        found = [answer.get_value(0, column) for column in range(5)]
        assert found == [(number + 1).to_bytes(8, "big", signed=True), b"\0\xff%s", "ä'%s".encode(), None, b"%"]


def test_a_value_of_another_type_is_refused_by_name(connection):
    with pytest.raises(TypeError, match=r"n is neither .* a list"):
        connection.ask(Statement("SELECT %(n)s::int"), {"n": [1]})


def test_what_does_not_fit_into_the_sockets_buffers_arrives_whole(connection):
    payload = bytes(range(256)) * 100_000
    answer = connection.ask(Statement("SELECT %(bytes)b::bytea"), {"bytes": payload})
    assert answer.get_value(0, 0) == payload


def test_an_error_has_its_code_and_the_connection_goes_on(connection):
    divide = Statement("SELECT 1 / %(n)s::int")
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero) as refused:
            connection.ask(divide, {"n": 0})
        assert refused.value.sqlstate == "22012"
        assert connection.ask(divide, {"n": 1}).ntuples == 1
    nowhere = Statement("SELECT * FROM nowhere_at_all")
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.ask(nowhere, {})
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_does_not_answer_is_given_up_and_its_connection_with_it(connection, deadline):
    deadline(0.01)
    with pytest.raises(TryTimedOut):
        connection.ask(Statement("SELECT pg_sleep(5)"), {})
    assert connection.closed


def test_a_connection_that_ends_in_the_middle_is_an_operational_error(connection):
    with pytest.raises(psycopg.OperationalError):
        connection.ask(Statement("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)"), {})
    assert connection.closed


ADD = Statement("INSERT INTO both_of_them VALUES (%(n)s::int) RETURNING n")
COUNT = Statement("SELECT count(*)::int FROM both_of_them WHERE 1 / %(n)s::int > 0")


@pytest.fixture
def pool(postgres_url):
    opened = PostgresPool(DatabaseUrl.parse(postgres_url), try_timeout=None, max_connections=1)
    with opened.cursor() as cursor:
        cursor.execute("CREATE TABLE both_of_them (n int PRIMARY KEY)")
    yield opened
    with opened.cursor() as cursor:
        cursor.execute("DROP TABLE both_of_them")
    opened.close()


@pytest.fixture(params=["in one round trip", "one after the other", "not prepared"])
def way(request, monkeypatch, pool):
    if request.param == "one after the other":
        monkeypatch.setattr(psycopg.Pipeline, "is_supported", lambda: False)
    if request.param == "not prepared":
        with pool.cursor() as cursor:
            cursor.connection.prepare_threshold = None


def test_of_two_statements_the_second_sees_what_the_first_did(pool, way):
    for number in (1, 2, 3):
        added, counted = pool.ask_both(ADD, {"n": number}, COUNT, {"n": 1})
        assert added.get_value(0, 0) == counted.get_value(0, 0) == number.to_bytes(4, "big")
        assert added.command_tuples == 1


@pytest.mark.parametrize(("first", "second", "code"), [(1, 1, "23505"), (2, 0, "22012")])
def test_of_two_statements_both_happen_or_neither_and_the_connection_goes_on(pool, way, first, second, code):
    pool.ask_both(ADD, {"n": 1}, COUNT, {"n": 1})
    with pytest.raises(psycopg.Error) as refused:
        pool.ask_both(ADD, {"n": first}, COUNT, {"n": second})
    assert refused.value.sqlstate == code
    assert pool.ask(COUNT, {"n": 1}).get_value(0, 0) == (1).to_bytes(4, "big")
    assert pool.ask_both(ADD, {"n": 3}, COUNT, {"n": 1})[1].get_value(0, 0) == (2).to_bytes(4, "big")


def test_two_statements_that_are_not_answered_in_time_are_given_up_and_their_connection_with_them(connection, deadline):
    deadline(0.01)
    with pytest.raises(TryTimedOut):
        connection.ask_both(Statement("SELECT 1"), {}, Statement("SELECT pg_sleep(5)"), {})
    assert connection.closed


def test_two_statements_that_are_interrupted_close_their_connection(connection, monkeypatch):
    def interrupted(until):
        raise KeyboardInterrupt

    one = Statement("SELECT 1")
    connection.ask(one, {})
    monkeypatch.setattr(connection, "_flush", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.ask_both(one, {}, one, {})
    assert connection.closed


def test_two_statements_that_do_not_fit_into_the_sockets_buffers_arrive_whole(connection):
    payload = bytes(range(256)) * 50_000
    echo = Statement("SELECT %(bytes)b::bytea")
    answers = connection.ask_both(echo, {"bytes": payload}, echo, {"bytes": payload})
    assert [answer.get_value(0, 0) for answer in answers] == [payload, payload]


INTERRUPTED = """
import signal, sys, threading
from drainq.delayed.storage.postgres.connection import Opener
from drainq.delayed.storage.postgres.direct_libpq import Statement
from drainq.sql.url import DatabaseUrl

connection = Opener(DatabaseUrl.parse(sys.argv[1]), try_timeout=None, prepare=None).open()
connection.execute("SELECT set_config('application_name', 'interrupted', false)")
try:
    connection.ask(Statement("SELECT pg_sleep(3600)"), {})
except KeyboardInterrupt:
    print(connection.execute("SELECT 'usable'").fetchone()[0])
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_cancels_the_statement_and_leaves_the_connection_usable(postgres_url):
    running = subprocess.Popen([sys.executable, "-c", INTERRUPTED, postgres_url], stdout=subprocess.PIPE, text=True)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'interrupted' AND wait_event = 'PgSleep'"
        while not admin.execute(busy).fetchone()[0]:
            assert running.poll() is None
            threading.Event().wait(0.02)
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60)[0].strip() == "usable"
        assert not admin.execute(busy).fetchone()[0]


def test_a_connection_forgets_the_statements_that_it_prepared_long_ago(postgres_url):
    opened = Opener(DatabaseUrl.parse(postgres_url), try_timeout=None, prepare=None).open()
    first = Statement("SELECT 1")
    try:
        for statement in [first, *(Statement(f"SELECT {n}") for n in range(300)), first]:
            opened.ask(statement, {})
        (kept,) = opened.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        assert 100 <= kept <= 200
    finally:
        opened.close()
