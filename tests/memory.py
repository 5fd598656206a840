"""Reads from glibc, exact to the byte, the memory that the process has allocated outside of Python's own arenas."""

from __future__ import annotations

import ctypes
import gc

import pytest

needs_mallinfo = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc's mallinfo2")


class Mallinfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]  # fmt: skip


def in_use() -> int:
    """Run the garbage collector. Return the number of bytes that the process has allocated and not freed."""
    gc.collect()
    told = ctypes.CDLL(None).mallinfo2
    told.restype = Mallinfo
    now = told()
    return now.uordblks + now.hblkhd
