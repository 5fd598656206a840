"""Percentiles of a column of sketches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drainq._native import sketch_percentiles
from drainq.columns.arrow_buffers import array_of, column_of, texts_of

__all__ = ["percentiles"]


def percentiles(sketches: Any, percents: Sequence[int]) -> pa.RecordBatch:
    """Compute percentiles of many sketches, natively and without the GIL.

    A percentile is the value of the nearest rank, within the sketch's relative accuracy: the smallest value that at
    least this percentage of the values do not exceed.

    Args:
        sketches: bytes of ``DDSketch``, such as from a ``GroupBy``, in an object with Arrow's PyCapsule interface.
        percents: whole numbers from 0 to 100, each once.
    Returns:
        A ``pyarrow.RecordBatch`` with a row for each sketch and a float64 column for each percent, with names such as
        ``p50``. A row is null if its sketch is null or empty.
    Raises:
        TypeError: ``sketches`` is no Arrow array of bytes.
        ValueError: a value is no sketch, or a percent is out of range or occurs twice.

    Example:
        >>> import pyarrow as pa
        >>> from drainq.sketch import DDSketch
        >>> from drainq.columns import percentiles
        >>> sketch = DDSketch()
        >>> sketch.add_many([1.0, 2.0, 4.0])
        >>> percentiles(pa.array([sketch.to_bytes(), None]), [0, 100]).to_pylist()
        [{'p0': 1.0, 'p100': 4.0}, {'p0': None, 'p100': None}]
    """
    for place, percent in enumerate(percents):
        if percent not in range(101) or percent in percents[:place]:
            raise ValueError(f"percents must be whole numbers from 0 to 100, each once, got {percent}")
    column = column_of("sketches", sketches)
    if column.type not in (pa.binary(), pa.large_binary()):
        raise TypeError(f"sketches must be bytes of sketches, got values of type {column.type}")
    found = sketch_percentiles(*texts_of(column), bytes(percents))
    numbers = [array_of(pa.float64(), len(column), None, values) for values in found]
    nothing = pa.nulls(len(column), pa.float64())
    columns = [pc.if_else(pc.is_nan(values), nothing, values) for values in numbers]
    return pa.RecordBatch.from_arrays(columns, names=[f"p{percent}" for percent in percents])
