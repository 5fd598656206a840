"""Arrow's PyCapsule interface, in both directions."""

from __future__ import annotations

import array
import gc
import pickle

import pytest

from drainq.columns import GroupBy, RecordBatch
from drainq.sketch import DDSketch

pa = pytest.importorskip("pyarrow")


def grouped() -> RecordBatch:
    groups = GroupBy("k", {"n": "sum", "rows": "count"})
    groups.add(pa.record_batch({"k": ["a", None, "a"], "n": [1, None, 3]}))
    return groups.result()


EXPECTED = {"k": ["a", None], "n": [4, None], "rows": [2, 1]}


def test_a_stream_ends_after_its_one_batch():
    groups = GroupBy("k", {"n": "count"})
    groups.add(pa.record_batch({"k": ["a", "b"]}))
    reader = pa.RecordBatchReader.from_stream(groups.result())
    assert reader.schema.names == ["k", "n"]
    assert reader.read_next_batch().to_pydict() == {"k": ["a", "b"], "n": [1, 1]}
    for _ in range(2):
        with pytest.raises(StopIteration):
            reader.read_next_batch()


def test_a_batch_is_taken_as_often_as_one_likes_and_outlives_its_object():
    batch = grouped()
    taken = [pa.record_batch(batch), pa.table(batch), pa.RecordBatchReader.from_stream(batch).read_all()]
    unused = batch.__arrow_c_array__(), batch.__arrow_c_stream__(), batch.__arrow_c_schema__()
    assert repr(batch) == "<RecordBatch of 2 rows: k, n, rows>"
    assert (batch.num_rows, batch.num_columns, batch.column_names) == (2, 3, ["k", "n", "rows"])
    del batch, unused
    gc.collect()
    assert [each.to_pydict() for each in taken] == [EXPECTED] * 3
    column = taken[0].column("k")
    del taken
    gc.collect()
    assert column.to_pylist() == EXPECTED["k"]


def test_a_name_that_cannot_be_told_in_c_keeps_all_but_its_zero_bytes():
    groups = GroupBy("k", {"a\0b\0": ("k", "count")})
    groups.add(pa.record_batch({"k": [1]}))
    assert groups.result().column_names == ["k", "a\0b\0"]
    assert pa.record_batch(groups.result()).to_pydict() == {"k": [1], "a\ufffdb\ufffd": [1]}


@pytest.mark.parametrize("start", range(20))
def test_truth_values_are_read_from_any_bit(start):
    values = pa.array([place % 3 == 0 for place in range(40)]).slice(start, 17)
    nulls = pa.array([None if place % 5 == 0 else place for place in range(40)]).slice(start, 17)
    groups = GroupBy("k", {"rows": "count", "some": ("n", "count"), "least": ("n", "min")})
    groups.add(pa.record_batch({"k": values, "n": nulls}))
    rows = {}
    for key, n in zip(values.to_pylist(), nulls.to_pylist()):
        rows.setdefault(key, []).append(n)
    expected = [
        {"k": key, "rows": len(of), "some": len(some), "least": min(some)}
        for key, of in rows.items()
        for some in [[n for n in of if n is not None]]
    ]
    assert pa.record_batch(groups.result()).to_pylist() == expected


def test_views_of_several_buffers_are_read():
    parts = [
        pa.array([f"a text of part {part}, too long for its view", "short"], pa.string_view()) for part in range(3)
    ]
    views = pa.concat_arrays(parts)
    assert len(views.buffers()) > 3, "each part has a buffer of its own"
    groups = GroupBy("k", {"rows": "count"})
    groups.add(pa.record_batch({"k": views}))
    expected = {text: views.to_pylist().count(text) for text in views.to_pylist()}
    assert dict(zip(*pa.record_batch(groups.result()).to_pydict().values())) == expected


def test_a_schema_is_taken_alone():
    assert pa.schema(grouped()).names == ["k", "n", "rows"]


def test_polars_takes_a_batch():
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(grouped()).to_dict(as_series=False) == EXPECTED


def test_a_frame_of_polars_is_taken():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"k": ["a", "a longer text, not in the view", "a"], "n": [1, 2, 3]})
    frame = frame.with_columns(c=polars.col("k").cast(polars.Categorical))
    groups = GroupBy(["k", "c"], {"n": "sum"})
    groups.add(frame)
    assert pa.record_batch(groups.result())["n"].to_pylist() == [4, 2]
    sketch = DDSketch()
    sketch.add_many(frame["n"])
    assert (sketch.count, sketch.max) == (3, 3.0)


def test_duckdb_takes_a_batch_and_is_taken():
    duckdb = pytest.importorskip("duckdb")
    batch = grouped()
    assert duckdb.sql("SELECT sum(n), count(*) FROM batch").fetchall() == [(4, 2)], batch
    groups = GroupBy("k", {"n": "sum"})
    groups.add(duckdb.sql("SELECT range % 3 AS k, range AS n FROM range(10000)"))
    assert sum(pa.record_batch(groups.result())["n"].to_pylist()) == 49_995_000


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, 1.5, None, 2.0, 9.0]).slice(1, 3),
        pa.chunked_array([[1.5], [], [None, 2.0]]),
        pa.array([1.5, 2.0], pa.float32()),
        pa.array([1.5, 2.0, 1.5]).dictionary_encode().slice(1),
    ],
    ids=["slice", "chunks", "single", "dictionary"],
)
def test_a_sketch_takes_arrays_and_leaves_nulls_out(values):
    sketch, plain = DDSketch(), DDSketch()
    sketch.add_many(values)
    plain.add_many([value for value in values.to_pylist() if value is not None])
    assert sketch == plain and sketch.count == 2


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_whole_numbers_of_every_width_are_read_to_their_ends(bits, signed):
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    ends = [-(2 ** (bits - 1)), -1, 2 ** (bits - 1) - 1] if signed else [0, 2 ** (bits - 1), 2**bits - 1]
    values = pa.array(ends, kind)
    groups = GroupBy("k", {"least": ("v", "min"), "most": ("v", "max")})
    groups.add(pa.record_batch({"k": values, "v": values}))
    found = pa.record_batch(groups.result())
    assert [found[column].type for column in found.schema.names] == [kind] * 3
    assert [found[column].to_pylist() for column in found.schema.names] == [ends] * 3
    sketch = DDSketch()
    sketch.add_many(values)
    assert (sketch.min, sketch.max) == (float(ends[0]), float(ends[-1]))


def test_a_sketch_takes_whole_numbers_and_no_texts():
    for kind in (pa.int8(), pa.uint64(), pa.int32()):
        sketch = DDSketch()
        sketch.add_many(pa.array([1, 2, 100], kind))
        assert (sketch.count, sketch.max) == (3, 100.0)
    with pytest.raises(TypeError, match="values must be numbers, got values of type string"):
        sketch.add_many(pa.array(["1"]))
    with pytest.raises(ValueError, match="got inf"):
        sketch.add_many(pa.array([1.0, float("inf")]))
    assert sketch.count == 3


class Capsules:
    """Hands out the capsules that it was given."""

    def __init__(self, *capsules: object) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.capsules


def test_a_capsule_is_used_once():
    used = Capsules(*pa.record_batch({"k": [1]}).__arrow_c_array__())
    groups = GroupBy("k", {"rows": "count"})
    groups.add(used)
    with pytest.raises(ValueError, match="the Arrow capsule was used before"):
        groups.add(used)
    assert len(groups) == 1


@pytest.mark.parametrize("wrong", [(), (1, 2), (None,), array.array("d")])
def test_what_is_no_pair_of_capsules_is_refused(wrong):
    with pytest.raises(TypeError, match="capsule"):
        GroupBy("k", {}).add(Capsules(*wrong))


def test_capsules_in_the_wrong_place_are_refused():
    schema, batch = pa.record_batch({"k": [1]}).__arrow_c_array__()
    with pytest.raises(ValueError, match="incorrect name"):
        GroupBy("k", {}).add(Capsules(batch, schema))


def test_a_stream_that_fails_is_an_error_with_its_reason():
    def batches():
        yield pa.record_batch({"k": [1]})
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"k": pa.int64()}), batches())
    groups = GroupBy("k", {"rows": "count"})
    with pytest.raises(RuntimeError, match="its Arrow stream failed: .*the disk is gone"):
        groups.add(reader)
    assert len(groups) == 0


def test_a_batch_says_how_it_is_sent():
    with pytest.raises(TypeError, match=r"send pyarrow.record_batch\(batch\), which pickles"):
        pickle.dumps(grouped())
