"""SourceScheduler's loop: its sleeps, wake-ups and end, and changes meanwhile."""

from __future__ import annotations

import threading

import pytest

from drainq import Backoff
from drainq.sources import Fair, PrefetchSource, SourceScheduler
from drainq.sources.loop_thread import FOREVER, Loop
from drainq.sources.scheduled_source import feed_of
from tests.sources.by_hand import HandExecutor, Raises, Scripted, Stock, endless

DelayedQueue = pytest.importorskip("drainq.delayed", reason="msgspec is for CPython with a GIL, or 3.14").DelayedQueue

# -- waiting for a step -----------------------------------------------------------------------


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_change_of_the_sources_gives_up_when_a_step_does_not_end_in_time(change):
    begun, release, went_on = threading.Event(), threading.Event(), threading.Event()

    def hangs(name, items):
        if begun.is_set():
            went_on.set()
        begun.set()
        assert release.wait(30)

    scheduler = SourceScheduler({"x": Stock("ab"), "y": Stock()}, hangs, Fair("x"), batch_size=1)
    scheduler.start()
    assert begun.wait(30)
    with pytest.raises(TimeoutError, match="a step was still under way after 0.01 s, so the sources were not changed"):
        if change == "add":
            scheduler.add_source("z", Stock(), timeout=0.01)
        else:
            scheduler.remove_source("y", timeout=0.01)
    assert set(scheduler.stats().sources) == {"x", "y"}
    release.set()
    assert went_on.wait(30), "a change that gave up holds up the next step"
    assert scheduler.close(30)
    scheduler.add_source("z", Stock(), timeout=30)
    scheduler.remove_source("y", timeout=30)
    assert set(scheduler.stats().sources) == {"x", "z"}


def test_a_loop_counts_the_turns_in_a_row_without_work_and_may_be_started_after_a_stop():
    naps, seen = iter([1e-9, 1e-9, 0.0, 1e-9, None, None]), []
    loop = Loop(
        lambda idle: seen.append(idle) or next(naps), name="turns",
        begin=lambda: seen.append("begin"), end=lambda: seen.append("end"),
    )  # fmt: skip
    for _ in range(2):
        loop.start()
        assert loop.join(30)
        assert loop.stop(30)
    assert seen == ["begin", 0, 1, 2, 0, 1, "end", "begin", 0, "end"]


def test_a_loop_sleeps_after_a_turn_without_work_unless_there_was_news_in_it():
    class News(threading.Event):
        def clear(self):
            calls.append("turn")
            super().clear()

        def wait(self, timeout=None):
            calls.append((timeout, self.is_set()))

    naps, calls = iter([0.0, 5.0, FOREVER, None]), []

    def turn(idle):
        calls.append(threading.current_thread().name)
        if idle == 0 and len(calls) > 3:
            loop.wake()
        return next(naps)

    loop = Loop(turn, name="turns", begin=int, end=int)
    loop._news = News()
    loop.start()
    assert loop.join(30) and not loop._news.is_set() and loop.stop(30)
    assert loop._news.is_set()
    assert calls == ["turn", "turns", "turn", "turns", (5.0, True), "turn", "turns", (None, False), "turn", "turns"]


# -- the loop ---------------------------------------------------------------------------------


def test_a_turn_says_how_long_the_loop_may_sleep(make, delivered):
    told = make(Scripted())
    backlog, down = [0], Raises(OSError("away"), 1, then=lambda n: [])
    for sources, over, sleeps in (
        ({"x": told}, 0, [FOREVER, FOREVER]),  # it announces its items
        ({"x": told}, 5, [0.1, 0.4]),  # nobody tells when the backlog is smaller
        ({"x": told, "y": down}, 0, [0.1, 0.4]),
        ({"x": told, "y": Stock("a")}, 0, [0.0, 0.1, 0.4]),
        ({"x": told, "y": Scripted(None)}, 0, [FOREVER]),  # nothing comes from the one that would have to be polled
        ({"x": told, "y": Scripted([])}, 0, [0.1, 0.4, 0.8, 0.8]),
        ({"x": Scripted(None)}, 0, [None]),
    ):
        idle = Backoff(0.1, 0.8, 4.0, jitter=0)
        scheduler = SourceScheduler(
            sources, delivered, Fair(*sources), backlog=lambda: backlog[0], max_backlog=5, idle=idle,
            on_error=lambda *_: None,
        )  # fmt: skip
        backlog[0] = over
        scheduler._listen()
        idle_turns, slept = 0, []
        for _ in sleeps:
            slept.append(scheduler._turn(idle_turns))
            idle_turns = idle_turns + 1 if slept[-1] else 0
        assert slept == sleeps
    scheduler, before = SourceScheduler({"x": endless("x")}, delivered, Fair("x")), len(delivered.calls)
    scheduler._asking = 1  # another thread is to get the lock
    assert scheduler._turn(0) == 0.001 and len(delivered.calls) == before


def test_the_loop_moves_everything_and_ends_with_its_sources(delivered):
    sources = {"x": PrefetchSource(iter(range(5000)), 200, 50), "y": iter("abc"), "z": Stock("d", ended=True)}
    scheduler = SourceScheduler(sources, delivered, Fair("x", "y", "z"), batch_size=70)
    scheduler.start()
    assert scheduler.join(60)
    assert sorted(map(str, delivered.items)) == sorted([*map(str, range(5000)), "a", "b", "c", "d"])
    assert scheduler.stats().moved == 5004


def test_the_loop_sleeps_until_a_source_has_items():
    gate, asleep, arrived = threading.Event(), threading.Event(), threading.Event()

    def slow(n):
        asleep.set()
        assert gate.wait(30)
        return ["late"]

    source = PrefetchSource(slow, 4, 0)
    scheduler = SourceScheduler({"x": source}, lambda name, items: arrived.set(), Fair("x"))
    scheduler.start()
    assert asleep.wait(30)
    steps = scheduler.stats().steps
    gate.set()
    assert arrived.wait(30)
    assert steps <= 3  # it did not spin while the source was slow
    assert scheduler.close(30)
    assert source.close(30)


def test_stop_delivers_the_batch_in_hand():
    taken, release, seen = threading.Event(), threading.Event(), []

    def source(n):
        taken.set()
        assert release.wait(30)
        return ["a"]

    scheduler = SourceScheduler({"x": source}, lambda name, items: seen.extend(items), Fair("x"), batch_size=1)
    scheduler.start()
    assert taken.wait(30)
    assert not scheduler.close(timeout=0)
    release.set()
    assert scheduler.close(timeout=30)
    assert seen == ["a"]


def test_the_loop_survives_errors_and_may_be_started_again(delivered):
    enough = threading.Event()

    class Bad(Fair):
        def split(self, n, live, credits):
            enough.set()
            raise RuntimeError("bad strategy")

    scheduler = SourceScheduler(
        {"x": iter("ab")}, delivered, Bad("x"), on_error=lambda *_: None, idle=Backoff(0.001, 0.001)
    )
    scheduler.start()
    scheduler.start()  # it runs already
    assert enough.wait(30)
    scheduler.strategy = Fair("x")
    assert scheduler.join(30)
    assert delivered.items == ["a", "b"]
    scheduler.start()
    assert scheduler.join(30)


def test_a_target_may_stop_the_loop_without_waiting_for_itself():
    answers = []

    def target(name, items):
        answers.append(scheduler.close())

    scheduler = SourceScheduler({"x": endless("x")}, target, Fair("x"))
    scheduler.start()
    assert scheduler.join(30)
    assert answers == [False]


def test_sources_can_be_changed_while_the_loop_is_busy():
    enough, release = threading.Event(), threading.Event()
    seen = {"x": 0, "y": 0}

    def target(name, items):
        seen[name] += len(items)
        if min(seen.values()) > 100:
            enough.set()

    scheduler = SourceScheduler({"x": endless("x")}, target, Fair("x"), batch_size=5)
    with scheduler:
        scheduler.add_source("y", endless("y"))
        scheduler.strategy = Fair("x", "y")
        assert enough.wait(30)
        scheduler.strategy = Fair("y")
        scheduler.remove_source("x")
        release.set()
    stats = scheduler.stats()
    assert set(stats.sources) == {"y"}
    assert stats.sources["y"].moved == seen["y"]


def test_a_scheduler_that_is_not_started_can_be_stopped(delivered):
    assert SourceScheduler({"x": Stock()}, delivered, Fair("x")).close()


def test_a_running_loop_listens_to_an_added_source_and_a_stopped_one_to_none():
    first, late = (PrefetchSource(Scripted([]), 10, 2, executor=HandExecutor()) for _ in range(2))
    with SourceScheduler({"x": first}, lambda name, items: None, Fair("x")) as scheduler:
        scheduler.add_source("y", late)
        assert scheduler._plan.accounts["y"].announces and late._reports.listeners == (scheduler.wake,)
        assert scheduler.join(0) is late.wait(0) is False
    assert first._reports.listeners == late._reports.listeners == ()


def test_what_a_source_gets_back_comes_first_and_before_its_end():
    feed = feed_of(lambda n: None)
    assert feed.take(1) == [] and feed.ended
    for items in ([2, 3], [0, 1]):
        feed.give_back(items)
    assert not feed.ended and feed.take(3) == [0, 1, 2] and feed.take(3) == [3] and feed.ended


def test_a_delayed_queue_that_has_nothing_leaves_no_lease_to_give_back():
    with DelayedQueue.open("memory:", "mail") as queue:
        feed = feed_of(queue)
        assert feed.take(3) == feed._leased == []


def test_what_one_delayed_queue_delivers_acknowledges_no_message_of_another():
    with DelayedQueue.open("memory:", "mail") as mail, DelayedQueue.open("memory:", "bills") as bills:
        feeds = [feed_of(queue) for queue in (mail, bills)]
        for queue in (mail, bills):
            queue.offer("a", queue.name)
        assert [feed.take(5) for feed in feeds] == [["mail"], ["bills"]]
        feeds[0].delivered(["mail"])
        assert (mail.stats().in_flight, bills.stats().in_flight) == (0, 1)
        feeds[1].failed(["bills"])
        assert bills.try_poll().payload == "bills" and not mail.contains_message("a")
