"""The parser of access logs: turns lines into columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drainq._native import read_access_log
from drainq.columns.arrow_buffers import array_of, column_of, one

__all__ = ["parse_access_log"]

_NAMES = ("client", "second", "endpoint", "status", "size", "referrer", "agent", "milliseconds")


def parse_access_log(
    lines: Any, format: tuple[str, Any, str | None] | None = None
) -> tuple[pa.RecordBatch, list[tuple[int, bytes, str]]]:
    r"""Read lines of access logs into columns.

    The lines are read natively, without the GIL. The columns have a row for each record, in the order of the lines:
    ``client``, ``second`` (int64, epoch seconds, UTC), ``endpoint`` (the path without its query), ``status`` and
    ``size`` (int64; bytes), ``referrer`` and ``agent`` (null if the format has none), ``milliseconds`` (float64; null
    if the line has no request time). The texts are strings if the lines are strings, else unchanged bytes.

    Args:
        lines: a piece of a log as ``bytes``, whose lines end with ``\n`` (optional for the last line); or an Arrow
            array of strings or bytes without line ends and nulls. A ``\r`` at the end of a line is ignored. At most
            2 GiB in one call.
        format: a table of fields, which ``drainq.metrics.log_formats.compiled`` makes of a ``LogFormat`` of Apache, a
            ``log_format`` of nginx, or an object of JSON with their fields. None: the Common or the Combined Log
            Format, whose last field may be the request time in seconds.
    Returns:
        The columns as a ``pyarrow.RecordBatch``, and a list of (place in ``lines``, line, reason) of the bad lines.
    Raises:
        TypeError: ``lines`` is neither ``bytes`` nor an Arrow array of strings or bytes.
        ValueError: ``format`` is no table of fields, a line is null or contains a ``\n``, or there are more than 2 GiB.

    Example:
        >>> import pyarrow as pa
        >>> from drainq.columns import parse_access_log
        >>> columns, bad = parse_access_log(pa.array([
        ...     '::1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17',
        ...     "rubbish",
        ... ]))
        >>> columns.select(["client", "endpoint", "size"]).to_pylist()
        [{'client': '::1', 'endpoint': '/a', 'size': 17}]
        >>> bad
        [(1, b'rubbish', "no 'client ident user [' at the start")]

    Source: the formats are those of Apache's ``mod_log_config``.
    """
    text = pa.binary()
    if not isinstance(lines, bytes):
        column = column_of("lines", lines)
        text = pa.string() if column.type in (pa.string(), pa.large_string()) else text
        lines = _joined(column)
    rows, buffers, bad = read_access_log(lines, format)
    arrays = []
    for name, (validity, ends, values) in zip(_NAMES, buffers):
        kind = text if ends is not None else pa.float64() if name == "milliseconds" else pa.int64()
        arrays.append(array_of(kind, rows, validity, *([] if ends is None else [ends]), values))
    return pa.RecordBatch.from_arrays(arrays, names=_NAMES), bad


def _joined(column: pa.ChunkedArray) -> bytes:
    """Join lines to a piece of a log."""
    if column.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        raise TypeError(f"lines must be strings or bytes, got values of type {column.type}")
    if column.null_count:
        raise ValueError(f"line {pc.index(column.is_null(), True)} is null: drop nulls first")
    lines = one(column.cast(pa.large_binary()))
    place = pc.index(pc.match_substring(lines, "\n"), True).as_py()
    if place >= 0:
        raise ValueError(f"line {place} has a line end in it")
    if not len(lines):
        return b""
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines)
    joined: bytes = pc.binary_join(whole, pa.scalar(b"\n", lines.type))[0].as_py()
    return joined + b"\n"
