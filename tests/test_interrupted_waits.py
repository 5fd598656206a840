"""Ctrl-C first, an item or room second: an interrupted call of a multi-queue or a set queue has neither taken nor put anything.

A thread keeps the GIL from the signal to the item that it puts: ``_thread.interrupt_main`` marks the signal as pending without
giving the GIL up, and no other thread can ask for the GIL in time. So the main thread, asleep in the call, finds both.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="no sched_yield")]

HEAD = """
import _thread, os, sys, threading
from drainq import MultiQueue, SetQueue

class First:
    def select(self, groups):
        return groups[0][0]

def multi(capacity=None, selection="priority"):
    global queue, put, put_many, left
    queue = MultiQueue(selection)
    sub = queue.add_sub_queue("a", capacity=capacity)
    put, put_many, left = sub.put, sub.put_many, sub.clear

def sets(capacity=None):
    global queue, put, put_many, left
    queue = SetQueue(capacity)
    put, put_many, left = queue.put, queue.put_many, queue.clear

def blocked():
    stats = queue.stats()
    return stats.blocked_getters + stats.blocked_putters

def until_blocked(count):
    while blocked() != count:
        os.sched_yield()

def interrupted(call, act, another=None):
    '''Makes the call; once it is blocked, ``another`` blocks in a thread. Then Ctrl-C comes, and ``act`` is called.'''
    answers, returned, accepted = [], [], []
    other = threading.Thread(target=lambda: answers.append(another()), daemon=True)

    def disturb():
        until_blocked(1)
        if another is not None:
            other.start()
            until_blocked(2)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000.0)
        _thread.interrupt_main()
        act()
        sys.setswitchinterval(interval)

    disturber = threading.Thread(target=disturb)
    try:
        disturber.start()
        returned.append(call())
    except KeyboardInterrupt as error:
        accepted.append(getattr(error, "accepted", None))
    assert returned == [], f"interrupted after the call had returned {returned}"
    disturber.join()
    if another is not None:
        other.join(30)
    assert blocked() == 0
    return (accepted if another is None else answers)[0]
"""

GETS = {
    **dict.fromkeys(["queue.get()", "queue.get(timeout=60)"], ("multi()", "multi(None, First())", "sets()")),
    **dict.fromkeys(
        ["queue.get_item()", "queue.get_many(5)", "queue.get_many(5, min_items=2)"], ("multi()", "multi(None, First())")
    ),
}
PUTS = dict.fromkeys(["put(1)", "put(1, timeout=60)", "put_many([1])"], ("multi(1)", "sets(1)"))


def run(make: str, program: str) -> None:
    """Run the program five times. It must exit with 0 and print nothing."""
    lines = "\n".join(f"    {line}" for line in program.strip().splitlines())
    code = f"{HEAD}\nfor turn in range(5):\n    {make}\n{lines}\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (make, program)


def test_items_that_come_after_the_signal_are_not_taken() -> None:
    for call, makers in GETS.items():
        for make in makers:
            run(
                make,
                f"interrupted(lambda: {call}, lambda: put_many([1, 2, 3]))\nassert (left(), queue.stats().got) == ([1, 2, 3], 0)",
            )


def test_room_that_comes_after_the_signal_is_not_filled() -> None:
    for call, makers in PUTS.items():
        for make in makers:
            run(
                make,
                f"put(0)\ninterrupted(lambda: {call}, queue.get_nowait)\nassert (left(), queue.stats().put) == ([], 1)",
            )


def test_the_wake_up_of_an_interrupted_call_goes_to_the_next() -> None:
    for call in ("queue.get()", "queue.get_item()", "queue.get_many(1)"):
        run("multi()", f"assert interrupted(lambda: {call}, lambda: put(turn), another=queue.get) == turn")
    run("sets()", "assert interrupted(queue.get, lambda: put(turn), another=queue.get) == turn")
    for call, makers in PUTS.items():
        for make in makers:
            run(
                make,
                f"put(0)\ninterrupted(lambda: {call}, queue.get_nowait, another=lambda: put(2))\nassert left() == [2]",
            )


def test_an_interrupted_put_many_says_how_many_went_in() -> None:
    for make in ("multi(2)", "sets(2)"):
        run(make, "assert interrupted(lambda: put_many([0, 1, 2, 3]), queue.get_nowait) == 2\nassert left() == [1]")
