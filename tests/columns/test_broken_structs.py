"""Structs of Arrow's C data interface that lack what the interface asks for are refused by name, and released."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from drainq.columns import GroupBy

from .c_structs import Array, Schema, Stream

pa = pytest.importorskip("pyarrow")

Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
Error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Made:
    """Structs written here, and how many of them were released."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.released: list[type] = []
        self.sizes = (ctypes.c_void_p * 1)()

    def struct(self, kind: type, **fields: Any) -> Any:
        """A struct whose release notes that it was called."""

        def release(address: int) -> None:
            kind.from_address(address).release = None
            self.released.append(kind)

        calls = {name: value for name, value in fields.items() if isinstance(value, ctypes._CFuncPtr)}
        calls["release"] = Release(release)
        plain = {name: value for name, value in fields.items() if name not in calls}
        made = kind(**plain, **{name: ctypes.cast(call, ctypes.c_void_p).value for name, call in calls.items()})
        self.made.append((made, calls))
        return made

    def schema(self, *children: Any, **fields: Any) -> Any:
        return self.struct(Schema, **{"format": b"+s", "name": b"", **self.family(Schema, children), **fields})

    def array(self, *children: Any, **fields: Any) -> Any:
        buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(self.sizes))
        self.made.append(buffers)
        own = {"length": 1, "n_buffers": 1, "buffers": buffers, **self.family(Array, children)}
        return self.struct(Array, **{**own, **fields})

    def family(self, kind: type, children: tuple[Any, ...]) -> dict[str, Any]:
        pointers = (ctypes.POINTER(kind) * max(1, len(children)))(*(ctypes.pointer(child) for child in children))
        self.made.append((children, pointers))
        return {"n_children": len(children), "children": pointers}


class Handing:
    """Hands a schema and an array out as capsules."""

    def __init__(self, schema: Any, array: Any) -> None:
        self.parts = (schema, b"arrow_schema"), (array, b"arrow_array")

    def __arrow_c_array__(self, requested_schema: object = None) -> list[object] | tuple[object, ...]:
        return tuple(new_capsule(ctypes.addressof(struct), name, None) for struct, name in self.parts)


def column(made: Made, **fields: Any) -> tuple[Any, Any]:
    return made.schema(format=b"l", name=b"k", **fields), made.array(n_buffers=2)


NOT_ITS_COLUMNS = "batch breaks Arrow's C data interface: a batch without its columns"
LACKING = {
    "an array without pointers to its columns": ({}, {"children": None}, ValueError, NOT_ITS_COLUMNS),
    "a type without pointers to its columns": ({"children": None}, {}, KeyError, 'batch has no column "k"'),
    "a type without a format": ({"format": None}, {}, ValueError, "batch breaks .* a type without a format"),
    "a type whose format is no text": ({"format": b"\xff"}, {}, ValueError, "batch breaks .* a type without a format"),
    "an array without buffers": ({}, {"buffers": None, "n_buffers": 0}, None, ""),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_batch_that_lacks_a_part_is_refused_and_released(name: str) -> None:
    of_schema, of_array, error, says = LACKING[name]
    made, groups = Made(), GroupBy("k", {"rows": "count"})
    schema, array = column(made)
    batch = Handing(made.schema(schema, **of_schema), made.array(array, **of_array))
    if error is None:
        groups.add(batch)
    else:
        with pytest.raises(error, match=says):
            groups.add(batch)
    assert len(groups) == (error is None)
    assert made.released == [Array, Schema] or made.released == [Schema, Array]


@pytest.mark.parametrize(
    ("of_column", "error", "says"),
    [
        ({"format": None}, ValueError, "a type without a format"),
        ({"name": None}, KeyError, 'no column "k"'),
        ({"name": b"\xff"}, KeyError, 'no column "k"'),
    ],
)
def test_a_column_that_lacks_a_part_is_refused(of_column: dict[str, Any], error: type[Exception], says: str) -> None:
    made, groups = Made(), GroupBy("k", {"rows": "count"})
    schema, array = made.schema(**{"format": b"l", "name": b"k", **of_column}), made.array(n_buffers=2)
    with pytest.raises(error, match=says):
        groups.add(Handing(made.schema(schema), made.array(array)))
    assert len(groups) == 0


class Streaming:
    """Hands a stream out as a capsule."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return new_capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)


@Get
def fails(stream: int, to: int) -> int:
    return 5


@Get
def ends(stream: int, to: int) -> int:
    return 0


text = ctypes.create_string_buffer(b"the disk is g\xffne")


@Error
def reason(stream: int) -> int:
    return ctypes.addressof(text)


@Error
def no_reason(stream: int) -> None:
    return None


@pytest.mark.parametrize(
    ("calls", "error", "says"),
    [
        ({"get_next": ends}, TypeError, "batch: the stream lacks get_schema or get_next: <"),
        ({"get_schema": ends}, TypeError, "batch: the stream lacks get_schema or get_next: <"),
        ({"get_schema": fails, "get_next": ends}, RuntimeError, "batch: its Arrow stream failed: no reason given$"),
        ({"get_schema": fails, "get_next": ends, "get_last_error": no_reason}, RuntimeError, "no reason given$"),
        ({"get_schema": ends, "get_next": fails, "get_last_error": reason}, RuntimeError, "the disk is g\ufffdne$"),
        ({"get_schema": ends, "get_next": ends}, ValueError, "a type without a format"),
    ],
)
def test_a_stream_that_lacks_a_part_is_refused_and_released(
    calls: dict[str, Any], error: type[Exception], says: str
) -> None:
    made, groups = Made(), GroupBy("k", {"rows": "count"})
    with pytest.raises(error, match=says):
        groups.add(Streaming(made.struct(Stream, **calls)))
    assert made.released == [Stream] and len(groups) == 0
