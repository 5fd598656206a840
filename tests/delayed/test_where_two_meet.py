"""Calls of a delayed queue where two things meet: a failure and a close, a loss in a batch, an end and a second look."""

from __future__ import annotations

import sqlite3
import threading
import time
from types import SimpleNamespace

import pytest

import drainq.delayed.admin
import drainq.delayed.consume
import drainq.delayed.offer
import drainq.delayed.poll
import drainq.delayed.queue
import drainq.delayed.wake
from drainq.delayed import DelayedQueue, QueueBroken, ScheduledMessage, TimeConfig
from drainq.delayed.consume_prefetch import Pace, Prefetched
from drainq.delayed.deadline import set_deadline
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.records import Row
from drainq.delayed.storage.sqlite.storage import MemoryStorage, SQLiteStorage
from drainq.delayed.storage.table_names import _SUFFIXES, MAX_TABLE_BYTES, TableNames
from drainq.delayed.wake import Wakeup, wake_after_commit
from drainq.errors import ShutDown
from tests.delayed.test_consume_loop import Away, Bench, prefetching


@pytest.fixture(autouse=True)
def every_handler_is_quick(monkeypatch):
    monkeypatch.setattr(drainq.delayed.consume, "time", SimpleNamespace(monotonic=lambda: 0.0))


def calls_of(target, name, monkeypatch, answer=None):
    """Replace a method; return the list of its calls' arguments."""
    calls = []
    monkeypatch.setattr(target, name, lambda *arguments, **more: calls.append((*arguments, more)) or answer)
    return calls


# --- opening and closing


@pytest.mark.parametrize("error", [KeyboardInterrupt, QueueBroken])
def test_an_opening_that_does_not_end_closes_what_it_opened(monkeypatch, error):
    def fails(*_, **__):
        raise error("no")

    storage = MemoryStorage()
    monkeypatch.setattr(drainq.delayed.queue, "open_storage", lambda *_, **__: (storage, 1))
    monkeypatch.setattr(drainq.delayed.queue, "reach", fails)
    with pytest.raises(error):
        DelayedQueue.open("memory:")
    assert storage._closed


def test_a_queue_in_memory_keeps_the_times_it_was_given():
    with DelayedQueue.open("memory:", time=TimeConfig(poll_period=7)) as queue:
        assert queue._session.time.poll_period == 7
    with pytest.raises(ShutDown), queue:
        pass


def test_a_close_ends_the_listener_and_none_begins_after_it(monkeypatch):
    bench = Bench()
    session = bench.session
    closed, listened = [], calls_of(session.storage, "listen", monkeypatch)
    session.notify, session.listener = True, SimpleNamespace(close=lambda: closed.append(True))
    bench.queue.close()
    session.listen()
    assert (closed, listened, session.listener) == ([True], [], None)


def test_a_failure_of_a_call_during_which_the_queue_was_closed_is_the_close():
    bench = Bench()
    bench.retry_at_once()
    tries = []

    def closes():
        tries.append(bench.queue.close())
        raise Away

    with pytest.raises(ShutDown):
        bench.session.call(closes)
    assert len(tries) == 1
    bench.session._migrate()  # is left to the next open
    with pytest.raises(ShutDown):
        bench.session.ack_within(None, object())


# --- taking and giving back


def test_after_messages_that_can_only_be_buried_the_next_is_taken_at_once(monkeypatch):
    for take in ("poll", "consume"):
        bench, seen = Bench(max_attempts=1), []
        bench.offer("a")
        assert bench.queue.try_poll().payload == "a"
        bench.clock.advance(31)
        bench.offer("b")
        bench.most = 1  # the loop ends at its first sleep
        if take == "poll":
            seen.append(bench.queue.try_poll().payload)
        else:
            bench.queue.consume(lambda envelope, seen=seen: seen.append(envelope.payload))
        assert seen == ["b"] and bench.states()[3] == 1


def test_a_batch_given_back_of_which_a_part_is_worn_out_was_ours_as_a_whole():
    bench = Bench(max_attempts=2)
    bench.offer("a")
    bench.queue.try_poll().nack()
    bench.offer("b")
    assert bench.queue.try_poll_many(2).nack() is True
    assert bench.states() == (1, 0, 0, 1)
    (letter,) = bench.queue.dead_letters()
    assert letter.error == "given back 2 times"
    with pytest.raises(ValueError), bench.queue.try_poll():
        raise ValueError
    assert "ValueError" in bench.queue.dead_letters()[0].error


@pytest.mark.parametrize("settle", ["ack", "nack", "extend", "ack_some"])
def test_a_batch_that_lost_one_message_is_no_longer_ours_as_a_whole(settle):
    bench = Bench()
    bench.offer("a", "b")
    batch = bench.queue.try_poll_many(2)
    bench.queue.offer_or_update("a", "new", 0)
    arguments = {"extend": [5], "ack_some": [["a", "b"]]}.get(settle, [])
    assert getattr(batch, settle)(*arguments) is False


def test_a_batch_of_up_to_five_messages_is_named_in_full_and_a_missing_key_is_counted():
    bench = Bench()
    bench.offer(*"abcdef")
    five = bench.queue.try_poll_many(5)
    assert five.shown() == "message #1, #2, #3, #4, #5"
    with pytest.raises(KeyError, match="2 of the 3 keys are not in this envelope"):
        five.ack_some(["a", "x", "f"])
    assert five.nack() and bench.queue.try_poll_many(6).shown() == "message #1, #2, #3, #4, #5, ..."


def test_batches_of_a_source_are_done_together_and_once():
    bench = Bench()
    bench.offer(*"abcd")
    assert bench.queue.get_next_batch(0) == [] and not bench.storage.calls["acquire"]
    taken = bench.queue.get_next_batch(3) + bench.queue.get_next_batch(3)
    assert bench.queue.done(taken) == 4 and bench.storage.calls["ack"] == 2
    with taken[0]:
        pass  # the end of the block has nothing more to say
    assert bench.storage.calls["ack"] == 2


def test_an_acknowledgement_asks_for_the_time_only_if_a_history_wants_it(monkeypatch):
    bench = Bench()
    bench.offer("a")
    envelope = bench.queue.try_poll()
    monkeypatch.setattr(bench.session, "clock", None)
    assert envelope.ack()


def test_with_a_history_what_is_taken_next_acknowledges_no_second_time(monkeypatch):
    bench, dones = Bench(history=5), []
    bench.offer("a", "b")
    take = bench.storage.acquire

    def acquire(*arguments, done):
        dones.append(done)
        return take(*arguments, done=done)

    monkeypatch.setattr(bench.storage, "acquire", acquire)
    assert bench.queue.consume(lambda envelope: None, until="empty") == 2
    assert dones == [None] * 3 and len(bench.queue.history()) == 2


def test_a_lease_of_part_of_a_second_is_as_long_as_that():
    settings = QueueSettings.of("mail", time=TimeConfig(acquire_timeout=0.25))
    assert DelayedQueue(MemoryStorage(), settings)._session.lease_end(1000) == 1250


def test_a_queue_is_marked_once_as_one_with_priorities(monkeypatch):
    bench = Bench()
    marked = calls_of(bench.storage, "mark_ranked", monkeypatch)
    for key in "ab":
        bench.queue.offer_or_update(key, 1, 0, priority=1)
    assert len(marked) == 1


def test_polls_and_consumers_listen_and_a_poll_without_time_looks_once(monkeypatch):
    bench = Bench()
    listened = calls_of(bench.session, "listen", monkeypatch)
    monkeypatch.setattr(drainq.delayed.poll, "time", SimpleNamespace(monotonic=lambda: 0.0))
    assert bench.queue.poll(timeout=0) is None and bench.waits == []
    assert bench.queue.consume(lambda envelope: None, stop=SimpleNamespace(is_set=lambda: True)) == 0
    assert len(listened) == 2


def test_calls_that_look_have_their_defaults_and_close_what_they_open(tmp_path, monkeypatch):
    bench = Bench()
    bench.offer(*(f"{n:02}" for n in range(12)))
    assert len(bench.queue.peek()) == 10 and bench.queue.peek()[0].in_flight is False
    for name, method in (("dead", bench.queue.dead_letters), ("history", bench.queue.history)):
        asked = calls_of(bench.storage, name, monkeypatch, [])
        assert method() == [] and asked[0][1] == 100
    assert bench.queue.purge_dead(100 * 366 * 24 * 3600) == 0, "a century is allowed"
    assert len(bench.queue.try_poll_many(2**31 - 1).payload) == 12
    url, opened = f"sqlite:///{tmp_path}/queue.db", []
    DelayedQueue.open(url, "mail").close()
    open_storage = drainq.delayed.admin.open_storage
    monkeypatch.setattr(
        drainq.delayed.admin, "open_storage", lambda *a, **b: opened.append(open_storage(*a, **b)) or opened[-1]
    )
    assert [info.name for info in DelayedQueue.queues(url)] == ["mail"]
    assert [storage._closed for storage, _ in opened] == [True]


@pytest.mark.parametrize("many", [0, 8], ids=["a few", "many"])
@pytest.mark.parametrize(
    "bad",
    [
        ScheduledMessage("a", 1, float("nan")), ScheduledMessage("a", 1, 4.0, priority=2**31), ScheduledMessage("", 1, 4.0),
        ScheduledMessage("a", 1, True), ("a", 1, 4.0),
    ],
)  # fmt: skip
def test_one_bad_message_refuses_its_batch_however_large_and_is_counted(many, bad):
    """Many messages are checked together, and a few one by one."""
    bench = Bench()
    good = [ScheduledMessage(f"{n}", n, float(n)) for n in range(many + 1)]
    with pytest.raises((TypeError, ValueError), match="^message 1 of the batch: "):
        bench.queue.offer_batch([good[0], bad, *good[1:]])
    assert bench.states() == (0, 0, 0, 0)


def test_a_large_batch_keeps_what_each_message_says_of_itself():
    bench = Bench()
    bench.offer(*(f"{n}" for n in range(9)))
    messages = [ScheduledMessage(f"{n}", "new", 4.0, can_update=n == 3) for n in range(9)]
    assert [outcome.value for outcome in bench.queue.offer_batch(messages)].count("updated") == 1


def test_a_try_with_little_time_left_shortens_the_wait_for_a_lock_for_itself_alone():
    storage, waits = MemoryStorage(), []
    for end in (time.monotonic() + 1, None):
        before = set_deadline(end)
        with storage._cursor() as cursor:
            waits.append(cursor.execute("PRAGMA busy_timeout").fetchone()[0])
        set_deadline(before)
    assert waits[0] <= 1000 and waits[1] == 30_000
    storage.close()
    never_opened = SQLiteStorage("unused.db", table="t", busy_timeout=None)
    never_opened.close()
    for closed in (storage, never_opened):
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            closed.counts("kind", 0)


def test_a_callers_connection_may_return_any_rows_and_commit_by_itself(tmp_path):
    with DelayedQueue.open(f"sqlite:///{tmp_path}/queue.db", "mail") as queue:
        connection = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
        connection.row_factory = lambda cursor, row: {"row": row}
        assert queue.offer_batch([ScheduledMessage("a", n, 0) for n in range(2)], connection=connection)
        assert queue.contains_message("a") and not connection.in_transaction
        assert queue.try_poll().ack(connection=connection) and not queue.contains_message("a")
        connection.close()


# --- the consumer's loop


def test_each_further_failure_of_a_handler_is_waited_for_longer():
    bench, due = Bench(), []
    bench.offer("a")
    bench.most = 1
    for _ in range(3):
        bench.waits.clear()
        bench.queue._session.closed = False

        def fails(envelope):
            raise ValueError

        bench.queue.consume(fails, stop=SimpleNamespace(is_set=iter([False, False, True]).__next__))
        due.append(bench.storage.next_due(bench.session.kind, 0) - bench.session.now())
        bench.clock.advance(10)
    assert due == [250, 500, 1000]


def test_a_call_of_the_handler_that_settled_its_prefetch_ends_the_prefetching_for_a_while():
    bench = prefetching()
    bench.offer(*(f"{n:02}" for n in range(24)))

    def handle(envelope):
        if envelope.payload == "11":
            bench.queue.stats()

    assert bench.queue.consume(handle) == 24
    assert bench.storage.calls["acquire"] == 10 + 1 + 12 + 1  # the last finds nothing
    assert bench.session._prefetched == []


def test_the_credit_of_quick_calls_has_an_end():
    pace = Pace(4)
    for _ in range(1000):
        pace.handled(0.0001)
    for _ in range(3):
        pace.handled(0.1)
    assert pace.size() == 1


@pytest.mark.parametrize("lost", [0, 1])
def test_a_prefetch_is_acknowledged_once_and_says_what_was_lost(lost, caplog):
    rows, acked, released = [Row(n, f"{n}", b"", 0, 0, 1, 0, True) for n in (1, 2, 3)], [], []
    prefetched = Prefetched(
        rows, rows, "lock", now=lambda: 5, release=released.append,
        ack=lambda held, now: acked.append((held.ids, now)) or len(held.ids) - lost,
    )  # fmt: skip
    for _ in range(2):
        prefetched.handled(SimpleNamespace(ids=(prefetched.next()[0].id,)))
    for _ in range(2):
        prefetched.settle()
    assert acked == [((1, 2), 5)] and [held.ids for held in released] == [(3,)]
    assert caplog.text.count("1 handled messages were updated or taken over") == lost


def test_a_prefetch_that_is_given_back_wakes_the_other_consumers():
    session = Bench().session
    row, before = Row(1, "1", b"", 0, 0, 1, 0, True), session.wakeup.count()
    session.prefetched([row], [1], "lock").settle()
    assert session.wakeup.count() == before + 1


@pytest.mark.parametrize("last", [True, False], ids=["at the end", "with the next fetch"])
def test_of_a_batch_that_lost_a_message_the_loop_says_how_many(last, caplog):
    bench, seen = Bench(), []
    bench.offer("a", "b")
    bench.most = 1

    def handle(envelope):
        seen.append(envelope.payload)
        bench.queue.offer_or_update("a", "new", 4e9)

    stop = SimpleNamespace(is_set=lambda: bool(seen)) if last else None
    assert bench.queue.consume(handle, batch_size=2, stop=stop) == 2
    assert "1 handled messages were updated or taken over before" in caplog.text


def test_a_batch_that_was_acknowledged_in_parts_is_acknowledged_no_second_time(monkeypatch):
    bench, done = Bench(), []
    bench.offer("a", "b")
    bench.most = 1
    take = bench.session.take_once
    monkeypatch.setattr(
        bench.session, "take_once", lambda held, *a, **more: done.append(held) or take(held, *a, **more)
    )
    assert bench.queue.consume(lambda envelope: envelope.ack_some(["a"]) and envelope.ack_some(["b"]), batch_size=2)
    assert done == [None, None]


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("broken", [True, False])
def test_an_interrupt_gets_out_although_the_message_cannot_be_given_back(settled, broken, caplog, monkeypatch):
    bench = Bench()
    bench.offer("a")
    bench.retry_at_once()
    error = sqlite3.OperationalError("no such table: x") if broken else Away()
    released = []

    def release(*arguments):
        released.append(arguments)
        raise error

    monkeypatch.setattr(bench.storage, "release", release)

    def handle(envelope):
        if settled:
            envelope.ack()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.queue.consume(handle)
    assert bool(released) is not settled
    assert ("could not give back 1 messages" in caplog.text) is not settled


# --- waking


def test_one_wake_ends_the_wait_of_all_and_nobody_waits_after_it(monkeypatch):
    wakeup, woken = Wakeup(), []
    noted = wakeup.count()
    waiters = [threading.Thread(target=lambda: woken.append(wakeup.wait(noted, 3600)), daemon=True) for _ in range(2)]
    for waiter in waiters:
        waiter.start()
    while wakeup._waiting < 2:
        threading.Event().wait(0.001)
    wakeup.wake()
    for waiter in waiters:
        waiter.join(60)
    assert woken == [True, True] and wakeup._waiting == 0
    later = calls_of(drainq.delayed.wake.SHARED, "after", monkeypatch)
    wakeup.wake_in(5)  # nobody waits, so who polls learns when
    assert wakeup.count() == noted + 2 and later == []


@pytest.mark.parametrize(("status", "ended"), [(0, True), (1, False), (2, False), (None, True)])
def test_a_transaction_of_psycopg_has_ended_when_its_connection_is_idle_or_closed(monkeypatch, status, ended):
    """1: a statement runs, 2: a transaction is open; None: the connection is closed."""
    woken, later = [], calls_of(drainq.delayed.wake.SHARED, "after", monkeypatch)
    connection = (
        SimpleNamespace() if status is None else SimpleNamespace(info=SimpleNamespace(transaction_status=status))
    )
    wake_after_commit(connection, lambda: woken.append(True), 3600.0)
    assert (bool(woken), len(later)) == (ended, not ended)


@pytest.mark.parametrize(("ends", "answer"), [((True, True), True), ((False, True), False), ((True, False), False)])
def test_closing_shares_one_timeout_among_the_schedules_and_the_rest(monkeypatch, ends, answer):
    queue, told, now = DelayedQueue.open("memory:", "mail"), [], [100.0]

    def closing(which, ended):
        def close(timeout):
            told.append((which, timeout))
            now[0] += 3.0
            return ended

        return close

    monkeypatch.setattr(drainq.delayed.queue, "real_time", SimpleNamespace(monotonic=lambda: now[0]))
    with monkeypatch.context() as patch:
        patch.setattr(queue.cron, "close", closing("cron", ends[0]))
        patch.setattr(queue._session, "close", closing("session", ends[1]))
        assert [queue.close(timeout) for timeout in (7.5, 2, None)] == [answer] * 3
    assert told == [("cron", 7.5), ("session", 4.5), ("cron", 2), ("session", 0.0), ("cron", None), ("session", None)]
    queue.close()


def test_a_tables_name_is_as_long_as_the_names_of_its_indexes_allow():
    names = TableNames("ä" * (MAX_TABLE_BYTES // 2))
    assert max(len(names.name(token).encode()) for token in _SUFFIXES) in (62, 63) and MAX_TABLE_BYTES == 37
    with pytest.raises(ValueError, match="at most 37 bytes in UTF-8, got 'ä"):
        TableNames("ä" * (MAX_TABLE_BYTES // 2 + 1))


def test_a_listener_that_leaves_takes_no_other_with_it():
    wakeup, heard = Wakeup(), []
    first, second = (lambda: heard.append(1)), (lambda: heard.append(2))
    wakeup.add_listener(first)
    wakeup.add_listener(second)
    wakeup.remove_listener(first)
    wakeup.wake()
    assert heard == [2]


@pytest.mark.parametrize(("most", "looks"), [(0.0, 0), (3600.0, 1)])
def test_the_end_of_a_callers_transaction_is_looked_for_no_longer_than_a_poll_period(monkeypatch, most, looks):
    later = calls_of(drainq.delayed.wake.SHARED, "after", monkeypatch)
    wake_after_commit(SimpleNamespace(in_transaction=True), pytest.fail, most)
    assert len(later) == looks
