"""Forks, each in a process of its own: the child starts empty and works, the parent keeps its items."""

import os

import pytest

from tests.batch.test_lifecycle import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

HEAD = """
import faulthandler, os, signal, threading
from drainq import BatchQueue, BatchQueueConfig, DrainqError, PartitionPolicy, PartitionSelector, ThreadPolicy
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
signal.setitimer(signal.ITIMER_REAL, 0.5)  # it waits by then
try:
    answer = {waiting}
except DrainqError:
    os._exit(7 if children == [0] else 8)
print(answer, [waited(child) for child in children])
""")
    assert lines == ["True [7]"]


def test_a_shutdown_that_tells_what_it_left_behind_goes_on_in_the_parent_if_that_forks():
    lines = forks("""
entered, leave, children = threading.Event(), threading.Event(), []
def hang(batch):
    entered.set()
    leave.wait()
queue = BatchQueue("left", config(consumer=hang, on_drop=lambda *told: children.append(os.fork())))
queue.produce(1)
entered.wait()
try:
    answer = queue.shutdown(0)
except DrainqError:
    os._exit(7 if children == [0] else 8)
if children == [0]:
    os._exit(9)
leave.set()
print(answer, [waited(child) for child in children])
""")
    assert lines == ["False [7]"]


def test_a_produce_that_waits_for_room_when_a_signal_handler_forks_goes_on_in_the_parent():
    lines = forks("""
import signal
entered, leave, children, seen = threading.Event(), threading.Event(), [], []
def handler(batch):
    entered.set()
    leave.wait()
    seen.extend(batch)
def fork(*_):
    children.append(os.fork())
    leave.set()
signal.signal(signal.SIGALRM, fork)
queue = BatchQueue("signal", config(buffer_size=1, consumer=handler))
queue.produce(1)
entered.wait()
queue.produce(2)
signal.setitimer(signal.ITIMER_REAL, 0.5)  # it waits by then
try:
    answer = queue.produce(3)
except DrainqError:
    mine = queue.produce(4) and queue.flush(20) and seen == [4] and queue.stats().offered == 1
    os._exit(7 if mine else 8)
print(answer, [waited(child) for child in children], queue.shutdown(20), seen)
""")
    assert lines == ["True [7] True [1, 2, 3]"]


STARTS = {
    "own threads": "config(2, consumer=handler)",
    "a pool": 'BatchQueueConfig(shared_scheduler=("start", ThreadPolicy.fixed(2)), consumer=handler)',
    "a balancer": "config(2, consumer=handler, balancer=lambda throughput, owners, threads: None)",
}


@pytest.mark.parametrize("settings", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("thread", [0, 1, 2])
def test_a_start_of_threads_that_a_signal_handler_forks_goes_on_in_the_parent(settings, thread):
    lines = forks(f"""
seen, children, starts, start = [], [], [], threading.Thread.start
def handler(batch):
    seen.extend(batch)
def forking(thread):
    start(thread)
    starts.append(thread.name)
    if len(starts) == {thread} + 1:
        children.append(os.fork())
threading.Thread.start = forking
try:
    queue = BatchQueue("forked", {settings})
except DrainqError:
    assert children == [0]
    threading.Thread.start = start
    assert not any(thread.name.startswith("drainq-") for thread in threading.enumerate())
    queue = BatchQueue("anew", {settings})
queue.produce(children)
assert queue.shutdown(20) and seen == [children]
if children == [0]:
    os._exit(7)
print([waited(child) for child in children])
""")
    assert lines == (["[7]"] if thread < 2 or "balancer" in settings else ["[]"])


def test_a_child_calls_no_on_close_for_a_thread_of_its_parent():
    lines = forks("""
class Handler:
    closed = 0
    def consume(self, batch):
        pass
    def on_close(self):
        self.closed += 1
handler, children = Handler(), []
def forks_and_starts_nothing(thread):
    queue.shutdown(0)
    children.append(os.fork())
queue = BatchQueue("closed", config(consumer=handler))
child = os.fork()
if child == 0:
    threading.Thread.start = forks_and_starts_nothing
    try:
        queue.produce(1)
    except DrainqError:
        assert children == [0]
        os._exit(7 + handler.closed)
    os._exit(waited(children[0]))
print(waited(child), queue.shutdown(20), handler.closed)
""")
    assert lines == ["7 True 1"]


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


def test_a_selector_that_forks_has_chosen_among_the_partitions_that_the_child_has():
    lines = forks("""
import signal
made, got = [], []
def selector(item, count):
    if item == "forks":
        made.append(os.fork())
    if made == [0]:
        signal.alarm(25)
    return count - 1
queue = BatchQueue("chosen", BatchQueueConfig(
    threads=ThreadPolicy.fixed(1), partitions=PartitionPolicy.adaptive(2), partition_selector=selector))
kinds = [type(f"Kind{number}", (), {}) for number in range(10)]
for kind in kinds:
    queue.add_handler(kind, got.extend)
for kind in kinds:  # the partitions stay
    assert queue.remove_handler(kind)
queue.add_handler(str, got.extend)
accepted = queue.produce("forks"), queue.flush(20)
if made == [0]:
    os.write(1, f"{accepted} {got} {queue.partition_count > 2}\\n".encode())
    os._exit(7)
print(waited(made[0]), accepted, got)
""")
    assert lines == ["(True, True) ['forks'] True", "7 (True, True) ['forks']"]


def test_forks_under_producers_and_in_handlers_deliver_everything_once():
    lines = forks("""
import itertools
parent, children, born_in_handler = os.getpid(), [], []
def handler(batch):
    seen.extend(batch)
    if os.getpid() == parent and len(born_in_handler) < 15:
        child = os.fork()
        if child == 0:
            seen.clear()
            assert queue.produce_many(range(50)) == 50
            assert queue.flush(20) and seen == list(range(50)), seen
            os._exit(7)
        born_in_handler.append(child)
seen, numbers, stop = [], itertools.count(), threading.Event()
queue = BatchQueue("storm", BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=500, max_batch=50))
queue.add_handler(int, handler)
produced = []
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
        os._exit(7 if queue.produce_many(range(50)) == 50 and queue.shutdown(20) else 8)
    children.append(child)
while len(born_in_handler) < 15:
    pass
stop.set()
for producer in producers:
    producer.join()
ok = queue.shutdown(20)
print(ok, {waited(child) for child in children + born_in_handler}, sorted(seen) == sorted(produced), len(seen) == queue.stats().accepted)
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


def test_a_collection_before_the_childs_renewal_takes_no_lock_that_the_parent_had():
    lines = run("""
import faulthandler, gc, os, signal, threading
def collect():
    signal.alarm(25)  # where a child waits for a lock the kernel ends it
    gc.collect()
os.register_at_fork(after_in_child=collect)  # comes before the hook of a module that is imported later
from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, ThreadPolicy
faulthandler.dump_traceback_later(40, exit=True)
stop, queue = threading.Event(), BatchQueue("collected", BatchQueueConfig(threads=ThreadPolicy.fixed(1), max_batch=1))
queue.add_handler(int, lambda batch: None)
sub_queue, known = MultiQueue().add_sub_queue("a", capacity=5), SetQueue(capacity=5)
def produce():
    while not stop.is_set():
        queue.produce_many(range(20))
        sub_queue.put(1)
        sub_queue.clear()
        known.put(1)
        known.clear()
producers = [threading.Thread(target=produce) for _ in range(2)]
for producer in producers:
    producer.start()
ended = set()
for _ in range(150):
    child = os.fork()
    if child == 0:
        os._exit(7)
    ended.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ended != {7}:
        break
stop.set()
for producer in producers:
    producer.join()
print(ended, queue.shutdown(20))
""").splitlines()
    assert lines == ["{7} True"]


def test_a_list_during_which_an_on_drop_forks_goes_on_in_both_processes():
    """The child has no drain thread when the list goes on in it, and starts one."""
    lines = forks("""
entered, leave, seen, children = threading.Event(), threading.Event(), [], []
def handler(batch):
    entered.set()
    leave.wait()
    seen.extend(batch)
def fork(reason, count):
    if not children:
        children.append(os.fork())
queue = BatchQueue("drops", config(buffer_size=1, strategy="if_possible", consumer=handler, on_drop=fork))
queue.produce(0)
entered.wait()
accepted = queue.produce_many([1, 2, 3, 4, "a", "b"])
leave.set()
if children == [0]:
    try:
        assert threading.enumerate()[1].name == "drainq-drops-0"
        assert queue.flush(10)
        stats = queue.stats()
        assert 2 <= accepted <= 3 and seen == ["a", "b"][:accepted - 1], (accepted, seen)
        assert (stats.accepted, stats.rejected["full"]) == (accepted - 1, 3 - accepted), stats
        print("child", flush=True)
        os._exit(0)
    finally:
        os._exit(1)
assert queue.flush(10)
assert (accepted, seen, queue.stats().rejected["full"]) == (1, [0, 1], 5)
print(waited(children.pop()))
""")
    assert lines == ["child", "0"]
