"""Forks, each in a process of its own: the child starts empty and works, the parent keeps its items."""

import os

import pytest

from tests.batch.test_lifecycle import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

HEAD = """
import faulthandler, os, threading
from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, PartitionSelector, ThreadPolicy
faulthandler.dump_traceback_later(50, exit=True)
def config(n=1, **settings):
    return BatchQueueConfig(threads=ThreadPolicy.fixed(n), partitions=PartitionPolicy.fixed(n), **settings)
def waited(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def forks(code):
    """Run `code` after the head above; its lines of output, from all processes."""
    return run(HEAD + code).splitlines()


def test_a_child_calls_a_handler_that_was_running_in_the_parent():
    lines = forks("""
entered, leave, seen = threading.Event(), threading.Event(), []
def handler(batch):
    entered.set()
    leave.wait()
    seen.extend(batch)
queue = BatchQueue("spread", config(2, partition_selector=PartitionSelector.round_robin()))
queue.add_handler(int, handler)
queue.produce(1)
entered.wait()
child = os.fork()
leave.set()
if child == 0:
    queue.produce(7)
    os._exit(queue.flush(20) and seen == [7])
print(waited(child), queue.shutdown(20), seen)
""")
    assert lines == ["1 True [1]"]


@pytest.mark.parametrize("waiting", ["queue.flush()", "queue.shutdown()", "queue.remove_handler(int)"])
def test_a_wait_that_a_signal_handler_forks_goes_on_in_the_parent_and_raises_in_the_child(waiting):
    lines = forks(f"""
import signal
from drainq import DrainqError
entered, leave, children = threading.Event(), threading.Event(), []
def handler(batch):
    entered.set()
    leave.wait()
def fork(*_):
    children.append(os.fork())
    leave.set()
signal.signal(signal.SIGALRM, fork)
queue = BatchQueue("signal", config())
queue.add_handler(int, handler)
queue.produce(1)
entered.wait()
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    answer = {waiting}
except DrainqError:
    os._exit(7 if children == [0] else 8)
print(answer, [waited(child) for child in children])
""")
    assert lines == ["True [7]"]
