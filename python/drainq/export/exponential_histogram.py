"""OpenTelemetry's exponential histogram: converts the buckets of a DDSketch for a metric point.

Bucket ``i`` of scale ``s`` holds the magnitudes in ``(base**i, base**(i + 1)]`` with ``base = 2**(2**-s)``. drainq's
sketch has the same buckets, so the conversion is exact.

Source: "Exponential Histogram" in OpenTelemetry's metrics data model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
