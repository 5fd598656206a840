"""Ctrl-C breaks every blocking call in the main thread and loses nothing."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process")]

PROGRAM = """
import asyncio, os, signal, sys, threading
from drainq import MultiQueue

queue = MultiQueue()
sub = queue.add_sub_queue("a", capacity=2)
{setup}
def interrupt():
    stats = queue.stats()
    while stats.blocked_getters + stats.blocked_putters == 0:
        os.sched_yield()
        stats = queue.stats()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    {call}
except KeyboardInterrupt:
    pass
else:
    sys.exit("not interrupted")
stats = queue.stats()
assert stats.blocked_getters == stats.blocked_putters == 0, stats
assert stats.put == stats.got + stats.removed + stats.depth, stats
{check}
print("broken")
"""

FULL = "sub.put_many([0, 1])"

CALLS = {
    "get": ("", "queue.get()", "sub.put(1); assert queue.get() == 1"),
    "get with a timeout": ("", "queue.get(timeout=60)", "assert stats.got == 0"),
    "get_item": ("", "queue.get_item()", "assert stats.got == 0"),
    "get_many": ("", "queue.get_many(5)", "assert stats.got == 0"),
    "get_many that holds items": (FULL, "queue.get_many(5, min_items=3)", "assert list(sub) == [0, 1]"),
    "get_async": ("", "asyncio.run(queue.get_async())", "assert stats.got == 0"),
    "put": (FULL, "sub.put(2)", "assert list(sub) == [0, 1] and stats.rejected == 1"),
    "put with a timeout": (FULL, "sub.put(2, timeout=60)", "assert list(sub) == [0, 1] and stats.rejected == 1"),
    "put_many": (FULL, "sub.put_many([2, 3])", "assert list(sub) == [0, 1] and stats.rejected == 2"),
    "put_async": (FULL, "asyncio.run(sub.put_async(2))", "assert list(sub) == [0, 1] and stats.rejected == 1"),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_breaks_the_call_and_loses_nothing(name):
    setup, call, check = CALLS[name]
    program = textwrap.dedent(PROGRAM).format(setup=setup, call=call, check=check)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "broken\n", "")


def test_a_signal_handler_that_does_not_raise_does_not_end_the_wait():
    program = PROGRAM.format(
        setup="signal.signal(signal.SIGINT, lambda *_: sub.put('from the handler'))",
        call="assert queue.get() == 'from the handler'; raise KeyboardInterrupt",
        check="",
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "broken\n", "")
