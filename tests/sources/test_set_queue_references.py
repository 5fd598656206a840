"""When a set queue gives its items and keys back: at the moment that the call says, all of them, and without its lock.

Each route runs in a forked child: an object that ends under the queue's lock, and uses the queue then, would wait for ever.
"""

from __future__ import annotations

import queue as std
import signal
from collections import Counter

import pytest

from drainq import SetQueue, ShutDown
from drainq.testing import ManualClock
from tests.forked import in_child, needs_fork

pytestmark = needs_fork
SECONDS = 10
"""After which a child that waits for a lock is ended."""


class Ending:
    """Calls ``told`` with its name when it ends; equal to others of its name."""

    def __init__(self, name, told):
        self.name, self.told = name, told

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name

    def __del__(self):
        self.told(self.name)


class Route:
    """A queue whose items, and keys if it has a ``key``, tell when they end."""

    def __init__(self, keyed, capacity=None, **settings):
        self.ended, self.clock = Counter(), ManualClock()
        key = (lambda item: Ending(f"key {item.name}", self.tell)) if keyed else None
        self.queue = SetQueue(capacity, key, clock=self.clock, **settings)
        self.keyed = keyed

    def tell(self, name):
        if self.queue is not None:
            list(self.queue), self.queue.stats()
        self.ended[name] += 1

    def item(self, name):
        return Ending(name, self.tell)

    def since(self, *names):
        """Whether these names have ended since the last question, each as often as it is given."""
        ended, self.ended = self.ended, Counter()
        if not self.keyed:
            names = [name for name in names if not name.startswith("key ")]
        assert ended == Counter(names), (ended, names)


def of_get(route):
    route.queue.put_many([route.item("a"), route.item("b"), route.item("c"), route.item("d")])
    route.since()
    for take in (route.queue.get, route.queue.get_nowait, lambda: route.queue.get_many(2)):
        taken = take()
        names = [item.name for item in (taken if isinstance(taken, list) else [taken])]
        route.since(*(f"key {name}" for name in names))
        del taken
        route.since(*names)


def of_clear(route):
    route.queue.put_many([route.item("a"), route.item("b")])
    cleared = route.queue.clear()
    route.since("key a", "key b")
    del cleared
    route.since("a", "b")


def of_shutdown(route):
    route.queue.put_many([route.item("a"), route.item("b")])
    route.queue.shutdown()
    route.since()
    for call in (route.queue.put, route.queue.put_nowait, lambda item: route.queue.put_many([item])):
        with pytest.raises(ShutDown):
            call(route.item("c"))
        route.since("c", "key c")
    route.queue.shutdown(immediate=True)
    route.since("a", "key a", "b", "key b")


def of_duplicates(route):
    first = route.item("a")
    route.queue.put(first)
    for call in (route.queue.put, route.queue.put_nowait, lambda item: route.queue.put_many([item])):
        assert call(route.item("a")) == 0
        route.since("a", "key a")
    assert route.queue.get() is first
    route.since("key a")


def of_lookups(route):
    route.queue.put(route.item("a"))
    for call in (route.queue.knows, route.queue.__contains__):
        for name in "ab":
            assert call(route.item(name)) is (name == "a")
            route.since(name, f"key {name}")
    read = list(route.queue)
    assert read[0].name == "a"
    route.since()


def of_no_room(route):
    route.queue.put(route.item("a"))
    for call in (route.queue.put_nowait, lambda item: route.queue.put(item, timeout=0)):
        with pytest.raises(std.Full):
            call(route.item("b"))
        route.since("b", "key b")
    assert route.queue.put_many([route.item("b"), route.item("c")], block=False) == 0
    route.since("b", "key b", "c")


def of_done(route):
    route.queue.put_many([route.item("a"), route.item("b"), route.item("c")])
    route.queue.get_many(2)
    route.since(*(["a", "b"] if route.keyed else []))
    assert route.queue.done([route.item("a")]) == 1
    route.since("a", "key a", *(["key a"] if route.keyed else ["a"]))
    assert route.queue.done([route.item("a"), route.item("c")]) == 0
    route.since("a", "key a", "c", "key c")
    token = route.queue._begin_poll()
    assert route.queue.done([route.item("b")]) == 1
    route.since("b", "key b")
    assert route.queue._end_poll(token)
    route.since("key b" if route.keyed else "b")


def of_time(route):
    route.queue.put_many([route.item("a"), route.item("b")])
    route.queue.get()
    route.since(*(["a"] if route.keyed else []))
    route.clock.advance(5)
    assert not route.queue.knows(route.item("c"))
    route.since("c", "key c", "key a" if route.keyed else "a")
    route.queue.get()
    route.clock.advance(5)
    route.ended.clear()
    assert route.queue.put(route.item("d"))
    route.since("key b" if route.keyed else "b")


def of_the_queue(route):
    route.queue.put_many([route.item("a"), route.item("b")])
    route.queue = None
    route.since("a", "key a", "b", "key b")


ROUTES = [
    (of_get, {}),
    (of_clear, {}),
    (of_shutdown, {}),
    (of_duplicates, {}),
    (of_lookups, {}),
    (of_no_room, {"capacity": 1}),
    (of_done, {"in_flight": "ack"}),
    (of_time, {"in_flight": "ttl", "ttl": 5.0}),
    (of_the_queue, {}),
]


@pytest.mark.parametrize("keyed", [False, True], ids=["items", "items and keys"])
@pytest.mark.parametrize(("route", "settings"), ROUTES, ids=[route.__name__ for route, _ in ROUTES])
def test_items_and_keys_end_when_the_call_says_and_may_use_the_queue(route, settings, keyed):
    def check():
        signal.alarm(SECONDS)
        route(Route(keyed, **settings))

    assert in_child(check) == 0
