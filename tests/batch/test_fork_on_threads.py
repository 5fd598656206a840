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
