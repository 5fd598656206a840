"""Items and keys whose own code runs while the queue works, and garbage collection."""

import gc
import sys
import weakref

import pytest

from drainq import MultiQueue

from .helpers import drain


class Finalised:
    """Uses the queue when it is dropped."""

    def __init__(self, use):
        self.use = use

    def __del__(self):
        self.use()


class Compared:
    """Uses the queue when it is compared; equals what ``answer`` says."""

    def __init__(self, use, answer=False):
        self.use = use
        self.answer = answer

    def __eq__(self, other):
        self.use()
        return self.answer

    __hash__ = None


def test_items_of_a_dropped_queue_are_finalised():
    ran = []
    queue = MultiQueue()
    queue.add_sub_queue("a").put(Finalised(lambda: ran.append(True)))
    del queue
    gc.collect()
    assert ran == [True]


def test_a_comparison_that_raises_comes_out_and_changes_nothing(queue):
    def fail():
        raise RuntimeError("incomparable")

    sub = queue.add_sub_queue("a")
    sub.put(Compared(fail))
    for use in (lambda: sub.remove(1), lambda: 1 in sub):
        with pytest.raises(RuntimeError, match="incomparable"):
            use()
    assert sub.qsize() == 1


class Node:
    pass


def test_cycles_through_items_are_collected():
    node = Node()
    node.queue = MultiQueue()
    node.sub = node.queue.add_sub_queue("a")
    node.sub.put(node)
    ghost = weakref.ref(node)
    del node
    gc.collect()
    assert ghost() is None


def test_cycles_through_a_removed_sub_queue_are_collected():
    node = Node()
    queue = MultiQueue()
    node.sub = queue.add_sub_queue("a")
    node.sub.put(node)
    queue.remove_sub_queue("a")
    ghost = weakref.ref(node)
    del node
    gc.collect()
    assert ghost() is None
    assert queue.qsize() == 0


def test_a_cycle_that_the_sub_queue_alone_can_break_is_collected():
    """A tuple cannot be emptied: the sub-queue gives its items up.

    The collector kills the weak references of a cycle before it breaks it, so a token in the tuple is counted."""
    token = object()
    before = sys.getrefcount(token)
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    sub.put((sub, token))
    queue.remove_sub_queue("a")
    del sub
    gc.collect()
    assert sys.getrefcount(token) == before


def test_cycles_through_a_key_or_a_selection_are_collected():
    class Select(Node):
        def select(self, groups):
            return groups[0][0]

    key, selection = Node(), Select()
    queue = MultiQueue(selection)
    selection.queue = key.queue = queue
    queue.add_sub_queue(key)
    ghosts = [weakref.ref(key), weakref.ref(selection)]
    del key, selection, queue
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


def test_collection_leaves_items_of_a_live_queue_alone(queue):
    sub = queue.add_sub_queue("a")
    items = [Node() for _ in range(100)]
    for node in items:
        node.self = node
        node.queue = queue
    sub.put_many(items)
    ids = [id(node) for node in items]
    del items, node
    gc.collect()
    assert [id(node) for node in drain(queue)] == ids
