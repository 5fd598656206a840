"""Columns of other libraries, and a sketch's values from Arrow arrays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from drainq.sketch import DDSketch

pa = pytest.importorskip("pyarrow")

from drainq.columns import GroupBy  # noqa: E402


def test_a_frame_of_polars_is_taken_and_takes_a_result():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"k": ["a", "a longer text, not in the view", "a"], "n": [1, 2, 3]})
    frame = frame.with_columns(c=polars.col("k").cast(polars.Categorical))
    groups = GroupBy(["k", "c"], {"n": "sum"})
    groups.add(frame)
    assert polars.DataFrame(groups.result())["n"].to_list() == [4, 2]
    sketch = DDSketch()
    sketch.add_many(frame["n"])
    assert (sketch.count, sketch.max) == (3, 3.0)


def test_a_result_of_duckdb_is_taken():
    duckdb = pytest.importorskip("duckdb")
    groups = GroupBy("k", {"n": "sum"})
    groups.add(duckdb.sql("SELECT range % 3 AS k, range AS n FROM range(10000)"))
    assert sum(groups.result()["n"].to_pylist()) == 49_995_000


def test_a_stream_is_taken_and_one_that_fails_is_an_error_with_its_reason():
    def batches():
        yield pa.record_batch({"k": [1]})
        raise OSError("the disk is gone")

    groups = GroupBy("k", {"rows": "count"})
    schema = pa.schema({"k": pa.int64()})
    with pytest.raises(OSError, match="the disk is gone"):
        groups.add(pa.RecordBatchReader.from_batches(schema, batches()))
    assert len(groups) == 0
    groups.add(pa.RecordBatchReader.from_batches(schema, [pa.record_batch({"k": [1]})] * 2))
    assert groups.result().to_pydict() == {"k": [1], "rows": [2]}


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, 1.5, None, 2.0, 9.0]).slice(1, 3),
        pa.array([9.0, 1.5, 2.0]).slice(1),
        pa.chunked_array([[1.5], [], [None, 2.0]]),
        pa.array([1.5, 2.0], pa.float32()),
        pa.array([1.5, 2.0, 1.5]).dictionary_encode().slice(1),
        pa.array([1, None, 100], pa.int8()),
        pa.array([2**64 - 1, 1], pa.uint64()),
    ],
    ids=["slice", "slice without a null", "chunks", "single", "dictionary", "small", "unsigned"],
)
def test_a_sketch_takes_arrays_and_leaves_nulls_out(values):
    sketch, plain = DDSketch(), DDSketch()
    sketch.add_many(values)
    plain.add_many([value for value in values.to_pylist() if value is not None])
    assert sketch == plain and sketch.count == 2


def test_a_sketch_takes_no_texts_and_nothing_of_what_is_refused():
    sketch = DDSketch()
    with pytest.raises(TypeError, match="values must be numbers, got values of type string"):
        sketch.add_many(pa.array(["1"]))
    with pytest.raises(ValueError, match="got inf"):
        sketch.add_many(pa.array([1.0, float("inf")]))
    sketch.add_many(pa.array([], pa.float64()))
    assert sketch.count == 0


def test_without_pyarrow_one_sentence_says_what_is_missing():
    code = "import sys; sys.modules['pyarrow'] = None; import drainq; import drainq.columns"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: drainq.columns needs pyarrow: pip install pyarrow (import of pyarrow"
    )


def test_groups_are_made_without_pandas():
    """``drainq metrics`` starts twice as fast without it."""
    code = """
import sys, pyarrow as pa
from drainq.columns import GroupBy, parse_access_log, percentiles
columns, _ = parse_access_log(b'h - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1 "-" "x" 0.1\\n' * 9)
groups = GroupBy("endpoint", {"size": "sum", "n": "count", "most": ("milliseconds", "max"), "milliseconds": "sketch"})
groups.add(columns)
groups.merge(groups)
assert groups.result()["size"].to_pylist() == [18]
assert percentiles(groups.result()["milliseconds"], [50])["p50"].to_pylist() == [100.0]
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
