"""A forked child gets a clear error from its parent's queue, and no deadlock."""

import os
import sys

import pytest

from drainq import MultiQueue, ShutDown

from .helpers import PATIENCE, blocked_getters, drain, eventually, in_thread

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def in_child(check) -> int:
    """Run ``check`` in a forked child; its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException as error:  # the child must not run the parent's tests
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


USES = {
    "get": lambda queue, sub: queue.get(),
    "get_nowait": lambda queue, sub: queue.get_nowait(),
    "get_item": lambda queue, sub: queue.get_item(),
    "get_many": lambda queue, sub: queue.get_many(1),
    "get_async": lambda queue, sub: queue.get_async().send(None),
    "peek": lambda queue, sub: queue.peek(),
    "qsize": lambda queue, sub: queue.qsize(),
    "stats": lambda queue, sub: queue.stats(),
    "shutdown": lambda queue, sub: queue.shutdown(),
    "add_sub_queue": lambda queue, sub: queue.add_sub_queue("b"),
    "remove_sub_queue": lambda queue, sub: queue.remove_sub_queue("a"),
    "put": lambda queue, sub: sub.put(1),
    "put_nowait": lambda queue, sub: sub.put_nowait(1),
    "put_many": lambda queue, sub: sub.put_many([1]),
    "put_async": lambda queue, sub: sub.put_async(1).send(None),
    "clear": lambda queue, sub: sub.clear(),
    "disable": lambda queue, sub: sub.disable(),
    "contains": lambda queue, sub: 1 in sub,
    "iter": lambda queue, sub: list(sub),
}


@pytest.mark.parametrize("name", USES)
def test_every_use_in_a_child_raises_shut_down(name):
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    sub.put("parent's")

    def check():
        with pytest.raises(ShutDown, match="belong to the parent process"):
            USES[name](queue, sub)

    assert in_child(check) == 0
    assert drain(queue) == ["parent's"]


def test_a_child_may_collect_drop_and_show_its_parents_queue():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    sub.put(sub)
    getter = in_thread(MultiQueue.get, waiting := MultiQueue())
    eventually(blocked_getters(waiting, 1))

    def check():
        nonlocal queue, sub
        import gc

        assert "parent process" in repr(queue)
        assert "parent process" in repr(sub)
        gc.collect()
        del queue, sub
        gc.collect()

    assert in_child(check) == 0
    waiting.shutdown()
    assert isinstance(getter.exception(PATIENCE), ShutDown)


def test_a_child_can_use_a_queue_of_its_own():
    MultiQueue()

    def check():
        queue = MultiQueue()
        queue.add_sub_queue("a").put(1)
        assert queue.get() == 1

    assert in_child(check) == 0
