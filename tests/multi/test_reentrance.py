"""Items and keys whose own code runs while the queue works, and garbage collection."""

import gc
import queue as std
import sys
import weakref

import pytest

from drainq import MultiQueue

from .helpers import drain, totals_add_up


@pytest.fixture
def queue():
    return MultiQueue()


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


@pytest.mark.parametrize(
    "drop",
    [
        lambda queue, sub: queue.get(),
        lambda queue, sub: queue.get_many(1),
        lambda queue, sub: sub.clear(),
        lambda queue, sub: sub.remove_if(lambda item: isinstance(item, Finalised)),
        lambda queue, sub: queue.shutdown(immediate=True),
        lambda queue, sub: queue.remove_sub_queue("a").clear(),
    ],
)
def test_a_finaliser_may_use_the_queue_whatever_drops_it(queue, drop):
    sub = queue.add_sub_queue("a")
    ran = []
    sub.put(Finalised(lambda: ran.append((queue.qsize(), sub.qsize(), queue.stats().put))))
    drop(queue, sub)
    assert len(ran) == 1
    totals_add_up(queue)


def test_a_finaliser_may_put_into_the_queue_that_drops_it(queue):
    sub = queue.add_sub_queue("a")
    sub.put(Finalised(lambda: sub.put("last words")))
    sub.clear()
    assert drain(queue) == ["last words"]


def test_a_refused_item_is_dropped_without_the_lock(queue):
    sub = queue.add_sub_queue("a", capacity=1)
    sub.put(0)
    ran = []
    with pytest.raises(std.Full):
        sub.put_nowait(Finalised(lambda: ran.append(sub.qsize())))
    assert sub.put_many([Finalised(lambda: ran.append(sub.qsize()))], block=False) == 0
    gc.collect()
    assert ran == [1, 1]


def test_items_of_a_dropped_queue_are_finalised():
    ran = []
    queue = MultiQueue()
    queue.add_sub_queue("a").put(Finalised(lambda: ran.append(True)))
    del queue
    gc.collect()
    assert ran == [True]


def test_comparison_may_take_the_item_away(queue):
    sub = queue.add_sub_queue("a")
    sub.put(Compared(lambda: sub.clear(), answer=True))
    assert not sub.remove("anything")
    assert sub.qsize() == 0
    totals_add_up(queue)


def test_comparison_may_put_and_get(queue):
    sub = queue.add_sub_queue("a")
    sub.put(Compared(lambda: sub.put("more")))
    sub.put("needle")
    assert "needle" in sub
    assert sub.remove("needle")
    assert queue.qsize() == 3
    totals_add_up(queue)


def test_remove_goes_on_to_the_next_match_when_the_first_was_taken(queue):
    sub = queue.add_sub_queue("a")
    first = Compared(lambda: queue.get_nowait(), answer=True)
    sub.put_many([first, "needle"])
    assert sub.remove("needle")
    assert sub.qsize() == 0


def test_a_comparison_that_raises_comes_out_and_changes_nothing(queue):
    def fail():
        raise RuntimeError("incomparable")

    sub = queue.add_sub_queue("a")
    sub.put(Compared(fail))
    for use in (lambda: sub.remove(1), lambda: 1 in sub):
        with pytest.raises(RuntimeError, match="incomparable"):
            use()
    assert sub.qsize() == 1


def test_predicate_may_use_the_queue(queue):
    sub = queue.add_sub_queue("a")
    sub.put_many([1, 2, 3])
    assert sub.remove_if(lambda item: sub.put(item) or item == 2) == [2]
    assert list(sub) == [1, 3, 1, 2, 3]


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
