"""A queue in memory: its differences from an SQLite file, which every other test uses."""

from __future__ import annotations

import os
import threading

import pytest

from drainq.delayed import CronMessage, DelayedQueue, ScheduledMessage
from drainq.testing import ManualClock
from tests.delayed.test_import import run

NO_CONNECTION = "a queue in memory has no connection to share"


@pytest.fixture
def queue():
    with DelayedQueue.open("memory:", "mail", clock=ManualClock(1000.0), max_attempts=1, history=9) as queue:
        yield queue


def test_a_message_goes_its_way(queue):
    queue.offer_batch([ScheduledMessage("a", 1, 1000), ScheduledMessage("b", 2, 1000), ScheduledMessage("c", 3, 1005)])
    queue.offer_or_update("d", 4, 1000, priority=-1)
    assert queue.try_poll().payload == 4
    first, second = queue.try_poll_many(1), queue.try_poll()
    assert first.ack() and second.nack(error="no")
    assert [finished.key for finished in queue.history()] == ["a"]
    assert [letter.key for letter in queue.dead_letters()] == ["b"] and queue.redrive() == 1
    stats = queue.stats()
    assert (stats.ready, stats.scheduled, stats.in_flight) == (1, 1, 1)


def test_a_schedule_creates_its_messages(queue):
    message = CronMessage("report", schedule_at=queue.clock.now() + 5)
    assert [queue.cron.install_tick("hash", "reports", [message]) for _ in range(2)] == [1, 0]
    assert queue.stats().scheduled == 1


def test_a_callers_connection_is_refused(queue):
    connection = object()
    queue.offer_or_update("a", 1, 1000)
    with pytest.raises(ValueError, match=NO_CONNECTION):
        queue.offer_or_update("b", 1, 1000, connection=connection)
    with pytest.raises(ValueError, match=NO_CONNECTION):
        queue.offer_or_update("b", 1, 1000, priority=1, connection=connection)
    with DelayedQueue.open("memory:", "mail", clock=queue.clock) as other:
        other.offer_or_update("a", 1, 1000)
        with pytest.raises(ValueError, match=NO_CONNECTION):
            other.try_poll().ack(connection=connection)
    assert queue.stats().ready == 1


def test_queues_of_one_name_hold_messages_of_their_own(queue):
    queue.offer_or_update("a", 1, 1000)
    with DelayedQueue.open("memory:", "mail", clock=queue.clock) as other:
        assert other.try_poll() is None


def test_many_threads_take_each_message_once(queue):
    queue.offer_batch([ScheduledMessage(f"{n:03}", n, 1000) for n in range(200)])
    seen: list[int] = []

    def take():
        while (envelope := queue.try_poll()) is not None:
            seen.append(envelope.payload)
            envelope.ack()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(200))


def test_a_queue_that_is_opened_without_migration_has_its_tables():
    with DelayedQueue.open("memory:", "mail", clock=ManualClock(1000.0), migrate=False) as queue:
        queue.offer_or_update("a", 1, 1000)
        assert queue.try_poll().payload == 1


def test_sqlite_is_imported_when_a_queue_is_opened():
    assert run(
        "import sys, drainq.delayed\n"
        "before = 'sqlite3' in sys.modules\n"
        "drainq.delayed.DelayedQueue.open('memory:', 'mail').close()\n"
        "print(before, 'sqlite3' in sys.modules)"
    ) == "False True\n"  # fmt: skip


@pytest.mark.system
def test_a_forked_child_starts_with_an_empty_one_and_the_parents_messages_stay(queue):
    queue.offer_or_update("a", 1, 1000)
    child = os.fork()
    if child == 0:
        ok = queue.try_poll() is None and queue.offer_or_update("b", 2, 1000) and queue.try_poll().payload == 2
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert queue.try_poll().payload == 1
