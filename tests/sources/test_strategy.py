"""Strategies: every split adds up, follows the weights, and leaves out no source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.sources import Fair, Prefer, Weighted
from drainq.sources.scheduler_strategy import _round

NAMES = "abcdefg"


@st.composite
def trees(draw, names=tuple(NAMES)):
    """Return a strategy over distinct names, nested at random."""
    if len(names) == 1:
        return names[0]
    cut = draw(st.integers(1, len(names) - 1))
    children = [draw(trees(names[:cut])), draw(trees(names[cut:]))]
    kind = draw(st.sampled_from(["fair", "weighted", "prefer"]))
    if kind == "fair":
        return Fair(*children)
    if kind == "weighted":
        return Weighted({child: draw(st.integers(1, 9)) for child in children})
    return Prefer(children[0], otherwise=children[1])


@given(trees(), st.lists(st.tuples(st.integers(0, 50), st.sets(st.sampled_from(NAMES))), max_size=20))
def test_a_split_gives_away_everything_and_only_to_the_live(strategy, steps):
    credits = {}
    for n, live in steps:
        shares = strategy.split(n, live, credits)
        assert sum(shares.values()) == (n if live else 0)
        assert all(share >= 0 for share in shares.values())
        assert {name for name, share in shares.items() if share} <= live


@given(
    st.lists(st.one_of(st.integers(1, 20), st.floats(0.1, 20)), min_size=2, max_size=7),
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
)
def test_no_share_is_ever_further_from_its_weight_than_one_item_per_sibling(weights, steps):
    strategy = Weighted(dict(zip(NAMES, weights, strict=False)))
    given, credits = dict.fromkeys(NAMES[: len(weights)], 0), {}
    for done, n in enumerate(steps, 1):
        for name, share in strategy.split(n, set(given), credits).items():
            given[name] += share
        for name, weight in zip(NAMES, weights, strict=False):
            exact = sum(steps[:done]) * weight / sum(weights)
            assert abs(given[name] - exact) <= len(weights) - 1 + 1e-6


def test_fair_takes_turns_when_a_step_moves_one_item():
    credits, strategy = {}, Fair("a", "b", "c")
    turns = ["".join(n for n, s in strategy.split(1, {"a", "b", "c"}, credits).items() if s) for _ in range(6)]
    assert turns == ["a", "b", "c", "a", "b", "c"]


def test_a_strategy_that_is_replaced_by_an_equal_one_loses_no_turn():
    credits = {}
    turns = [max(Fair("a", "b").split(1, {"a", "b"}, credits).items(), key=lambda item: item[1])[0] for _ in range(4)]
    assert turns == ["a", "b", "a", "b"]


def test_prefer_gives_the_rest_a_turn_only_when_the_preferred_is_not_live():
    strategy = Prefer("z", otherwise=Fair("x", "y"))
    assert strategy.split(10, {"x", "y", "z"}, {}) == {"z": 10}
    assert strategy.split(10, {"x", "y"}, {}) == {"x": 5, "y": 5}
    assert Prefer("z").split(10, {"x"}, {}) == {}


def test_a_preferred_strategy_keeps_the_turns_of_its_children():
    strategy, credits = Prefer(Fair("x", "y")), {}
    assert [list(strategy.split(1, "xy", credits)) for _ in range(4)] == [["x"], ["y"], ["x"], ["y"]]


def test_strategies_nest_as_values():
    nested = Weighted({Fair("a", "b"): 3, "c": 1})
    assert nested.split(8, {"a", "b", "c"}, {}) == {"a": 3, "b": 3, "c": 2}
    assert list(nested.names()) == ["a", "b", "c"]
    assert Weighted({Fair("a", "b"): 3, "a": 1}).split(8, {"a", "b"}, {}) == {"a": 5, "b": 3}
    assert nested == Weighted({Fair("a", "b"): 3, "c": 1})
    assert nested != Weighted({Fair("b", "a"): 3, "c": 1})
    assert hash(nested) == hash(Weighted({Fair("a", "b"): 3, "c": 1}))


@pytest.mark.parametrize(
    "strategy", [Fair("x", "y"), Weighted({"x": 3, "y": 1.5}), Prefer("z", otherwise=Fair("x", Prefer("y")))]
)
def test_a_repr_reads_like_the_call_that_made_it(strategy):
    assert eval(repr(strategy)) == strategy and ("Prefer" in repr(strategy)) == ("otherwise=" in repr(strategy))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Fair(), ValueError, "at least one"),
        (lambda: Weighted({}), ValueError, "at least one"),
        (lambda: Fair("x", "x"), ValueError, "once"),
        (lambda: Weighted({"x": 0}), ValueError, "got 0 for 'x'"),
        (lambda: Weighted({"x": -1}), ValueError, "got -1"),
        (lambda: Weighted({"x": float("inf")}), ValueError, "got inf"),
        (lambda: Weighted({"x": "3"}), ValueError, "got '3'"),
        (lambda: Weighted(["x"]), TypeError, r"as {'x': 3, 'y': 1} does, got \['x'\]"),
        (lambda: Fair(3), TypeError, "got 3"),
        (lambda: Prefer(None), TypeError, "got None"),
        (lambda: Prefer("x", 5), TypeError, "got 5"),
    ],
)
def test_what_makes_no_strategy_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_of_what_cannot_be_split_evenly_the_largest_remainders_get_one_more():
    assert _round({"a": 1.4, "b": -0.4}, 1) == {"a": 1, "b": 0}
    credits = {}
    assert Weighted({"a": 16, "b": 17, "c": 17}).split(5, "abc", credits) == {"a": 1, "b": 2, "c": 2}
    assert {name: round(credit, 9) for name, credit in credits.items()} == {"a": 0.6, "b": -0.3, "c": -0.3}
