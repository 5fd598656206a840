"""A percentile that went through a table of buckets is the sketch's own."""

from __future__ import annotations

import random

import pytest

from drainq.sketch import DDSketch
from drainq.workers import Value
from drainq.workers.merged import buckets, quantiles


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
