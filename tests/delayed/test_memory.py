"""A queue in memory: its differences from an SQLite file, which every other test uses."""

from __future__ import annotations

import os

import pytest

from drainq.delayed import DelayedQueue
from drainq.testing import ManualClock
from tests.delayed.test_import import run

NO_CONNECTION = "a queue in memory has no connection to share"


@pytest.fixture
def queue():
    with DelayedQueue.open("memory:", "mail", clock=ManualClock(1000.0), max_attempts=1, history=9) as queue:
        yield queue


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
