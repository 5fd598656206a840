"""Arrow data that breaks the C data interface is refused by name, before anything is read beyond its buffers."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from drainq.columns import GroupBy, parse_access_log
from drainq.sketch import DDSketch

from .c_structs import Array, Schema, pointer

pa = pytest.importorskip("pyarrow")


class Broken:
    """An object whose exported array was changed by `breaks`."""

    def __init__(self, whole: Any, breaks: Any) -> None:
        self.whole, self.breaks = whole, breaks

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self.whole.__arrow_c_array__()
        self.breaks(Array.from_address(pointer(array, b"arrow_array")))
        return schema, array


def batch() -> Any:
    return pa.record_batch({"k": pa.array(["a", "b", "a", "c"]), "v": pa.array([1, 2, 3, 4], pa.int64())})


def set_to(**fields: int) -> Any:
    def breaks(array: Array) -> None:
        for name, value in fields.items():
            setattr(array, name, value)

    return breaks


def in_column(place: int, breaks: Any) -> Any:
    return lambda array: breaks(array.children[place].contents)


def no_buffer(place: int) -> Any:
    def breaks(array: Array) -> None:
        array.buffers[place] = None

    return breaks


def misaligned(array: Array) -> None:
    array.buffers[1] = array.buffers[1] + 1


SHORTER = "a column that is shorter than its batch"
LENGTH = "an array with a negative or impossible length"
LACKS = "an array that lacks a buffer"
BROKEN = {
    "fewer columns than its type": (set_to(n_children=1), "a batch that has not the columns of its type"),
    "a negative number of columns": (set_to(n_children=-1), "a batch that has not the columns of its type"),
    "a negative length": (set_to(length=-1), LENGTH),
    "a negative offset": (set_to(offset=-1), LENGTH),
    "an impossible length": (set_to(length=2**62), LENGTH),
    "a batch of more rows than its columns have": (set_to(length=5), SHORTER),
    "a batch that begins too late": (set_to(offset=1), SHORTER),
    "a shorter column": (in_column(1, set_to(length=3)), SHORTER),
    "a column of negative length": (in_column(1, set_to(length=-4)), LENGTH),
    "a column without values": (in_column(1, no_buffer(1)), LACKS),
    "a column with too few buffers": (in_column(1, set_to(n_buffers=1)), LACKS),
    "a column without buffers": (in_column(1, set_to(buffers=None)), LACKS),
    "texts without their ends": (in_column(0, no_buffer(1)), LACKS),
    "texts without their bytes": (in_column(0, no_buffer(2)), LACKS),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_batch_is_refused_and_adds_nothing(name: str) -> None:
    breaks, says = BROKEN[name]
    groups = GroupBy("k", {"total": ("v", "sum")})
    for call, argument in ((groups.add, "batch"), (groups.merge, "partial")):
        with pytest.raises((ValueError, KeyError)) as caught:
            call(Broken(batch().rename_columns(["k", "total"]) if argument == "partial" else batch(), breaks))
        assert str(caught.value) == f"{argument} breaks Arrow's C data interface: {says}"
    assert len(groups) == 0
    groups.add(batch())
    assert pa.record_batch(groups.result()).to_pydict() == {"k": ["a", "b", "c"], "total": [4, 2, 4]}


def test_a_count_of_missing_values_that_is_not_known_is_looked_up() -> None:
    """-1 says so."""
    whole = pa.record_batch({"k": ["a", None, "a"], "v": pa.array([1, None, None], pa.int64())})
    groups = GroupBy("k", {"total": ("v", "sum"), "n": ("v", "count")})
    unknown = set_to(null_count=-1)
    groups.add(
        Broken(whole, lambda array: (unknown(array), in_column(0, unknown)(array), in_column(1, unknown)(array)))
    )
    assert pa.record_batch(groups.result()).to_pydict() == {"k": ["a", None], "total": [1, None], "n": [1, 0]}


def test_values_at_an_odd_address_are_refused() -> None:
    groups = GroupBy("k", {"total": ("v", "sum")})
    with pytest.raises(ValueError, match="a buffer that is not aligned to its values"):
        groups.add(Broken(batch().slice(0, 3), in_column(1, misaligned)))  # the fourth value keeps it in the buffer
    assert len(groups) == 0


def no_dictionary(array: Array) -> None:
    array.dictionary = None


def short_dictionary(array: Array) -> None:
    array.dictionary.contents.length = 2


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (no_dictionary, "a dictionary column without a dictionary"),
        (short_dictionary, "an index beyond the end of its dictionary"),
    ],
)
def test_a_broken_dictionary_is_refused(breaks: Any, says: str) -> None:
    coded = pa.record_batch({"k": pa.array(["a", "b", "a", "c"]).dictionary_encode(), "v": [1, 2, 3, 4]})
    groups = GroupBy("k", {"total": ("v", "sum")})
    with pytest.raises(ValueError, match=says):
        groups.add(Broken(coded, in_column(0, breaks)))
    assert len(groups) == 0


@pytest.mark.parametrize("of_indices", [b"tdD", b"b", b"f", b"u"])
def test_a_dictionary_whose_indices_are_no_whole_numbers_is_refused(of_indices: bytes) -> None:
    class Indexed:
        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            schema, array = coded.__arrow_c_array__()
            of_batch = Schema.from_address(pointer(schema, b"arrow_schema"))
            of_batch.children[0].contents.format = of_indices
            return schema, array

    coded = pa.record_batch({"k": pa.array(["a", "b", "a"]).dictionary_encode()})
    groups = GroupBy("k", {"n": "count"})
    with pytest.raises(
        TypeError, match=f'column "k" has the Arrow type "{of_indices.decode()}", which is not read here'
    ):
        groups.add(Indexed())
    assert len(groups) == 0


@pytest.mark.parametrize("garbage", [1, 99, -1, -128])
@pytest.mark.parametrize("values", [["a"], [b"a"], [7], [0.5]], ids=["text", "bytes", "number", "float"])
def test_what_a_missing_row_of_a_dictionary_points_to_is_anything(values: list, garbage: int) -> None:
    indices = pa.Array.from_buffers(
        pa.int8(), 3, [pa.py_buffer(b"\5"), pa.array([0, garbage, 0], pa.int8()).buffers()[1]], 1
    )
    coded = pa.DictionaryArray.from_arrays(indices, pa.array(values), safe=False)
    if not isinstance(values[0], float):
        groups = GroupBy("k", {"rows": "count", "n": ("k", "count")})
        groups.add(pa.record_batch({"k": coded}))
        found = pa.record_batch(groups.result()).to_pydict()
        assert found == {"k": [values[0], None], "rows": [2, 1], "n": [2, 0]}
    if not isinstance(values[0], str | bytes):
        sketch = DDSketch()
        sketch.add_many(coded)
        assert (sketch.count, sketch.sum) == (2, 2 * values[0])


def test_a_struct_with_missing_rows_is_no_batch() -> None:
    rows = pa.array([{"k": "a", "v": 1}, None])
    with pytest.raises(ValueError, match="a struct with missing rows is no record batch"):
        GroupBy("k", {"total": ("v", "sum")}).add(rows)


def test_lines_that_end_before_they_begin_are_refused() -> None:
    def backwards(array: Array) -> None:
        ends = ctypes.cast(array.buffers[1], ctypes.POINTER(ctypes.c_int32))
        ends[2] = -1

    with pytest.raises(ValueError, match="texts that end before they begin"):
        parse_access_log(Broken(pa.array(["a line", "another"]), backwards))
