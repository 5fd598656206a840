"""Keys and set-up: sub-queues that can be added, found, and refused."""

import gc
import weakref

import pytest

from drainq import MultiQueue, SubQueue


def test_a_bad_capacity_is_refused_even_for_an_existing_key():
    queue = MultiQueue()
    queue.add_sub_queue("a")
    with pytest.raises(ValueError, match="capacity"):
        queue.add_sub_queue("a", capacity=0, exist_ok=True)


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


def test_both_classes_can_be_parametrised_and_referenced_weakly():
    assert MultiQueue[int] is not None
    assert SubQueue[int] is not None
    queue = MultiQueue()
    sub = queue.add_sub_queue("a")
    ghost = weakref.ref(queue), weakref.ref(sub)
    del queue, sub
    gc.collect()
    assert [ref() for ref in ghost] == [None, None]


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
