"""The meaning of drivers' errors, in one table."""

from __future__ import annotations

import doctest
import socket
import sqlite3
from types import SimpleNamespace

import pytest

import drainq.sql.connect
import drainq.sql.driver_errors
import drainq.sql.quoting
import drainq.sql.url
from drainq.sql.dialect import Failure
from drainq.sql.driver_errors import (
    SQLITE_CODES,
    SQLSTATES,
    connection_is_gone,
    failure_of,
    one_line,
    passes,
    table_is_missing,
)

PASSES = """08000 08001 08003 08004 08006 08P01 25006 25P03 26000 40000 40001 40003 40P01 42P05 53000 53100 53200 53300
    53400 55006 55P03 57000 57014 57P01 57P02 57P03 57P04 57P05 58000 58030 XX000""".split()
CANNOT_PASS = "0A000 28000 28P01 3D000 3F000 42501 42601 42703 42P01 25001 25P02 55000 XX001 XX002 F0000".split()
DATA = "21000 22001 22003 22P02 23502 23505 23514 40002 42804 42846 44000 54000 P0001".split()
MEANINGS = [
    (code, meaning)
    for codes, meaning in ((PASSES, Failure.PASSES), (CANNOT_PASS, Failure.CANNOT_PASS), (DATA, Failure.DATA))
    for code in codes
]


@pytest.mark.parametrize("code, meaning", MEANINGS)
def test_a_sqlstate_means_what_the_table_says(code, meaning):
    psycopg = pytest.importorskip("psycopg")
    error = psycopg.errors.lookup(code)("x") if code != "F0000" else psycopg.errors.ConfigFileError("x")
    assert error.sqlstate == code
    assert failure_of(error) is meaning
    assert passes(error) is (meaning is Failure.PASSES)


@pytest.mark.parametrize("code", ["08006", "57P01", "57P04", "57P05", "25006", "25P03", "26000", "42P05"])
def test_after_a_lost_connection_or_a_demotion_the_connection_is_gone(code):
    psycopg = pytest.importorskip("psycopg")
    assert connection_is_gone(psycopg.errors.lookup(code)("x"))


@pytest.mark.parametrize("code", ["40001", "53100", "55P03", "57014", "23505", "42P01"])
def test_after_a_refused_statement_the_connection_is_as_good_as_before(code):
    psycopg = pytest.importorskip("psycopg")
    assert not connection_is_gone(psycopg.errors.lookup(code)("x"))


def test_an_error_of_psycopg_without_a_code_is_known_by_its_class():
    psycopg = pytest.importorskip("psycopg")
    for kind, meaning in (
        (psycopg.InterfaceError, Failure.PASSES),
        (psycopg.OperationalError, Failure.PASSES),
        (psycopg.DataError, Failure.DATA),
        (psycopg.ProgrammingError, Failure.DATA),
        (psycopg.NotSupportedError, Failure.CANNOT_PASS),
    ):
        error = kind("x")
        assert failure_of(error) is meaning and connection_is_gone(error) is (meaning is Failure.PASSES)


def test_a_drivers_message_is_shown_in_one_line_without_a_password():
    assert one_line(ValueError("no\n  postgresql://me:secret@h/db")) == "no postgresql://me:***@h/db"


def test_a_missing_table_is_told_from_other_errors():
    psycopg = pytest.importorskip("psycopg")
    assert table_is_missing(psycopg.errors.UndefinedTable("x")) and not table_is_missing(
        psycopg.errors.UndefinedColumn()
    )
    assert table_is_missing(sqlite3.OperationalError("no such table: t"))
    assert not table_is_missing(sqlite3.OperationalError("no such column: t")) and not table_is_missing(None)


@pytest.mark.parametrize(
    "text, meaning",
    [
        ("server closed the connection unexpectedly", Failure.PASSES),
        ("connection failed: Connection refused", Failure.PASSES),
        ("connection failed: FATAL:  the database system is starting up", Failure.PASSES),
        ('connection failed: FATAL:  database "nope" does not exist', Failure.CANNOT_PASS),
        ('connection failed: FATAL:  password authentication failed for user "me"', Failure.CANNOT_PASS),
        ("connection failed: FATAL:  no pg_hba.conf entry for host", Failure.CANNOT_PASS),
        ("connection failed: fe_sendauth: no password supplied", Failure.CANNOT_PASS),
        ("connection failed: server does not support SSL, but SSL was required", Failure.CANNOT_PASS),
        ('connection failed: root certificate file "root.crt" does not exist', Failure.CANNOT_PASS),
        ("connection failed: SSL error: certificate verify failed", Failure.CANNOT_PASS),
        (f"failed to resolve host 'h': [Errno {getattr(socket, 'EAI_NODATA', -5)}] no address", Failure.CANNOT_PASS),
        (f"failed to resolve host 'h': [Errno {socket.EAI_NONAME}] Der Name ist unbekannt", Failure.CANNOT_PASS),
        (
            f"failed to resolve host 'h': [Errno {socket.EAI_AGAIN}] Temporary failure in name resolution",
            Failure.PASSES,
        ),
    ],
)
def test_a_failure_to_connect_passes_unless_its_text_says_that_it_cannot(text, meaning):
    psycopg = pytest.importorskip("psycopg")
    assert failure_of(psycopg.OperationalError(text)) is meaning


def test_a_password_that_is_missing_is_noticed_in_any_language():
    psycopg = pytest.importorskip("psycopg")
    assert failure_of(psycopg.OperationalError("Passwort fehlt")) is Failure.PASSES
    connection = SimpleNamespace(needs_password=True)
    refused = type("Refused", (psycopg.OperationalError,), {"pgconn": connection})("Passwort fehlt")
    assert failure_of(refused) is Failure.CANNOT_PASS


@pytest.mark.parametrize("code", range(1, 27))
@pytest.mark.parametrize("extended", [0, 2 << 8])
def test_an_sqlite_code_means_the_same_with_and_without_its_extension(code, extended):
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code | extended
    assert failure_of(error) is SQLITE_CODES.get(code, Failure.CANNOT_PASS)


@pytest.mark.parametrize(
    "text, meaning",
    [
        ("database is locked", Failure.PASSES),
        ("database table is locked", Failure.PASSES),
        ("database or disk is full", Failure.PASSES),
        ("busy", Failure.PASSES),
        ("out of memory", Failure.PASSES),
        ("interrupted", Failure.PASSES),
        ("locking protocol", Failure.PASSES),
        ("database schema has changed", Failure.PASSES),
        ("string or blob too big", Failure.DATA),
        ("Error binding parameter 1: type 'object' is not supported", Failure.DATA),
        ("disk I/O error", Failure.PASSES),
        ("UNIQUE constraint failed: t.a", Failure.DATA),
        ("no such table: t", Failure.CANNOT_PASS),
        ("attempt to write a readonly database", Failure.CANNOT_PASS),
    ],
)
def test_where_python_gives_no_sqlite_code_the_text_tells(text, meaning):
    kind = sqlite3.IntegrityError if meaning is Failure.DATA else sqlite3.OperationalError
    assert failure_of(kind(text)) is meaning


def test_an_error_about_an_interface_or_data_is_about_values_whatever_its_text():
    assert {failure_of(kind("x")) for kind in (sqlite3.InterfaceError, sqlite3.DataError)} == {Failure.DATA}
    assert failure_of(sqlite3.OperationalError("x")) is Failure.CANNOT_PASS


def test_what_sqlite_cannot_bind_is_about_the_value():
    connection = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute("SELECT ?", (object(),))
    connection.close()
    assert failure_of(caught.value) is Failure.DATA


def test_an_error_of_no_driver_has_no_meaning_here():
    assert failure_of(ValueError("database is locked")) is None
    assert not passes(OSError())


def test_the_table_names_classes_and_codes_that_postgresql_has():
    psycopg = pytest.importorskip("psycopg")
    known = [
        thing.sqlstate
        for thing in vars(psycopg.errors).values()
        if isinstance(thing, type) and issubclass(thing, psycopg.Error)
    ]
    codes = [code for code in known if isinstance(code, str)]
    assert len(codes) > 200
    for code in SQLSTATES:
        assert code in codes or code in {known[:2] for known in codes}
        assert Failure.DATA not in (SQLSTATES.get(code[:2]), SQLSTATES[code]) or SQLSTATES[code] is Failure.DATA


@pytest.mark.parametrize("module", [drainq.sql.url, drainq.sql.quoting, drainq.sql.driver_errors])
def test_the_examples_run(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
