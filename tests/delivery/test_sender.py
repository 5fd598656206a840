"""The way from a queue into a sink: deadlines kept, dead letters in order, each item counted once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from drainq import BatchQueue, PartitionPolicy
from drainq.delivery import DeliveryError, DeliveryStopped, Refused, SendingWorker, Unavailable, producing
from drainq.delivery.sink_contract import Failure
from drainq.errors import UnfitItem
from drainq.testing import ManualClock
from tests.delivery.helpers import Hanging, Table, agree, counts

PATIENCE = 60.0


def sender(sink, **more):
    return SendingWorker(sink, **{"name": "test", "retry_for": 0, **more})


def until(condition):
    """Wait for what another thread does."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        threading.Event().wait(0.001)


def test_everything_produced_is_sent_in_order():
    table = Table()
    with sender(table) as out:
        assert out.produce_many(range(10_000)) == 10_000 and out.produce(10_000)
    assert table.rows == list(range(10_001))
    assert counts(out) == (10_001, 0, 0, 0, 0)
    assert out.stats().per_type == {int: 10_001}


def test_flush_is_false_for_what_was_refused_since_the_last():
    table = Table(poison={3})
    with sender(table) as out:
        out.produce_many(range(5))
        assert out.flush() is False and out.flush() is True
    assert out.close() is False


def test_poison_has_a_letter_of_its_own_and_good_rows_of_a_letter_return(delayed, clock):
    table = Table(poison={7})
    out = sender(table, delayed=delayed)
    table.down = Unavailable("away")
    out(list(range(50)))
    assert counts(out) == (0, 0, 50, 0, 0) and delayed.stats().scheduled == 1
    table.down = None
    clock.advance(3600)
    assert out.flush()
    assert table.rows == [n for n in range(50) if n != 7]
    assert counts(out) == (49, 0, 1, 0, 0)
    assert delayed.peek(10)[0].payload.count(b"poison in the batch") == 1
    table.poison = set()
    clock.advance(3600)
    assert out.flush() and counts(out) == (50, 0, 0, 0, 0)
    assert delayed.stats().scheduled == delayed.stats().ready == 0
    assert out.close()


def test_letters_are_sent_in_the_order_of_the_batches_also_after_a_failure_in_the_middle(delayed, clock):
    table = Table()
    out = sender(table, delayed=delayed)
    table.down = Unavailable("away")
    for n in range(5):
        out([(n, 0), (n, 1)])
    clock.advance(3600)
    out.on_idle()  # the first is tried, and stands first again
    assert table.calls == 5 + 1 and counts(out) == (0, 0, 10, 0, 0)
    table.down = None
    clock.advance(1)
    out.on_idle()
    assert table.rows == [(n, place) for n in range(5) for place in range(2)]
    assert counts(out) == (10, 0, 0, 0, 0) and out.close()


class Latest(Table):
    """A table with a key: the last row of a key wins."""

    def rows_by_key(self):
        return dict(self.rows)


def keyed(sink, **more):
    return sender(sink, key_of=lambda row: row[0], **more)


def test_an_older_item_never_replaces_a_newer_one_of_its_key(delayed, clock):
    table = Latest()
    out = keyed(table, delayed=delayed)
    table.down = Unavailable("away")
    out([(1, "old"), (2, "old")])
    table.down = None
    out([(1, "new")])
    assert counts(out) == (2, 0, 1, 0, 0)  # the old row of key 1 was replaced, as if it had been written in time
    clock.advance(3600)
    assert out.flush()
    assert table.rows_by_key() == {1: "new", 2: "old"} and counts(out) == (3, 0, 0, 0, 0)
    assert out.close()


def test_an_item_that_is_refused_by_name_replaces_no_older_one(delayed, clock):
    table = Latest()
    out = keyed(table, delayed=delayed)
    table.down = Unavailable("away")
    out([(1, "old")])
    table.down = None
    table.send = lambda items: [(0, "odd")]
    out([(1, "odd"), (2, "new")])
    assert counts(out) == (1, 0, 2, 0, 0) and out.close()


def test_of_two_letters_with_a_key_the_later_wins_even_if_it_goes_first(delayed, clock):
    table = Latest(poison={(1, "old")})
    out = keyed(table, delayed=delayed)
    out([(1, "old")])
    table.down = Unavailable("away")
    out([(1, "new"), (2, "new")])
    table.down = None
    clock.advance(3600)
    assert out.flush()
    assert counts(out) == (3, 0, 0, 0, 0)
    table.poison = set()
    clock.advance(3600)
    assert out.flush() and table.rows_by_key() == {1: "new", 2: "new"}
    assert out.close()


def test_a_worker_that_begins_later_knows_what_is_kept(delayed, clock):
    table = Latest(poison={(1, "old")})
    keyed(table, delayed=delayed)([(1, "old")])
    table.poison = set()
    later = keyed(table, delayed=delayed)
    later([(1, "new")])
    clock.advance(3600)
    assert later.flush()
    assert table.rows == [(1, "new")] and counts(later) == (1, 0, 0, 0, 0)


def test_what_another_worker_gave_up_on_is_counted_apart(delayed, clock):
    table = Table()
    table.down = Unavailable("away")
    first, second = sender(table, delayed=delayed), sender(table, delayed=delayed)
    first(["a", "b"])
    table.down = None
    clock.advance(3600)
    assert second.flush()
    assert counts(second) == (0, 0, 0, 0, 0) and second.stats().resent == 2
    assert counts(first) == (0, 0, 2, 0, 0)


def test_letters_of_another_sink_are_left_alone(delayed, clock):
    table, other = Table(), Table()
    table.down = Unavailable("away")
    out = sender(table, delayed=delayed)
    out(["a"])
    clock.advance(3600)
    assert sender(other, name="other", delayed=delayed).flush()
    assert other.rows == []
    table.down = None
    clock.advance(3600)
    assert out.flush() and table.rows == ["a"]


def test_what_cannot_be_written_into_a_letter_is_lost_or_refused_aloud(delayed):
    thing = object()
    table = Table(poison={thing})
    out = sender(table, delayed=delayed)
    out([thing, 1])
    assert counts(out) == (1, 1, 0, 0, 0)
    table.down = Unavailable("away")
    with pytest.raises(RuntimeError, match="lost"):
        out([thing])
    assert counts(out) == (1, 1, 0, 1, 0)


def test_an_exporter_can_say_how_its_items_are_written(delayed, clock):
    class Point:
        def __init__(self, name):
            self.name = name

    table = Table()
    out = sender(
        table, delayed=delayed, pack_item=lambda point: point.name, unpack_item=lambda name: Point(name.upper())
    )
    table.down = Unavailable("away")
    out([Point("a")])
    table.down = None
    clock.advance(3600)
    assert out.flush() and [point.name for point in table.rows] == ["A"]


def test_a_stopped_sender_refuses_producers_with_the_reason():
    table = Table()
    table.failure_of = lambda error: Failure.CANNOT_PASS
    table.down = LookupError("no such table")
    out = sender(table)
    out.produce(0)
    out.produce(1)  # the queue's own method is known by now
    out.produce(2)
    assert out.flush() is False
    with pytest.raises(DeliveryStopped, match="^test is stopped: LookupError at"):
        out.produce(3)
    assert counts(out) == (0, 0, 0, 3, 0) and out.close() is False


def test_while_it_is_stopped_one_producer_may_try_every_few_seconds(monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(producing, "time", SimpleNamespace(monotonic=clock.now))
    table = Table()
    table.failure_of = lambda error: Failure.CANNOT_PASS
    out = sender(table)

    def takes():
        try:
            return out.produce(0) and out.flush(PATIENCE) in (True, False)
        except DeliveryStopped:
            return False

    for _ in range(2):  # the second stop has a time of its own
        table.down = LookupError("no such table")
        assert takes()
        for seconds, may_try in ((0, False), (4.9, False), (0.1, True), (0.1, False), (4.9, True)):
            clock.advance(seconds)
            assert takes() is may_try
        table.down = None
        clock.advance(5.0)
        assert takes() and takes() and out.produce_many([1, 2]) == 2 and out.produce_many([]) == 0
        clock.advance(60.0)
    out.close()


def test_as_a_handler_of_any_queue_it_raises_its_own_errors_and_is_released_once():
    table, closed = Table(), []
    table.down, table.close = Unavailable("away"), lambda: closed.append(1)
    out = sender(table, on_error=lambda items, error: items.clear())  # the list is its own
    with pytest.raises(DeliveryError, match="1 items are lost") as lost:
        out.consume(["a"])
    for error, raised, says in ((UnfitItem("odd"), UnfitItem, "^odd$"), (KeyError(1), Refused, "1 items were refused")):
        out._take = lambda batch, error=error: (_ for _ in ()).throw(error)
        with pytest.raises(raised, match=says):
            out._take_for_queue(["b"])
    assert type(lost.value) is DeliveryError and counts(out) == (0, 0, 0, 1, 0)
    out.close()
    out.on_close()
    assert closed == [1]


def test_a_part_that_is_lost_keeps_no_later_part_from_its_sink():
    table, parts = Table(), [letter * 600_000 for letter in "abc"]
    send, answers = table.send, iter([Unavailable("away")])

    def fail_once(items):
        for error in answers:
            raise error
        send(items)

    table.send = fail_once
    with sender(table, max_batch_bytes=1_000_000) as out:
        with pytest.raises(DeliveryError):
            out(parts)
        assert table.rows == parts[1:] and counts(out) == (2, 0, 0, 1, 0)


def test_two_workers_of_a_queue_have_their_weights_and_types_and_a_closed_one_takes_nothing():
    with BatchQueue("shared", threads=1, partitions=PartitionPolicy.adaptive()) as queue:
        with sender(Table(), queue=queue, weight=7) as one, sender(Table(), queue=queue) as other:
            assert one.produce_many([1, 2]) == 2 and other.produce("a")
            assert len(queue.stats().used) == PartitionPolicy.adaptive().resolve(1, 8)
            assert (one.stats().per_type, other.stats().per_type) == ({int: 2}, {str: 1})
            one.close()
            assert one.produce_many([3, 4]) == 0 and one.produce(3) is one.offer(3) is False


@pytest.mark.parametrize("way", [{}, {"max_batch_bytes": 10_000}, {"queue": "shared"}], ids=repr)
def test_what_waits_is_pending_by_its_type_whatever_bounds_the_queue(way):
    sink = Hanging(heeds=False)
    with contextlib.ExitStack() as stack:
        if way.get("queue"):
            way = {"queue": stack.enter_context(BatchQueue("shared", threads=1))}
        out = stack.enter_context(sender(sink, **way))
        assert out.produce("a") and sink.entered.wait(PATIENCE)
        assert out.produce("b") and out.offer("c") and out.produce_many([1, 2]) == 2
        assert asyncio.run(out.produce_async(3)) and asyncio.run(out.produce_many_async([4, 5])) == 2
        assert agree(out).pending == 8 and out.stats().per_type == {str: 3, int: 5}
        sink.go.set()
        assert out.close() and counts(out) == (8, 0, 0, 0, 0)


def test_an_item_that_still_waits_for_room_when_the_worker_ends_is_counted_nowhere():
    sink = Hanging(heeds=False)
    out = sender(sink, max_batch_bytes=60)  # room for one item
    assert out.produce("a") and sink.entered.wait(PATIENCE) and out.produce("b")
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(out.produce, "c")
        until(lambda: agree(out).pending == 3)
        assert out.close(0.1) is False
        assert waits.result(PATIENCE) is False and counts(out) == (0, 0, 0, 2, 0)
        sink.go.set()
        until(lambda: counts(out) == (1, 0, 0, 1, 0))


def test_what_is_offered_beside_the_end_of_a_worker_is_lost_if_it_was_queued_and_else_counted_nowhere():
    out = sender(Table(), max_batch_bytes=60)
    for was_queued, expected in ((True, (0, 0, 0, 1, 0)), (False, (0, 0, 0, 1, 0))):
        with out._offering("a") as note:  # the first begins before the end, the second after it
            out.close()
            assert counts(out) == (0, 0, 0, 1 + (not was_queued), 0)
            note(was_queued)
        assert counts(out) == expected
    with BatchQueue("shared", threads=1) as queue, sender(Table(), queue=queue) as shared, sender(Table()) as own:
        shared._arrived = own._arrived = 3  # the queue has not counted them yet
        assert shared.stats().pending == own.stats().pending == 0
        shared._arrived = own._arrived = 0
        groups, shared._queue = [], SimpleNamespace(produce_many=lambda group: groups.append(group) or len(group))
        shared._types._before = dict.fromkeys((int, str), 5)
        assert shared.produce_many([3, 1, "b", "a", 2]) == 5 and groups == [[3, 1], ["b", "a"], [2]]
        shared._queue = queue
        shared._renew_in_child()  # whose queue counts from zero
        assert shared._types._before == {int: 0, str: 0}


def test_each_thread_calls_the_sink():
    table, both = Table(), threading.Barrier(2)
    table.send = lambda items: both.wait(PATIENCE) * 0 or None
    with sender(table, threads=2) as out:
        assert out.produce(1) and out.produce(2) and out.flush()
        assert counts(out) == (2, 0, 0, 0, 0)


@pytest.mark.parametrize("end", [SendingWorker.close, SendingWorker._give_up])
def test_once_close_gives_up_or_is_over_no_kept_message_is_started(end, delayed, clock):
    table = Table()
    out = sender(table, delayed=delayed)
    table.down = Unavailable("away")
    out(["a"])
    table.down = None
    clock.advance(3600)
    end(out)
    out.on_idle()
    assert table.rows == [] and out.close() and out.flush()


@pytest.mark.parametrize("send_again", [SendingWorker.flush, SendingWorker.on_idle])
def test_a_kept_item_that_is_sent_ends_the_stop(delayed, clock, send_again):
    table = Table()
    table.failure_of = lambda error: Failure.CANNOT_PASS
    table.down = LookupError("no such table")
    out = sender(table, delayed=delayed)
    out(["a"])
    with pytest.raises(DeliveryStopped):
        out.produce("b")
    table.down = None
    clock.advance(3600)
    send_again(out)
    assert out.produce("b") and out.close() and table.rows == ["a", "b"]


def test_back_pressure_holds_producers_while_the_other_side_is_away():
    table = Table()
    table.down = Unavailable("away")
    out = sender(table, retry_for=PATIENCE)
    done = threading.Event()

    def produce():
        assert out.produce_many(range(60_000)) == 60_000
        done.set()

    threading.Thread(target=produce).start()
    until(lambda: (queue := out.stats().queue) is not None and queue.queued >= 10_000)
    assert not done.is_set() and agree(out).sent == 0
    table.down = None
    assert done.wait(PATIENCE) and out.close()
    assert table.rows == list(range(60_000)) and counts(out) == (60_000, 0, 0, 0, 0)


@pytest.mark.parametrize("option", [{"retry_for": -1}, {"retry_for": float("nan")}, {"threads": 0}, {"weight": 0}])
def test_an_option_that_cannot_be_is_refused(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        sender(Table(), **option)
