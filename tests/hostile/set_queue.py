"""The table of the set queue. Items, keys and clocks strike; each entry ends with the books."""

from __future__ import annotations

import contextlib
import queue as std
from collections.abc import Callable
from typing import Any

from drainq import SetQueue, ShutDown
from tests.hostile import mischief
from tests.hostile.__main__ import properties
from tests.hostile.mischief import Callback, Name, Number, many
from tests.hostile.table import Table

CLASSES = (SetQueue,)

STRIKES = {"call", "del", "eq", "getattr", "hash", "index", "next", "repr"}
"""What strikes in this room; it logs nothing and warns of nothing."""


class Clock:
    """Time goes on by itself."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.now = Callback(self.read)

    def read(self) -> Number:
        self.seconds += 0.25
        return Number(self.seconds)


class Scene:
    """A set queue, and the books of what went in and came out."""

    def __init__(self, **settings: Any) -> None:
        self.put: list[None] = []
        self.got: list[None] = []
        self.cleared = 0
        made = {name: make() for name, make in settings.items()}
        self.queue: SetQueue[Any] = SetQueue(**made)
        mischief.CALLS[:] = [
            lambda: self.offer(Name(7)),
            lambda: self.take(),
            lambda: repr((self.queue, self.queue.stats(), len(self.queue))),
            lambda: self.offer(Name(1)),
            lambda: (list(self.queue), self.queue.knows(Name(1)), Name(2) in self.queue),
            lambda: self.queue.done([Name(1), Name(7)]),
            lambda: self.queue._end_poll(self.queue._begin_poll()),
            lambda: self.take_all(),
        ]

    def offer(self, item: object) -> None:
        """Puts one item without waiting."""
        with contextlib.suppress(std.Full, ShutDown):
            if self.queue.put_nowait(item):
                self.put.append(None)

    def take(self) -> None:
        """Gets one item without waiting."""
        with contextlib.suppress(std.Empty, ShutDown):
            self.queue.get_nowait()
            self.got.append(None)

    def take_all(self) -> None:
        """Gets what is there."""
        for _ in self.queue.get_many(100):
            self.got.append(None)

    def fill(self) -> None:
        for number in range(3):
            self.offer(Name(number))

    def end(self) -> None:
        """Compares the books, and empties the queue."""
        mischief.end_strikes()
        now = self.queue.stats()
        assert (now.put, now.got) == (len(self.put), len(self.got)), (now, len(self.put), len(self.got))
        assert now.size == len(self.queue) == len(list(self.queue)) == now.put - now.got - self.cleared
        assert (now.blocked_getters, now.blocked_putters) == (0, 0)
        assert len(self.queue.get_many(10_000)) == now.size


VARIANTS: dict[str, dict[str, Callable[[], Any]]] = {
    "plain": {},
    "keyed": {"key": lambda: Callback(lambda item: Name(item))},
    "small": {"capacity": lambda: Number(3)},
    "ack": {"in_flight": lambda: "ack"},
    "remembered": {"in_flight": lambda: "ack", "ttl": lambda: Number(1), "clock": Clock},
    "ttl": {"in_flight": lambda: "ttl", "ttl": lambda: Number(1), "clock": Clock},
}

TABLE = Table(Scene, VARIANTS, unnamed=tuple(VARIANTS))
ENTRIES, entry = TABLE.entries, TABLE.entry


@entry("SetQueue.__new__", "plain")
def new_queues(scene: Scene) -> None:
    """A queue that nobody holds takes its items with it."""
    for _ in range(10):
        other: SetQueue[Any] = SetQueue(Number(5), Callback(lambda item: item))  # type: ignore[arg-type]
        other.put(Name(other))
        SetQueue[Any]().put(Name(1))
        with contextlib.suppress(ValueError):
            SetQueue(Number(0))  # type: ignore[arg-type]
        with contextlib.suppress(TypeError):
            SetQueue(key=Name(1))  # type: ignore[arg-type]


@entry("SetQueue.put")
@entry("SetQueue.put_nowait")
@entry("SetQueue.put_many")
def put(scene: Scene) -> None:
    for number in range(5):
        with contextlib.suppress(std.Full):
            if scene.queue.put(Name(number), timeout=Number(0.001)):  # type: ignore[arg-type]
                scene.put.append(None)
        scene.offer(Name(number))
        added = scene.queue.put_many(many([Name(number + 1), Name(number)]), timeout=0.001)
        scene.put.extend(None for _ in range(added))


@entry("SetQueue.get")
@entry("SetQueue.get_nowait")
@entry("SetQueue.get_many")
def get(scene: Scene) -> None:
    for _ in range(5):
        scene.fill()
        with contextlib.suppress(std.Empty):
            scene.queue.get(timeout=Number(0.001))  # type: ignore[arg-type]
            scene.got.append(None)
        scene.take()
        scene.got.extend(None for _ in scene.queue.get_many(Number(1)))  # type: ignore[arg-type]


@entry("SetQueue.done")
@entry("SetQueue.done")
def done(scene: Scene) -> None:
    for _ in range(5):
        scene.fill()
        scene.take()
        poll = scene.queue._begin_poll()
        scene.queue.done(many([Name(number) for number in range(4)]))
        scene.fill()
        assert scene.queue._end_poll(Number(poll))  # type: ignore[arg-type]


@entry("SetQueue.clear")
def clear(scene: Scene) -> None:
    for _ in range(5):
        scene.fill()
        scene.cleared += len(scene.queue.clear())


@entry("SetQueue.shutdown")
def shutdown(scene: Scene) -> None:
    scene.fill()
    scene.queue.shutdown()
    scene.offer(Name(5))
    scene.take()


@entry("SetQueue.__contains__")
@entry("SetQueue.knows")
@entry("SetQueue.__iter__")
@entry("SetQueue.__len__")
@entry("SetQueue.__repr__")
@entry("SetQueue.qsize")
@entry("SetQueue.empty")
@entry("SetQueue.full")
@entry("SetQueue.remaining_capacity")
@entry("SetQueue.stats")
def show(scene: Scene) -> None:
    for _ in range(3):
        scene.fill()
        queue = scene.queue
        repr((Name(1) in queue, queue.knows(Name(2))))
        repr((list(queue), len(queue), queue, queue.qsize(), queue.empty(), queue.full(), queue.remaining_capacity()))
        for value in (queue, queue.stats()):
            for name in properties(value):
                repr(getattr(value, name))
            repr(value)


@entry("SetQueue.__reduce__")
def reduce(scene: Scene) -> None:
    mischief.stays(scene.queue)


@entry("SetQueue.__class_getitem__", "plain")
def subscripts(scene: Scene) -> None:
    repr(SetQueue[Name(1)])  # type: ignore[misc]
