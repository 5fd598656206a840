"""Ctrl-C first, an item or room second: an interrupted call has neither taken nor put anything."""

import sys

import pytest

from tests.interrupted import runs

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="no sched_yield")]

GETS = [
    "queue.get()",
    "queue.get(timeout=60)",
    "queue.get_item()",
    "queue.get_many(5)",
    "queue.get_many(5, min_items=2)",
]
PUTS = ["sub.put(1)", "sub.put(1, timeout=60)", "sub.put_many([1])"]


@pytest.mark.parametrize("selection", ["'priority'", "First()"])
@pytest.mark.parametrize("call", GETS)
def test_items_that_come_after_the_signal_are_not_taken(call, selection):
    runs(f"""
from drainq import MultiQueue

class First:
    def select(self, groups):
        return groups[0][0]

queue = MultiQueue({selection})
sub = queue.add_sub_queue("a")
for _ in range(ROUNDS):
    interrupted(queue, lambda: {call}, lambda: sub.put_many([1, 2, 3]))
    assert queue.stats().got == 0, queue.stats()
    assert sub.clear() == [1, 2, 3]
assert blocked(queue) == 0
""")


@pytest.mark.parametrize("call", PUTS)
def test_room_that_comes_after_the_signal_is_not_filled(call):
    runs(f"""
from drainq import MultiQueue

queue = MultiQueue()
sub = queue.add_sub_queue("a", capacity=1)
for done in range(ROUNDS):
    sub.put(0)
    interrupted(queue, lambda: {call}, queue.get_nowait)
    assert list(sub) == [], list(sub)
    assert sub.stats().rejected == done + 1
assert sub.stats().put == ROUNDS
assert blocked(queue) == 0
""")


@pytest.mark.parametrize("call", ["queue.get()", "queue.get_item()[1]", "queue.get_many(1)[0]"])
def test_the_wake_up_of_an_interrupted_getter_goes_to_the_next(call):
    runs(f"""
from drainq import MultiQueue

queue, others = MultiQueue(), []
sub = queue.add_sub_queue("a")
for item in range(ROUNDS):
    def another():
        until_blocked(queue, 1)
        others.append(Caller(queue.get))
    interrupted(queue, lambda: {call}, lambda: sub.put(item), before=another)
    others[-1].join(30)
    assert others[-1].result == item
""")


@pytest.mark.parametrize("call", PUTS)
def test_the_wake_up_of_an_interrupted_putter_goes_to_the_next(call):
    runs(f"""
from drainq import MultiQueue

queue, others = MultiQueue(), []
sub = queue.add_sub_queue("a", capacity=1)
for _ in range(ROUNDS):
    sub.put(0)
    def another():
        until_blocked(queue, 1)
        others.append(Caller(lambda: sub.put(2)))
    interrupted(queue, lambda: {call}, queue.get_nowait, before=another)
    others[-1].join(30)
    assert (others[-1].result, sub.clear()) == (None, [2])
""")


def test_an_interrupted_put_many_says_how_many_went_in():
    runs("""
from drainq import MultiQueue

queue = MultiQueue()
sub = queue.add_sub_queue("a", capacity=2)
def put():
    try:
        sub.put_many([0, 1, 2, 3])
    except KeyboardInterrupt as error:
        assert error.accepted == 2
        raise
interrupted(queue, put, queue.get_nowait)
assert list(sub) == [1]
""")
