"""SourceScheduler and its target: back-pressure, and the state of each item."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from drainq.sources import Fair, ItemState, ItemTracker, PrefetchSource, SourceScheduler
from drainq.sources.scheduled_source import feed_of
from drainq.sources.tracker.store import MemoryStore
from tests.sources.by_hand import Raises, endless

# -- back-pressure ----------------------------------------------------------------------------


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


# -- sources with a mind of their own ---------------------------------------------------------


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


def test_a_lease_is_settled_once():
    class Queue:
        def try_poll_many(self, n):
            polled.append(n)
            return SimpleNamespace(
                payload=polled[-1:], ack=lambda: settled.append(("ack", n)), nack=lambda: settled.append(("nack", n))
            )

    polled, settled = [], []
    feed = feed_of(Queue())
    for n, settle in ((1, feed.delivered), (2, feed.failed), (3, feed.give_back), (4, feed.delivered)):
        settle(feed.take(n))
    assert settled == [("ack", 1), ("nack", 2), ("nack", 3), ("ack", 4)]
    feed.take(5)
    feed.forget()  # in a child, whose parent has the lease
    feed.delivered([])
    assert len(settled) == 4
    over = feed_of(Raises(StopIteration(), 1))
    assert (over.ended, over.take(1), over.ended) == (False, [], True)


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


@pytest.mark.parametrize("fails", [False, True])
def test_a_delayed_queue_that_is_polled_twice_in_a_step_hears_of_both_batches(delivered, fails):
    """The share of the other source, which has nothing, is polled as well."""
    queue = Delayed("abcd")
    delivered.fail = {"mail"} if fails else set()
    sources = {"mail": queue, "x": lambda n: []}
    scheduler = SourceScheduler(sources, delivered, Fair("mail", "x"), batch_size=4, on_error=lambda *_: None)
    assert scheduler.step() == (0 if fails else 4)
    assert (sorted(queue.items), queue.acked) == ((list("abcd"), []) if fails else ([], list("abcd")))


def test_an_interrupt_before_the_target_gives_the_leases_back(delivered):
    queue = Delayed("ab")
    sources = {"mail": queue, "x": Raises(KeyboardInterrupt(), 1)}
    scheduler = SourceScheduler(sources, delivered, Fair("mail", "x"), batch_size=2)
    with pytest.raises(KeyboardInterrupt):
        scheduler.step()
    assert (sorted(queue.items), queue.acked, delivered.calls) == (["a", "b"], [], [])


def test_an_interrupt_in_the_target_gives_the_leases_back():
    def interrupted(name, items):
        raise KeyboardInterrupt

    queue, tracker = Delayed("ab"), ItemTracker.open("memory:")
    scheduler = SourceScheduler({"mail": queue}, interrupted, Fair("mail"), tracker=tracker)
    with pytest.raises(KeyboardInterrupt):
        scheduler.step()
    assert (sorted(queue.items), queue.acked, scheduler.stats().failed) == (["a", "b"], [], 2)
    assert tracker.counts()["mail"][ItemState.FAILED] == 2


def test_what_a_forked_child_renews_is_empty_and_the_rest_of_an_iterator_is_the_parents(delivered):
    backlog = Raises(OSError("away"), 3, then=lambda: 0 if backlog.called != 2 else 5)
    scheduler = SourceScheduler(
        {"x": iter("abc"), "y": lambda n: list("de")}, delivered, Fair("x", "y"), batch_size=2,
        backlog=backlog, max_backlog=5, on_error=lambda *_: None,
    )  # fmt: skip
    assert [scheduler.step() for _ in range(3)] == [2, 0, 0]
    stats = scheduler.stats()
    assert (stats.errors, stats.paused, stats.sources["y"].held) == (1, True, 1)
    scheduler._asking = 1  # another thread wants to change the sources
    scheduler._renew_in_child()
    stats = scheduler.stats()
    assert scheduler._asking == 0
    assert (stats.steps, stats.moved, stats.errors, stats.paused) == (0, 0, 0, False)
    assert (stats.sources["x"].ended, stats.sources["x"].held, stats.sources["y"].held) == (True, 0, 0)
    assert scheduler.step() == 2 and delivered.items == ["a", "d", "d", "e"]


# -- the tracker ------------------------------------------------------------------------------


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


def test_an_item_without_a_key_is_told_by_its_source_and_costs_no_item(delivered):
    heard, tracker = [], ItemTracker.open("memory:")
    scheduler = SourceScheduler(
        {"x": iter("ab")}, delivered, Fair("x"), tracker=tracker, item_key=Raises(OSError("no key"), 2, then=str),
        on_error=lambda name, error: heard.append((name, str(error))),
    )  # fmt: skip
    assert scheduler.step() == 2
    assert (heard, tracker.counts()) == ([("x", "no key")], {})
