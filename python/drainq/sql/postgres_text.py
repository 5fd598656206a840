"""Writes Python values in PostgreSQL's text format, the only form in which rows are sent.

The server reads such a text as the type of the column, both in COPY and as a bound value without a type. So the stored
value depends only on the value and the column. A value that is bound with its own type would be cast instead: a
``UUID`` would become another text, and 1.5 would be rounded for an integer column.

1. A float that is a whole number below 2**63 is written without a point, so that an integer column takes it.
2. A bool is ``true`` or ``false``. ``str`` writes ints, dates, times and UUIDs (with hyphens), the driver all others.

COPY is not left to the driver, which would write floats and UUIDs differently. Whole columns of one type are written by
few calls, so this costs no more.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

_WHOLE = 2.0**63  # a whole float from here on does not fit a bigint column
_AT_ONCE = 500  # rows that are written at once: the server reads them while the next rows are written
_ESCAPED = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
_NONE = type(None)

Texts = Sequence["str | None"]


def text_of(connection: Any) -> Callable[[Any], str | None]:
    """Return the function that writes one value for a connection. None becomes NULL.

    The function raises ``psycopg.Error``, ``TypeError`` or ``ValueError`` for a value that cannot be written.
    """
    import psycopg

    get_dumper = psycopg.adapt.Transformer(connection).get_dumper
    form = psycopg.adapt.PyFormat.TEXT

    def write(value: Any) -> str | None:
        known = _TEXTS.get(type(value))
        if known is not None:
            return known(value)
        if isinstance(value, float):  # NumPy's
            return _of_float(value)
        dumped = get_dumper(value, form).dump(value)
        return None if dumped is None else bytes(dumped).decode()

    return write


def texts_of(connection: Any, rows: Sequence[Sequence[Any]]) -> list[Texts]:
    """Write rows of one length, and return their columns."""
    return [_of_column(connection, column) for column in zip(*rows)]


def copied(connection: Any, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Write rows of one length as COPY reads them, in pieces."""
    for start in range(0, len(rows), _AT_ONCE):
        columns = [_escaped(texts) for texts in texts_of(connection, rows[start : start + _AT_ONCE])]
        yield "\n".join(map("\t".join, zip(*columns))) + "\n"


def _of_column(connection: Any, column: tuple[Any, ...]) -> Texts:
    kinds = set(map(type, column))
    if kinds == {str}:
        return column
    if kinds == {int}:
        return list(map(str, column))
    if kinds == {float}:
        written = "\n".join(map(repr, column))
        if "e+1" not in written:
            return f"{written}\n".replace(".0\n", "\n").split("\n")[:-1]
    return list(map(text_of(connection), column))


def _escaped(texts: Texts) -> Sequence[str]:
    """Escape texts as fields of COPY."""
    known = cast("Sequence[str]", texts)
    try:
        together = "".join(known)
    except TypeError:  # there is a NULL
        fields = iter(_escaped([text for text in texts if text is not None]))
        return [r"\N" if text is None else next(fields) for text in texts]
    if any(character in together for character in "\\\t\n\r"):
        return [text.translate(_ESCAPED) for text in known]
    return known


def _of_str(value: str) -> str:
    if "\0" in value:
        raise ValueError("PostgreSQL takes no NUL in a text")
    if not value.isascii():
        value.encode()
    return value


def _of_float(value: float) -> str:
    written = float.__repr__(value)
    if written.endswith(".0"):
        return written[:-2]
    return str(int(value)) if "e+1" in written and abs(value) < _WHOLE else written


_TEXTS: dict[type, Callable[[Any], str | None]] = {
    _NONE: lambda value: None,
    str: _of_str,
    int: str,
    float: _of_float,
    bool: lambda value: "true" if value else "false",
    uuid.UUID: str,
    datetime.datetime: str,
    datetime.date: str,
    datetime.time: str,
}
