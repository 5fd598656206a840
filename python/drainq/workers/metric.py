"""Metric declarations: which values of an item go into which table.

1. A metric is a set of merges by key and period. Rows of several processes merge in the database, in any order.
2. An average, a percentile and a number of distinct values are computed at each read, from stored parts that merge: a
   sum and a count; counts by bucket of a :class:`drainq.sketch.DDSketch`; one row for each value.

Source: the metrics functions of SkyWalking's OAL, which are compiled to classes. Here a declaration is interpreted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

PERIODS: Mapping[str, int] = MappingProxyType({"minute": 60, "hour": 3_600, "day": 86_400})
"""The seconds of each period, the finest first. A period begins at a multiple of its seconds since the epoch (UTC)."""

Of = str | Callable[[Any], Any]
"""How to get a value from an item: by the name of an attribute (of a dict: a key), or by a function of the item."""

_RESERVED = ("time", "bucket", "sign", "value", "n")


@dataclass(frozen=True)
class Value:
    """One value of a metric, made by the static methods below.

    Attributes:
        kind: the name of the method that made it.
        of: the item's attribute or key, or a function, that gives the value; None for a count.
        percents: the percents of a percentile.
        relative_accuracy: the largest relative error of a percentile.

    Example:
        >>> Value.percentile("milliseconds", 50, 99).percents
        (50, 99)
    """

    kind: str
    of: Of | None = None
    percents: tuple[float, ...] = ()
    relative_accuracy: float = 0.01

    @staticmethod
    def count() -> Value:
        """Count the items."""
        return Value("count")

    @staticmethod
    def sum(of: Of) -> Value:
        """Sum a number."""
        return Value("sum", of)

    @staticmethod
    def min(of: Of) -> Value:
        """Take the minimum of a number."""
        return Value("min", of)

    @staticmethod
    def max(of: Of) -> Value:
        """Take the maximum of a number."""
        return Value("max", of)

    @staticmethod
    def average(of: Of) -> Value:
        """Take the mean of a number."""
        return Value("average", of)

    @staticmethod
    def percentile(of: Of, *percents: float, relative_accuracy: float = 0.01) -> Value:
        """Take percentiles of a number, with a relative error of at most ``relative_accuracy``. Each bucket is a row.

        Raises:
            ValueError: there is no percent, or one is not from 0 to 100.
        """
        if not percents or not all(0 <= percent <= 100 for percent in percents):
            raise ValueError(f"percents must be numbers from 0 to 100, at least one, got {percents!r}")
        return Value("percentile", of, tuple(percents), relative_accuracy)

    @staticmethod
    def distinct(of: Of) -> Value:
        """Count the different values, compared as text. The count is exact, and each value is stored as a row."""
        return Value("distinct", of)

    @property
    def is_number(self) -> bool:
        """Return whether the value is computed from numbers."""
        return self.kind in ("sum", "min", "max", "average", "percentile")


@dataclass(frozen=True)
class Metric:
    """The declaration of a metric: items of one class become tables ``NAME_minute``, ``NAME_hour`` and ``NAME_day``.

    Args:
        name: the first part of the tables' names.
        of: the class of the items.
        keys: column -> an attribute of the item, or a function of it. A period has one row for each combination of
            keys.
        values: column -> a :class:`Value`.
        time: the item's time in seconds since the epoch: an attribute, or a function.
        every: the periods, from ``"minute"``, ``"hour"``, ``"day"``.
        keep: period -> seconds for which a row is kept after its minute, hour or day is over. The rows of other periods
            are kept for ever. If ``keep`` has all periods, an item older than the longest is refused as ``expired``.
        integers: the key columns that hold whole numbers; the others hold text.
    Raises:
        ValueError, TypeError: a name is used twice, or an option is unknown.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Hit:
        ...     path: str
        ...     at: float
        ...     ms: float
        >>> Metric("hits", Hit, keys={"path": "path"}, time="at", values={"n": Value.count()}).tables
        {'minute': 'hits_minute'}
    """

    name: str
    of: type
    keys: Mapping[str, Of]
    values: Mapping[str, Value]
    time: Of
    every: Sequence[str] = ("minute",)
    keep: Mapping[str, float] = field(default_factory=dict)
    integers: Collection[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must be the beginning of a table's name, got {self.name!r}")
        if not isinstance(self.of, type):
            raise TypeError(f"of must be the class of the items, got {self.of!r}")
        if not self.values:
            raise ValueError(f"values must name at least one value to work out, got {self.values!r}")
        for column, value in self.values.items():
            if not isinstance(value, Value):
                raise TypeError(f"values[{column!r}] must be made by Value, as Value.count(), got {value!r}")
        stored = [
            column
            for name, value in self.values.items()
            for column in ((f"{name}_sum", f"{name}_count") if value.kind == "average" else (name,))
        ]
        for names in ([*self.keys, *_RESERVED], [*self.keys, *stored, "time"]):
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"column {name!r} is there twice (a key cannot be one of {list(_RESERVED)!r})")
        unknown = [period for period in (*self.every, *self.keep) if period not in PERIODS]
        if unknown or not self.every or isinstance(self.every, str):
            raise ValueError(
                f"every and keep must name periods out of {list(PERIODS)!r}, got {unknown or self.every!r}"
            )
        if any(column not in self.keys for column in self.integers):
            raise ValueError(f"integers must name columns of keys {list(self.keys)!r}, got {list(self.integers)!r}")
        for period, seconds in self.keep.items():
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
                raise ValueError(f"keep[{period!r}] must be a number of seconds > 0, got {seconds!r}")

    @property
    def periods(self) -> list[str]:
        """The periods, the finest first."""
        return [period for period in PERIODS if period in self.every]

    @property
    def tables(self) -> dict[str, str]:
        """period -> table."""
        return {period: f"{self.name}_{period}" for period in self.periods}

    @property
    def oldest(self) -> float | None:
        """Return the age in seconds at which items are refused: the longest ``keep``. None: a row is kept for ever."""
        ages = [self.keep.get(period) for period in self.periods]
        return None if None in ages else max(age for age in ages if age is not None)


def getter(of: Of, kind: type) -> Callable[[Any], Any]:
    """Return a function that reads the attribute ``of`` from an item, or calls the function ``of`` with it."""
    if callable(of):
        return of
    return operator.itemgetter(of) if issubclass(kind, dict) else operator.attrgetter(of)
