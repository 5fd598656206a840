"""Forks on the threads of drainq, and of calls that are under way: the child ends, or goes on with nothing of its parent's."""

import os

import pytest

from tests.batch.test_fork import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_a_fork_in_the_on_idle_of_a_type_that_another_type_keeps_waiting_ends_the_child():
    """The pass that it happens in has items of the other type; the child does not go on with it."""
    lines = forks("""
parent, made, seen = os.getpid(), [], []
class Watching:
    def consume(self, batch):
        pass
    def on_idle(self):
        if seen and not made:
            made.append(os.fork())
            if made == [0]:
                os.write(1, b"child\\n")
queue = BatchQueue("idle", config(min_idle=3600, max_idle=3600))
queue.add_handler(str, Watching())
queue.add_handler(int, seen.extend)
while not made:
    assert queue.produce(1) and queue.flush(20)
print(waited(made[0]), queue.shutdown(20), set(seen))
""")
    assert sorted(lines) == ["0 True {1}", "child"]


@pytest.mark.parametrize("forking", ["consumer", "int"])
def test_a_fork_in_an_on_idle_calls_no_other_of_its_parents(forking):
    lines = forks(f"""
import warnings
warnings.simplefilter("ignore")  # the consumer gets every batch, but each handler hears of an idle pass
parent, made, ready = os.getpid(), [], threading.Event()
class Handler:
    def __init__(self, name):
        self.name = name
    def consume(self, batch):
        pass
    def on_idle(self):
        if os.getpid() != parent:
            os.write(1, f"child calls {{self.name}}\\n".encode())
        elif self.name == {forking!r} and ready.is_set() and not made:
            made.append(os.fork())
            os.write(1, b"child\\n" if made == [0] else b"parent\\n")
queue = BatchQueue("idle", config(consumer=Handler("consumer"), max_idle=0.001))
for kind in (int, str, float):
    queue.add_handler(kind, Handler(kind.__name__))
ready.set()
while not made:
    pass
print(waited(made[0]), queue.shutdown(20))
""")
    assert sorted(lines) == ["0 True", "child", "parent"]


def test_a_fork_in_an_on_drop_that_a_thread_of_drainq_calls_later_ends_the_child():
    lines = forks("""
made, told, kept = [], [], []
def on_drop(reason, count):
    told.append((reason, count))
    if len(told) == 2:
        made.append(os.fork())
        os.write(1, f"{threading.current_thread().name} {made == [0]}\\n".encode())
        if made == [0]:
            kept.append(BatchQueue("childs", config(consumer=lambda batch: os.write(1, b"delivered\\n"))))
            kept[0].produce("a child hands out what is its own")
queue = BatchQueue("later", config(on_drop=on_drop))
queue.shutdown(20)
for n in range(4):
    queue.produce(n)
while not made:
    pass
print(waited(made[0]), queue.shutdown(20), told)
""")
    reporter = "drainq-later-drops"
    parents = "0 True [('closed', 1), ('closed', 3)]"
    assert sorted(lines) == [parents, "delivered", f"{reporter} False", f"{reporter} True"]


def test_what_is_raised_at_a_childs_end_is_told_and_the_child_ends_all_the_same():
    lines = forks("""
import sys
made, leave = [], threading.Event()
class Unjoinable(threading.Thread):
    def join(self, timeout=None):
        raise RuntimeError("cannot be joined")
def handler(batch):
    made.append(os.fork())
    if made == [0]:
        sys.unraisablehook = lambda info: os.write(1, f"child {info.exc_value}\\n".encode())
        Unjoinable(target=leave.wait, daemon=False).start()
queue = BatchQueue("ends", config(consumer=handler))
queue.produce(1)
assert queue.flush(20)
print(waited(made[0]), queue.shutdown(20))
""")
    assert sorted(lines) == ["0 True", "child cannot be joined"]


def test_an_attempt_of_a_coroutine_is_the_parents_and_a_child_starts_threads_for_its_own():
    lines = forks("""
seen = []
queue = BatchQueue("attempt", config(consumer=seen.extend))
attempt = queue._attempt("parent's")
child = os.fork()
if child == 0:
    try:
        attempt.try_now()
    except DrainqError as error:
        print(str(error).partition(",")[0], flush=True)
    attempt.give_up()
    assert (queue.stats().offered, seen) == (0, [])
    assert queue._attempt("child's").try_now() is True
    assert queue.flush(10)
    assert (queue.stats().offered, queue.stats().handled, seen) == (1, 1, ["child's"])
    os._exit(7)
print(waited(child), attempt.try_now(), queue.flush(10), seen)
""")
    assert lines == ["the process forked during this call", '7 True True ["parent\'s"]']


POOL = 'BatchQueueConfig(shared_scheduler=("pool", ThreadPolicy.fixed(2)), max_batch=2, consumer=handler)'


@pytest.mark.parametrize("settings", ["config(max_batch=2, consumer=handler)", POOL], ids=["own threads", "a pool"])
def test_a_child_made_in_a_handler_hands_out_what_it_produces_and_nothing_of_its_parents(settings):
    lines = forks(f"""
made, parent = [], os.getpid()
def handler(batch):
    if 1 in batch and not made:
        made.append(os.fork())
        if made == [0]:
            assert queue.stats().offered == 0
            queue.produce_many(["child's"] * 5)
    who = "parent" if os.getpid() == parent else "child"
    os.write(1, "".join(f"{{who}} {{item}}\\n" for item in batch).encode())
queue = BatchQueue("fork", {settings})
queue.produce_many(range(1, 15))
while not made:
    pass
assert queue.shutdown(20), queue.stats()
os.write(1, b"status %d\\n" % waited(made[0]))
""")
    parent, child = ([line for line in lines if line.startswith(who)] for who in ("parent", "child"))
    assert sorted(parent) == sorted(f"parent {n}" for n in range(1, 15))
    # The batch that the child was born in is the caller's copy; after it come the child's own.
    assert [line for line in child if "child's" in line] == ["child child's"] * 5
    assert set(child) - {"child child's"} <= {"child 1", "child 2"}
    assert lines[-1] == "status 0"


PLACES = {
    "a handler": "consumer=fork",
    "an error handler": "consumer=lambda batch: 1 / 0, error_handler=fork",
    "on_idle": "consumer=having(consume=lambda *_: None, on_idle=fork)",
    "on_close": "consumer=having(consume=lambda *_: None, on_close=fork)",
    "a balancer": "consumer=lambda batch: None, balancer=lambda *_: fork(), rebalance_interval=0.001",
    "on_drop": "on_drop=lambda *_: fork()",
    "a dispatch key": "consumer=lambda batch: None, dispatch_key=fork",
    "a selector": "consumer=lambda batch: None, partition_selector=lambda item, count: fork() or 0",
    "len_of": "consumer=lambda batch: None, len_of=lambda item: fork() or 1",
    "the end of a handled item": "consumer=lambda batch: None",
    "the end of an item without a handler": "",
}


PRODUCING = {"a dispatch key", "a selector", "len_of"}  # called on the thread that produces
AT_THE_END = {"on_close"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pool", [False, True], ids=["own threads", "a pool"])
def test_a_fork_at_any_place_leaves_both_processes_with_queues_that_work(place, pool):
    threads = 'shared_scheduler=("pool", ThreadPolicy.fixed(2))' if pool else "threads=ThreadPolicy.fixed(2)"
    lines = forks(f"""
parent, made, accepted, calls_fork = os.getpid(), [], 0, {place in PRODUCING}
class Item:
    def __del__(self):
        if {place.startswith("the end")} and threading.current_thread() is not threading.main_thread():
            fork()
def fork(*_):
    if os.getpid() != parent or made or not (accepted or calls_fork):
        return 0
    made.append(os.fork())
    if made == [0]:
        seen = []
        with BatchQueue("other", config(consumer=seen.extend)) as other:
            other.produce_many(range(100))
        assert seen == list(range(100))
        assert (queue.stats().offered, queue.stats().queued) == (0, 0)
        assert queue.shutdown(20)
        os.write(1, b"child\\n")
    return 0
class Having:
    pass
def having(**methods):
    made = Having()
    made.__dict__.update(methods)
    return made
queue = BatchQueue("fork", BatchQueueConfig({threads}, partitions=PartitionPolicy.fixed(2), {PLACES[place]}))
accepted = queue.produce_many(range(100))
if os.getpid() != parent:
    os._exit(0)  # in a callback of produce the thread that forked is the program's own
while {place not in AT_THE_END} and not made:
    accepted += queue.produce_many(Item() for _ in range(9))
try:
    ok = queue.shutdown(20)
except DrainqError:
    os._exit(0 if os.getpid() != parent else 8)
stats = queue.stats()
ended = stats.handled + stats.failed + stats.unrouted
os.write(1, f"parent {{accepted == ended}} {{ok}} {{waited(made[0])}}\\n".encode())
""")
    assert sorted(lines) == ["child", "parent True True 0"]


def test_a_child_made_in_an_on_close_calls_no_other_of_its_parents():
    lines = forks("""
parent, children = os.getpid(), []
class Handler:
    def consume(self, batch):
        pass
    def on_close(self):
        os.write(1, b"parent\\n" if os.getpid() == parent else b"child\\n")
        if not children:
            children.append(os.fork())
queue = BatchQueue("closed", config())
queue.add_handler(int, Handler()), queue.add_handler(str, Handler())
assert queue.produce(1)
print(queue.shutdown(20), waited(children[0]))
""")
    assert lines == ["parent", "parent", "True 0"]
