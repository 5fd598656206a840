"""Metric points: the items of the metrics exporters. A point is one number or one histogram, with a name and
attributes.

The names and the meaning of the fields are those of OpenTelemetry's data model.

Bucket ``i`` of scale ``s`` of an exponential histogram holds the magnitudes in ``(base**i, base**(i + 1)]`` with
``base = 2**(2**-s)``. drainq's sketch has the same buckets, so the conversion is exact.

Source: "Metrics Data Model" of the OpenTelemetry specification.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec


class Side(msgspec.Struct, frozen=True):
    """The buckets of the positive or of the negative values: the first index, and the counts from that index on."""

    offset: int
    counts: Sequence[int]


class Exponential(msgspec.Struct, frozen=True):
    """An exponential histogram, ready to be sent; ``zero_count`` and the counts of both sides make up ``count``."""

    count: int
    sum: float
    scale: int
    zero_count: int
    positive: Side
    negative: Side
    min: float | None = None
    max: float | None = None


def exponential(name: str, sketch: Any) -> Exponential:
    """Return the present buckets of a sketch.

    Args:
        name: the metric's name, for errors.
        sketch: a ``drainq.sketch.DDSketch``; it may change afterwards.
    Raises:
        TypeError: the argument is no sketch.
    """
    if not callable(getattr(sketch, "exponential", None)):
        raise TypeError(f"the value of {name!r} must be a DDSketch, got a {type(sketch).__name__}")
    buckets = sketch.exponential()
    positive = Side(buckets.positive_offset, list(buckets.positive_counts))
    negative = Side(buckets.negative_offset, list(buckets.negative_counts))
    count = buckets.zero_count + sum(positive.counts) + sum(negative.counts)
    return Exponential(count, sketch.sum, buckets.scale, buckets.zero_count, positive, negative, sketch.min, sketch.max)


Kind = Literal["sum", "gauge", "histogram", "exponential_histogram"]
KINDS = ("sum", "gauge", "histogram", "exponential_histogram")
_INT64 = range(-(2**63), 2**63)


class Histogram(msgspec.Struct, frozen=True):
    """A histogram with explicit buckets: the value of a :class:`MetricPoint` of ``kind="histogram"``.

    Args:
        bounds: the upper bounds of the buckets, rising; the last bucket has none.
        counts: the number of values in each bucket; there is one bucket more than bounds.
        sum: the sum of the values.
        min, max: the smallest and the largest value; None: not known.
    Raises:
        ValueError: the bounds do not rise, or the counts do not fit them.

    Example:
        >>> latency = Histogram([0.1, 1.0], [8, 3, 1], sum=6.2)
        >>> latency.count
        12
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float
    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        if any(not low < high for low, high in zip(self.bounds, self.bounds[1:])) or not all(
            math.isfinite(bound) for bound in self.bounds
        ):
            raise ValueError(f"bounds must be finite numbers that rise, got {self.bounds!r}")
        if len(self.counts) != len(self.bounds) + 1 or any(count < 0 for count in self.counts):
            raise ValueError(
                f"counts must have a number for each of the {len(self.bounds) + 1} buckets, got {self.counts!r}"
            )

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)


class _NameValueAttributes(msgspec.Struct, frozen=True):
    name: str
    value: Any
    attributes: Mapping[str, Any] = {}  # msgspec gives each point a dictionary of its own
    kind: Kind = "sum"


class MetricPoint(_NameValueAttributes, frozen=True, kw_only=True):
    """One data point of a metric.

    Args:
        name: the metric's name.
        value: for a sum or a gauge an int of 64 bits or a finite float; for ``"histogram"`` a :class:`Histogram`;
            for ``"exponential_histogram"`` a :class:`drainq.sketch.DDSketch`, whose buckets are taken as they are.
        attributes: the attributes that tell this point from others of the metric: names to str, bool, int, float, bytes
            or sequences of these.
        kind: ``"sum"`` (the growth since the last point), ``"gauge"`` (the present value), ``"histogram"`` or
            ``"exponential_histogram"``; a histogram of a sketch is exponential.
        unit: the unit of the value, as UCUM spells it: ``"s"``, ``"By"``.
        description: the meaning of the metric.
        monotonic: whether a sum only grows; not for other kinds.
        cumulative: whether the value is the total since ``start`` instead of the growth since the last point; for sums
            and histograms.
        time: the time of the measurement, in seconds since the epoch; None: the present time.
        start: the beginning of the period that the value covers, in seconds since the epoch; None: not known.
    Raises:
        TypeError, ValueError: a value that OpenTelemetry's format cannot express.

    Example:
        >>> point = MetricPoint("requests", 1, {"page": "/"})
        >>> point.kind, point.value
        ('sum', 1)
        >>> MetricPoint("requests", float("nan"))
        Traceback (most recent call last):
        ValueError: the value of 'requests' must be a finite number, got nan
    """

    unit: str = ""
    description: str = ""
    monotonic: bool = True
    cumulative: bool = False
    time: float = msgspec.field(default_factory=time.time)
    start: float | None = None

    def __post_init__(self) -> None:
        kind, value = self.kind, self.value
        if kind == "sum" or kind == "gauge":
            of = type(value)
            if of is int:
                if not -(2**63) <= value < 2**63:
                    raise ValueError(f"the value of {self.name!r} must be an int of 64 bits or a float")
            elif of is not float:
                msgspec.structs.force_setattr(self, "value", _number(self.name, value))
            elif value - value != 0:  # infinite, or not a number
                raise ValueError(f"the value of {self.name!r} must be a finite number, got {value!r}")
        elif kind == "histogram" and callable(getattr(value, "exponential", None)):
            msgspec.structs.force_setattr(self, "kind", "exponential_histogram")
            msgspec.structs.force_setattr(self, "value", exponential(self.name, value))
        elif kind == "histogram":
            if not isinstance(value, Histogram):
                raise TypeError(
                    f"the value of the histogram {self.name!r} must be a Histogram, got a {type(value).__name__}"
                )
        elif kind == "exponential_histogram":
            if not isinstance(value, Exponential):
                msgspec.structs.force_setattr(self, "value", exponential(self.name, value))
        else:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
        if type(self.name) is not str or not self.name:
            raise ValueError(f"name must be a str that is not empty, got {self.name!r}")


def _number(name: str, value: Any) -> int | float:
    """Convert a number of another class, such as NumPy's, to an int or a float."""
    if not isinstance(value, bool):
        try:
            if isinstance(value, float):
                plain: int | float = float(value)
            else:
                plain = operator.index(value)
            if math.isfinite(plain) and (isinstance(plain, float) or plain in _INT64):
                return plain
        except (TypeError, OverflowError):
            pass
        else:
            raise ValueError(f"the value of {name!r} must be a finite number of 64 bits")
    raise TypeError(f"the value of {name!r} must be an int or a float, got a {type(value).__name__}")


def pack_point(point: Any) -> Any:
    """Convert a point to a dict, for a delayed queue."""
    if not isinstance(point, MetricPoint):
        return point
    packed = msgspec.structs.asdict(point)
    if point.kind in ("histogram", "exponential_histogram"):
        packed["value"] = msgspec.to_builtins(point.value)
    packed["attributes"] = dict(point.attributes)
    return packed


def unpack_point(packed: Any) -> MetricPoint:
    """Return the point that :func:`pack_point` converted.

    Raises:
        TypeError, ValueError: :func:`pack_point` did not make this dict.
    """
    of = {"histogram": Histogram, "exponential_histogram": Exponential}.get(packed["kind"])
    value = packed["value"] if of is None else msgspec.convert(packed["value"], of)
    return MetricPoint(**{**packed, "value": value})
