"""Aggregates by key are those of a plain model, and those of pyarrow."""

from __future__ import annotations

import datetime
import itertools
import math
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drainq.columns import GroupBy, TooManyGroups
from drainq.sketch import DDSketch

pa = pytest.importorskip("pyarrow")

WORDS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "ä" * 9, "a text of more than twelve bytes"]))
SMALL = st.one_of(st.none(), st.integers(-3, 3))
INTS = st.one_of(st.none(), st.integers(-(2**31), 2**31), st.sampled_from([2**62, -(2**62), 0]))
FLOATS = st.one_of(st.none(), st.integers(-1000, 1000).map(lambda whole: whole / 8))
ROWS = st.lists(st.tuples(WORDS, SMALL, INTS, FLOATS), max_size=40)
TIMES = pa.timestamp("us", "UTC")
AGGREGATES = {
    "total": ("n", "sum"),
    "n": "count",
    "rows": "count",
    "least": ("n", "min"),
    "most": ("n", "max"),
    "x": "sum",
    "low": ("x", "min"),
    "high": ("x", "max"),
    "sizes": ("x", "sketch"),
}
KEY_TYPES = [
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
]  # fmt: skip
NUMBER_TYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), TIMES, pa.timestamp("s"), pa.date32(), pa.time32("s"),
    pa.time64("us"), pa.duration("ms"), pa.dictionary(pa.int16(), pa.int64()),
]  # fmt: skip


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an array of the type, with ints as days or units of time."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(*encoded(values, kind))
    if pa.types.is_integer(kind) or not all(isinstance(value, int | None) for value in values):
        return pa.array(values, kind)
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def encoded(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Indices and dictionary, which has a null and a value that no row has."""
    others = [None, *sorted({value for value in values if value is not None}, key=repr), None]
    return pa.array([others.index(value) for value in values], kind.index_type), pa.array(others, kind.value_type)


def batches_of(rows: list[tuple], word: pa.DataType, small: pa.DataType, cuts: list[int]) -> list[pa.RecordBatch]:
    """Return the rows in batches: slices of one batch with a row more at each end."""
    padded = [("pad", 1, 99, 99.0), *rows, (None, None, None, None)]
    words, smalls, ints, floats = zip(*padded)
    words = [text.encode() if text is not None and word == pa.binary() else text for text in words]
    smalls = [abs(value) if value is not None and pa.types.is_time(small) else value for value in smalls]
    whole = pa.record_batch(
        {
            "word": array(words, word),
            "small": array(smalls, small),
            "n": pa.array(ints, pa.int64()),
            "x": pa.array(floats, pa.float64()),
        }
    )
    bounds = [1, *sorted(1 + cut % (len(rows) + 1) for cut in cuts), len(rows) + 1]
    return [whole.slice(begin, end - begin) for begin, end in itertools.pairwise(bounds)]


def modelled(batches: list[pa.RecordBatch]) -> dict[tuple, dict[str, Any]]:
    """By key, with nothing but dictionaries."""
    groups: dict[tuple, list[dict]] = {}
    for batch in batches:
        keys = zip(batch["word"].to_pylist(), (str(small) for small in batch["small"]))
        for key, n, x in zip(keys, batch["n"].to_pylist(), batch["x"].to_pylist()):
            groups.setdefault(key, []).append((n, x))
    return {key: summary(values) for key, values in groups.items()}


def summary(values: list[tuple]) -> dict[str, Any]:
    ints, floats = ([value[place] for value in values if value[place] is not None] for place in (0, 1))
    sketch = DDSketch()
    sketch.add_many(floats)
    return {
        "total": sum(ints) if ints else None, "n": len(ints), "rows": len(values),
        "least": min(ints, default=None), "most": max(ints, default=None),
        "x": sum(floats) if floats else None, "low": min(floats, default=None), "high": max(floats, default=None),
        "sizes": sketch,
    }  # fmt: skip


def found(groups: GroupBy) -> dict[tuple, dict[str, Any]]:
    """Return the results by key. Check that no key comes twice."""
    batch = pa.record_batch(groups.result())
    batch.validate(full=True)
    rows = {}
    if batch.num_rows:
        keys = zip(batch["word"].to_pylist(), (str(small) for small in batch["small"]))
        for key, row in zip(keys, batch.drop_columns(["word", "small"]).to_pylist()):
            assert key not in rows
            rows[key] = {**row, "sizes": DDSketch.from_bytes(row["sizes"])}
    assert len(rows) == len(groups) == batch.num_rows
    return rows


@settings(max_examples=300, deadline=None)
@given(ROWS, st.sampled_from(KEY_TYPES), st.sampled_from(NUMBER_TYPES), st.lists(st.integers(0), max_size=3), st.data())
def test_agrees_with_a_plain_model_whole_and_in_parts(rows, word, small, cuts, data):
    batches = batches_of(rows, word, small, cuts)
    try:
        expected = modelled(batches)
        for groups in (expected, *(modelled([batch]) for batch in batches)):
            assert all(group["total"] is None or -(2**63) <= group["total"] < 2**63 for group in groups.values())
    except AssertionError:
        return  # a sum that does not fit has a test of its own
    whole = GroupBy(["word", "small"], AGGREGATES)
    parts = [GroupBy(["word", "small"], AGGREGATES) for _ in batches]
    for batch, part in zip(batches, parts):
        whole.add(batch)
        part.add(batch)
    assert found(whole) == expected
    at_once = GroupBy(["word", "small"], AGGREGATES)
    at_once.add(pa.Table.from_batches(batches))
    assert found(at_once) == expected
    merged = GroupBy(["word", "small"], AGGREGATES)
    for part in data.draw(st.permutations(parts)):
        merged.merge(data.draw(st.sampled_from([part, part.result(), pa.record_batch(part.result())])))
    assert found(merged) == expected
    assert [found(part) for part in parts] == [modelled([batch]) for batch in batches]  # what is merged stays as it is


@settings(max_examples=200, deadline=None)
@given(ROWS.filter(bool), st.lists(st.integers(0), max_size=3))
def test_agrees_with_pyarrow(rows, cuts):
    batches = batches_of([(word, small, n and n >> 40, x) for word, small, n, x in rows], pa.string(), pa.int64(), cuts)
    table = pa.Table.from_batches(batches)
    asked = {"n": ["sum", "count", "min", "max"], "x": ["sum", "min", "max"]}
    theirs = table.group_by(["word", "small"]).aggregate(
        [(column, function) for column, of in asked.items() for function in of]
    )
    ours = GroupBy(
        ["word", "small"],
        {f"{column}_{function}": (column, function) for column, of in asked.items() for function in of},
    )
    ours.add(table)
    by_key = [("word", "ascending"), ("small", "ascending")]
    result = pa.table(ours.result()).sort_by(by_key)
    assert result.equals(theirs.select(result.column_names).sort_by(by_key))


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.bool_()])
def test_numbers_without_a_sign_and_truth_values(kind):
    top = True if pa.types.is_boolean(kind) else 2**kind.bit_width - 1
    values = pa.array([None, top, type(top)(0), top, None], kind).slice(1)
    groups = GroupBy("k", {"least": ("v", "min"), "most": ("v", "max"), "n": ("v", "count")})
    groups.add(pa.record_batch({"k": values, "v": values}))
    assert pa.record_batch(groups.result()).to_pylist() == [
        {"k": top, "least": top, "most": top, "n": 2},
        {"k": 0, "least": 0, "most": 0, "n": 1},
        {"k": None, "least": None, "most": None, "n": 0},
    ]
    assert pa.record_batch(groups.result()).schema.field("k").type == kind
    best = GroupBy("one", {"least": ("v", "min"), "most": ("v", "max")})
    best.add(pa.record_batch({"one": [1, 1, 1], "v": pa.array([top, type(top)(1), type(top)(0)], kind)}))
    assert pa.record_batch(best.result()).to_pylist() == [{"one": 1, "least": 0, "most": top}]


def test_unsigned_sums_are_unsigned_and_sums_of_floats_are_doubles():
    groups = GroupBy("k", {"u": "sum", "f": "sum", "s": ("u", "sketch"), "low": ("f", "min")})
    big = pa.array([2**63, 1], pa.uint64())
    groups.add(pa.record_batch({"k": [0, 0], "u": big, "f": pa.array([0.5, 0.25], pa.float32())}))
    batch = pa.record_batch(groups.result())
    assert [str(field.type) for field in batch.schema] == ["int64", "uint64", "double", "binary", "float"]
    assert (batch["u"].to_pylist(), batch["f"].to_pylist(), batch["low"].to_pylist()) == ([2**63 + 1], [0.75], [0.25])
    assert DDSketch.from_bytes(batch["s"][0].as_py()).max == 2.0**63


def test_a_sum_beyond_64_bits_is_an_error_and_is_kept_exactly():
    groups = GroupBy("k", {"n": "sum"})
    groups.add(pa.record_batch({"k": ["a", "a"], "n": [2**63 - 1, 5]}))
    for call in (groups.result, groups.take):
        with pytest.raises(OverflowError, match='the sum of column "n" is 9223372036854775812 in group 0'):
            call()
        assert len(groups) == 1
    groups.add(pa.record_batch({"k": ["a"], "n": [-5]}))
    assert pa.record_batch(groups.result()).to_pylist() == [{"k": "a", "n": 2**63 - 1}]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_a_sum_that_is_the_first_beyond_64_bits_is_an_error(kind):
    half = 2**62 if kind == pa.int64() else 2**63
    groups = GroupBy("k", {"n": "sum"})
    groups.add(pa.record_batch({"k": ["a", "a"], "n": pa.array([half, half], kind)}))
    with pytest.raises(OverflowError, match=f'the sum of column "n" is {2 * half} in group 0'):
        groups.result()


def test_a_sum_of_negative_numbers_beyond_64_bits_is_kept_exactly():
    groups = GroupBy("k", {"n": "sum"})
    groups.add(pa.record_batch({"k": ["a", "a", "a"], "n": [-(2**63), -1, 0]}))
    with pytest.raises(OverflowError, match='the sum of column "n" is -9223372036854775809 in group 0'):
        groups.result()
    groups.add(pa.record_batch({"k": ["a"], "n": [1]}))
    assert pa.record_batch(groups.result()).to_pylist() == [{"k": "a", "n": -(2**63)}]


def test_nan_is_no_minimum_or_maximum():
    nan = math.nan
    groups = GroupBy("k", {"low": ("x", "min"), "high": ("x", "max"), "x": "sum"})
    groups.add(pa.record_batch({"k": [1, 1, 1, 2], "x": [nan, 3.0, nan, nan]}))
    first, second = pa.record_batch(groups.result()).to_pylist()
    assert (first["low"], first["high"]) == (3.0, 3.0) and math.isnan(first["x"])
    assert (second["low"], second["high"]) == (None, None) and math.isnan(second["x"])


def test_too_many_groups_are_refused_whole_and_taken_on():
    groups = GroupBy("k", {"rows": "count"}, max_groups=3)
    groups.add(pa.record_batch({"k": [1, 2]}))
    with pytest.raises(TooManyGroups, match=r"more than 3 groups, which is max_groups: pass on what take\(\) returns"):
        groups.add(pa.record_batch({"k": [2, 3, 4]}))
    assert pa.record_batch(groups.result()).to_pydict() == {"k": [1, 2], "rows": [1, 1]}
    assert pa.record_batch(groups.take()).to_pydict() == {"k": [1, 2], "rows": [1, 1]}
    assert (len(groups), groups.max_groups) == (0, 3)
    groups.add(pa.record_batch({"k": [2, 3, 4]}))
    assert pa.record_batch(groups.take()).to_pydict() == {"k": [2, 3, 4], "rows": [1, 1, 1]}
    groups.add(pa.record_batch({"k": [1, 2]}))
    with pytest.raises(TooManyGroups):
        groups.add(pa.record_batch({"k": [3, 4]}))
    with pytest.raises(TooManyGroups):
        groups.add(pa.Table.from_batches([pa.record_batch({"k": [9]}), pa.record_batch({"k": [4]})]))
    groups.add(pa.record_batch({"k": [3, 3]}))  # the third group again, which was made for the refused batch
    assert pa.record_batch(groups.take()).to_pydict() == {"k": [1, 2, 3], "rows": [1, 1, 2]}
    assert pa.record_batch(groups.take()).to_pydict() == {"k": [], "rows": []}


def test_a_refused_batch_changes_nothing():
    groups = GroupBy("k", {"n": "sum", "x": "sketch"})
    good = {"k": ["a"], "n": [1], "x": [1.0]}
    groups.add(pa.record_batch(good))
    before = pa.record_batch(groups.result())
    for change, error, told in (
        ({"x": [math.nan]}, ValueError, 'column "x": a sketch takes finite numbers, got nan'),
        ({"x": ["a"]}, TypeError, 'column "x" is of type string: a sketch is of numbers'),
        ({"n": ["a"]}, TypeError, 'column "n" is of type string: a sum is of numbers'),
        ({"n": [1.5]}, TypeError, 'column "n" is of type double, and was int64 in the batches before'),
        ({"k": [1]}, TypeError, 'column "k" is of type int64, and was string in the batches before'),
        ({"k": [[1]]}, TypeError, 'column "k" is of type list<item: int64>: keys are'),
    ):
        with pytest.raises(error, match=told):
            groups.add(pa.table({**good, "k": ["new"], **change}))
        with pytest.raises(error):
            groups.add(pa.table({**good, **change}))
        assert pa.record_batch(groups.result()).equals(before)
    with pytest.raises(KeyError, match='batch has no column "x"'):
        groups.add(pa.record_batch({"k": ["a"], "n": [1]}))
    with pytest.raises(ValueError, match='more than one column "n"'):
        groups.add(
            pa.RecordBatch.from_arrays(
                [pa.array(["a"]), pa.array([1]), pa.array([1]), pa.array([1.0])], ["k", "n", "n", "x"]
            )
        )
    with pytest.raises(TypeError, match="keys are whole numbers, texts, days and times"):
        GroupBy("x", {"rows": "count"}).add(pa.record_batch(good))


def test_a_count_of_a_column_that_comes_and_goes_is_refused():
    groups = GroupBy("k", {"n": "count"})
    groups.add(pa.record_batch({"k": [1], "n": pa.nulls(1, pa.int8())}))
    with pytest.raises(ValueError, match='column "n" is in some batches and not in others'):
        groups.add(pa.record_batch({"k": [1]}))
    assert pa.record_batch(groups.result()).to_pylist() == [{"k": 1, "n": 0}]
    groups = GroupBy("k", {"n": "count"})
    groups.merge(pa.record_batch({"k": [1], "n": pa.nulls(1, pa.int64())}))
    assert groups.result().to_pylist() == [{"k": 1, "n": 0}]


def test_a_partial_result_that_is_none_is_refused():
    groups = GroupBy("k", {"n": "count", "s": "sketch"})
    one = DDSketch()
    one.add(1.0)
    for n, s, told in (
        (-1, one.to_bytes(), 'column "n" has the count -1'),
        (1, b"rubbish", 'column "s": sketch 0: these bytes are no sketch'),
        (1, DDSketch(0.02).to_bytes(), 'column "s": sketch 0: sketches merge if relative_accuracy'),
    ):
        with pytest.raises(ValueError, match=told):
            groups.merge(pa.record_batch({"k": ["a"], "n": [n], "s": [s]}))
    with pytest.raises(TypeError, match='column "s" is of type double: the sketches of a partial result are bytes'):
        groups.merge(pa.record_batch({"k": ["a"], "n": [1], "s": [1.0]}))
    assert len(groups) == 0
    full = DDSketch()
    full.add(1.0, count=2**63 - 1)
    full.merge(full)
    partial = pa.record_batch({"k": ["a"], "n": [1], "s": [full.to_bytes()]})
    groups.merge(partial)
    assert groups.result()["n"].to_pylist() == [1]
    groups.merge(partial)
    with pytest.raises(OverflowError, match='column "s": a sketch counts up to'):
        groups.result()


@pytest.mark.parametrize(
    "arguments, error, told",
    [
        (([], {}), ValueError, "keys must name at least one column, got none"),
        ((3, {}), TypeError, "keys must be the name of a column or a sequence of names, got 3"),
        (
            ("k", {"n": "median"}),
            ValueError,
            'aggregates\\["n"\\] must be one of sum, count, min, max, sketch, got "median"',
        ),
        (("k", {"n": 3}), TypeError, "aggregates must map names to functions or to .column, function., got 'n': 3"),
        (("k", {"k": "count"}), ValueError, 'names of their own, got "k" twice'),
        ((["k", "b", "k"], {}), ValueError, 'got "k" twice'),
    ],
)
def test_arguments_are_refused_with_their_value(arguments, error, told):
    with pytest.raises(error, match=told):
        GroupBy(*arguments)


def test_other_arguments_too():
    with pytest.raises(TypeError, match="batch must be a record batch or a table, got an array"):
        GroupBy("k", {}).add(pa.array([1]))
    with pytest.raises(TypeError, match="batch must have Arrow's PyCapsule interface"):
        GroupBy("k", {}).add({"k": [1]})
    with pytest.raises(TypeError, match="'GroupBy' object cannot be pickled or copied.*merge"):
        pickle.dumps(GroupBy("k", {}))


def test_before_the_first_batch_there_is_no_group():
    groups = GroupBy("k", {"n": "count"})
    empty = pa.record_batch(groups.result())
    assert (len(groups), empty.num_rows, empty.schema.names, groups.max_groups) == (0, 0, ["k", "n"], None)
    groups.add(pa.record_batch({"k": pa.array([], pa.string())}))
    groups.merge(empty)
    assert len(groups) == 0


def test_keys_of_dates_and_times_come_back_as_they_are():
    day, moment = datetime.date(2026, 5, 17), datetime.datetime(2026, 5, 17, 10, 5, 3, 250000, datetime.timezone.utc)
    batch = pa.record_batch({"day": [day, day], "at": pa.array([moment, None], TIMES)})
    groups = GroupBy(["day", "at"], {"rows": "count"})
    groups.add(batch)
    result = pa.record_batch(groups.result())
    assert result.schema.field("at").type == TIMES
    assert result.to_pylist() == [{"day": day, "at": moment, "rows": 1}, {"day": day, "at": None, "rows": 1}]


def test_many_groups_are_all_found_again():
    count = 100_000
    batch = pa.record_batch({"k": [f"key {place}" for place in range(count)], "n": range(count)})
    groups = GroupBy("k", {"n": "sum"})
    for _ in range(3):
        groups.add(batch)
    result = pa.record_batch(groups.result())
    assert dict(zip(*result.to_pydict().values())) == {f"key {place}": 3 * place for place in range(count)}


def test_a_result_stays_as_it_is_while_groups_go_on():
    groups = GroupBy(["word", "number"], {"total": ("n", "sum"), "mean": ("x", "sum"), "rows": "count"})
    batch = pa.record_batch({"word": ["a", None, "b"], "number": [1, 2, 3], "n": [1, 2, 3], "x": [0.5, 1.5, 2.5]})
    groups.add(batch)
    first = pa.record_batch(groups.result())
    expected = first.to_pylist()
    groups.add(batch)
    groups.add(pa.record_batch({"word": ["c"], "number": [4], "n": [4], "x": [3.5]}))
    assert first.to_pylist() == expected
    assert pa.record_batch(groups.result())["total"].to_pylist() == [2, 4, 6, 4]


def test_a_struct_that_is_a_slice_is_read_from_its_place():
    batch = pa.record_batch({"k": ["a", "b", "c", "b"], "n": [1, 2, 3, 4]}).to_struct_array()
    groups = GroupBy("k", {"n": "sum"})
    groups.add(batch.slice(1, 2))
    groups.add(batch[3:])
    assert pa.record_batch(groups.result()).to_pydict() == {"k": ["b", "c"], "n": [6, 3]}


def test_rows_are_counted_beside_merged_counts_where_no_batch_has_the_column():
    rows = pa.record_batch({"k": ["a", "b", "a"]})
    part, whole = GroupBy("k", {"n": "count"}), GroupBy("k", {"n": "count"})
    part.add(rows)
    whole.add(rows)
    whole.merge(part.result())
    whole.add(rows)
    assert sorted(zip(*pa.table(whole.result()).to_pydict().values())) == [("a", 6), ("b", 3)]
