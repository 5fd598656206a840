"""Classifies the errors of both database drivers, in one table for all of drainq.

| meaning | what to do |
| --- | --- |
| ``PASSES`` | wait and call again: a lost connection, a full disk, a starting or read-only server, a lock |
| ``CANNOT_PASS`` | a person must change something: a missing table or right, a wrong password, a damaged file |
| ``DATA`` | the database works, but refuses these values |

Decisions for ambiguous codes:

1. ``25006`` (read-only transaction) passes: a demoted primary answers with it, and a new connection finds the new
   primary.
2. ``57P04`` (database dropped) passes: the connection is lost, and the next one shows whether the database still
   exists.
3. ``XX000`` (internal error) passes: PostgreSQL raises it for races with other sessions' DDL ("tuple concurrently
   updated", "cache lookup failed"). ``XX001`` and ``XX002`` (damaged data, damaged index) are permanent.
4. A failure to connect has no code, because libpq does not pass it on. A host without an address is recognised by the
   error number of the resolver, a missing password by a flag of libpq, and a refusal in English by its text. Any other
   failure is temporary, also a refusal in another language.
"""

from __future__ import annotations

import re
import socket
import sys
from typing import Any

from drainq.errors import DrainqError
from drainq.sql.dialect import Failure, registered
from drainq.sql.url import without_password


class DatabaseError(DrainqError):
    """Raised if a database cannot be opened or refuses a request. The message never shows a password."""


_PASSES, _CANNOT, _DATA = Failure.PASSES, Failure.CANNOT_PASS, Failure.DATA

SQLSTATES: dict[str, Failure] = {
    "08": _PASSES,  # connection exceptions; poolers use 08P01 for all errors of their own
    "0A": _CANNOT,  # feature not supported
    "21": _DATA,  # cardinality violation
    "22": _DATA,  # data exceptions
    "23": _DATA,  # integrity violations
    "25": _CANNOT,  # invalid transaction state
    "25006": _PASSES,  # read-only transaction
    "25P03": _PASSES,  # idle in transaction for too long: the server closed the connection
    "26": _PASSES,  # no such prepared statement: a pooler gave us another server connection
    "40": _PASSES,  # transaction rollback: serialization, deadlock, outcome unknown
    "40002": _DATA,  # integrity violation found at the commit
    "42": _CANNOT,  # syntax, missing things, missing rights
    "42804": _DATA,  # a value of the wrong type
    "42846": _DATA,  # a value that cannot be cast
    "42P05": _PASSES,  # the prepared statement is there already: see 26
    "44": _DATA,  # WITH CHECK OPTION
    "53": _PASSES,  # insufficient resources: disk, memory, connections
    "54": _DATA,  # limits of one row or statement
    "55": _PASSES,  # object in use, lock not available
    "55000": _CANNOT,  # object not in the state that is needed
    "57": _PASSES,  # operator intervention: shutdown, start, cancel, idle session
    "58": _PASSES,  # system errors outside PostgreSQL: input and output
    "P0001": _DATA,  # RAISE in a trigger
    "XX000": _PASSES,  # internal error
}
"""The kind of each code or class of codes. A full code overrules its class. Any other code is permanent."""

SQLITE_CODES: dict[int, Failure] = {
    4: _PASSES,  # ABORT
    5: _PASSES,  # BUSY
    6: _PASSES,  # LOCKED
    7: _PASSES,  # NOMEM
    9: _PASSES,  # INTERRUPT
    10: _PASSES,  # IOERR
    13: _PASSES,  # FULL
    15: _PASSES,  # PROTOCOL: a race for the locks of the write-ahead log
    17: _PASSES,  # SCHEMA
    18: _DATA,  # TOOBIG
    19: _DATA,  # CONSTRAINT
    20: _DATA,  # MISMATCH
    25: _DATA,  # RANGE
}
"""The kind of each primary code. Any other code is permanent."""

_SQLITE_TEXTS = (
    ("locked", 5), ("busy", 5), ("out of memory", 7), ("interrupted", 9), ("disk i/o error", 10), ("is full", 13),
    ("locking protocol", 15), ("schema has changed", 17), ("too big", 18), ("constraint failed", 19),
)  # fmt: skip
"""The kind of each text, for Python 3.10, whose errors have no code."""

_REFUSED_TO_CONNECT = re.compile(
    r"FATAL:.*(does not exist|authentication failed|no pg_hba\.conf entry|permission denied|not permitted|no password"
    r"|password supplied)|fe_sendauth|root certificate|certificate verify failed|does not support SSL",
    re.DOTALL,
)

_UNRESOLVED = re.compile(r"failed to resolve host .*\[Errno (-?\d+)\]", re.DOTALL)
"""The driver's message about a host, with the resolver's number."""

_NO_SUCH_HOST = {getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)}
"""The resolver's numbers for a name without an address. EAI_AGAIN is not one: the name server did not answer."""

LOCKED = "55P03"
"""The SQLSTATE of a lock that was not available within ``lock_timeout``."""

GONE = re.compile(r"08|57P0[1-5]|25006|25P03|26|42P05")
"""SQLSTATEs after which a connection, and the others that its pool has open, must not be used again."""


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of a PostgreSQL error, or None."""
    code: Any = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None


def failure_of(error: BaseException) -> Failure | None:
    """Classify an error of a database's driver. Return None for any other error.

    Example:
        >>> import sqlite3
        >>> failure_of(sqlite3.OperationalError("database is locked"))
        <Failure.PASSES: 'passes'>
        >>> failure_of(KeyError("x")) is None
        True
    """
    return next((found for dialect in registered() if (found := dialect.failure_of(error)) is not None), None)


def passes(error: BaseException) -> bool:
    """Return whether the same call may succeed later."""
    return failure_of(error) is _PASSES


def connection_is_gone(error: BaseException) -> bool:
    """Return whether this error makes a PostgreSQL connection unusable."""
    code = sqlstate_of(error)
    return GONE.match(code) is not None if code is not None else failure_of(error) is _PASSES


def table_is_missing(error: BaseException | None) -> bool:
    """Return whether a driver's error reports a missing table."""
    return error is not None and (sqlstate_of(error) == "42P01" or "no such table" in str(error))


def key_is_not_unique(error: BaseException) -> bool:
    """Return whether a driver's error reports that no unique index is on the key of an upsert."""
    return sqlstate_of(error) == "42P10" or "ON CONFLICT clause does not match" in str(error)


def one_line(error: BaseException | str) -> str:
    """Return a driver's message as one line without a password."""
    return without_password(" ".join(str(error).split()))


def failure_of_sqlite(error: Any) -> Failure | None:
    """Classify an error of sqlite3. Return None for any other error."""
    sqlite3: Any = sys.modules.get("sqlite3")  # an error's module is loaded
    if sqlite3 is None or not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        text = str(error).lower()
        code = next((code for part, code in _SQLITE_TEXTS if part in text), None)
    if code is not None:
        return SQLITE_CODES.get(code & 0xFF, _CANNOT)  # the upper bytes are the extended code
    about_values = isinstance(error, (sqlite3.InterfaceError, sqlite3.DataError)) or "binding" in str(error)
    return _DATA if about_values else _CANNOT


def _cannot_connect(error: Any) -> bool:
    """Return whether a failure to connect is permanent."""
    unresolved = _UNRESOLVED.match(str(error))
    if unresolved:
        return int(unresolved[1]) in _NO_SUCH_HOST
    wants_password = getattr(getattr(error, "pgconn", None), "needs_password", False)
    return bool(wants_password) or _REFUSED_TO_CONNECT.search(str(error)) is not None


def failure_of_postgres(error: Any) -> Failure | None:
    """Classify an error of psycopg. Return None for any other error."""
    psycopg: Any = sys.modules.get("psycopg")  # an error's module is loaded
    if psycopg is None or not isinstance(error, psycopg.Error):
        return None
    code = sqlstate_of(error)
    if code is not None:
        return SQLSTATES.get(code) or SQLSTATES.get(code[:2], _CANNOT)
    if isinstance(error, psycopg.OperationalError):  # the connection was lost, or could not be opened
        return _CANNOT if _cannot_connect(error) else _PASSES
    if isinstance(error, psycopg.InterfaceError):
        return _PASSES  # the connection is closed
    return _DATA if isinstance(error, (psycopg.DataError, psycopg.ProgrammingError)) else _CANNOT
