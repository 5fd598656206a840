"""Percentiles of a column of sketches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.columns import GroupBy, percentiles
from drainq.sketch import DDSketch

pa = pytest.importorskip("pyarrow")
PERCENTS = [0, 1, 50, 90, 99, 100]


@given(st.lists(st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e12)), max_size=200), max_size=5))
def test_each_is_within_the_accuracy_of_the_nearest_rank(samples):
    sketches = []
    for sample in samples:
        sketch = DDSketch(0.01)
        sketch.add_many(sample)
        sketches.append(sketch.to_bytes())
    rows = pa.record_batch(percentiles(pa.array(sketches, pa.binary()), PERCENTS))
    rows.validate(full=True)
    assert rows.schema.names == [f"p{percent}" for percent in PERCENTS] and len(rows) == len(samples)
    for sample, row in zip(samples, rows.to_pylist()):
        ordered = sorted(sample)
        for percent, found in zip(PERCENTS, row.values()):
            if ordered:
                exact = ordered[max(1, -(-len(ordered) * percent // 100)) - 1]
                assert found == pytest.approx(exact, rel=0.0100001, abs=0)
            else:
                assert found is None


def test_takes_what_group_by_gives():
    groups = GroupBy("key", {"time": "sketch"})
    groups.add(pa.record_batch({"key": ["a", "b", "a"], "time": [1.0, None, 3.0]}))
    sketches = pa.record_batch(groups.result())["time"]
    chunks = pa.chunked_array([sketches, pa.array([None], sketches.type)])
    assert pa.record_batch(percentiles(chunks, [100]))["p100"].to_pylist() == [3.0, None, None]


def test_what_is_no_sketch_and_no_percent_is_refused():
    with pytest.raises(ValueError, match="sketch 1: these bytes are no sketch"):
        percentiles(pa.array([DDSketch().to_bytes(), b"x"]), [50])
    with pytest.raises(ValueError, match="sketch 2: these bytes are no sketch"):
        percentiles(pa.chunked_array([[DDSketch().to_bytes(), None], [b"x"]]), [50])
    with pytest.raises(TypeError, match="sketches must be bytes of sketches, got values of type int64"):
        percentiles(pa.array([1]), [50])
    for wrong in ([101], [-1], [50, 50]):
        with pytest.raises(ValueError, match=f"from 0 to 100, each once, got {wrong[-1]}"):
            percentiles(pa.array([b""]), wrong)
