"""Sketches: mergeable quantiles with a bounded relative error, and their buckets for OpenTelemetry's protocol."""

from __future__ import annotations

from drainq._native import DDSketch, ExponentialHistogram

__all__ = ["DDSketch", "ExponentialHistogram"]
