"""A percentile that went through a table of buckets is the sketch's own."""

from __future__ import annotations

import random

import pytest

from drainq.sketch import DDSketch
from drainq.workers import Metric, Value
from drainq.workers.merged import Merged, buckets, quantiles


def test_rows_hold_the_buckets_of_the_declared_accuracy():
    metric = Metric("m", dict, keys={}, time="at", values={"x": Value.percentile("x", 50, relative_accuracy=0.2)})
    merged, sketch = Merged(metric), DDSketch(0.2)
    for number in (-3.0, 0.0, 1, 1e9):
        merged.add([(merged.read({"at": 61.0, "x": number}), 1)])
        sketch.add(number)
    [(items, rows)] = merged.entries(0.0)
    assert (items, rows) == (4, [("m_minute", (60,)), *[("m_minute_x", (60, *bucket)) for bucket in buckets(sketch)]])


@pytest.mark.parametrize("seed", range(20))
def test_buckets_of_parts_add_up_to_the_percentiles_of_the_whole(seed):
    rng = random.Random(seed)
    values = [rng.choice([1, -1, 1]) * rng.lognormvariate(0, 4) for _ in range(500)] + [0.0]
    whole, parts = DDSketch(0.02), [DDSketch(0.02) for _ in range(3)]
    for value in values:
        whole.add(value)
        rng.choice(parts).add(value)
    percents = tuple(range(1, 100))
    found = quantiles(
        Value.percentile("x", *percents, relative_accuracy=0.02), [row for part in parts for row in buckets(part)]
    )
    assert found == pytest.approx([whole.quantile(percent / 100) for percent in percents], rel=1e-9)
