"""SourceScheduler: what one step moves, what a failure costs, when the loop sleeps and wakes."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq import Backoff, Fair, ItemState, ItemTracker, Prefer, PrefetchSource, SourceScheduler, Weighted
from drainq.sources.tracker.store import MemoryStore


class Stock:
    """A source that holds what it was given."""

    def __init__(self, items=(), *, ended=False):
        self.items = list(items)
        self.ended = ended
        self.asked = 0

    def get_next_batch(self, batch_size):
        self.asked += 1
        if self.ended and not self.items:
            return None
        batch, self.items = self.items[:batch_size], self.items[batch_size:]
        return batch


class Delivered:
    """A target that remembers, and fails on request."""

    def __init__(self):
        self.calls = []
        self.fail = set()

    def __call__(self, name, items):
        if name in self.fail:
            raise ValueError(f"no {name} today")
        self.calls.append((name, list(items)))

    @property
    def items(self):
        return [item for _, items in self.calls for item in items]


@pytest.fixture
def delivered():
    return Delivered()


def endless(letter):
    return lambda n: [letter] * n


# -- one step -------------------------------------------------------------------------------


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
    answers = [list("abcde"), list("fg")]
    scheduler = SourceScheduler({"x": lambda n: answers.pop(0) if answers else []}, delivered, Fair("x"), batch_size=2)
    assert [scheduler.step() for _ in range(5)] == [2, 2, 2, 1, 0]
    assert delivered.items == list("abcdefg")


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


# -- bad input ------------------------------------------------------------------------------


def test_an_unknown_name_in_a_strategy_is_refused_when_it_is_set(delivered):
    with pytest.raises(ValueError, match=r"names 'nope', but the sources are \['x'\]"):
        SourceScheduler({"x": Stock()}, delivered, Fair("x", Prefer("nope")))
    scheduler = SourceScheduler({"x": Stock("a")}, delivered, Fair("x"))
    with pytest.raises(ValueError, match="nope"):
        scheduler.strategy = Fair("nope")
    assert scheduler.strategy == Fair("x")
    with pytest.raises(TypeError, match="'x'"):
        scheduler.strategy = "x"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 0}, "got 0"),
        ({"batch_size": True}, "got True"),
        ({"backlog": lambda: 0}, "go together"),
        ({"max_backlog": 3}, "go together"),
        ({"backlog": lambda: 0, "max_backlog": 0}, "got 0"),
        ({"backlog": lambda: 0, "max_backlog": 5, "resume_backlog": 5}, "got 5"),
        ({"resume_backlog": 5}, "got 5"),
    ],
)
def test_options_out_of_range_are_refused(delivered, options, says):
    with pytest.raises(ValueError, match=says):
        SourceScheduler({"x": Stock()}, delivered, Fair("x"), **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"backlog": 3, "max_backlog": 3}, "backlog must be callable, got 3"),
        ({"item_key": 3}, "item_key must be callable, got 3"),
        ({"on_error": 3}, "on_error must be callable, got 3"),
        ({"idle": 3}, r"idle must be a drainq.Backoff, .* got 3"),
        ({"tracker": 3}, "tracker must be a drainq.ItemTracker, .* got 3"),
        ({"backlog": lambda: 0, "max_backlog": "3"}, "max_backlog must be a number of items, got '3'"),
    ],
)
def test_an_argument_that_would_fail_later_is_refused_now(delivered, options, says):
    with pytest.raises(TypeError, match=says):
        SourceScheduler({"x": Stock()}, delivered, Fair("x"), **options)


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
        {"x": lambda n: "abc"}, delivered, Fair("x"), on_error=lambda name, error: heard.append((name, type(error)))
    )
    assert scheduler.step() == 0
    assert heard == [("x", TypeError)]


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


def test_what_is_no_source_or_target_is_refused(delivered):
    with pytest.raises(TypeError, match="got 3"):
        SourceScheduler({"x": 3}, delivered, Fair("x"))
    with pytest.raises(TypeError, match="got None"):
        SourceScheduler({"x": Stock()}, None, Fair("x"))


# -- back-pressure --------------------------------------------------------------------------


def test_a_step_moves_at_most_what_the_backlog_leaves_room_for(delivered):
    backlog = [97]
    scheduler = SourceScheduler(
        {"x": endless("x")}, delivered, Fair("x"), batch_size=10, backlog=lambda: backlog[0], max_backlog=100
    )
    moved = []
    for backlog[0] in (97, 100, 250, 99, 0):
        moved.append(scheduler.step())
    assert moved == [3, 0, 0, 1, 10]


def test_with_a_low_water_mark_a_full_target_is_left_alone_until_it_is_down_to_it(delivered):
    backlog = [0]
    scheduler = SourceScheduler(
        {"x": endless("x")},
        delivered,
        Fair("x"),
        batch_size=10,
        backlog=lambda: backlog[0],
        max_backlog=100,
        resume_backlog=50,
    )
    moved = []
    for backlog[0] in (95, 100, 99, 51, 50, 99, 100, 60):
        moved.append(scheduler.step())
    assert moved == [5, 0, 0, 0, 10, 1, 0, 0]
    assert scheduler.stats().paused


def test_a_backlog_that_raises_moves_nothing_and_is_heard_of(delivered):
    heard = []

    def backlog():
        raise ConnectionError("target is away")

    scheduler = SourceScheduler(
        {"x": endless("x")},
        delivered,
        Fair("x"),
        backlog=backlog,
        max_backlog=10,
        on_error=lambda name, error: heard.append((name, str(error))),
    )
    assert scheduler.step() == 0
    assert heard == [(None, "target is away")]


def test_a_tracker_makes_the_backlog_a_credit_window(delivered):
    tracker = ItemTracker.open("memory:")
    scheduler = SourceScheduler(
        {"x": iter(range(100))}, delivered, Fair("x"), backlog=tracker.in_flight, max_backlog=3, tracker=tracker
    )
    assert [scheduler.step() for _ in range(2)] == [3, 0]
    tracker.mark("x", ["0", "1"], ItemState.DONE)
    assert scheduler.step() == 2
    assert tracker.counts()["x"] == {
        ItemState.SCHEDULED: 0,
        ItemState.SENT: 3,
        ItemState.DONE: 2,
        ItemState.FAILED: 0,
    }


@pytest.mark.parametrize("answer", [None, "2", 3.5, float("nan"), float("inf"), -5, True])
def test_a_backlog_that_is_no_number_of_items_moves_nothing_and_is_heard_of(delivered, answer):
    heard = []
    scheduler = SourceScheduler(
        {"x": endless("x")}, delivered, Fair("x"), backlog=lambda: answer, max_backlog=8,
        on_error=lambda name, error: heard.append((name, str(error))),
    )  # fmt: skip
    assert scheduler.step() == 0
    ((name, said),) = heard
    assert name is None
    assert "backlog()" in said
    assert repr(answer) in said
    assert scheduler.stats().errors == 1


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


def test_an_error_in_a_later_split_gives_back_what_was_taken(delivered):
    splits = [{"x": 3}, {"x": -1}]
    sources = {"x": Stock("ab"), "y": Stock("c")}
    scheduler = SourceScheduler(sources, delivered, Own("x", "y", split=lambda *_: splits.pop(0)), batch_size=10)
    with pytest.raises(ValueError, match="got -1"):
        scheduler.step()
    scheduler.strategy = Fair("x", "y")
    assert scheduler.step() == 3
    assert delivered.items == ["a", "b", "c"]


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


# -- waiting for a step -----------------------------------------------------------------------


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_change_of_the_sources_gives_up_when_a_step_does_not_end_in_time(change):
    begun, release = threading.Event(), threading.Event()

    def hangs(name, items):
        begun.set()
        assert release.wait(30)

    scheduler = SourceScheduler({"x": Stock("a"), "y": Stock()}, hangs, Fair("x"))
    scheduler.start()
    assert begun.wait(30)
    with pytest.raises(TimeoutError, match="still under way after 0.01 s"):
        if change == "add":
            scheduler.add_source("z", Stock(), timeout=0.01)
        else:
            scheduler.remove_source("y", timeout=0.01)
    assert set(scheduler.stats().sources) == {"x", "y"}
    release.set()
    assert scheduler.stop(30)
    scheduler.add_source("z", Stock(), timeout=30)
    scheduler.remove_source("y", timeout=30)
    assert set(scheduler.stats().sources) == {"x", "z"}


# -- errors ---------------------------------------------------------------------------------


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
    scheduler = SourceScheduler({"x": endless("x")}, delivered, Fair("x"), batch_size=1)
    with caplog.at_level(logging.ERROR, "drainq"):
        scheduler.step()
    assert "no x today" in caplog.text


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
    seen, armed = [], [True]

    def interrupt():
        if armed.pop() if armed else False:
            raise KeyboardInterrupt

    def y(n):
        if interrupted == "source":
            interrupt()
        return list("bb")[:n]

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


# -- sources with a mind of their own -------------------------------------------------------


def test_a_prefetching_source_is_pulled_and_refilled(delivered, background, clock):
    source = PrefetchSource(iter(range(10)), 6, 2, executor=background, clock=clock)
    scheduler = SourceScheduler({"x": source}, delivered, Fair("x"), batch_size=4)
    moved = [scheduler.step()]
    for _ in range(4):
        background.run()
        moved.append(scheduler.step())
    assert delivered.items == list(range(10))
    assert moved == [0, 4, 4, 2, 0]


def test_items_on_which_the_target_raised_may_be_fetched_again(delivered, background, clock):
    source = PrefetchSource(lambda n: [1], 4, 1, in_flight="ack", executor=background, clock=clock)
    scheduler = SourceScheduler({"x": source}, delivered, Fair("x"), on_error=lambda name, error: None)
    delivered.fail = {"x"}
    scheduler.step()
    background.run()
    assert scheduler.step() == 0
    assert source.stats().in_flight == 0
    delivered.fail = set()
    background.run()
    assert scheduler.step() == 1
    assert source.stats().in_flight == 1


class Envelope:
    def __init__(self, queue, payload):
        self.queue, self.payload = queue, payload

    def ack(self):
        self.queue.acked += self.payload

    def nack(self):
        self.queue.items = self.payload + self.queue.items


class Delayed:
    """What the scheduler needs to see of a delayed queue."""

    def __init__(self, items):
        self.items = list(items)
        self.acked = []

    def try_poll_many(self, n):
        batch, self.items = self.items[:n], self.items[n:]
        return Envelope(self, batch)


def test_a_delayed_queue_is_acknowledged_when_the_target_has_the_messages(delivered):
    queue = Delayed("abc")
    scheduler = SourceScheduler({"mail": queue}, delivered, Fair("mail"), batch_size=2, on_error=lambda *_: None)
    delivered.fail = {"mail"}
    assert scheduler.step() == 0
    assert (queue.items, queue.acked) == (list("abc"), [])
    delivered.fail = set()
    assert scheduler.step() == 2
    assert (queue.items, queue.acked) == (["c"], ["a", "b"])


# -- the tracker ----------------------------------------------------------------------------


def test_the_tracker_sees_each_item_from_scheduled_to_sent_or_failed(delivered):
    tracker, states = ItemTracker.open("memory:"), []
    delivered.fail = {"y"}

    def target(name, items):
        states.append([tracker.state(name, str(item)) for item in items])
        delivered(name, items)

    scheduler = SourceScheduler(
        {"x": iter([1]), "y": iter([2])}, target, Fair("x", "y"), tracker=tracker, on_error=lambda *_: None
    )
    scheduler.step()
    assert states == [[ItemState.SCHEDULED], [ItemState.SCHEDULED]]
    assert (tracker.state("x", "1"), tracker.state("y", "2")) == (ItemState.SENT, ItemState.FAILED)


def test_a_tracker_that_raises_costs_no_item(delivered):
    class Broken(MemoryStore):
        def mark(self, source, keys, state, now):
            raise ConnectionError("tracker is away")

    heard = []
    scheduler = SourceScheduler(
        {"x": iter("ab")},
        delivered,
        Fair("x"),
        tracker=ItemTracker(Broken()),
        on_error=lambda name, error: heard.append(str(error)),
    )
    assert scheduler.step() == 2
    assert heard == ["tracker is away"] * 2


# -- the loop -------------------------------------------------------------------------------


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
    assert scheduler.stop(30)
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
    assert not scheduler.stop(timeout=0)
    release.set()
    assert scheduler.stop(timeout=30)
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
        answers.append(scheduler.stop())

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
    assert SourceScheduler({"x": Stock()}, delivered, Fair("x")).stop()


def test_a_real_delayed_queue_is_drained_and_its_failures_come_again(delivered):
    delayed = pytest.importorskip("drainq.delayed", reason="the delayed queue is not part of this build")
    with delayed.DelayedQueue.open("memory:", "mail") as queue:
        for number in range(5):
            queue.offer_or_update(f"key-{number}", number, 0.0)
        scheduler = SourceScheduler({"mail": queue}, delivered, Fair("mail"), batch_size=3, on_error=lambda *_: None)
        delivered.fail = {"mail"}
        assert scheduler.step() == 0
        delivered.fail = set()
        while scheduler.step():
            pass
        assert sorted(delivered.items) == [0, 1, 2, 3, 4]
        assert queue.stats().in_flight == 0


def test_a_target_that_wants_to_exit_does_not_end_the_loop():
    seen, heard = [], []

    def target(name, items):
        seen.extend(items)
        if len(seen) == 1:
            raise SystemExit(1)

    scheduler = SourceScheduler(
        {"x": iter("ab")},
        target,
        Fair("x"),
        batch_size=1,
        on_error=lambda name, error: heard.append(type(error)),
        idle=Backoff(0.001, 0.001),
    )
    scheduler.start()
    assert scheduler.join(30)
    assert seen == ["a", "b"]
    assert heard == [SystemExit]
    assert (scheduler.stats().moved, scheduler.stats().failed) == (1, 1)
