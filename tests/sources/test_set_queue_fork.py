"""A forked child's set queue starts empty and works; the parent keeps its items."""

import pytest

from drainq import SetQueue, ShutDown
from tests.forked import in_child, needs_fork

pytestmark = needs_fork


def test_a_child_knows_nothing_of_the_parents_items_counters_and_polls():
    waiting = SetQueue(3, in_flight="ack")
    waiting.put_many(["a", "b", "a"])
    assert waiting.get() == "a"
    poll = waiting._begin_poll()

    def check():
        stats = waiting.stats()
        assert (stats.size, stats.in_flight, stats.put, stats.got, stats.duplicates) == (0, 0, 0, 0, 0)
        assert (waiting.knows("a"), waiting.knows("b"), waiting.capacity) == (False, False, 3)
        assert waiting._begin_poll() != poll
        assert not waiting._end_poll(poll)

    assert in_child(check) == 0
    assert waiting._end_poll(poll)


def test_a_shutdown_before_the_fork_holds_in_the_child():
    waiting = SetQueue()
    waiting.put(1)
    waiting.shutdown()

    def check():
        with pytest.raises(ShutDown):
            waiting.get()

    assert in_child(check) == 0
    assert waiting.get() == 1
