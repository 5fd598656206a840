"""Merges the items of one declared metric by key and finest period. A flush derives the coarser periods.

1. All items of a batch are read and checked before one is added, so a batch is merged whole or not at all.
2. A flush gets *entries*: each has a number of items, and for each table the rows to merge into it. A transaction
   writes an entry completely or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from drainq._native import DDSketch
from drainq.errors import UnfitItem
from drainq.workers.metric import PERIODS, Metric, Value, getter

Entry = tuple[int, list[tuple[str, tuple[Any, ...]]]]
"""The number of items, and (table, row) for each row."""


class Merged:
    """The rows of a metric between two flushes.

    Args:
        metric: the declaration.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._keys = [getter(of, metric.of) for of in metric.keys.values()]
        self._time = getter(metric.time, metric.of)
        self._whole = [column in metric.integers for column in metric.keys]
        self._values = [
            (value, None if value.of is None else getter(value.of, metric.of)) for value in metric.values.values()
        ]
        self._seconds = PERIODS[metric.periods[0]]
        self._groups: dict[tuple[Any, ...], list[Any]] = {}  # (key..., time) -> [items, value...]

    def __len__(self) -> int:
        return len(self._groups)

    def read(self, item: Any) -> tuple[tuple[Any, ...], list[Any]]:
        """Return an item's group and values.

        Raises:
            UnfitItem: a number is NaN or infinite, or a value is not a number.
        """
        metric = self.metric
        second = self._time(item)
        if not math.isfinite(second):
            raise UnfitItem(f"{metric.name}: time must be finite seconds since the epoch, in a {type(item).__name__}")
        key = [get(item) for get in self._keys]
        for place, whole in enumerate(self._whole):
            key[place] = int(key[place]) if whole else str(key[place])
        values = []
        for (value, get), column in zip(self._values, metric.values):
            found = None if get is None else get(item)
            if value.is_number and found is not None:
                if not isinstance(found, (int, float, Decimal)) or not math.isfinite(found):
                    got = f"a {type(found).__name__} in a {type(item).__name__}"
                    raise UnfitItem(f"{metric.name}: {column!r} must be of a finite number, got {got}")
                if isinstance(found, Decimal):
                    found = float(found)
            values.append(str(found) if value.kind == "distinct" and found is not None else found)
        return (*key, int(second // self._seconds) * self._seconds), values

    def add(self, read: Iterable[tuple[tuple[tuple[Any, ...], list[Any]], int]]) -> None:
        """Add the results of :meth:`read`, each with its item count: 1, or 0 if another metric counts the item."""
        for (group, values), count in read:
            held = self._groups.get(group)
            if held is None:
                held = self._groups[group] = self._nothing()
            held[0] += count
            for place, (value, _) in enumerate(self._values, start=1):
                held[place] = _ADD[value.kind](held[place], values[place - 1])

    def entries(self, now: float) -> list[Entry]:
        """Return the held rows of all periods as entries, without rows that are older than the metric keeps."""
        metric = self.metric
        finest, *coarser = metric.periods
        entries = [(held[0], self._rows(finest, group, held, now)) for group, held in self._groups.items()]
        for period in coarser:
            seconds = PERIODS[period]
            rolled: dict[tuple[Any, ...], list[Any]] = {}
            for group, held in self._groups.items():
                into = (*group[:-1], group[-1] // seconds * seconds)
                merged = rolled.get(into)
                if merged is None:
                    merged = rolled[into] = self._nothing()
                for place, (value, _) in enumerate(self._values, start=1):
                    merged[place] = _MERGE[value.kind](merged[place], held[place])
            entries += [(0, self._rows(period, group, held, now)) for group, held in rolled.items()]
        return entries

    def _nothing(self) -> list[Any]:
        return [0, *[_NOTHING[value.kind](value) for value, _ in self._values]]

    def _rows(
        self, period: str, group: tuple[Any, ...], held: list[Any], now: float
    ) -> list[tuple[str, tuple[Any, ...]]]:
        keep = self.metric.keep.get(period)
        if keep is not None and group[-1] + PERIODS[period] <= now - keep:
            return []
        table = self.metric.tables[period]
        row, rows = list(group), []
        for (column, value), found in zip(self.metric.values.items(), held[1:]):
            if value.kind == "average":
                row += found
            elif value.kind == "percentile":
                rows += [(f"{table}_{column}", (*group, *bucket)) for bucket in buckets(found)]
            elif value.kind == "distinct":
                rows += [(f"{table}_{column}", (*group, each)) for each in sorted(found)]
            else:
                row.append(found)
        return [(table, tuple(row)), *rows]


def _or(merge: Any) -> Any:
    return lambda held, value: held if value is None else value if held is None else merge(held, value)


def _add_to_sketch(held: DDSketch, value: float | None) -> DDSketch:
    if value is not None:
        held.add(value)
    return held


def _merge_sketches(held: DDSketch, other: DDSketch) -> DDSketch:
    held.merge(other)
    return held


_ADD: dict[str, Any] = {
    "count": lambda held, value: held + 1,
    "sum": _or(lambda held, value: held + value),
    "min": _or(min),
    "max": _or(max),
    "average": lambda held, value: held if value is None else [held[0] + value, held[1] + 1],
    "percentile": _add_to_sketch,
    "distinct": lambda held, value: held if value is None else held | {value} if value not in held else held,
}
_MERGE: dict[str, Any] = {
    **_ADD,
    "count": lambda held, other: held + other,
    "average": lambda held, other: [held[0] + other[0], held[1] + other[1]],
    "percentile": _merge_sketches,
    "distinct": lambda held, other: held | other,
}
_NOTHING: dict[str, Any] = {
    "count": lambda value: 0,
    "sum": lambda value: None,
    "min": lambda value: None,
    "max": lambda value: None,
    "average": lambda value: [0, 0],
    "percentile": lambda value: DDSketch(value.relative_accuracy),
    "distinct": lambda value: set(),
}


def buckets(sketch: DDSketch) -> list[tuple[int, int, int]]:
    """Return a sketch as (sign, bucket, count) rows. Adding the counts of several sketches gives that of all values."""
    histogram = sketch.exponential()
    found = [(0, 0, histogram.zero_count)] if histogram.zero_count else []
    for sign, first, counts in (
        (1, histogram.positive_offset, histogram.positive_counts),
        (-1, histogram.negative_offset, histogram.negative_counts),
    ):
        found += [(sign, first + place, count) for place, count in enumerate(counts) if count]
    return found


def quantiles(value: Value, rows: Iterable[tuple[int, int, int]]) -> list[float | None]:
    """Return the percentiles of a sketch stored as (sign, bucket, count) rows, in the order of ``value.percents``."""
    sketch = DDSketch(value.relative_accuracy)
    base = 2.0 ** (2.0**-sketch.scale)
    for sign, bucket, count in rows:
        sketch.add(sign * 2 * base ** (bucket + 1) / (1 + base), int(count))
    return [sketch.quantile(percent / 100) for percent in value.percents]
