"""Forks, each in a process of its own: the child starts empty and works, the parent keeps its items."""

import os

import pytest

from tests.batch.test_lifecycle import run

pytestmark = [pytest.mark.system, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

HEAD = """
import faulthandler, os, signal, threading
from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
faulthandler.dump_traceback_later(50, exit=True)
os.register_at_fork(after_in_child=lambda: signal.alarm(25))  # a child that goes on for ever is ended by the kernel
def config(n=1, **settings):
    return BatchQueueConfig(threads=ThreadPolicy.fixed(n), partitions=PartitionPolicy.fixed(n), **settings)
def waited(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def forks(code):
    """Run `code` after the head above; its lines of output, from all processes."""
    return run(HEAD + code).splitlines()


@pytest.mark.parametrize(
    "settings", ["config(2, ", "BatchQueueConfig(shared_scheduler=('pool', ThreadPolicy.fixed(2)), "]
)
def test_a_child_whose_threads_cannot_start_says_so_once_and_takes_nothing(settings):
    lines = forks(f"""
def cannot_start(thread):
    raise RuntimeError("no thread")
queue = BatchQueue("unstarted", {settings}consumer=print))
child = os.fork()
if child == 0:
    threading.Thread.start = cannot_start
    try:
        queue.produce(1)
    except RuntimeError as error:
        print(error, queue.running, queue.produce(2), queue.stats().rejected, flush=True)
    os._exit(7)
print(waited(child), queue.running, queue.shutdown(20))
""")
    assert lines == ["no thread False False {'full': 0, 'closed': 1, 'would_deadlock': 0}", "7 True True"]


def test_forks_under_producers_deliver_everything_once():
    lines = forks("""
import itertools
seen, numbers, stop, produced, children = [], itertools.count(), threading.Event(), [], []
queue = BatchQueue("storm", BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=500, max_batch=50))
queue.add_handler(int, seen.extend)
def produce():
    mine = []
    while not stop.is_set():
        number = next(numbers)
        assert queue.produce(number)
        mine.append(number)
    produced.extend(mine)
producers = [threading.Thread(target=produce) for _ in range(3)]
for producer in producers:
    producer.start()
for _ in range(15):
    child = os.fork()
    if child == 0:
        seen.clear()
        os._exit(7 if queue.produce_many(range(50)) == 50 and queue.shutdown(20) and seen == list(range(50)) else 8)
    children.append(child)
stop.set()
for producer in producers:
    producer.join()
ok = queue.shutdown(20)
print(ok, {waited(child) for child in children}, sorted(seen) == sorted(produced), len(seen) == queue.stats().accepted)
""")
    assert lines == ["True {7} True True"]


def test_a_child_tells_of_its_own_drops_alone():
    lines = forks("""
from drainq import BufferStrategy
told, leave, entered = [], threading.Event(), threading.Event()
def handler(batch):
    entered.set()
    leave.wait()
queue = BatchQueue("drops", config(buffer_size=1, strategy=BufferStrategy.IF_POSSIBLE, consumer=handler,
                                   on_drop=lambda reason, count: told.append((reason, count))))
queue.produce(1)
entered.wait()
queue.produce(2)
refused = [queue.produce(3) for _ in range(5)]  # the first is told at once, four wait
child = os.fork()
if child == 0:
    told.clear()
    queue.flush(20)
    nothing_of_the_parent = not told
    queue.shutdown(20)
    refused = [queue.produce(4) for _ in range(3)]
    queue.flush(20)
    os._exit(nothing_of_the_parent and told and sum(count for _, count in told) == 3)
leave.set()
print(waited(child), queue.shutdown(20), sum(count for _, count in told), queue.stats().rejected["full"])
""")
    assert lines == ["1 True 5 5"]


def test_a_child_starts_threads_for_a_coroutine_of_its_own():
    lines = forks("""
seen = []
queue = BatchQueue("attempt", config(consumer=seen.extend))
attempt = queue._attempt("parent's")
child = os.fork()
if child == 0:
    assert queue._attempt("child's").try_now() is True
    assert queue.flush(10)
    assert (queue.stats().offered, queue.stats().handled, seen) == (1, 1, ["child's"])
    os._exit(7)
print(waited(child), attempt.try_now(), queue.flush(10), seen)
""")
    assert lines == ['7 True True ["parent\'s"]']
