"""Converts logged bytes to texts that every database can store, and to names that fit into an index.

1. A text is valid UTF-8 without NUL, and a name has at most ``LONGEST_NAME`` bytes.
2. Different names stay different, unless the escapes make them equal. Such rows are merged.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

LONGEST_NAME = 2000  # bytes; PostgreSQL's index entries hold 2,704
LONGEST_LINE = 8192  # bytes of a bad line that are kept


def text(raw: bytes) -> str:
    """Decode logged bytes for a database. NUL and bytes that are not UTF-8 become ``\\xNN``.

    Example:
        >>> text(b"caf\\xe9")
        'caf\\\\xe9'
    """
    return raw.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def name(raw: bytes) -> str:
    """Return a key's text. A very long one becomes its beginning and a digest, so different keys stay different."""
    whole = text(raw)
    encoded = whole.encode()
    if len(encoded) <= LONGEST_NAME:
        return whole
    digest = hashlib.sha256(encoded).hexdigest()[:32]
    return f"{encoded[: LONGEST_NAME - 40].decode('utf-8', 'ignore')}...{digest}"


def bad_line(raw: bytes) -> str:
    """Return a bad line's text, at most ``LONGEST_LINE`` bytes of it."""
    return text(raw if len(raw) <= LONGEST_LINE else raw[:LONGEST_LINE] + b"...")


def as_names(column: pa.BinaryArray) -> tuple[pa.StringArray, bool]:
    """Return a column of bytes without nulls as names, and whether names may have been changed."""
    if _are_names(column):
        return column.view(pa.string()), False
    return pa.array([name(raw) for raw in column.to_pylist()], pa.string()), True


def _are_names(column: pa.BinaryArray) -> bool:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    if b"\0" in memoryview(data if data is not None else b"").tobytes() or np.diff(ends).max(initial=0) > LONGEST_NAME:
        return False
    try:
        column.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
