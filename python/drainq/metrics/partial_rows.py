"""The rows that leave a task, and how text is made of logged bytes.

Everything a task has to say leaves it as rows of one shape, in one pass, so one Spark job brings it all: merged
metrics, line counts, bad lines and the queue's own counters. A retried task's rows replace those of the failed
attempt, which is what makes every number exact.

1. Rows of one ``kind`` that agree in all key columns may be added up; rows that must stay apart differ in a key.
2. ``name`` and ``detail`` are valid UTF-8 without NUL, and ``name`` fits into a database's index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

KEYS = ("kind", "name", "detail", "source", "number", "time")
SUMS = ("requests", "bytes", "errors")
SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("detail", pa.string()),
        ("source", pa.int64()),
        ("number", pa.int64()),
        ("time", pa.int64()),
    ]
    + [(column, pa.int64()) for column in SUMS]
)
SPARK_SCHEMA = ", ".join(f"{field.name} {'string' if field.type == pa.string() else 'long'}" for field in SCHEMA)

LINES_READ = "lines_read"  # source, number = block; requests = lines
PARSED = "parsed"  # source; requests = lines that became records
BAD_LINE = "bad_line"  # source, number = block, time = line of the block; name = line, detail = reason
QUEUE = "queue"  # name = counter; requests = items
BUSY = "busy"  # name = stage; requests = microseconds

LONGEST_NAME = 2000  # bytes; PostgreSQL's index entries hold 2,704
LONGEST_LINE = 8192  # bytes of a bad line that are kept


def text(raw: bytes) -> str:
    """Logged bytes as text for a database: what is not UTF-8, and NUL, as ``\\xNN``.

    Example:
        >>> text(b"caf\\xe9")
        'caf\\\\xe9'
    """
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def name(raw: bytes) -> str:
    """A key's text. Of a very long one the beginning and a digest of the whole, so two keys stay two."""
    whole = text(raw)
    encoded = whole.encode()
    if len(encoded) <= LONGEST_NAME:
        return whole
    digest = hashlib.sha256(encoded).hexdigest()[:32]
    return f"{encoded[: LONGEST_NAME - 40].decode('utf-8', 'ignore')}...{digest}"


def bad_line(raw: bytes) -> str:
    """A bad line's text, at most ``LONGEST_LINE`` bytes of it."""
    return text(raw if len(raw) <= LONGEST_LINE else raw[:LONGEST_LINE] + b"...")


def rows(kind: str, length: int, **columns: Sequence[Any] | pa.Array) -> pa.RecordBatch:
    """A batch of ``length`` rows; sums not given are 0, keys not given are NULL."""
    arrays = []
    for field in SCHEMA:
        if field.name == "kind":
            arrays.append(pa.repeat(pa.scalar(kind), length))
        elif field.name in columns:
            given = columns[field.name]
            arrays.append(given if isinstance(given, pa.Array) else pa.array(given, field.type))
        elif field.name in SUMS:
            arrays.append(pa.repeat(pa.scalar(0, field.type), length))
        else:
            arrays.append(pa.nulls(length, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
