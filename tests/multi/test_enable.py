"""Disabling and enabling, for several reasons at once."""

import pytest

from drainq import MultiQueue


@pytest.fixture
def queue():
    queue = MultiQueue()
    for key in "ab":
        queue.add_sub_queue(key).put_many([f"{key}{index}" for index in range(3)])
    return queue


def test_added_disabled_is_disabled_for_the_empty_reason():
    queue = MultiQueue()
    sub = queue.add_sub_queue("a", enabled=False)
    sub.put(1)
    assert (sub.enabled, sub.disabled_by, queue.qsize()) == (False, [""], 0)
    sub.enable("")
    assert queue.get() == 1


def test_enabled_means_no_reason_is_left(queue):
    sub = queue["a"]
    sub.disable("paused")
    sub.disable("no space")
    sub.disable()
    assert sub.disabled_by == ["", "no space", "paused"]
    sub.enable("paused")
    sub.enable("never given")
    assert not sub.enabled
    sub.enable("")
    assert not sub.enabled
    sub.enable("no space")
    assert sub.enabled
    assert queue.qsize() == 6
