"""Error texts: describes an error in a log line, or in an error of drainq, without the values of items.

Drivers put values into their messages: PostgreSQL's ``Key (email)=(ann@example.org) already exists``, Python's
``invalid literal for int() with base 10: 'secret'``. So :func:`error_text` shows only parts without values:

| error of | text |
| --- | --- |
| drainq | its text, which holds no value |
| PostgreSQL | its class, SQLSTATE and names; its primary message, unless the error is about values |
| SQLite | its class and code; its message, if SQLite's own text holds only names |
| the operating system | its class and the system's text for its number |
| msgspec | its class; its text, if that names only types and fields |
| any other code | its class, and the line of code that raised it |

``values=True`` shows the whole text instead. Passwords are never shown.
"""

from __future__ import annotations

import os
import re
from typing import Any

from drainq.errors import DrainqError
from drainq.sql.dialect import Failure
from drainq.sql.driver_errors import SQLSTATES, failure_of, one_line, sqlstate_of

MOST_CHARACTERS = 1000

_SQLITE_NAMES = re.compile(
    r"(UNIQUE|PRIMARY KEY|NOT NULL|CHECK|FOREIGN KEY) constraint failed|datatype mismatch$|cannot store \w+ value in "
    r"|Error binding parameter|string or blob too big$|no such |table .* has no column |near \".*\": syntax error"
    r"|ON CONFLICT clause does not match"
)
"""Messages of SQLite about rows and statements that hold names of tables and columns, and no values."""

_MSGSPEC_NAMES = re.compile("Expected `|Object missing required field|JSON is malformed|Input data was truncated")
"""Messages of msgspec's decoders that hold names of types and fields, and no values."""

_ABOUT_CALLABLES = "drainq.callables"  # the module whose errors are about functions and what their calls returned

_GENERIC = 1  # SQLITE_ERROR: the code of a statement's own errors, and of errors that an SQL function reports


def error_text(error: object, *, values: bool = False) -> str:
    """Return an error, or a reason, as one line of at most 1,000 characters, without values of items.

    Args:
        error: an error, or a text that holds no value.
        values: show the error's own text, even if it holds values.

    Example:
        >>> try:
        ...     int("secret")
        ... except ValueError as error:
        ...     print(error_text(error).partition(" at ")[0], "|", error_text(error, values=True))
        ValueError | ValueError: invalid literal for int() with base 10: 'secret'
    """
    if values and isinstance(error, BaseException):
        text = f"{type(error).__name__}: {error}"
    else:
        text = _without_values(error) if isinstance(error, BaseException) else str(error)
    return one_line(text)[:MOST_CHARACTERS]


def to_show(error: BaseException, *, values: bool = False) -> BaseException:
    """Return a stand-in for an error that may be logged with its traceback, or named as a cause.

    With ``values=True`` the stand-in is the error itself. Otherwise it is another exception with the same traceback, of
    a class with the same name. Its text and the texts of its causes hold no values, as in :func:`error_text`.
    """
    return error if values else _copy(error, set())


def _copy(error: BaseException, seen: set[int]) -> BaseException:
    seen.add(id(error))
    kind = type(error)
    text = _without_values(error).removeprefix(kind.__name__).removeprefix(":").strip()
    if text.startswith("at "):
        text = "its text is not shown, because it may hold values; see log_values"
    copy: BaseException = type(kind.__name__, (Exception,), {"__module__": kind.__module__})(one_line(text))
    for name in ("__cause__", "__context__"):
        before = getattr(error, name)
        if before is not None and id(before) not in seen:
            setattr(copy, name, _copy(before, seen))
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


def _without_values(error: BaseException) -> str:
    kind = type(error).__name__
    if isinstance(error, DrainqError):
        return f"{kind}: {error}"
    failure = failure_of(error)
    if failure is not None:
        return _of_driver(error, failure)
    if isinstance(error, OSError) and error.errno:
        return f"{kind}: {os.strerror(error.errno)}"
    if type(error).__module__.startswith("msgspec") and _MSGSPEC_NAMES.match(str(error)):
        return f"{kind}: {error}"
    traceback = error.__traceback__
    if traceback is None:
        return kind
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback.tb_frame.f_globals.get("__name__") == _ABOUT_CALLABLES:
        return f"{kind}: {error}"
    return f"{kind} at {os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"


def _of_driver(error: Any, failure: Failure) -> str:
    state = sqlstate_of(error)
    code = state or getattr(error, "sqlite_errorname", None)
    head = f"{type(error).__name__} [{code}]" if code else type(error).__name__
    about_values = failure is Failure.DATA
    if state is not None:
        names = [(what, getattr(error.diag, f"{what}_name", None)) for what in ("table", "column", "constraint")]
        found = [f"{what} {name}" for what, name in names if name]
        if not about_values and (state in SQLSTATES or state[:2] in SQLSTATES):
            found.insert(0, error.diag.message_primary)
    elif hasattr(error, "diag"):  # psycopg's own, or of a connection that could not be made
        found = [] if about_values else [str(error)]
    else:
        about_values |= getattr(error, "sqlite_errorcode", _GENERIC) == _GENERIC
        found = [] if about_values and not _SQLITE_NAMES.match(str(error)) else [str(error)]
    return ": ".join([head, *filter(None, [", ".join(filter(None, found))])])
