"""A batch that is being sent when the time of ``close`` runs out: lost, kept, or sent after all, and counted once."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from drainq.delivery import DeliveryError, Refused, Sink, Unavailable, Undelivered
from drainq.delivery.parcel import Parcel
from drainq.delivery.sink_contract import Failure
from tests.delivery.helpers import ENTRIES, Bench, Hanging, Letters, Table, amounts


class During(Sink):
    """A sink that does something in the middle of its call, as another thread might, and then answers."""

    def __init__(self, do, error=None):
        self.do, self.error = do, error

    def send(self, items):
        self.do()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(("error", "later"), [(None, {"sent": 23}), (Unavailable("cut off"), {"lost": 23})])
def test_what_is_being_sent_at_the_cut_is_lost_until_the_sink_answers(error, later):
    at_the_cut = []

    def cut():
        assert [parcel.items for parcel in bench.delivery.cut()] == [ENTRIES]
        assert bench.delivery.cut() == []  # each batch is cut once
        at_the_cut.append(bench.counts())

    bench = Bench(During(cut, error), retry_for=60.0, size=amounts)
    bench.books.arrive(20)
    bench.delivery.give_up()
    bench.delivery._given_up.clear()  # it was being sent when the time ran out
    if error is None:
        bench.deliver(ENTRIES)
    else:
        with pytest.raises(DeliveryError):
            bench.deliver(ENTRIES)
    assert at_the_cut == [{"lost": 23}] and bench.counts() == later
    assert bench.waits == []


@pytest.mark.parametrize(("is_gone", "later"), [(False, {"sent": 23}), (True, {"dead_lettered": 23})])
def test_a_late_answer_takes_the_letter_back_and_a_letter_that_is_gone_stays_counted(is_gone, later):
    letters, at_the_end = Letters(), []

    def end():
        bench.delivery.keep(bench.delivery.cut(), None)
        at_the_end.append((bench.counts(), list(letters.kept.values())))
        if is_gone:  # another worker has sent it
            letters.kept.clear()

    bench = Bench(During(end), size=amounts, dead_letters=letters)
    bench.books.arrive(20)
    bench.deliver(ENTRIES)
    assert at_the_end == [({"dead_lettered": 23}, [ENTRIES])]
    assert letters.withdrawn == ["letter 0"] and bench.counts() == later


def test_a_batch_that_fails_after_it_was_kept_is_not_kept_again():
    letters = Letters()
    bench = Bench(
        During(lambda: bench.delivery.keep(bench.delivery.cut(), None), Unavailable("away")), dead_letters=letters
    )
    bench.deliver("ab")
    assert bench.counts() == {"dead_lettered": 2} and list(letters.kept.values()) == [["a", "b"]]
    assert bench.waits == []


@pytest.mark.parametrize(
    "answer", [Refused("odd"), [(0, "odd")], [(1, Undelivered("late", unknown=False))], [(None, "odd")]]
)
def test_poison_that_shows_after_the_batch_was_kept_stays_in_the_letter_and_nothing_is_sent_again(answer):
    letters, calls = Letters(), []

    class Answers(During):
        def send(self, items):
            calls.append(items)
            super().send(items)
            return answer

    error = answer if isinstance(answer, Refused) else None
    bench = Bench(Answers(lambda: bench.delivery.keep(bench.delivery.cut(), None), error), dead_letters=letters)
    bench.deliver("ab")
    assert bench.counts() == {"dead_lettered": 2} and list(letters.kept.values()) == [["a", "b"]]
    assert len(calls) == 1


@pytest.mark.parametrize("moment", range(13))
def test_a_cut_at_any_moment_of_an_answer_counts_each_item_once(moment):
    """A moment is a log line, a message of the delayed queue, or when items are about to be counted."""
    letters, passed = Letters(), []
    letters.park_each = lambda items, errors: (pass_on(), [item == "c" for item in items])[1]

    def pass_on(*_):
        passed.append(1)
        if len(passed) == moment:
            passed.append(0)  # the cut counts, too
            bench.delivery.cut()
            passed.remove(0)

    def size(items):
        if 0 not in passed:
            pass_on()
        return len(items)

    class Mixed(Sink):
        def send(self, items):
            late = [(4, Undelivered("late", unknown=False)), (5, Undelivered("late", unknown=False))]
            return [(2, "odd"), (3, "odd"), *late, (None, "one of them")]

    letters.in_between = pass_on
    handler = logging.Handler()
    handler.emit = lambda record: record.args[0] == "test" and pass_on()  # no line of another test's worker
    log = logging.getLogger("drainq")
    log.addHandler(handler)
    try:
        bench = Bench(Mixed(), dead_letters=letters, size=size)
        bench.deliver("abcdef")
    finally:
        log.removeHandler(handler)
    assert bench.counts() == {"sent": 1, "refused": 2, "dead_lettered": 3} and len(passed) == 12


@pytest.mark.parametrize(("gives_up", "error"), [(True, LookupError("no such table")), (False, Unavailable("away"))])
def test_only_a_batch_that_is_stopped_before_the_time_of_close_is_left_to_the_caller(gives_up, error):
    bench = Bench(During(lambda: gives_up and bench.delivery.give_up(), error), retry_for=0, keep_when_stopped=True)
    bench.sink.failure_of = lambda error: getattr(error, "failure", Failure.CANNOT_PASS)
    with pytest.raises(DeliveryError, match="2 items are lost"):
        bench.deliver("ab")
    assert bench.counts() == {"lost": 2}


def test_a_batch_that_was_answered_before_it_could_be_kept_is_not_kept():
    letters, parcels = Letters(), []
    bench = Bench(During(lambda: parcels.extend(bench.delivery.cut())), dead_letters=letters)
    bench.deliver("ab")
    assert bench.counts() == {"sent": 2}
    bench.delivery.keep(parcels, None)
    assert bench.counts() == {"sent": 2} and letters.kept == {} and letters.withdrawn == []


def test_a_batch_whose_answer_is_lost_counts_as_lost_and_is_kept_no_more():
    letters, parcels = Letters(), []
    bench = Bench(During(lambda: parcels.extend(bench.delivery.cut()), KeyboardInterrupt()), dead_letters=letters)
    with pytest.raises(KeyboardInterrupt):
        bench.deliver("ab")
    bench.delivery.keep(parcels, None)
    assert bench.counts() == {"lost": 2} and letters.kept == {} and letters.withdrawn == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_letter_that_was_overtaken_by_the_answer_is_taken_back(is_there, caplog):
    letters, sink = Letters(), Hanging(heeds=False)
    bench = Bench(sink, dead_letters=letters)
    sending = threading.Thread(target=bench.deliver, args=("ab",))

    def meanwhile():
        """The sink answers while the letter is being written."""
        sink.go.set()
        sending.join(60)
        if not is_there:
            letters.kept.clear()

    letters.in_between = meanwhile
    sending.start()
    assert sink.entered.wait(60)
    bench.delivery.keep(bench.delivery.cut(), None)
    assert bench.counts() == {"sent": 2} and letters.withdrawn == ["letter 0"] and letters.kept == {}
    assert ("may be sent twice" in caplog.text) is not is_there


class Halves(Sink):
    """Refuses more than two items at once, and waits to be let go on before each part of two."""

    def __init__(self):
        self.parts, self.let_go = [], [threading.Event(), threading.Event()]
        self.entered = [threading.Event(), threading.Event()]

    def send(self, items):
        if len(items) > 2:
            raise Refused("poison in the batch")
        number = len(self.parts)
        self.parts.append(items)
        self.entered[number].set()
        assert self.let_go[number].wait(60)


def test_a_letter_of_which_a_part_was_sent_meanwhile_is_taken_back():
    letters, sink = Letters(), Halves()
    bench = Bench(sink, dead_letters=letters)
    sending = threading.Thread(target=bench.deliver, args=("abcd",))

    def meanwhile():
        """The sink answers for the first part while the letter is being written."""
        sink.let_go[0].set()
        assert sink.entered[1].wait(60)

    letters.in_between = meanwhile
    sending.start()
    assert sink.entered[0].wait(60)
    bench.delivery.keep(bench.delivery.cut(), None)
    assert bench.counts() == {"sent": 2, "lost": 2} and letters.withdrawn == ["letter 0"] and letters.kept == {}
    sink.let_go[1].set()
    sending.join(60)
    assert bench.counts() == {"sent": 4} and sink.parts == [["a", "b"], ["c", "d"]]


def test_a_letter_stays_until_all_that_it_holds_was_sent():
    letters, sink = Letters(), Halves()
    bench = Bench(sink, dead_letters=letters)
    sending = threading.Thread(target=bench.deliver, args=("abcd",))
    sending.start()
    assert sink.entered[0].wait(60)
    bench.delivery.keep(bench.delivery.cut(), None)
    sink.let_go[0].set()
    assert sink.entered[1].wait(60)
    assert bench.counts() == {"dead_lettered": 4} and list(letters.kept.values()) == [["a", "b", "c", "d"]]
    sink.let_go[1].set()
    sending.join(60)
    assert bench.counts() == {"sent": 4} and letters.withdrawn == ["letter 0"]


def test_of_a_batch_that_is_given_up_only_the_part_that_was_tried_may_have_arrived():
    class Doubtful(Sink):
        def send(self, items):
            """Is called by send_within."""

        def send_within(self, items, attempt):
            if len(items) > 2:
                raise Refused("one of these")
            attempt.doubt = "asked"
            raise Unavailable("no answer to COMMIT")

    bench = Bench(Doubtful(), retry_for=0)
    with pytest.raises(DeliveryError):
        bench.deliver("abcd")
    assert bench.counts() == {"lost": 4} and bench.books.stats().unknown == 2


def test_a_doubt_is_kept_if_it_is_about_all_items_of_a_parcel_and_none_was_refused():
    parcel = Parcel(["a", "b"])
    parcel.attempt.doubt = "asked"
    for parcel.tried, parcel.attempt.refused, doubt in ((2, [], "asked"), (1, [], None), (2, [(0, "odd")], None)):
        assert parcel.doubt == doubt


def test_a_keeper_that_fails_at_the_end_leaves_the_batch_lost():
    letters = Letters()
    letters.refuses = OSError("disk full")
    bench = Bench(During(lambda: bench.delivery.keep(bench.delivery.cut(), None)), dead_letters=letters)
    bench.deliver("ab")
    assert bench.counts() == {"sent": 2}  # the answer came after all
    bench = Bench(
        During(lambda: bench.delivery.keep(bench.delivery.cut(), None), Unavailable("away")), dead_letters=letters
    )
    with pytest.raises(DeliveryError, match="2 items are lost"):
        bench.deliver("ab")
    assert bench.counts() == {"lost": 2}


def test_a_keeper_that_fails_for_one_batch_is_given_the_next():
    letters, at_the_end = Letters(), []
    park, letters.park = letters.park, lambda items, error, doubt: park(items, error) if items == ["b"] else 1 / 0

    def second_batch():
        bench.sink.do = end
        bench.deliver("b")

    def end():
        bench.delivery.keep(bench.delivery.cut(), None)
        at_the_end.append((bench.counts(), list(letters.kept.values())))

    bench = Bench(During(second_batch), dead_letters=letters)
    bench.deliver("a")
    assert at_the_end == [({"lost": 1, "dead_lettered": 1}, [["b"]])]
    assert bench.counts() == {"sent": 2}


def test_after_the_time_of_close_nothing_is_tried_not_even_while_the_sink_is_cancelled():
    table, letters = Table(), Letters()
    bench = Bench(table, dead_letters=letters)
    table.cancel = lambda: bench.deliver("ab")
    bench.delivery.give_up()
    assert table.calls == 0 and bench.counts() == {"dead_lettered": 2}


def test_a_batch_that_fails_after_the_time_of_close_is_lost_with_the_sinks_error():
    bench = Bench(During(lambda: bench.delivery.give_up(), Unavailable("away")))
    with pytest.raises(DeliveryError, match="2 items are lost: Unavailable: away"):
        bench.deliver("ab")
    assert (bench.waits, bench.books.stats().retried) == ([], 0)


def test_a_keeper_that_hangs_is_waited_for_until_the_deadline():
    letters, begun, go, kept = Letters(), threading.Event(), threading.Event(), threading.Event()
    letters.in_between = lambda: (begun.set(), go.wait(60), kept.set())

    def at_the_end():
        bench.delivery.keep(bench.delivery.cut(), time.monotonic())
        assert begun.wait(60) and not kept.is_set()
        go.set()

    bench = Bench(During(at_the_end), dead_letters=letters)
    bench.deliver("a")
    assert kept.wait(60)


def test_a_sink_that_cannot_be_cancelled_is_only_said_so(caplog):
    table = Table()
    table.cancel = lambda: 1 / 0
    Bench(table).delivery.give_up()
    assert "could not be cancelled" in caplog.text
