"""The rivals of the multi-queue: each has ``put(key, item)``, ``get()`` and a number of keys."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import culsans

from drainq import MultiQueue

Put = Callable[[Any], None]
Get = Callable[[], Any]


class Rival:
    """One queue: a put function for each key, and one get."""

    def __init__(self, puts: list[Put], get: Get) -> None:
        self.puts = puts
        self.get = get


def drainq(keys: int = 1, capacity: int = 0) -> Rival:
    """Our multi-queue; ``capacity`` items per key, 0 for no limit."""
    mq = MultiQueue()
    return Rival([mq.add_sub_queue(key, capacity=capacity or None).put for key in range(keys)], mq.get)


def standard(keys: int = 1, capacity: int = 0) -> Rival:
    """Make one ``queue.Queue`` for all keys. It has less to do, because it knows no keys."""
    one = queue.Queue(capacity * keys)
    return Rival([one.put] * keys, one.get)


def priority(keys: int = 1, capacity: int = 0) -> Rival:
    """``queue.PriorityQueue`` with the key as the priority, as people stand in for a multi-queue."""
    one = queue.PriorityQueue(capacity * keys)
    return Rival([lambda item, key=key: one.put((key, item)) for key in range(keys)], one.get)


def simple(keys: int = 1, capacity: int = 0) -> Rival:
    """``queue.SimpleQueue``: no keys, no capacity, written in C. Shown for scale."""
    del capacity
    one = queue.SimpleQueue()
    return Rival([one.put] * keys, one.get)


def threads_and_tasks(keys: int = 1, capacity: int = 0) -> Rival:
    """``culsans.Queue``: threads and tasks on one queue. No keys."""
    one = culsans.Queue(capacity * keys).sync_q
    return Rival([one.put] * keys, one.get)


class NaiveMultiQueue:
    """A multi-queue as one writes it in an afternoon: deques, priorities, a Condition, a scan."""

    def __init__(self, keys: int, capacity: int) -> None:
        self.groups = {0: [deque() for _ in range(keys)]}
        self.turns = {0: 0}
        self.capacity = capacity
        self.lock = threading.Lock()
        self.not_empty = threading.Condition(self.lock)
        self.not_full = threading.Condition(self.lock)

    def put(self, key: int, item: Any) -> None:
        items = self.groups[0][key]
        with self.not_full:
            while self.capacity and len(items) >= self.capacity:
                self.not_full.wait()
            items.append(item)
            self.not_empty.notify()

    def get(self) -> Any:
        with self.not_empty:
            while True:
                for priority in sorted(self.groups):
                    group, turn = self.groups[priority], self.turns[priority]
                    for place in (*range(turn, len(group)), *range(turn)):
                        if group[place]:
                            self.turns[priority] = (place + 1) % len(group)
                            if self.capacity:
                                self.not_full.notify_all()
                            return group[place].popleft()
                self.not_empty.wait()


def naive(keys: int = 1, capacity: int = 0) -> Rival:
    """:class:`NaiveMultiQueue`."""
    one = NaiveMultiQueue(keys, capacity)
    return Rival([lambda item, key=key: one.put(key, item) for key in range(keys)], one.get)


RIVALS: dict[str, Callable[..., Rival]] = {
    "drainq": drainq,
    "queue.Queue": standard,
    "queue.PriorityQueue": priority,
    "naive multi-queue": naive,
    "culsans": threads_and_tasks,
    "SimpleQueue (no capacity)": simple,
}
