"""A sketch reads buffers without the GIL, and iterables item by item, in each case to the last value."""

from __future__ import annotations

import array
import sys
import threading

import numpy as np
import pytest

from drainq.sketch import DDSketch


def test_an_array_without_a_buffer_is_iterated_over():
    """NumPy has arrays of types that its buffers cannot describe."""
    sketch = DDSketch()
    for kind in ("M8[s]", "m8[s]"):
        with pytest.raises(TypeError, match=r"each of values must be a number, got .*(datetime|timedelta)64"):
            sketch.add_many(np.array([1], kind))
    assert sketch.count == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs buffers that Python code makes")
def test_what_ends_a_program_is_not_taken_for_a_missing_buffer():
    class Interrupted(list):
        def __buffer__(self, flags):
            raise KeyboardInterrupt

    sketch = DDSketch()
    with pytest.raises(KeyboardInterrupt):
        sketch.add_many(Interrupted([1.0]))
    assert sketch.count == 0


@pytest.mark.parametrize("kind", ["d", "f"])
@pytest.mark.parametrize("length", [0, 1, 65_535, 65_536, 65_537, 131_072, 131_073])
def test_a_long_buffer_is_read_to_its_last_value(kind, length):
    """It is read in pieces: the last value is the greatest, the first the least."""
    values = array.array(kind, range(1, length + 1))
    sketch = DDSketch()
    sketch.add_many(values)
    assert (sketch.count, sketch.sum) == (length, length * (length + 1) / 2)
    assert (sketch.min, sketch.max) == ((1.0, float(length)) if length else (None, None))


def test_a_buffer_is_added_without_the_gil():
    before = sys.getswitchinterval()
    values, sketch, ran = np.ones(1 << 20), DDSketch(), threading.Event()
    sys.setswitchinterval(1000)  # so that the other thread runs only if the GIL is given up
    try:
        thread = threading.Thread(target=ran.set)
        thread.start()
        for _ in range(5_000):
            sketch.add_many(values)
            if ran.is_set():
                break
        assert ran.is_set()
    finally:
        sys.setswitchinterval(before)
        thread.join()


def test_a_buffer_that_is_added_again_and_again_leaves_no_object_behind():
    sketch, values = DDSketch(), array.array("d", [1.0]) * 1_000

    def added(times):
        before = sys.getallocatedblocks()
        for _ in range(times):
            sketch.add_many(values)
        return sys.getallocatedblocks() - before

    added(100)
    assert min(added(1_000) for _ in range(3)) < 100
