"""Conversions between Arrow's arrays and the plain bytes of the native module."""

from __future__ import annotations

import reprlib
import struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["NAN", "array_of", "column_of", "ends_of", "is_number", "numbers_of", "one", "plain", "table_of", "texts_of"]

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.float16(): pa.float32()}


def column_of(name: str, values: Any) -> pa.ChunkedArray:
    """Read an argument as a column, without dictionary encoding.

    Raises:
        TypeError: the argument has no Arrow interface.
    """
    if isinstance(values, pa.Array):  # for other objects pyarrow imports pandas, which is slow
        values = pa.chunked_array([values])
    if not isinstance(values, pa.ChunkedArray):
        _check_interface(name, values)
        values = pa.chunked_array(values if hasattr(values, "__arrow_c_stream__") else [pa.array(values)])
    return plain(values)


def table_of(name: str, values: Any) -> pa.Table:
    """Read an argument as a table.

    Raises:
        TypeError: the argument is no table.
    """
    if isinstance(values, pa.RecordBatch):
        return pa.Table.from_batches([values])
    if isinstance(values, pa.StructArray):
        return pa.Table.from_struct_array(values)
    _check_interface(name, values)
    try:
        return pa.table(values)
    except pa.ArrowInvalid as error:
        raise TypeError(f"{name} must be a record batch or a table, got an array ({error})") from error


def _check_interface(name: str, values: Any) -> None:
    if not hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__arrow_c_array__"):
        raise TypeError(
            f"{name} must have Arrow's PyCapsule interface (__arrow_c_array__ or __arrow_c_stream__), as the arrays "
            f"and tables of pyarrow, polars, pandas and duckdb have, got {reprlib.repr(values)}"
        )


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to a type that Arrow can group: without dictionaries, views and half floats."""
    if pa.types.is_dictionary(column.type):
        kind = column.type.value_type
        kind = _PLAIN.get(kind, kind)
        return column.cast(pa.dictionary(column.type.index_type, kind)).cast(kind)
    kind = _PLAIN.get(column.type, column.type)
    return column if kind == column.type else column.cast(kind)


def numbers_of(values: Any) -> memoryview[float]:
    """Return the numbers of an Arrow array, without nulls, as a buffer of float64.

    Raises:
        TypeError: the values are no numbers.

    Example:
        >>> numbers_of(pa.array([1, None, 3])).tolist()
        [1.0, 3.0]
    """
    column = column_of("values", values)
    if not is_number(column.type):
        raise TypeError(f"values must be numbers, got values of type {column.type}")
    floats = one(column.drop_null().cast(pa.float64(), safe=False))
    return memoryview(_bytes(floats, 1, 8, 0)).cast("d")


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array.

    Raises:
        OverflowError: the column is too large for one array.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        raise OverflowError(f"a column of {column.type} takes more than 2 GiB: use max_groups")
    return column


def ends_of(array: pa.Array) -> bytes:
    """Return the offsets of an array of lists or texts: one more than it has elements."""
    return _bytes(array, 1, 4, 1) if len(array) else bytes(4)


def texts_of(column: pa.Array | pa.ChunkedArray) -> tuple[bytes, bytes]:
    """Return the offsets and the bytes of a column of texts. Nulls are empty texts."""
    array = one(column.cast(pa.binary()))
    array = pc.fill_null(array, _EMPTY) if array.null_count else array
    data = array.buffers()[2]
    return ends_of(array), data.to_pybytes() if data is not None else b""


def _bytes(array: pa.Array, buffer: int, width: int, more: int) -> bytes:
    data = array.buffers()[buffer]
    if data is None:
        return b""
    found: bytes = data.slice(array.offset * width, (len(array) + more) * width).to_pybytes()
    return found


def array_of(kind: pa.DataType, length: int, *buffers: bytes | None) -> pa.Array:
    """Make an array from buffers in Arrow's order. The first buffer is the validity."""
    return pa.Array.from_buffers(kind, length, [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers])


_EMPTY = array_of(pa.binary(), 1, None, bytes(8), b"")[0]  # pa.scalar would import pandas
NAN = array_of(pa.float64(), 1, None, struct.pack("d", float("nan")))[0]
