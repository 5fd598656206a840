"""A batch is sent, put away, or lost aloud; each item is counted once."""

from __future__ import annotations

import contextlib
import math
import random

import pytest

from drainq.delivery import DeliveryError, Outcome, Refused, Sink, Unavailable, Undelivered
from drainq.delivery.sink_contract import Failure
from tests.delivery.helpers import ENTRIES, Bench, Letters, Table, amounts


def test_an_outage_is_waited_out_with_growing_pauses():
    table = Table()
    bench = Bench(table)
    table.down = Unavailable("away")

    def back_after_four_waits():
        if len(bench.waits) == 4:
            table.down = None

    bench.before_try = back_after_four_waits
    bench.deliver("abc")
    assert (table.rows, bench.waits) == (list("abc"), [1.0, 2.0, 4.0, 8.0])
    assert bench.counts() == {"sent": 3} and bench.books.stats().retried == 12


def test_an_outage_is_given_up_after_retry_for_and_what_comes_later_is_tried_twice():
    table = Table()
    table.down = Unavailable("away")
    bench = Bench(table, retry_for=10.0)
    with pytest.raises(DeliveryError, match="3 items are lost: Unavailable: away"):
        bench.deliver("abc")
    assert sum(bench.waits) == 10.0 and bench.counts() == {"lost": 3}
    calls, bench.waits = table.calls, []
    table.down = Unavailable("away", after=50.0)  # the time of the outage is over: nobody waits that long
    with pytest.raises(DeliveryError):
        bench.deliver("de")
    assert (table.calls - calls, bench.waits) == (2, [1.0])
    table.down = None
    bench.deliver("f")
    assert bench.counts() == {"lost": 5, "sent": 1}


def test_the_next_outage_has_its_own_time():
    table = Table()
    bench = Bench(table, retry_for=10.0)
    for _ in range(2):
        table.down = Unavailable("away")
        with pytest.raises(DeliveryError):
            bench.deliver("a")
        table.down = None
        bench.deliver("b")
    assert sum(bench.waits) == 20.0


def test_no_time_is_one_try():
    table = Table()
    table.down = Unavailable("away")
    bench = Bench(table, retry_for=0)
    with pytest.raises(DeliveryError):
        bench.deliver("a")
    assert (table.calls, bench.waits) == (1, [])


@pytest.mark.parametrize(("after", "waits"), [(5.0, [5.0, 1.0]), (0.5, [1.0, 2.0, 3.0])])
def test_the_other_side_may_ask_for_a_longer_pause_and_not_for_a_shorter_one(after, waits):
    table = Table()
    table.down = Unavailable("slow down", after=after)
    bench = Bench(table, retry_for=6.0)
    with pytest.raises(DeliveryError):
        bench.deliver("a")
    assert bench.waits == waits


@pytest.mark.parametrize("seed", range(20))
def test_poison_stands_alone_and_the_rest_goes_in_order(seed):
    rng = random.Random(seed)
    items = rng.sample(range(1000), rng.randrange(1, 100))
    poison = {item for item in items if rng.random() < rng.choice([0.0, 0.1, 0.9])}
    table = Table(poison)
    bench = Bench(table)
    bench.deliver(items)
    assert table.rows == [item for item in items if item not in poison]
    assert bench.books.count(Outcome.REFUSED) == len(poison)
    assert bench.books.count(Outcome.SENT) == len(items) - len(poison)


def test_what_a_sink_names_as_refused_is_refused_and_the_rest_is_sent(caplog):
    class Picky(Sink):
        def send(self, items):
            return [(place, f"odd {item // 4}") for place, item in enumerate(items) if item % 2]

    bench = Bench(Picky())
    bench.deliver(range(10))
    assert bench.counts() == {"sent": 5, "refused": 5}
    assert caplog.messages == ["test: 5 items were refused: a int: odd 0; a int: odd 1"]  # the first three, each once


def test_a_refused_item_is_shown_in_short(caplog):
    bench = Bench(Table(), log_values=True)
    bench.sink.send = lambda items: [(0, "odd"), (1, "long")]
    bench.deliver(["a", "x" * 300])
    assert caplog.messages == ["test: 2 items were refused: 'a': odd; '" + "x" * 199 + ": long"]


def test_a_failure_that_cannot_pass_stops_at_once_until_something_is_sent():
    class Broken(Table):
        def failure_of(self, error):
            return Failure.CANNOT_PASS

    table = Broken()
    table.down = LookupError("no such table")
    bench = Bench(table)
    with pytest.raises(DeliveryError, match="LookupError at"):
        bench.deliver(range(1000))
    assert (table.calls, bench.waits) == (1, []) and bench.counts() == {"lost": 1000}
    assert bench.delivery.stopped is table.down
    table.down = None
    bench.deliver("a")
    assert bench.delivery.stopped is None


def test_what_is_stopped_can_be_kept_by_the_caller():
    table = Table()
    table.failure_of = lambda error: Failure.CANNOT_PASS
    table.down = LookupError("no such table")
    bench = Bench(table, keep_when_stopped=True)
    assert bench.deliver("abc") == list("abc") and bench.counts() == {"pending": 3}


def test_an_error_of_the_sinks_own_making_refuses_each_item_that_makes_it():
    class Buggy(Table):
        def send(self, items):
            return super().send([1 // item for item in items])

    bench = Bench(Buggy())
    bench.deliver([1, 0, 1])
    assert bench.counts() == {"sent": 2, "refused": 1}


def test_an_interrupt_passes_and_leaves_nothing_uncounted():
    table = Table()
    table.down = KeyboardInterrupt()
    bench = Bench(table)
    with pytest.raises(KeyboardInterrupt):
        bench.deliver("ab")
    assert bench.counts() == {"lost": 2}


def test_every_count_is_of_the_items_that_the_entries_stand_for():
    table = Table()
    table.down = Unavailable("away")
    bench = Bench(table, retry_for=1.0, size=amounts)
    bench.books.arrive(20)  # and 3 more, one for each entry
    with pytest.raises(DeliveryError, match="23 items are lost"):
        bench.deliver(ENTRIES)
    assert bench.counts() == {"lost": 23} and bench.books.stats().retried == 23


def test_an_undelivered_item_is_kept_or_lost_with_the_sinks_reason_as_the_cause():
    reason = Undelivered("too slow", unknown=True)

    class Slow(Sink):
        def send(self, items):
            return [(1, reason), (2, Undelivered("not tried", unknown=False))]

    letters = Letters()
    bench = Bench(Slow(), dead_letters=letters, size=amounts)
    bench.books.arrive(20)
    bench.deliver(ENTRIES)
    assert bench.counts() == {"sent": 5, "dead_lettered": 18} and bench.books.stats().unknown == 7
    assert list(letters.kept.values()) == [ENTRIES[1:]]
    bench = Bench(Slow(), size=amounts)
    bench.books.arrive(20)
    with pytest.raises(DeliveryError, match="18 items are lost: Undelivered: too slow; Undelivered: not tried") as lost:
        bench.deliver(ENTRIES)
    assert lost.value.__cause__ is reason
    assert bench.counts() == {"sent": 5, "lost": 18} and bench.books.stats().unknown == 7


@pytest.mark.parametrize("heard", ["", "b", "bd"])
def test_who_asks_is_told_of_each_item_that_is_not_kept_with_its_reason_and_else_the_log_is(heard, caplog):
    bad, letters, told, given = ValueError("b is no good"), Letters(), [], []
    letters.park_each = lambda items, errors: given.extend(errors) or [item in "ac" for item in items]

    class Odd(Sink):
        def send(self, items):
            return [(0, "odd"), (1, bad), (2, "odd"), (3, "last")]

    bench = Bench(Odd(), dead_letters=letters)
    bench.delivery.tell = lambda items, error: told.append((items, repr(error))) or items[0] in heard
    bench.deliver("abcde")
    assert bench.counts() == {"sent": 1, "refused": 2, "dead_lettered": 2}
    assert told == [(["b"], repr(bad)), (["d"], repr(Refused("last")))]
    assert given == ["odd", f"ValueError: {bad}", "odd", "last"]  # the letter says all
    said = [line for line in caplog.text.splitlines() if "2 items were refused" in line]
    assert len(said) == (heard != "bd") and all("no good" not in line for line in said)


def test_who_asks_is_told_of_what_the_sink_gave_up_and_of_what_was_given_up_in_an_outage():
    late = [Undelivered(each, unknown=False) for each in ("late", "late", "later", "too late", "never")]

    class Late(Sink):
        def send(self, items):
            return list(enumerate(late))

    table, told = Table(), []
    table.down = Unavailable("away")
    for sink, says in ((Late(), "late; Undelivered: later; Undelivered: too late"), (table, "away")):
        bench = Bench(sink, retry_for=0)
        bench.delivery.tell = lambda items, error: told.append((items, error))
        with pytest.raises(DeliveryError, match=f"5 items are lost: [A-Z][a-z]+: {says}$"):
            bench.deliver("abcde")
    assert told == [(list("abcde"), late[0]), (list("abcde"), table.down)]


def test_each_failure_that_cannot_pass_stops_producers_one_of_whom_may_just_have_seen_none():
    table, stops = Table(), []
    table.down, table.failure_of = LookupError("no such table"), lambda error: Failure.CANNOT_PASS
    bench = Bench(table)
    bench.delivery.on_stop = lambda: stops.append(bench.delivery.stopped)
    for _ in range(2):
        with pytest.raises(DeliveryError):
            bench.deliver("a")
    assert stops == [table.down] * 2


def test_an_outage_that_failures_keep_alive_is_one_outage():
    """The pause between two batches is shorter than ``retry_for``, and all of them fail."""
    table = Table()
    table.down = Unavailable("away")
    bench = Bench(table, retry_for=10.0)
    for tries in (5, 2, 2, 2):
        calls = table.calls
        with pytest.raises(DeliveryError):
            bench.deliver("a")
        assert table.calls - calls == tries
        bench.clock.advance(6.0)
    bench.clock.advance(5.0)  # now the last failure is long ago
    calls = table.calls
    with pytest.raises(DeliveryError):
        bench.deliver("a")
    assert table.calls - calls == 5


def test_the_log_says_when_an_outage_or_a_stop_begins_and_when_it_ends_and_each_once(caplog):
    caplog.set_level("INFO", "drainq")
    table, stopped = Table(), LookupError("no such table")
    table.failure_of = lambda error: Failure.CANNOT_PASS if error is stopped else Failure.PASSES
    for retry_for, how_long in ((10.0, " for 10 s"), (math.inf, "")):
        bench = Bench(table, retry_for=retry_for)
        bench.before_try = lambda bench=bench: setattr(table, "down", None) if len(bench.waits) % 2 == 0 else None
        for down, first in (
            (Unavailable("away"), f"the other side fails; trying again{how_long}: Unavailable: away"),
            (stopped, "stopped, until what is wrong is put right: LookupError at"),
        ):
            for _ in range(2):  # the same again, after it has ended
                caplog.clear()
                table.down = down
                for _ in range(2 if down is stopped else 1):
                    with contextlib.suppress(DeliveryError):
                        bench.deliver("a")
                table.down = None
                bench.deliver("b")
                first_line, *end = [record.getMessage() for record in caplog.records]
                assert first_line.startswith(f"test: {first}") and end == ["test: the other side takes items again"]
