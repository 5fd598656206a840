"""One aggregate of a group-by: its columns, its partial results and their merge; and the percentiles of sketches.

1. A partial result is a column with a value for each group. The merge combines several values of a group.
2. Sums of whole numbers are exact: 64-bit numbers if these cannot overflow, else decimals.
3. Nulls are ignored, as in SQL: without values the sum, minimum and maximum are null, and the count is 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drainq._native import check_sketches, merge_sketches, sketch_lists, sketch_percentiles
from drainq.columns.arrow_buffers import NAN, array_of, column_of, ends_of, is_number, numbers_of, one, texts_of

__all__ = ["FUNCTIONS", "WIDE", "Aggregate", "percentiles"]

FUNCTIONS = ("sum", "count", "min", "max", "sketch")
WIDE = pa.decimal128(38, 0)  # large enough for the sum of any number of 64-bit numbers in memory
_NONE_IS_0 = pc.ScalarAggregateOptions(min_count=0)


@dataclass(frozen=True)
class Aggregate:
    """A result of a group-by.

    Args:
        name: the result's name. function: one of ``FUNCTIONS``. column: the values' column.
        relative_accuracy: of a sketch.
    """

    name: str
    function: str
    column: str
    relative_accuracy: float

    def type_for(self, kind: pa.DataType, partial: bool) -> pa.DataType:
        """Return the type of the results for values of a type.

        Raises:
            TypeError: the function does not accept them.
        """
        label = self.name if partial else self.column
        is_time = pa.types.is_boolean(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        refused = None
        if self.function == "count":
            if not partial or kind == pa.int64():
                return pa.int64()
            refused = "the counts of a partial result are int64"
        elif self.function == "sketch" and partial:
            if kind == pa.binary():
                return kind
            refused = "the sketches of a partial result are bytes"
        elif not is_number(kind) and (self.function not in ("min", "max") or not is_time):
            refused = {"sum": "a sum is of numbers", "sketch": "a sketch is of numbers"}.get(
                self.function, "a minimum or maximum is of numbers, days or times"
            )
        if refused:
            raise TypeError(f'column "{label}" is of type {kind}: {refused}')
        if self.function == "sketch":
            return pa.binary()
        if self.function == "sum":
            return (
                pa.float64() if pa.types.is_floating(kind)
                else pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
            )  # fmt: skip
        return kind

    def taken(self, values: pa.ChunkedArray, partial: bool) -> pa.ChunkedArray:
        """Check the values, and return them in the type in which they are grouped.

        Raises:
            ValueError: a value is refused.
        """
        if self.function == "sketch" and not partial:
            values = values.cast(pa.float64(), safe=False)
            infinite = values.filter(pc.invert(pc.is_finite(values)))
            if len(infinite):
                raise ValueError(f'column "{self.column}": a sketch takes finite numbers, got {infinite[0]}')
            return pc.fill_null(values, NAN) if values.null_count else values
        if self.function == "sketch":
            with self._named():
                check_sketches(*texts_of(values), self.relative_accuracy)
        if self.function == "count" and partial and len(values) and (pc.min(values).as_py() or 0) < 0:
            raise ValueError(f'column "{self.name}" has the count {pc.min(values)}: a count is not negative')
        if self.function in ("min", "max") and pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return pc.if_else(pc.is_nan(values), pa.nulls(len(values), values.type), values)
        if pa.types.is_duration(values.type):
            return values.cast(pa.int64())
        return values

    def added(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert numbers to a type that is large enough for their sum."""
        if self.function != "sum" or not pa.types.is_integer(values.type):
            return values
        ends = pc.min_max(values).as_py()
        largest = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
        bits = 64 if pa.types.is_unsigned_integer(values.type) else 63
        return values if largest * len(values) < 1 << bits else values.cast(WIDE)

    def asked(self, partial: bool) -> tuple[str, Any]:
        """Return Arrow's function and its options."""
        if self.function == "sketch":
            return "hash_list", None
        if self.function == "count":
            return ("hash_sum", _NONE_IS_0) if partial else ("hash_count", None)
        return f"hash_{self.function}", None

    def made(self, values: pa.ChunkedArray, partial: bool) -> pa.ChunkedArray:
        """Turn the results of pyarrow's group-by into partial results."""
        if self.function == "sketch":
            return pa.chunked_array([self._sketches(one(values), partial)])
        if values.type == WIDE:
            ends = pc.min_max(values).as_py()
            if -(2**63) <= (ends["min"] or 0) and (ends["max"] or 0) < 2**63:
                return values.cast(pa.int64())
        return values

    def _sketches(self, lists: pa.ListArray, partial: bool) -> pa.Array:
        ends = ends_of(lists)
        with self._named():
            if partial:
                made = merge_sketches(ends, *texts_of(lists.values), self.relative_accuracy)
            else:
                made = sketch_lists(ends, bytes(numbers_of(lists.values)), self.relative_accuracy)
        return array_of(pa.binary(), len(lists), None, *made)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Put the name of the column into an error."""
        try:
            yield
        except (ValueError, OverflowError) as error:
            raise type(error)(f'column "{self.name}": {error}') from None

    def whole(self, values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
        """Return the final results, in their type.

        Raises:
            OverflowError: a sum does not fit in 64 bits.
        """
        if values.type == WIDE and kind != WIDE:
            least, most = (0, 2**64) if kind == pa.uint64() else (-(2**63), 2**63)
            for place, total in enumerate(values.to_pylist()):
                if total is not None and not least <= total < most:
                    raise OverflowError(
                        f'the sum of column "{self.name}" is {total} in group {place}, which 64 bits do not hold'
                    )
        return values if values.type == kind else values.cast(kind)


def percentiles(sketches: Any, percents: Sequence[int]) -> pa.RecordBatch:
    """Compute percentiles of many sketches, natively and without the GIL.

    A percentile is the value of the nearest rank: the smallest value for which at least this percentage of the values
    are less than or equal to it. The error is at most the sketch's relative accuracy.

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
