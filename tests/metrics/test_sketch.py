"""Percentiles from buckets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.metrics.sketch import FLOOR_MS, RELATIVE_ERROR, buckets, percentiles, value

times = st.floats(min_value=0.0, max_value=1e12, allow_nan=False)
ROUNDING = 1e-9  # of the logarithm, at a bucket's edge


def sketch(milliseconds: list[float]) -> Counter[int]:
    return Counter(buckets(np.array(milliseconds, dtype=np.float64)).tolist())


@given(st.lists(times, min_size=1, max_size=200))
def test_each_percentile_is_within_the_error_of_the_exact_one(milliseconds):
    ordered = sorted(milliseconds)
    for percent, found in zip((0, 50, 90, 99, 100), percentiles(sketch(milliseconds).items(), (0, 50, 90, 99, 100))):
        exact = ordered[max(1, -(-len(ordered) * percent // 100)) - 1]
        assert abs(found - exact) <= max(RELATIVE_ERROR * exact * (1 + ROUNDING), FLOOR_MS)


@given(st.lists(times, min_size=1), st.lists(times))
def test_merging_is_adding_counts(some, others):
    both = sketch(some) + sketch(others)
    assert both == sketch(some + others)
    assert percentiles(both.items()) == percentiles(sketch(some + others).items())


@given(times, times)
def test_a_longer_time_is_never_in_a_lower_bucket(one, other):
    low, high = buckets(np.array(sorted((one, other))))
    assert low <= high and value(int(low)) <= value(int(high))


def test_without_requests_there_is_no_percentile():
    assert percentiles([]) == [None, None, None]


def test_ranks_are_exact_whole_numbers():
    counts = [(int(bucket), 1) for bucket in buckets(np.arange(1.0, 301.0))]
    assert percentiles(counts, (99,))[0] == pytest.approx(297, rel=RELATIVE_ERROR)
    three = [(0, 1), (100, 1), (200, 1)]
    assert percentiles(three, (0, 34, 50, 67)) == [value(0), value(100), value(100), value(200)]
