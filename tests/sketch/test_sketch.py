"""The values of a sketch: accepted, refused, returned."""

from __future__ import annotations

import array
import copy
import math
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.sketch import DDSketch

finite = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.floats(min_value=1e-200, max_value=1e200)
values_of_all_kinds = st.lists(st.one_of(finite, sizes, sizes.map(lambda size: -size), st.just(0.0)), max_size=60)


def sketch_of(values: list[float], accuracy: float = 0.01, **settings: int) -> DDSketch:
    sketch = DDSketch(accuracy, **settings)
    sketch.add_many(values)
    return sketch


def one_by_one(values: list[float], **settings: int) -> DDSketch:
    """Return a sketch that nothing was merged into: ``add_many`` merges."""
    sketch = DDSketch(0.01, **settings)
    for value in values:
        sketch.add(value)
    return sketch


@given(st.lists(st.tuples(st.integers(1, 150), st.integers(-400, 400), st.booleans()), max_size=5), st.integers(1, 300))
def test_wide_sketches_merge_like_one_sketch_of_all(runs, max_buckets):
    base = 2 ** (2.0 ** -DDSketch().scale)
    merged, values = sketch_of([], max_buckets=max_buckets), []
    for length, start, is_negative in runs:
        part = [(-1 if is_negative else 1) * base ** (start + place) for place in range(length)]
        merged.merge(sketch_of(part, max_buckets=max_buckets))
        values += part
    assert merged == one_by_one(values, max_buckets=max_buckets)


@given(values_of_all_kinds)
def test_bytes_and_pickles_come_back_equal(values):
    sketch = sketch_of(values, max_buckets=50)
    for again in (
        DDSketch.from_bytes(sketch.to_bytes()),
        pickle.loads(pickle.dumps(sketch)),
        copy.copy(sketch),
        copy.deepcopy(sketch),
    ):
        assert again == sketch and again is not sketch
        assert (again.count, again.sum, again.collapsed) == (sketch.count, sketch.sum, sketch.collapsed)
        assert again.to_bytes() == sketch.to_bytes()


@given(st.binary(max_size=80))
def test_rubbish_is_no_sketch(data):
    for bad in (data, b"DQS\x01" + data):
        with pytest.raises(ValueError, match="these bytes are no sketch: "):
            DDSketch.from_bytes(bad)


@pytest.mark.parametrize("bad", ["text", None, bytearray(b"DQS"), 3])
def test_a_sketch_comes_from_bytes_alone(bad):
    with pytest.raises(TypeError, match="data must be bytes, got "):
        DDSketch.from_bytes(bad)


WAYS = {
    "list": list,
    "tuple": tuple,
    "generator": lambda values: (value for value in values),
    "array of doubles": lambda values: array.array("d", values),
    "array of floats": lambda values: array.array("f", values),
    "NumPy": np.array,
    "NumPy, 32 bits": lambda values: np.array(values, dtype=np.float32),
    "NumPy, each second": lambda values: np.repeat(np.array(values), 2)[::2],
    "NumPy, backwards": lambda values: np.array(values)[::-1],
    "NumPy, three dimensions": lambda values: np.array(values).reshape(1, 2, -1).transpose(2, 0, 1),
    "NumPy, two dimensions": lambda values: np.array(values).reshape(2, -1),
    "NumPy, transposed": lambda values: np.array(values).reshape(2, -1).T,
    "NumPy, other byte order": lambda values: np.array(values).astype(">f8"),
    "fractions": lambda values: [Fraction(value) for value in values],
}


@pytest.mark.parametrize("way", WAYS)
def test_values_come_in_many_ways(way):
    values = [1.0, 0.0, -2.5, 1e9, 3.0, 0.125]
    assert sketch_of(WAYS[way](values)) == sketch_of(values)


@pytest.mark.parametrize("kind", ["float64", "float32", "int16"])
def test_a_number_without_dimensions_is_one_value(kind):
    sketch = DDSketch()
    try:
        sketch.add_many(np.array(4, kind))
    except TypeError as error:
        assert kind == "int16" and "0-d array" in str(error)
    assert (sketch.count, sketch.sum) == ((0, 0.0) if kind == "int16" else (1, 4.0))


def test_integers_come_in_many_ways():
    for way in (list, tuple, np.array, lambda values: array.array("q", values)):
        assert sketch_of(way([1, 2, 3])) == sketch_of([1.0, 2.0, 3.0])
    assert sketch_of(range(1, 4)) == sketch_of([True, 2, 3.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_with_its_value_and_nothing_is_added(bad):
    sketch = sketch_of([1.0])
    for refused in (
        lambda: sketch.add(bad),
        lambda: sketch.add_many([2.0, bad]),
        lambda: sketch.add_many(np.array([2.0, bad])),
        lambda: sketch.add_many(array.array("f", [2.0, bad])),
    ):
        with pytest.raises(
            ValueError, match=f"(a sketch takes|value must be a) finite numbers?, got {str(bad).replace('nan', 'NaN')}$"
        ):
            refused()
    assert sketch == sketch_of([1.0])


@pytest.mark.parametrize("bad", ["1", None, 1j, [1.0]])
def test_what_is_no_number_is_refused_with_its_value(bad):
    sketch = DDSketch()
    with pytest.raises(TypeError, match="value must be a number, got "):
        sketch.add(bad)
    with pytest.raises(TypeError, match="each of values must be a number, got "):
        sketch.add_many([1.0, bad])
    assert sketch.count == 0


def test_an_iterable_that_raises_adds_nothing():
    def broken():
        yield 1.0
        raise KeyError("broken")

    sketch = DDSketch()
    with pytest.raises(KeyError, match="broken"):
        sketch.add_many(broken())
    with pytest.raises(TypeError, match="not iterable"):
        sketch.add_many(3.0)
    with pytest.raises(OverflowError):
        sketch.add_many([10**400])
    assert sketch.count == 0


def test_the_repr_of_a_histogram_counts_its_buckets_and_zeros():
    histogram = sketch_of([0.0, -1.5, -3.0, 1.5, 3.0, 6.0, 0.0, 0.0, 0.0]).exponential(0)
    assert repr(histogram) == "<ExponentialHistogram of scale 0: 3 positive buckets, 2 negative ones, 4 zeros>"


def test_more_than_can_be_counted_is_an_error_that_changes_nothing():
    sketch = DDSketch()
    sketch.add(1.0, count=2**63 - 1)
    sketch.add(1.0, count=2**63 - 1)
    sketch.add(2.0)
    with pytest.raises(OverflowError, match="counts up to 18446744073709551615 values"):
        sketch.merge(sketch)
    assert (sketch.count, sketch.max) == (2**64 - 1, 2.0)


def test_a_sketch_merges_with_itself():
    sketch = sketch_of([1.0, 2.0])
    sketch.merge(sketch)
    assert (sketch.count, sketch.sum) == (4, 6.0)


def test_adding_a_value_often_is_adding_it_again_and_again():
    once = DDSketch()
    once.add(0.3, count=5)
    assert once == sketch_of([0.3] * 5)


@given(values_of_all_kinds, st.integers(-10, 6))
def test_an_exponential_histogram_has_every_value_in_its_bucket(values, scale):
    histogram = sketch_of(values, max_buckets=1 << 20).exponential(scale)
    assert histogram.zero_count == values.count(0.0)
    base_log = 2.0**-scale
    for sign, offset, counts in (
        (1, histogram.positive_offset, histogram.positive_counts),
        (-1, histogram.negative_offset, histogram.negative_counts),
    ):
        magnitudes = sorted(sign * value for value in values if sign * value > 0)
        assert sum(counts) == len(magnitudes)
        assert not counts or (counts[0] and counts[-1])
        buckets = [offset + place for place, count in enumerate(counts) for _ in range(count)]
        for magnitude, bucket in zip(magnitudes, buckets):
            assert bucket * base_log - 1e-9 <= math.log2(magnitude) <= (bucket + 1) * base_log + 1e-9


def test_the_usual_bound_covers_128_powers_of_two():
    for accuracy in (0.3, 0.01, 0.001):
        sketch = sketch_of([2.0**-60, 2.0**60], accuracy)
        assert sketch.max_buckets == 128 << sketch.scale and not sketch.collapsed
    assert DDSketch(1e-5).max_buckets == 1 << 20


def test_what_collapses_is_the_smallest_and_the_sketch_says_so():
    sketch = sketch_of([float(value) for value in range(1, 10_001)], 0.01, max_buckets=64)
    assert sketch.collapsed
    assert sketch.quantile(0.9) == pytest.approx(9000, rel=0.01)
    assert sketch.quantile(0.1) > 1000 * 1.01, "no bound: too large"
    assert not sketch_of([1.0, 1000.0]).collapsed


@pytest.mark.parametrize("max_buckets", [1, 2, 30, 49, 200])
def test_the_bound_on_buckets_is_used_whole(max_buckets):
    base = 2 ** (2.0 ** -DDSketch().scale)
    middles = [base ** (place + 0.5) for place in range(300)]
    values = middles[-max_buckets:]
    for order in (values, values[::-1]):
        assert not sketch_of(order, max_buckets=max_buckets).collapsed
    for order in (middles, middles[::-1]):
        histogram = sketch_of(order, max_buckets=max_buckets).exponential()
        assert histogram.positive_offset == 300 - max_buckets
        assert histogram.positive_counts == [301 - max_buckets] + [1] * (max_buckets - 1)


def test_threads_share_a_sketch():
    sketch = DDSketch()
    values = np.arange(1.0, 50_001.0)

    def work() -> None:
        for _ in range(4):
            sketch.add_many(values)
            sketch.add(7.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sketch.count == 16 * 50_001


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, (0.01, 8192, 6)),
        ({"relative_accuracy": 0.02}, (0.02, 4096, 5)),
        ({"relative_accuracy": 0.25, "max_buckets": 7}, (0.25, 7, 1)),
    ],
)
def test_a_sketch_says_how_it_was_made_and_what_it_holds(settings, told):
    sketch = DDSketch(**settings)
    assert (sketch.relative_accuracy, sketch.max_buckets, sketch.scale) == told
    assert (sketch.count, sketch.sum, sketch.min, sketch.max, sketch.collapsed) == (0, 0.0, None, None, False)
    assert repr(sketch) == f"<DDSketch of 0 values, relative accuracy {told[0]}>"
    sketch.add(2.5, 3), sketch.add(-1, 1)
    assert (sketch.count, sketch.sum, sketch.min, sketch.max) == (4, 6.5, -1.0, 2.5)
    assert repr(sketch) == f"<DDSketch of 4 values from -1.0 to 2.5, relative accuracy {told[0]}>"
    assert (sketch.relative_accuracy, sketch.max_buckets, sketch.scale) == told


def test_a_sketch_is_a_value():
    assert sketch_of([1.0]) != sketch_of([2.0])
    assert sketch_of([1.0]) != 1.0
    with pytest.raises(TypeError, match="unhashable"):
        hash(DDSketch())


def test_the_largest_whole_numbers_of_arrow_keep_their_sign():
    pa = pytest.importorskip("pyarrow")
    for kind, values in ((pa.uint64(), [1, 2**64 - 1]), (pa.int64(), [-(2**63), 1]), (pa.uint8(), [0, 255])):
        sketch = DDSketch()
        sketch.add_many(pa.array([*values, None], kind))
        assert (sketch.count, sketch.min, sketch.max) == (2, float(values[0]), float(values[1]))
