"""Ctrl-C and a set queue: an interrupted call has neither taken nor put an item, whatever comes after the signal."""

import sys

import pytest

from tests.interrupted import runs

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="no sched_yield")]

GETS = ["waiting.get()", "waiting.get(timeout=60)"]
PUTS = ["waiting.put(1)", "waiting.put(1, timeout=60)", "waiting.put_many([1, 2])"]


@pytest.mark.parametrize("call", GETS)
def test_an_item_that_comes_after_the_signal_is_not_taken(call):
    runs(f"""
from drainq import SetQueue

waiting = SetQueue()
for item in range(ROUNDS):
    interrupted(waiting, lambda: {call}, lambda: waiting.put(item))
    assert list(waiting) == [item], waiting.stats()
    assert waiting.get_nowait() == item
assert waiting.stats().got == ROUNDS
assert blocked(waiting) == 0
""")


@pytest.mark.parametrize("call", PUTS)
def test_room_that_comes_after_the_signal_is_not_filled(call):
    runs(f"""
from drainq import SetQueue

waiting = SetQueue(1)
for _ in range(ROUNDS):
    waiting.put(0)
    interrupted(waiting, lambda: {call}, waiting.clear)
    assert list(waiting) == [], waiting.stats()
assert waiting.stats().put == ROUNDS
assert blocked(waiting) == 0
""")


def test_the_wake_up_of_an_interrupted_getter_goes_to_the_next():
    runs("""
from drainq import SetQueue

waiting, others = SetQueue(), []
for item in range(ROUNDS):
    def another():
        until_blocked(waiting, 1)
        others.append(Caller(waiting.get))
    interrupted(waiting, waiting.get, lambda: waiting.put(item), before=another)
    others[-1].join(30)
    assert others[-1].result == item
""")


def test_the_wake_up_of_an_interrupted_putter_goes_to_the_next():
    runs("""
from drainq import SetQueue

waiting, others = SetQueue(1), []
for _ in range(ROUNDS):
    waiting.put(0)
    def another():
        until_blocked(waiting, 1)
        others.append(Caller(lambda: waiting.put(2)))
    interrupted(waiting, lambda: waiting.put(1), waiting.get_nowait, before=another)
    others[-1].join(30)
    assert (others[-1].result, waiting.clear()) == (True, [2])
""")


def test_an_interrupted_put_many_says_how_many_went_in():
    runs("""
from drainq import SetQueue

waiting = SetQueue(2)
def put():
    try:
        waiting.put_many([0, 0, 1, 2, 3])
    except KeyboardInterrupt as error:
        assert error.accepted == 2
        raise
interrupted(waiting, put, waiting.get_nowait)
assert list(waiting) == [1]
""")
