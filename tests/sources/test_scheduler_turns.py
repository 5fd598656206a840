"""One turn of the scheduler's loop: the sleep after it, its wake-ups, and a change of sources."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from drainq import Backoff
from drainq.sources import Fair, PrefetchSource, SourceScheduler, Weighted
from drainq.sources.loop_thread import FOREVER
from tests.sources.by_hand import Scripted, Stock, endless

IDLE = Backoff(1.0, 8.0, 2.0, jitter=0)


@pytest.fixture
def prefetched(background, clock):
    """Makes prefetching sources: they say by themselves when they have something."""

    def prefetched(*answers):
        return PrefetchSource(Scripted(*answers), 4, 0, executor=background, clock=clock, backoff=IDLE)

    return prefetched


def scheduler_of(sources, target, strategy, **options):
    scheduler = SourceScheduler(sources, target, strategy, idle=IDLE, **options)
    scheduler._listen()  # as the loop does when it begins
    return scheduler


def test_one_source_that_has_to_be_asked_again_keeps_the_loop_asking(delivered, prefetched):
    sources = {"x": prefetched([]), "y": Stock()}
    scheduler = scheduler_of(sources, delivered, Fair("x", "y"))
    assert [scheduler._turn(turns) for turns in (0, 1, 2, 9)] == [1.0, 2.0, 4.0, 8.0]
    scheduler.strategy = Fair("x")  # the other one is not waited for
    assert scheduler._turn(0) == FOREVER


def test_after_an_error_the_loop_tries_again_although_its_sources_would_announce_items(
    delivered, background, prefetched
):
    source = prefetched([1], [2])
    scheduler = scheduler_of({"x": source}, delivered, Fair("x"), on_error=lambda name, error: None)
    delivered.fail = {"x"}
    assert scheduler._turn(0) == FOREVER
    background.run()
    assert scheduler._turn(0) == 1.0  # the target raised
    assert scheduler._turn(0) == FOREVER


def test_an_error_of_the_strategy_is_told_and_the_loop_goes_on(delivered):
    class Wrong(Fair):
        def split(self, n, live, credits):
            raise ArithmeticError("no shares")

    heard = []
    scheduler = scheduler_of(
        {"x": Stock("a")}, delivered, Wrong("x"), on_error=lambda name, error: heard.append((name, str(error)))
    )
    assert scheduler._turn(3) == 8.0 and heard == [(None, "no shares")]


def test_the_loop_ends_when_all_sources_have_ended_unnamed_ones_too(delivered):
    scheduler = scheduler_of({"x": iter("a"), "y": iter("")}, delivered, Fair("x"))
    assert scheduler._turn(0) == 0.0
    assert scheduler._turn(0) == FOREVER  # y may have something, should a strategy name it
    scheduler.strategy = Fair("x", "y")
    assert scheduler._turn(0) is None


def test_a_source_without_items_saves_up_no_turns(delivered):
    """What it was owed while it had nothing goes to the others, and is not made up for later."""
    x, y = Stock(), endless("y")
    scheduler = SourceScheduler({"x": x, "y": y}, delivered, Fair("x", "y"), batch_size=3)
    for _ in range(4):
        assert scheduler.step() == 3
        assert scheduler._credits["x"] == 0
    assert delivered.items == ["y"] * 12
    x.items = ["x"] * 12
    for _ in range(4):
        scheduler.step()
    assert delivered.items[12:].count("x") == delivered.items[12:].count("y") == 6


def test_a_source_that_comes_again_under_its_name_begins_without_credits(delivered):
    scheduler = SourceScheduler(
        {"x": endless("x"), "y": endless("y")}, delivered, Weighted({"x": 1, "y": 2}), batch_size=1
    )
    scheduler.step()  # y goes first: two thirds are owed to it, one third to x
    scheduler.step()
    assert scheduler._credits["x"] != 0
    scheduler.strategy = Fair("y")
    scheduler.remove_source("x")
    assert "x" not in scheduler._credits


def test_a_source_that_was_removed_wakes_the_loop_no_more(delivered, background, prefetched):
    source = prefetched([1])
    scheduler = scheduler_of({"x": source, "y": Stock()}, delivered, Fair("x", "y"))
    scheduler._turn(0)
    scheduler.strategy = Fair("y")
    assert scheduler.remove_source("x") == []
    scheduler._loop._news.clear()
    background.run()
    assert not scheduler._loop._news.is_set() and len(source) == 1


def test_a_source_that_is_added_wakes_the_loop_and_so_does_a_strategy(delivered, prefetched):
    scheduler, source = SourceScheduler({"x": Stock()}, delivered, Fair("x")), prefetched()
    for change in (lambda: scheduler.add_source("y", source), lambda: setattr(scheduler, "strategy", Fair("y"))):
        scheduler._loop._news.clear()
        change()
        assert scheduler._loop._news.is_set()
    assert source._reports.listeners == (), "the loop does not run, and nothing is to be woken"


def test_a_change_of_the_sources_waits_for_the_step_as_long_as_it_is_told():
    scheduler, waits = SourceScheduler({"x": iter("")}, print, Fair("x")), []
    stepping = SimpleNamespace(acquire=lambda timeout: waits.append(timeout) or True, release=int)
    scheduler._stepping = stepping
    for name, timeout in (("a", None), ("b", 5), ("c", 1e300)):
        scheduler.add_source(name, iter(""), timeout=timeout)
        scheduler.remove_source(name, timeout=timeout)
    assert waits == [-1, -1, 5, 5, threading.TIMEOUT_MAX, threading.TIMEOUT_MAX]
