"""Sketches: quantiles of known relative error that merge, and their buckets as OpenTelemetry's protocol has them."""

from __future__ import annotations

from drainq._native import DDSketch, ExponentialHistogram

__all__ = ["DDSketch", "ExponentialHistogram"]
