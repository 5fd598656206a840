"""The text of an error contains no value of an item, and still names the error."""

from __future__ import annotations

import doctest
import sqlite3
import traceback
from typing import Any

import drainq.sql.error_text
from drainq.sql import DatabaseError
from drainq.sql.error_text import error_text, to_show

SECRET = "s3cr3t"

SQLITE = {
    "INSERT INTO mail VALUES (1, ?)": "IntegrityError [SQLITE_CONSTRAINT_PRIMARYKEY]: UNIQUE constraint failed: mail.id",
    "INSERT INTO mail VALUES (2, ? || 'long')": "CHECK constraint failed: length(who) < 8",
    "INSERT INTO mail VALUES (?, 'a')": "IntegrityError [SQLITE_MISMATCH]: datatype mismatch",
    "INSERT INTO mail VALUES (-1, ?)": "IntegrityError [SQLITE_CONSTRAINT_TRIGGER]",
    "SELECT json_extract('{}', ?)": "OperationalError [SQLITE_ERROR]",
    "INSERT INTO male VALUES (1, ?)": "OperationalError [SQLITE_ERROR]: no such table: male",
}
POSTGRES = {
    "INSERT INTO error_text VALUES (1, %s)": "UniqueViolation [23505]: table error_text, constraint error_text_pkey",
    "INSERT INTO error_text VALUES (2, %s || 'long')": "StringDataRightTruncation [22001]",
    "INSERT INTO error_text VALUES (%s::text::int, 'a')": "InvalidTextRepresentation [22P02]",
    "INSERT INTO error_text VALUES (3, %s)": "DataError",
    "INSERT INTO error_text (who) VALUES (%s)": "NotNullViolation [23502]: table error_text, column id",
    "SELECT pg_temp.refuse(%s, 'P0001')": "RaiseException [P0001]",
    "SELECT pg_temp.refuse(%s, 'MY001')": "[MY001]",
    "INSERT INTO error_tax VALUES (1, %s)": 'UndefinedTable [42P01]: relation "error_tax" does not exist',
}


def shown(connection: Any, cases: dict[str, str]) -> dict[str, str]:
    """Return what is shown of the error of each statement, where it is not as wanted or holds the secret."""
    wrong = {}
    for statement, text in cases.items():
        try:
            connection.execute(statement, (SECRET + "\0" * ("(3," in statement),))
            wrong[statement] = "no error"
        except Exception as error:
            told = [error_text(error), "".join(traceback.format_exception(None, to_show(error), None))]
            if SECRET in "".join(told) or text not in told[0]:
                wrong[statement] = "\n".join(told)
            assert to_show(error, values=True) is error
    return wrong


def test_errors_of_sqlite_show_their_code_and_names_but_no_value():
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE TABLE mail (id INTEGER PRIMARY KEY, who TEXT CHECK (length(who) < 8)); INSERT INTO mail VALUES (1, 'a');"
        "CREATE TRIGGER no BEFORE INSERT ON mail WHEN new.id < 0 BEGIN SELECT RAISE(ABORT, 's3cr3t'); END"
    )
    assert shown(connection, SQLITE) == {}


def test_errors_of_postgresql_show_their_code_and_names_but_no_value(postgres_url):
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS error_text")
        connection.execute("CREATE TABLE error_text (id int PRIMARY KEY, who varchar(8))")
        connection.execute("INSERT INTO error_text VALUES (1, 'a')")
        connection.execute(
            "CREATE FUNCTION pg_temp.refuse(text, code text) RETURNS void LANGUAGE plpgsql AS "
            "$$BEGIN RAISE 'no %', $1 USING ERRCODE = code; END$$"
        )
        try:
            assert shown(connection, POSTGRES) == {}
            assert error_text(psycopg.DataError(SECRET)) == "DataError"
        finally:
            connection.execute("DROP TABLE error_text")


def failing():
    raise KeyError(SECRET)


def test_another_error_shows_where_it_was_raised_and_one_of_drainq_its_text():
    try:
        try:
            failing()
        except KeyError as error:
            raise DatabaseError("cannot write") from error
    except DatabaseError as error:
        assert error_text(error) == "DatabaseError: cannot write"
        assert error_text(error.__cause__) == f"KeyError at test_error_text.py:{failing.__code__.co_firstlineno + 1}"
        assert error_text(error.__cause__, values=True) == f"KeyError: '{SECRET}'"
        text = "".join(traceback.format_exception(to_show(error)))
    assert "KeyError: its text is not shown" in text and "DatabaseError: cannot write" in text
    assert "in test_another_error" in text
    assert f"'{SECRET}'" not in text
    assert error_text(ConnectionRefusedError(111, SECRET)) == "ConnectionRefusedError: Connection refused"
    assert error_text(OSError(SECRET)) == "OSError"
    assert error_text(ValueError("x" * 2000), values=True) == "ValueError: " + "x" * 988


def test_errors_that_come_before_another_are_shown_and_a_circle_of_them_ends():
    first, last = KeyError(SECRET), ValueError(SECRET)
    first.__context__, last.__context__, last.__suppress_context__ = last, first, True
    shown = to_show(last)
    assert type(shown.__context__).__name__ == "KeyError" and SECRET not in str(shown.__context__)
    assert shown.__suppress_context__ and shown.__context__.__context__ is None


def test_the_examples_run():
    assert doctest.testmod(drainq.sql.error_text).failed == 0
