"""Keys and set-up: what can be added, found, and refused."""

import gc
import queue as std
import weakref

import pytest

from drainq import MultiQueue, SubQueue


def test_default_capacity_is_unbounded():
    sub = MultiQueue().add_sub_queue("a")
    assert sub.capacity is None
    assert sub.remaining_capacity() is None
    assert not sub.full()


def test_a_given_capacity_is_reported():
    sub = MultiQueue().add_sub_queue("a", capacity=3)
    assert (sub.capacity, sub.remaining_capacity()) == (3, 3)


@pytest.mark.parametrize("capacity", [0, -1, -(2**40)])
def test_a_capacity_below_one_is_refused_and_shown(capacity):
    queue = MultiQueue()
    with pytest.raises(ValueError, match=f"capacity must be at least 1.*got {capacity}"):
        queue.add_sub_queue("a", capacity=capacity)
    assert "a" not in queue


def test_a_bad_capacity_is_refused_even_for_an_existing_key():
    queue = MultiQueue()
    queue.add_sub_queue("a")
    with pytest.raises(ValueError, match="capacity"):
        queue.add_sub_queue("a", capacity=0, exist_ok=True)


@pytest.mark.parametrize("weight", [0, -3, 2**32])
def test_a_weight_out_of_range_is_refused_and_shown(weight):
    queue = MultiQueue()
    with pytest.raises(ValueError, match=f"weight must be.*got {weight}"):
        queue.add_sub_queue("a", weight=weight)
    sub = queue.add_sub_queue("b")
    with pytest.raises(ValueError, match=f"weight must be.*got {weight}"):
        sub.weight = weight
    assert sub.weight == 1


def test_a_duplicate_key_is_an_error_that_shows_the_key():
    queue = MultiQueue()
    first = queue.add_sub_queue("a", priority=3, capacity=2)
    with pytest.raises(KeyError, match="'a'"):
        queue.add_sub_queue("a")
    assert queue["a"] is first


def test_exist_ok_returns_the_existing_one_unchanged():
    queue = MultiQueue()
    first = queue.add_sub_queue("a", priority=3, capacity=2)
    again = queue.add_sub_queue("a", priority=1, capacity=9, weight=4, enabled=False, exist_ok=True)
    assert again is first
    assert (first.priority, first.capacity, first.weight, first.enabled) == (3, 2, 1, True)


def test_none_and_any_hashable_is_a_key():
    queue = MultiQueue()
    keys = [None, 0, "", ("a", 1), frozenset({1}), 2.5]
    for key in keys:
        assert queue.add_sub_queue(key).key == key
    assert list(queue) == queue.keys() == keys
    assert len(queue) == len(keys)


def test_an_unhashable_key_is_a_type_error():
    queue = MultiQueue()
    with pytest.raises(TypeError):
        queue.add_sub_queue([])
    assert len(queue) == 0


def test_a_missing_key_is_a_key_error_or_the_default():
    queue = MultiQueue()
    with pytest.raises(KeyError):
        queue["a"]
    with pytest.raises(KeyError):
        queue.remove_sub_queue("a")
    assert queue.get_sub_queue("a") is None
    assert queue.get_sub_queue("a", 7) == 7
    assert "a" not in queue


@pytest.mark.parametrize(("count", "more"), [(0, ""), (1, ""), (20, ""), (21, " and 1 more"), (25, " and 5 more")])
def test_the_refusal_of_an_unknown_key_shows_the_first_twenty_and_counts_the_others(count, more):
    queue = MultiQueue()
    for key in range(count):
        queue.add_sub_queue(key)
    stats, shown = queue.stats(), list(range(min(count, 20)))
    for look_up in (lambda: queue["x"], lambda: queue.remove_sub_queue("x"), lambda: stats["x"]):
        with pytest.raises(KeyError) as caught:
            look_up()
        assert caught.value.args == (f"key must be that of a sub-queue, got 'x'; there are {shown}{more}",)


def test_a_found_sub_queue_is_the_one_that_was_added():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", 4)
    assert queue["a"] is sub
    assert queue.get_sub_queue("a") is sub
    assert isinstance(sub, SubQueue)
    assert (sub.key, sub.priority) == ("a", 4)


def test_keys_is_a_copy():
    queue = MultiQueue()
    queue.add_sub_queue("a")
    queue.keys().clear()
    assert list(queue) == ["a"]


def test_only_key_priority_and_capacity_are_positional():
    with pytest.raises(TypeError):
        MultiQueue().add_sub_queue("a", 0, None, 2)


@pytest.mark.parametrize("selection", ["fair", ""])
def test_an_unknown_selection_is_refused_and_shown(selection):
    with pytest.raises(ValueError, match=f'got "{selection}"'):
        MultiQueue(selection=selection)


def test_a_selection_without_select_is_a_type_error():
    with pytest.raises(TypeError, match="got 3"):
        MultiQueue(3)


def test_both_classes_can_be_parametrised_and_referenced_weakly():
    assert MultiQueue[int] is not None
    assert SubQueue[int] is not None
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    ghost = weakref.ref(queue), weakref.ref(sub)
    del queue, sub
    gc.collect()
    assert [ref() for ref in ghost] == [None, None]


def test_a_key_whose_comparison_adds_the_same_key_wins_once():
    queue = MultiQueue()

    class Meddler:
        def __init__(self, meddles):
            self.meddles = meddles

        def __hash__(self):
            return 7

        def __eq__(self, other):
            if self.meddles:
                self.meddles = False
                queue.add_sub_queue(Meddler(False)).put("theirs")
            return True

    class Other:
        def __hash__(self):
            return 7

        def __eq__(self, other):
            return False if isinstance(other, Other) else NotImplemented

    queue.add_sub_queue(Other())
    with pytest.raises(KeyError):
        queue.add_sub_queue(Meddler(True))
    assert queue.qsize() == sum(queue[key].qsize() for key in list(queue))


@pytest.mark.parametrize("exist_ok", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_of_two_calls_that_add_one_key_at_once_the_first_wins(at, exist_ok):
    """The other call, which another thread might make, comes while the key is hashed for the first, second, third time."""

    class Key:
        hashed = 0

        def __hash__(self):
            self.hashed += 1
            if self.hashed == at:
                theirs.append(queue.add_sub_queue(self, capacity=1))
            return 7

    queue, theirs = MultiQueue(), []
    if exist_ok:
        ours = queue.add_sub_queue(Key(), capacity=2, exist_ok=True)
        assert ours is theirs[0]
    else:
        with pytest.raises(KeyError, match="there is a sub-queue with the key"):
            queue.add_sub_queue(Key(), capacity=2)
    ((key, stats),) = queue.stats().sub_queues.items()
    assert (queue[key], queue.keys(), stats.depth) == (theirs[0], [key], 0)
    queue.add_sub_queue("other").put("b")
    theirs[0].put("a")
    assert (theirs[0].capacity, queue.get_many(9)) == (1, ["a", "b"])


def sub_queue_of_a_key_whose_repr_raises(error):
    """A multi-queue, its full sub-queue, and the key."""

    class Key:
        def __repr__(self):
            raise error

    queue, key = MultiQueue(), Key()
    sub = queue.add_sub_queue(key, capacity=1)
    sub.put(0)
    return queue, sub, key


def test_a_key_whose_repr_raises_is_named_by_its_class():
    queue, sub, key = sub_queue_of_a_key_whose_repr_raises(RuntimeError("no"))
    name = "<an object of class Key whose repr raised RuntimeError>"
    with pytest.raises(std.Full, match=f"sub-queue {name} is full"):
        sub.put_nowait(1)
    with pytest.raises(KeyError, match=f"the key {name} already"):
        queue.add_sub_queue(key)
    assert repr(sub).startswith(f"<SubQueue {name} priority=0 ")
    assert (list(sub), sub.stats().rejected) == ([0], 1)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_in_the_repr_of_a_key_is_not_hidden(error):
    queue, sub, key = sub_queue_of_a_key_whose_repr_raises(error)
    calls = [
        lambda: sub.put_nowait(1),
        lambda: sub.put(1, block=False),
        lambda: sub.put(1, timeout=0),
        lambda: queue.add_sub_queue(key),
        lambda: repr(sub),
    ]
    for call in calls:
        with pytest.raises(error):
            call()
    queue.remove_sub_queue(key)
    with pytest.raises(error) as caught:
        sub.put_many([1, 2])
    assert caught.value.accepted == 0
    assert (list(sub), sub.stats().rejected) == ([0], 5)
