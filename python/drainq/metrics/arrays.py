"""Converts between numpy and Arrow, without a copy if types agree. pyarrow would import pandas, which is slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {pa.int32(): np.int32, pa.int64(): np.int64, pa.uint64(): np.uint64}


def of_integers(values: NDArray[Any]) -> pa.Int64Array:
    """Convert numbers to an Arrow array.

    Example:
        >>> of_integers(np.arange(2)).to_pylist()
        [0, 1]
    """
    whole = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def integers(column: pa.Array) -> NDArray[Any]:
    """Convert an Arrow array without nulls to numpy.

    Example:
        >>> integers(pa.array([1, 2, 3], pa.int32()).slice(1)).tolist()
        [2, 3]
    """
    kind = np.dtype(_TYPES[column.type])
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.empty(0, dtype=kind)
    return np.frombuffer(data, dtype=kind, count=len(column), offset=column.offset * kind.itemsize)


def of_texts(texts: Sequence[str]) -> pa.StringArray:
    """Convert texts to an Arrow array.

    Example:
        >>> of_texts(["a", "", "bc"]).to_pylist()
        ['a', '', 'bc']
    """
    encoded = [text.encode() for text in texts]
    ends = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(each) for each in encoded], out=ends[1:])
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def as_array(values: Sequence[Any]) -> pa.Array:
    """Convert texts or whole numbers to an Arrow array."""
    return of_texts(values) if values and isinstance(values[0], str) else of_integers(np.array(values, dtype=np.int64))
