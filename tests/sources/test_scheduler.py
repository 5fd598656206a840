"""SourceScheduler: the items that one step moves, and refused arguments."""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.sources import Fair, Prefer, SourceScheduler, Weighted
from drainq.sources.scheduler_strategy import checked_split
from tests.sources.by_hand import Delivered, Scripted, Stock, endless

# -- one step ---------------------------------------------------------------------------------


def test_a_step_gives_each_sources_share_in_one_call(delivered):
    scheduler = SourceScheduler({"x": endless("x"), "y": endless("y")}, delivered, Fair("x", "y"), batch_size=10)
    assert scheduler.step() == 10
    assert delivered.calls == [("x", ["x"] * 5), ("y", ["y"] * 5)]


def test_unused_shares_go_to_the_others(delivered):
    sources = {"x": Stock("ab"), "y": Stock("cdefghijkl"), "z": Stock("")}
    scheduler = SourceScheduler(sources, delivered, Fair("x", "y", "z"), batch_size=9)
    assert scheduler.step() == 9
    assert delivered.calls == [("x", ["a", "b"]), ("y", list("cdefghi"))]


def test_prefer_empties_the_preferred_first(delivered):
    sources = {"x": Stock("xxx"), "y": Stock("yyy"), "z": Stock("zzzz")}
    scheduler = SourceScheduler(sources, delivered, Prefer("z", otherwise=Fair("x", "y")), batch_size=6)
    assert scheduler.step() == 6
    assert dict(delivered.calls) == {"z": list("zzzz"), "x": ["x"], "y": ["y"]}


def test_a_source_that_the_strategy_does_not_name_is_not_asked(delivered):
    unused = Stock("a")
    scheduler = SourceScheduler({"x": Stock("x"), "unused": unused}, delivered, Fair("x"))
    scheduler.step()
    assert unused.asked == 0


@given(
    stocks=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 40), min_size=1),
    batch_size=st.integers(1, 25),
    weights=st.lists(st.integers(1, 5), min_size=4, max_size=4),
)
def test_steps_conserve_work_order_and_every_item(stocks, batch_size, weights):
    delivered = Delivered()
    sources = {name: Stock([(name, i) for i in range(n)]) for name, n in stocks.items()}
    strategy = Weighted(dict(zip(stocks, weights, strict=False)))
    scheduler = SourceScheduler(sources, delivered, strategy, batch_size=batch_size)
    left = sum(stocks.values())
    while left:
        assert scheduler.step() == min(batch_size, left)
        left -= min(batch_size, left)
    assert scheduler.step() == 0
    for name, n in stocks.items():
        assert [item for item in delivered.items if item[0] == name] == [(name, i) for i in range(n)]
        assert scheduler.stats().sources[name].moved == n


def test_what_a_source_returns_beyond_its_share_is_held_and_comes_first(delivered):
    source = Scripted(list("abcde"), list("fg"))
    scheduler = SourceScheduler({"x": source}, delivered, Fair("x"), batch_size=2)
    assert [scheduler.step() for _ in range(5)] == [2, 2, 2, 1, 0]
    assert delivered.items == list("abcdefg") and scheduler.stats().steps == 5
    assert source.asked == [2, 1, 1, 2]


def test_iterators_end_and_are_not_asked_again(delivered):
    sources = {"x": iter("abc"), "y": Stock("d", ended=True)}
    scheduler = SourceScheduler(sources, delivered, Fair("x", "y"), batch_size=9)
    assert scheduler.step() == 4
    assert scheduler.step() == 0
    assert all(counts.ended for counts in scheduler.stats().sources.values())


def test_a_swap_of_strategy_takes_effect_at_the_next_step(delivered):
    scheduler = SourceScheduler({"x": endless("x"), "y": endless("y")}, delivered, Fair("x"), batch_size=2)
    scheduler.step()
    scheduler.strategy = Prefer("y")
    scheduler.step()
    assert delivered.items == ["x", "x", "y", "y"]


def test_sources_come_and_go(delivered):
    scheduler = SourceScheduler({"x": lambda n: list("abcd")}, delivered, Fair("x"), batch_size=1)
    scheduler.step()
    scheduler.add_source("y", endless("y"))
    scheduler.strategy = Fair("y")
    scheduler.step()
    assert scheduler.remove_source("x") == ["b", "c", "d"]
    assert delivered.items == ["a", "y"]
    with pytest.raises(ValueError, match="names 'y'"):
        scheduler.remove_source("y")
    with pytest.raises(ValueError, match="already"):
        scheduler.add_source("y", endless("y"))


# -- bad input --------------------------------------------------------------------------------


def test_an_unknown_name_in_a_strategy_is_refused_when_it_is_set(delivered):
    with pytest.raises(ValueError, match=r"names 'nope', but the sources are \['x'\]"):
        SourceScheduler({"x": Stock()}, delivered, Fair("x", Prefer("nope")))
    scheduler = SourceScheduler({"x": Stock("a")}, delivered, Fair("x"))
    with pytest.raises(ValueError, match="nope"):
        scheduler.strategy = Fair("nope")
    assert scheduler.strategy == Fair("x")
    with pytest.raises(TypeError, match="'x'"):
        scheduler.strategy = "x"


def test_a_target_of_whose_call_nothing_has_run_has_taken_nothing():
    async def send(name, items):
        raise AssertionError(items)

    heard = []
    scheduler = SourceScheduler(
        {"a": iter([1, 2])}, lambda name, items: send(name, items), Fair("a"), on_error=lambda *both: heard.append(both)
    )
    assert scheduler.step() == 0
    assert (scheduler.stats().moved, scheduler.stats().failed) == (0, 2)
    [(name, error)] = heard
    assert name == "a" and str(error).startswith("the target returned <coroutine object")


def test_a_name_that_no_strategy_can_name_is_refused(delivered):
    with pytest.raises(TypeError, match="name of a source must be a str, got 1"):
        SourceScheduler({1: Stock()}, delivered, Fair("x"))
    with pytest.raises(TypeError, match=r"sources must be a dict of names and sources, got \['x'\]"):
        SourceScheduler(["x"], delivered, Fair("x"))
    with pytest.raises(KeyError, match=r"no source 'q'; the sources are \['x'\]"):
        SourceScheduler({"x": Stock()}, delivered, Fair("x")).remove_source("q")


def test_what_a_source_answers_must_be_items(delivered):
    heard = []
    scheduler = SourceScheduler(
        {"x": lambda n: "abc"},
        delivered,
        Fair("x"),
        on_error=lambda name, error: heard.append((name, isinstance(error, TypeError))),
    )
    assert scheduler.step() == 0
    assert heard == [("x", True)]


def test_an_endless_answer_is_read_one_item_beyond_what_was_asked_for(delivered):
    given = []

    def endless_answer(n):
        for number in itertools.count():
            given.append(number)
            yield number

    scheduler = SourceScheduler({"x": endless_answer}, delivered, Fair("x"), batch_size=3)
    for steps in (1, 2, 3):
        assert scheduler.step() == 3
        assert len(given) == 3 * steps + 1
    assert delivered.items == list(range(9))


# -- a strategy of one's own ------------------------------------------------------------------


class Own:
    """A strategy that splits as it is told."""

    def __init__(self, *names, split=lambda n, live, credits: {}):
        self._names, self.split = names, split

    def names(self):
        return iter(self._names)

    def __repr__(self):
        return "Own()"


@pytest.mark.parametrize(
    ("shares", "error", "says"),
    [
        ({"x": -1}, ValueError, r"Own\(\).split\(10, \['x'\], ...\) must return numbers of items >= 0, got -1 for 'x'"),
        ({"q": 10}, ValueError, r"gives 10 to 'q', but its names\(\) are \['x'\]"),
        ({"x": 11}, ValueError, "gives away 11 items, but there are only 10"),
        ({"x": 2.5}, TypeError, "whole numbers of items, got 2.5 for 'x'"),
        ({"x": True}, TypeError, "whole numbers of items, got True for 'x'"),
        (None, TypeError, "must return a dict .* got None"),
    ],
)
def test_a_split_that_makes_no_sense_is_an_error_and_the_step_ends(delivered, shares, error, says):
    source = Stock("ab")
    scheduler = SourceScheduler({"x": source}, delivered, Own("x", split=lambda *_: shares), batch_size=10)
    with pytest.raises(error, match=says):
        scheduler.step()
    scheduler.strategy = Fair("x")
    assert scheduler.step() == 2


def test_a_share_of_nothing_is_asked_of_no_source():
    given = {"x": 0, "y": 2, "z": 1}
    strategy = Own("x", "y", "z", split=lambda *_: given)
    assert checked_split(strategy, 3, {"x", "y"}, {}) == {"y": 2}


def test_an_error_in_a_later_split_gives_back_what_was_taken(delivered):
    splits = [{"x": 3}, {"x": -1}]
    sources = {"x": Stock("ab"), "y": Stock("c")}
    scheduler = SourceScheduler(sources, delivered, Own("x", "y", split=lambda *_: splits.pop(0)), batch_size=10)
    with pytest.raises(ValueError, match="got -1"):
        scheduler.step()
    scheduler.strategy = Fair("x", "y")
    assert scheduler.step() == 3
    assert delivered.items == ["a", "b", "c"]


def test_what_was_given_back_to_a_source_that_has_ended_is_still_to_come(make, background, delivered):
    def split(*_):
        background.run()
        return splits.pop(0)

    splits = [{"x": 3}, {"x": -1}]
    ended = make(iter("ab"))
    scheduler = SourceScheduler({"x": ended, "y": Stock("c")}, delivered, Own("x", "y", split=split), batch_size=10)
    ended.get_next_batch(0)
    with pytest.raises(ValueError, match="got -1"):
        scheduler.step()
    assert ended.finished and not scheduler.stats().sources["x"].ended
    scheduler.strategy = Fair("x", "y")
    assert scheduler.step() == 3
    assert delivered.items == ["a", "b", "c"] and scheduler.stats().sources["x"].ended


def test_a_strategy_that_gives_to_a_source_without_items_moves_nothing_for_it(delivered):
    sources = {"x": Stock(""), "y": Stock("abc")}
    scheduler = SourceScheduler(sources, delivered, Own("x", "y", split=lambda *_: {"x": 1}), batch_size=10)
    assert scheduler.step() == 0
    assert scheduler.step() == 0


def test_a_source_that_is_removed_while_a_strategy_names_it_stays_or_the_strategy_is_refused(delivered):
    asked, go = threading.Event(), threading.Event()

    class Slow(Own):
        def names(self):
            yield "y"
            asked.set()
            assert go.wait(30)

    scheduler = SourceScheduler({"x": Stock("x"), "y": Stock("y")}, delivered, Fair("x"))
    refused = []

    def set_strategy():
        try:
            scheduler.strategy = Slow("y")
        except ValueError as error:
            refused.append(str(error))

    setter = threading.Thread(target=set_strategy)
    setter.start()
    assert asked.wait(30)
    assert scheduler.remove_source("y") == []
    go.set()
    setter.join(30)
    assert refused == ["Own() names 'y', but the sources are ['x']"]
    assert scheduler.strategy == Fair("x")
    assert scheduler.step() == 1
