"""OpenTelemetry's exponential histogram, as a point carries it: the buckets of a DDSketch at one moment.

Bucket ``i`` of scale ``s`` holds the magnitudes in ``(base**i, base**(i + 1)]`` with ``base = 2**(2**-s)``. drainq's
sketch has these very buckets, so nothing is lost on the way.

Source: "Exponential Histogram" in OpenTelemetry's metrics data model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Side(msgspec.Struct, frozen=True):
    """The buckets of the positive or of the negative values: the first index, and the counts from there on."""

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
    """The buckets of a sketch as they are now.

    Args:
        name: the metric's, for errors.
        sketch: a ``drainq.sketch.DDSketch``; it may be added to afterwards.
    Raises:
        TypeError: it is something else.
    """
    if not callable(getattr(sketch, "exponential", None)):
        raise TypeError(f"the value of {name!r} must be a DDSketch, got a {type(sketch).__name__}")
    buckets = sketch.exponential()
    positive = Side(buckets.positive_offset, list(buckets.positive_counts))
    negative = Side(buckets.negative_offset, list(buckets.negative_counts))
    count = buckets.zero_count + sum(positive.counts) + sum(negative.counts)
    return Exponential(count, sketch.sum, buckets.scale, buckets.zero_count, positive, negative, sketch.min, sketch.max)
