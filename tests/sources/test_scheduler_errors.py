"""SourceScheduler: the effect of a failure."""

from __future__ import annotations

import logging

import pytest

from drainq.sources import Fair, SourceScheduler
from tests.sources.by_hand import Raises, Scripted, Stock, endless


def test_a_source_that_raises_is_skipped_and_counted_and_its_share_goes_to_the_others(delivered):
    heard, down = [], [True]

    def flaky(n):
        if down[0]:
            raise ConnectionError("x is away")
        return ["x"] * n

    scheduler = SourceScheduler(
        {"x": flaky, "y": endless("y")},
        delivered,
        Fair("x", "y"),
        batch_size=4,
        on_error=lambda name, error: heard.append((name, str(error))),
    )
    assert scheduler.step() == 4
    assert delivered.items == ["y"] * 4
    assert heard == [("x", "x is away")]
    assert scheduler.stats().sources["x"].errors == 1
    down[0] = False
    assert scheduler.step() == 4
    assert delivered.items[4:] == ["x", "x", "y", "y"]


def test_a_target_that_raises_counts_its_items_as_failed_and_the_others_go_on(delivered):
    heard = []
    delivered.fail = {"x"}
    scheduler = SourceScheduler(
        {"x": endless("x"), "y": endless("y")},
        delivered,
        Fair("x", "y"),
        batch_size=4,
        on_error=lambda name, error: heard.append(name),
    )
    assert scheduler.step() == 2
    assert scheduler.step() == 2
    stats = scheduler.stats()
    assert (stats.moved, stats.failed, stats.sources["x"].failed) == (4, 4, 4)
    assert heard == ["x", "x"]


def test_errors_are_logged_when_nobody_listens(delivered, caplog):
    delivered.fail = {"x"}
    backlog = Raises(OSError("away"), 2, then=lambda: 0)
    scheduler = SourceScheduler({"x": endless("x")}, delivered, Fair("x"), batch_size=1, backlog=backlog, max_backlog=1)
    with caplog.at_level(logging.ERROR, "drainq"):
        scheduler.step()
        scheduler.step()
    assert "scheduler: x: ValueError at by_hand.py" in caplog.text
    assert "scheduler: itself: OSError at by_hand.py" in caplog.text


def test_what_a_source_gave_before_it_failed_is_moved_and_it_is_asked_anew(delivered):
    def fails(n):
        yield 1
        raise OSError("away")

    heard = []
    source = Scripted(fails, [2])
    scheduler = SourceScheduler({"x": source}, delivered, Fair("x"), on_error=lambda *both: heard.append(both[0]))
    assert [scheduler.step() for _ in range(3)] == [0, 2, 0]
    assert (delivered.items, heard) == ([1, 2], ["x"])


def test_an_on_error_that_raises_is_logged_and_stops_nothing(delivered, caplog):
    def on_error(name, error):
        raise RuntimeError("the listener too")

    delivered.fail = {"x"}
    sources = {"x": endless("x"), "y": endless("y")}
    scheduler = SourceScheduler(sources, delivered, Fair("x", "y"), batch_size=2, on_error=on_error)
    with caplog.at_level(logging.ERROR, "drainq"):
        assert scheduler.step() == 1
    assert "the listener too" in caplog.text


@pytest.mark.parametrize("interrupted", ["source", "target"])
def test_an_interrupt_loses_nothing_that_the_target_has_not_seen(interrupted):
    seen, armed, stock = [], [True], Stock("bb")

    def interrupt():
        if armed.pop() if armed else False:
            raise KeyboardInterrupt

    def y(n):
        if interrupted == "source":
            interrupt()
        return stock.get_next_batch(n)

    def target(name, items):
        if interrupted == "target" and name == "x":
            interrupt()
        seen.extend(items)

    scheduler = SourceScheduler({"x": iter("aa"), "y": y}, target, Fair("x", "y"), batch_size=4)
    with pytest.raises(KeyboardInterrupt):
        scheduler.step()
    scheduler.step()
    if interrupted == "source":
        assert sorted(seen) == ["a", "a", "b", "b"]
    else:  # what the target was interrupted on is counted as failed
        assert seen[:2] == ["b", "b"]
        assert scheduler.stats().failed == 2


def test_a_failing_target_may_have_emptied_its_list(make, background):
    """The source is told of all of its items, and may bring them again."""

    def target(name, items):
        items.clear()
        raise ValueError("no")

    source = make(Scripted([1, 2, 3]), in_flight="ack")
    scheduler = SourceScheduler({"x": source}, target, Fair("x"), on_error=lambda name, error: None)
    scheduler.step()
    background.run()
    scheduler.step()
    assert (source.stats().in_flight, scheduler.stats().sources["x"].failed) == (0, 3)
