"""Quantiles are within the accuracy on twenty distributions, beside exact quantiles and another implementation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from drainq.sketch import DDSketch

VALUES = 20_000
QUANTILES = (0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
ROUNDING = 1e-12

Draw = Callable[[np.random.Generator], NDArray[np.float64]]

DISTRIBUTIONS: dict[str, Draw] = {
    "uniform": lambda dice: dice.uniform(0, 1, VALUES),
    "uniform far from zero": lambda dice: dice.uniform(1e9, 1e9 + 1, VALUES),
    "normal": lambda dice: dice.normal(100, 15, VALUES),
    "normal around zero": lambda dice: dice.normal(0, 1, VALUES),
    "exponential": lambda dice: dice.exponential(3, VALUES),
    "lognormal": lambda dice: dice.lognormal(-3, 1.2, VALUES),
    "wide lognormal": lambda dice: dice.lognormal(0, 5, VALUES),
    "negative lognormal": lambda dice: -dice.lognormal(2, 1, VALUES),
    "pareto 1": lambda dice: 1 + dice.pareto(1, VALUES),
    "pareto 3": lambda dice: 1 + dice.pareto(3, VALUES),
    "gamma": lambda dice: dice.gamma(0.3, 2, VALUES),
    "beta": lambda dice: dice.beta(0.5, 0.5, VALUES),
    "weibull": lambda dice: dice.weibull(0.7, VALUES),
    "cauchy": lambda dice: dice.standard_cauchy(VALUES),
    "student t": lambda dice: dice.standard_t(2, VALUES),
    "laplace": lambda dice: dice.laplace(0, 1, VALUES),
    "poisson": lambda dice: dice.poisson(1.5, VALUES).astype(np.float64),
    "geometric": lambda dice: dice.geometric(0.01, VALUES).astype(np.float64),
    "two peaks": lambda dice: np.concatenate([dice.normal(1, 0.01, VALUES // 2), dice.normal(900, 5, VALUES // 2)]),
    "constant": lambda dice: np.full(VALUES, 4.2),
}


def drawn(name: str) -> NDArray[np.float64]:
    return DISTRIBUTIONS[name](np.random.default_rng(sorted(DISTRIBUTIONS).index(name)))


def exact(values: NDArray[np.float64], q: float) -> float:
    return float(np.quantile(values, q, method="lower"))


def test_there_are_twenty_distributions():
    assert len(DISTRIBUTIONS) == 20


@pytest.mark.parametrize("accuracy", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_each_quantile_is_within_the_accuracy(name, accuracy):
    values = drawn(name)
    sketch = DDSketch(accuracy, max_buckets=1 << 20)
    sketch.add_many(values)
    assert (sketch.count, sketch.min, sketch.max) == (VALUES, values.min(), values.max())
    for q in QUANTILES:
        true = exact(values, q)
        assert abs(sketch.quantile(q) - true) <= accuracy * abs(true) * (1 + ROUNDING), q


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_agrees_with_the_other_implementation(name):
    other = pytest.importorskip("ddsketch").DDSketch(0.01)
    values = drawn(name)
    sketch = DDSketch(0.01)
    for value in values.tolist():
        sketch.add(value)
        other.add(value)
    assert not sketch.collapsed
    assert (sketch.count, sketch.min, sketch.max) == (other.count, other._min, other._max)
    assert sketch.sum == pytest.approx(other.sum, rel=1e-9, abs=1e-6)
    for q in QUANTILES:
        ours, theirs = sketch.quantile(q), other.get_quantile_value(q)
        assert abs(ours - theirs) <= 0.0203 * max(abs(ours), abs(theirs)), q


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_sketch_of_the_parts_is_the_sketch_of_the_whole(name):
    values = drawn(name)
    whole, merged = DDSketch(), DDSketch()
    whole.add_many(values)
    for part in np.array_split(values, 7)[::-1]:
        sketch = DDSketch()
        sketch.add_many(part.tolist())
        merged.merge(DDSketch.from_bytes(sketch.to_bytes()))
    assert merged == whole
    assert merged.sum == pytest.approx(whole.sum, rel=1e-12)
