"""``close(timeout)`` returns by its deadline, and what it cannot send it keeps or counts as lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from drainq import BatchQueue
from drainq.delivery import SendingWorker, Unavailable, dead_letters, type_owners, worker
from drainq.errors import WouldDeadlock
from drainq.testing import ManualClock
from drainq.timer import Alarm
from tests.delivery.helpers import Hanging, Table, agree, counts
from tests.patience import eventually

PATIENCE = 60.0


def sender(sink, **more):
    return SendingWorker(sink, **{"name": "test", "retry_for": 0, **more})


@pytest.mark.parametrize("heeds", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_close_returns_while_the_sink_hangs_and_the_books_agree_then_and_later(heeds, kept, delayed, gives_up_early):
    sink = Hanging(heeds=heeds)
    out = sender(sink, delayed=delayed if kept else None)
    assert out.produce_many(range(5)) == 5
    assert sink.entered.wait(PATIENCE)
    assert out.produce_many(range(5, 8)) == 3
    assert out.flush(0.01) is False
    assert agree(out).pending == 8
    out.close(3.0)
    first, _, letters, lost, pending = counts(out)
    assert (first, pending, letters + lost) == (0, 0, 8)
    if heeds:
        assert (letters, lost) == ((8, 0) if kept else (0, 8))
        assert sink.closed.wait(PATIENCE)
    else:  # what waits behind the hanging call cannot be reached
        hung = sink.in_hand
        assert (letters, lost) == ((hung, 8 - hung) if kept else (0, 8))
        sink.go.set()
        assert sink.closed.wait(PATIENCE)  # the late answer counts: these are sent, and no dead letters any more
        assert counts(out) == (hung, 0, 0, 8 - hung, 0)
        assert delayed.stats().scheduled == 0
    assert out.produce(9) is False


@pytest.mark.parametrize(("keeps", "timeout", "seconds"), [(True, 2.0, 1.0), (True, 60.0, 55.0), (False, 2.0, 1.5)])
def test_close_reserves_time_to_keep_what_is_left(keeps, timeout, seconds, delayed, monkeypatch):
    out, alarms, made = sender(Table(), delayed=delayed if keeps else None), [], []

    def after(seconds, do):
        alarms.append((seconds, do))
        made.append(Alarm(worker.SHARED, do))
        return made[-1]

    monkeypatch.setattr(worker.SHARED, "after", after)
    assert out.close(timeout) and alarms == [(seconds, out._give_up)]
    assert made[0].cancel() is False  # it was cancelled


def test_a_close_in_the_sink_is_refused_while_another_thread_closes():
    inside, go, seen = threading.Event(), threading.Event(), []

    class Closes(Table):
        def send(self, items):
            inside.set()
            assert go.wait(PATIENCE)
            with pytest.raises(WouldDeadlock):
                out.close()
            seen.extend(items)
            return []

    out = sender(Closes())
    assert out.produce(1) and inside.wait(PATIENCE)
    with ThreadPoolExecutor() as threads:
        closing = threads.submit(out.close)
        while not out._closer:
            assert not closing.done()
        go.set()
        assert closing.result(PATIENCE) and seen == [1]


def test_close_goes_on_after_its_time_while_items_are_being_kept(delayed, monkeypatch):
    table, late, offered = Table(), threading.Event(), []
    table.down = Unavailable("away")
    out = sender(table, delayed=delayed, retry_for=PATIENCE, max_batch=1)
    offer, outlast = delayed.offer_if_not_exists, out._dead_letters.outlast

    def offer_late(*message):
        assert late.wait(PATIENCE)
        offered.append(offer(*message))

    def wait_beyond(wait, deadline):
        def wait_and_say(seconds):
            done = wait(seconds)
            late.set()  # the time that close has is over
            return done

        return outlast(wait_and_say, deadline)

    monkeypatch.setattr(delayed, "offer_if_not_exists", offer_late)
    monkeypatch.setattr(out._dead_letters, "outlast", wait_beyond)
    assert out.produce_many(range(20)) == 20
    assert out.close(0.5) and counts(out) == (0, 0, 20, 0, 0) and len(offered) == 20


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_with_delayed_nothing_is_lost_if_the_queue_ends_before_its_worker(shares, answers, delayed, clock, caplog):
    sink, queue = Hanging(heeds=not answers), BatchQueue("ends first", threads=1)
    out = sender(sink, delayed=delayed, **({"queue": queue} if shares else {}))
    out.route(int) if shares else queue.add_handler(int, out)
    assert queue.produce(0) and sink.entered.wait(PATIENCE)
    assert queue.produce_many(range(1, 5000)) == 4999
    assert queue.shutdown(0) is False
    stats = queue.stats()
    assert stats.balanced and (stats.dead_lettered, stats.abandoned, stats.per_type[int].failed) == (4999, 1, 4999)
    assert "1 items not handled: abandoned; calls that run on may still handle some" in caplog.text
    assert counts(out) == (0, 0, 5000, 0, 0)
    if answers:
        sink.go.set()
        eventually(lambda: out.stats().sent == 1)
    assert out.close(PATIENCE) and sink.closed.wait(PATIENCE)
    assert counts(out) == ((1, 0, 4999, 0, 0) if answers else (0, 0, 5000, 0, 0))
    clock.advance(3600)
    kept = delayed.try_poll_many(9).payload
    assert [item for letter in kept for item in letter["items"]] == list(range(answers, 5000))


def test_what_a_queue_gives_up_is_lost_without_a_keeper_or_with_one_that_takes_nothing(delayed, monkeypatch, caplog):
    for kept in (None, delayed):
        sink, queue = Hanging(heeds=False), BatchQueue("ends first", threads=1)
        with sender(sink, delayed=kept, queue=queue) as out:
            out.route(int)
            assert queue.produce(0) and sink.entered.wait(PATIENCE) and queue.produce_many([1, 2]) == 2
            if kept:
                monkeypatch.setattr(delayed, "offer_if_not_exists", lambda *message: 1 / 0)
            assert queue.shutdown(0) is False and queue.stats().abandoned == 3
            sink.go.set()
            eventually(lambda: out.stats().sent == 1)
            assert out.close(PATIENCE) is False and counts(out) == (1, 0, 0, 2, 0)


def test_the_types_of_a_shared_queue_are_released_by_one_deadline(monkeypatch):
    clock, waits = ManualClock(0.0), []
    monkeypatch.setattr(type_owners, "time", SimpleNamespace(monotonic=clock.now))

    class Busy:
        def flush(self, timeout):
            waits.append(timeout)
            clock.advance(0.6)

        def remove_handler(self, kind, timeout):
            self.flush(timeout)

    types = type_owners.ItemTypes(Busy(), 1.0)
    types._before = {int: 0, str: 0, bytes: 0}
    types.leave(1.0)
    assert waits == [1.0, pytest.approx(0.4), 0.0, 0.0]


def test_what_another_queue_gives_up_to_a_worker_is_kept_beside_the_items_of_its_own_queue(delayed):
    sink = Hanging(heeds=False)
    with sender(sink, delayed=delayed) as out:
        assert out.on_abandoned([7, 8]) is True  # as a queue calls its handler
        assert out.produce(0) and sink.entered.wait(PATIENCE) and out.produce_many([1, 2]) == 2
        kept = counts(out)
        sink.go.set()
        assert out.flush(PATIENCE)
    assert kept == (0, 0, 2, 0, 3) and agree(out).accepted == 5


@pytest.mark.parametrize(
    ("stops", "steps", "waits"),
    [(None, [0, 4.5], [5.0]), (1.0, [], [5.0]), (1.0, [3.0, 3.5], [5.0]), (1.0, [4.5, 5.4, 9.0], [5.0, 0.5, 0.9]),
     (4.6, [], [5.0, 0.6])],
)  # fmt: skip
def test_the_wait_for_what_is_kept_ends_a_second_after_its_last_step_or_the_first_stop(
    stops, steps, waits, delayed, monkeypatch
):
    clock, waited = ManualClock(0.0), []
    monkeypatch.setattr(dead_letters, "time", SimpleNamespace(monotonic=clock.now))
    keeper = sender(Table(), delayed=delayed)._dead_letters
    steps_at = [(at, lambda: keeper._packed("an item")) for at in steps]
    stops_at = [(at, keeper.stop) for at in (stops, 4.9) if stops]  # the second changes nothing
    events = sorted(steps_at + stops_at, key=lambda event: event[0])

    def wait(seconds):
        waited.append(seconds)
        end = clock.now() + seconds
        for at, happen in [event for event in events if clock.now() < event[0] <= end]:
            clock.advance(at - clock.now())
            happen()
        clock.advance(end - clock.now())
        return False

    assert keeper.outlast(wait, 5.0) is False and [round(seconds, 9) for seconds in waited] == waits
