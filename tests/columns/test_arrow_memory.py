"""Every struct of Arrow's C data interface is released, whoever made it: nothing stays behind after a call."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drainq.columns import GroupBy, RecordBatch, parse_access_log, percentiles
from drainq.sketch import DDSketch
from tests.forked import in_child
from tests.memory import in_use, needs_mallinfo

from .c_structs import Array, Schema, Stream, pointer

pa = pytest.importorskip("pyarrow")

ROUNDS = 40
SIZE = 1 << 16
"""Bytes of the large part of each round: what a leak of any part of a round would add up from."""
LINE = b'::1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 17'


@pytest.fixture(autouse=True, scope="module")
def nothing_older_is_looked_at() -> Iterator[None]:
    """The collector passes over what was there before, which makes its many runs here short."""
    gc.freeze()
    yield
    gc.unfreeze()


def grown(call: Callable[[], object]) -> float:
    """Large parts that a call leaves behind."""
    for _ in range(3):
        call()
    before = in_use()
    for _ in range(ROUNDS):
        call()
    return (in_use() - before) / SIZE / ROUNDS


def large_batch(**settings: Any) -> Any:
    """Columns of ours: a text of the size, and an own name of the size."""
    groups = GroupBy("k", {"n" * SIZE: ("v", "max"), "m": ("v", "sketch")}, **settings)
    groups.add(pa.record_batch({"k": ["k" * SIZE], "v": [1]}))
    return groups.result()


def taken_apart() -> object:
    """A column that outlives the batch that it came with."""
    return pa.record_batch(large_batch()).column("k").slice(0, 1)


def refused(call: Callable[[], object], error: type[Exception]) -> Callable[[], None]:
    def refuse() -> None:
        with pytest.raises(error):
            call()

    return refuse


def failing() -> Any:
    def batches() -> Any:
        yield pa.record_batch({"k": ["k" * SIZE]})
        raise OSError("gone")

    return pa.RecordBatchReader.from_batches(pa.schema({"k": pa.string()}), batches())


OUT = {
    "unused schema": lambda: large_batch().__arrow_c_schema__(),
    "unused array": lambda: large_batch().__arrow_c_array__(),
    "unused stream": lambda: large_batch().__arrow_c_stream__(),
    "schema": lambda: pa.schema(large_batch()),
    "array": lambda: pa.record_batch(large_batch()),
    "stream": lambda: pa.table(large_batch()),
    "stream that is not read": lambda: pa.RecordBatchReader.from_stream(large_batch()),
    "stream that is read": lambda: pa.RecordBatchReader.from_stream(large_batch()).read_all(),
    "a column alone": taken_apart,
    "lines": lambda: parse_access_log(LINE.replace(b"/a", b"/" + b"a" * SIZE)),
    "bad lines": lambda: parse_access_log(b"a" * SIZE),
    "a merged partial": lambda: GroupBy("k", {"n": "count"}).merge(GroupBy("k", {"n": "count"}).result()),
    "a refused batch": refused(lambda: GroupBy("x", {}).add(pa.record_batch({"k": ["k" * SIZE]})), KeyError),
    "a failed stream": refused(lambda: GroupBy("k", {"n": "count"}).add(failing()), RuntimeError),
}


@needs_mallinfo
@pytest.mark.parametrize("name", OUT)
def test_what_is_handed_out_is_given_back(name: str) -> None:
    assert grown(OUT[name]) < 0.5


def taken_in() -> dict[str, Callable[[], object]]:
    sketch = DDSketch()
    sketch.add(1.0)
    texts, numbers = pa.array([b"k" * SIZE]), pa.array([1.5] * (SIZE // 8))
    batch = pa.record_batch({"k": texts, "v": [1]})
    chunked = pa.chunked_array([numbers, numbers])
    return {
        "batch": lambda: GroupBy("k", {"v": "sum"}).add(batch),
        "table": lambda: GroupBy("k", {"v": "sum"}).add(pa.table(batch)),
        "refused": refused(lambda: GroupBy("k", {"x": "sum"}).add(batch), KeyError),
        "numbers": lambda: DDSketch().add_many(numbers),
        "chunks": lambda: DDSketch().add_many(chunked),
        "no numbers": refused(lambda: DDSketch().add_many(texts), TypeError),
        "lines": lambda: parse_access_log(texts),
        "no lines": refused(lambda: parse_access_log(numbers), TypeError),
        "sketches": lambda: percentiles(pa.array([sketch.to_bytes()] * 9), [50]),
        "no sketches": refused(lambda: percentiles(texts, [50]), ValueError),
    }


@pytest.mark.parametrize("name", taken_in())
def test_what_is_taken_in_is_given_back(name: str) -> None:
    call = taken_in()[name]
    call()
    gc.collect()
    before = pa.total_allocated_bytes()
    calls = taken_in()
    held = pa.total_allocated_bytes()
    for _ in range(3):
        calls[name]()
    gc.collect()
    assert pa.total_allocated_bytes() == held >= before


def missing_text(size: int) -> Any:
    """A row without a value, behind which lie so many bytes: address space that nothing touches."""
    ends = pa.array([0, size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [pa.py_buffer(b"\0"), ends, pa.py_buffer(mmap.mmap(-1, size))], 1)


def test_as_many_bytes_as_a_column_of_ours_can_hold_are_taken_and_no_more() -> None:
    most = missing_text(2**31 - 1)
    with pytest.raises(ValueError, match="^line 0 is null: drop nulls first$"):
        parse_access_log(most)
    with pytest.raises(ValueError) as caught:
        parse_access_log(pa.chunked_array([most, missing_text(1)]))
    says = "lines must be at most 2147483647 bytes in one call, got 2147483648: pass slices"
    assert str(caught.value) == says


KINDS = {b"arrow_schema": Schema, b"arrow_array": Array, b"arrow_array_stream": Stream}


def inside(capsule: object, name: bytes) -> Any:
    return KINDS[name].from_address(pointer(capsule, name))


def two_rows() -> RecordBatch:
    groups = GroupBy("k", {"n": ("v", "sum"), "rows": "count"})
    groups.add(pa.record_batch({"k": ["a", None, "a"], "v": pa.array([1, None, 3], pa.int64())}))
    return groups.result()


def test_a_schema_says_all_that_the_interface_asks() -> None:
    capsule = two_rows().__arrow_c_schema__()
    schema = inside(capsule, b"arrow_schema")
    said = [schema, *(schema.children[place].contents for place in range(schema.n_children))]
    assert [(each.format, each.name, each.flags, each.n_children) for each in said] == [
        (b"+s", b"", 2, 3),
        (b"u", b"k", 2, 0),
        (b"l", b"n", 2, 0),
        (b"l", b"rows", 2, 0),
    ]
    assert [(each.metadata, each.dictionary, bool(each.release)) for each in said] == [(None, None, True)] * 4


def test_an_array_says_all_that_the_interface_asks() -> None:
    capsules = two_rows().__arrow_c_array__()
    array = inside(capsules[1], b"arrow_array")
    said = [array, *(array.children[place].contents for place in range(array.n_children))]
    assert [(each.length, each.null_count, each.offset, each.n_buffers, each.n_children) for each in said] == [
        (2, 0, 0, 1, 3),
        (2, 1, 0, 3, 0),
        (2, 1, 0, 2, 0),
        (2, 0, 0, 2, 0),
    ]
    assert [bool(each.buffers[0]) for each in said] == [False, True, True, False]
    assert [(bool(each.dictionary), bool(each.release)) for each in said] == [(False, True)] * 4


def test_columns_without_a_type_have_no_buffer() -> None:
    capsules = GroupBy("k", {"n": "count"}).result().__arrow_c_array__()
    schema, array = inside(capsules[0], b"arrow_schema"), inside(capsules[1], b"arrow_array")
    assert [schema.children[place].contents.format for place in range(schema.n_children)] == [b"n", b"n"]
    of_each = [array.children[place].contents for place in range(array.n_children)]
    assert [(each.length, each.null_count, each.n_buffers) for each in of_each] == [(0, 0, 0)] * 2


def test_a_stream_has_all_its_calls_and_no_error() -> None:
    capsule = two_rows().__arrow_c_stream__()
    stream = inside(capsule, b"arrow_array_stream")
    assert all(bool(getattr(stream, name)) for name, _ in Stream._fields_)
    last_error = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(stream.get_last_error)
    assert last_error(ctypes.addressof(stream)) is None
    get_next = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(stream.get_next)
    lengths = []
    for _ in range(3):
        array = Array()
        assert get_next(ctypes.addressof(stream), ctypes.addressof(array)) == 0
        lengths.append((array.length, array.n_children, bool(array.release)))
        release(array)
    assert lengths == [(2, 3, True), (0, 0, False), (0, 0, False)]


def release(struct: Any) -> None:
    """Release a struct, if it has content, as a consumer does."""
    if struct.release:
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(struct.release)(ctypes.addressof(struct))


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", KINDS)
def test_a_released_struct_says_so_and_is_not_released_again(name: bytes) -> None:
    def check() -> None:
        batch = two_rows()
        capsule = {
            b"arrow_schema": batch.__arrow_c_schema__,
            b"arrow_array": lambda: batch.__arrow_c_array__()[1],
            b"arrow_array_stream": batch.__arrow_c_stream__,
        }[name]()
        struct = inside(capsule, name)
        release(struct)
        assert struct.release is None
        del capsule, struct
        assert pa.record_batch(batch).num_rows == 2

    assert in_child(check) == 0
