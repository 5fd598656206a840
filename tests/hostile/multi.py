"""The table of the multi-queue: the head, its sub-queues, what is awaited, and the statistics.

Keys, items, selections and predicates strike. Each entry ends with the books: what was put and got, item by
item, is what the queue says.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue as std
from collections.abc import Callable
from typing import Any

from drainq import MultiQueue, ShutDown, SubQueue
from drainq._native import QueueAwaitable
from tests.hostile import mischief
from tests.hostile.__main__ import properties
from tests.hostile.mischief import PATIENCE, Callback, Name, Number, Text, many, strike
from tests.hostile.table import Table

CLASSES = (MultiQueue, SubQueue, QueueAwaitable)

STRIKES = {"call", "del", "eq", "getattr", "hash", "index", "next", "repr", "warning"}
"""What strikes in this room; it logs nothing."""

REFUSED = (std.Empty, std.Full, ShutDown, KeyError)


class Turns:
    """A selection of one's own."""

    def __init__(self) -> None:
        self.select = Callback(self.choose)

    def choose(self, groups: list[list[SubQueue[Any]]]) -> SubQueue[Any]:
        repr(groups[0][0].key)
        return groups[-1][-1]


class Scene:
    """Two sub-queues with hostile keys, and the books of what went in and came out."""

    def __init__(self, selection: Callable[[], Any] = lambda: "priority", capacity: int | None = None) -> None:
        self.put: list[None] = []
        self.got: list[None] = []
        self.queue: MultiQueue[Name] = MultiQueue(selection())
        self.first = self.queue.add_sub_queue(Name("first"), Number(1), capacity, weight=Number(2))  # type: ignore[arg-type]
        self.second = self.queue.add_sub_queue(Name("second"), Number(2))  # type: ignore[arg-type]
        mischief.CALLS[:] = [
            lambda: self.offer(self.first, 7),
            lambda: self.take(),
            lambda: repr(self.queue.stats()),
            lambda: self.offer(self.second, 8),
            lambda: (repr(self.queue), repr(self.first), list(self.queue), list(self.second)),
            lambda: self.offer(self.first, "a"),
            lambda: (self.first.disable("strike"), self.first.enable("strike")),  # type: ignore[func-returns-value]
            lambda: self.first.remove_if(lambda item: False),
            lambda: self.take_all(),
        ]

    def offer(self, sub: SubQueue[Name], value: object) -> None:
        """Puts one item without waiting."""
        with contextlib.suppress(*REFUSED):
            sub.put_nowait(Name(value))
            self.put.append(None)

    def take(self) -> None:
        """Gets one item without waiting."""
        with contextlib.suppress(*REFUSED):
            self.queue.get_nowait()
            self.got.append(None)

    def take_all(self) -> None:
        """Gets what is there."""
        with contextlib.suppress(ShutDown):
            for _ in self.queue.get_many(100, min_items=0):
                self.got.append(None)

    def end(self) -> None:
        """Empties the queue and compares the books."""
        mischief.end_strikes()
        now = self.queue.stats()
        assert (now.put, now.got) == (len(self.put), len(self.got)), (now, len(self.put), len(self.got))
        assert now.put == now.got + now.removed + now.depth, now
        assert now.depth == self.first.qsize() + self.second.qsize()
        assert (now.blocked_getters, now.blocked_putters) == (0, 0)
        left = self.queue.get_many(now.depth, min_items=0) if now.depth else []
        assert len(left) == now.depth


VARIANTS: dict[str, dict[str, Any]] = {
    "priority": {},
    "weighted": {"selection": lambda: Text("weighted")},
    "object": {"selection": Turns},
    "small": {"capacity": 3},
}

TABLE = Table(Scene, VARIANTS, unnamed=tuple(VARIANTS))
ENTRIES, entry = TABLE.entries, TABLE.entry


def read(value: object) -> None:
    """Reads every attribute, and shows each."""
    for name in properties(value):
        repr(getattr(value, name))
    repr(value)


def fill(scene: Scene) -> None:
    for number in range(3):
        scene.offer(scene.first, number)
        scene.offer(scene.second, number)


@entry("MultiQueue.__new__", "priority")
def new_queues(scene: Scene) -> None:
    """A queue that nobody holds takes its items with it."""
    for _ in range(10):
        other: MultiQueue[Any] = MultiQueue(Turns())
        other.add_sub_queue(Name(1)).put(Name(other))
        with contextlib.suppress(ValueError):
            MultiQueue(Text("neither"))  # type: ignore[arg-type]
        with contextlib.suppress(TypeError):
            MultiQueue(Name(1))  # type: ignore[arg-type]
        MultiQueue[Any]().add_sub_queue(Name(2)).put(Name(3))


@entry("MultiQueue.add_sub_queue")
def add_sub_queue(scene: Scene) -> None:
    for number in range(10):
        sub = scene.queue.add_sub_queue(Name(number), Number(number), weight=Number(1))  # type: ignore[arg-type]
        assert scene.queue.add_sub_queue(Name(number), exist_ok=True) is sub
        with contextlib.suppress(KeyError):
            scene.queue.add_sub_queue(Name(number))
            raise AssertionError("there is one")
        assert scene.queue.remove_sub_queue(Name(number)) is sub


@entry("MultiQueue.remove_sub_queue")
@entry("MultiQueue.get_sub_queue")
@entry("MultiQueue.__getitem__")
@entry("MultiQueue.__contains__")
@entry("MultiQueue.keys")
@entry("MultiQueue.__iter__")
@entry("MultiQueue.__len__")
def collection(scene: Scene) -> None:
    for number in range(5):
        sub = scene.queue.add_sub_queue(Name(number))
        assert scene.queue[Name(number)] is scene.queue.get_sub_queue(Name(number)) is sub
        assert Name(number) in scene.queue and Name(number) in scene.queue.keys()
        assert len(scene.queue) == len(list(scene.queue)) == 3
        assert scene.queue.remove_sub_queue(Name(number)) is sub
        assert Name(number) not in scene.queue
        with contextlib.suppress(KeyError):
            scene.queue.remove_sub_queue(Name(number))
            raise AssertionError("removed twice")


@entry("MultiQueue.get")
@entry("MultiQueue.get_nowait")
@entry("MultiQueue.get_item")
@entry("MultiQueue.peek")
@entry("MultiQueue.qsize")
@entry("MultiQueue.empty")
def get(scene: Scene) -> None:
    for _ in range(5):
        fill(scene)
        for call in (
            lambda: scene.queue.get(timeout=Number(0.001)),  # type: ignore[arg-type]
            lambda: scene.queue.get(False),
            scene.queue.get_nowait,
            lambda: repr(scene.queue.get_item(timeout=0.001)),
        ):
            with contextlib.suppress(std.Empty):
                call()
                scene.got.append(None)
        with contextlib.suppress(std.Empty):
            scene.queue.peek()
        repr((scene.queue.qsize(), scene.queue.empty()))


@entry("MultiQueue.get_many")
def get_many(scene: Scene) -> None:
    for least in (0, 1, 2, 4):
        fill(scene)
        scene.got.extend(None for _ in scene.queue.get_many(Number(5), min_items=Number(least), timeout=0.005))  # type: ignore[arg-type]


@entry("MultiQueue.stats")
@entry("MultiQueue.__repr__")
@entry("SubQueue.__repr__")
@entry("SubQueue.stats")
@entry("SubQueue.qsize")
@entry("SubQueue.empty")
@entry("SubQueue.full")
@entry("SubQueue.remaining_capacity")
def stats(scene: Scene) -> None:
    for _ in range(4):
        fill(scene)
        now = scene.queue.stats()
        for value in (scene.queue, scene.first, now, now[Name("first")]):
            read(value)
        sub = scene.first
        repr((sub.qsize(), sub.empty(), sub.full(), sub.remaining_capacity()))


@entry("MultiQueue.shutdown")
def shutdown(scene: Scene) -> None:
    fill(scene)
    scene.queue.shutdown(immediate=bool(len(scene.put) % 2))
    scene.offer(scene.first, 1)
    scene.take()
    with contextlib.suppress(ShutDown):
        scene.queue.add_sub_queue(Name(9))
        raise AssertionError("shut down")


@entry("SubQueue.put")
@entry("SubQueue.put_nowait")
@entry("SubQueue.put_many")
def put(scene: Scene) -> None:
    for number in range(5):
        for sub in (scene.first, scene.second):
            with contextlib.suppress(std.Full):
                sub.put(Name(number), timeout=Number(0.001))  # type: ignore[arg-type]
                scene.put.append(None)
            scene.offer(sub, number)
            put = sub.put_many(many([Name(number), Name(number)]), timeout=0.001)
            scene.put.extend(None for _ in range(put))


@entry("SubQueue.__iter__")
@entry("SubQueue.__contains__")
@entry("SubQueue.remove")
@entry("SubQueue.remove_if")
@entry("SubQueue.clear")
def items(scene: Scene) -> None:
    for number in range(3):
        fill(scene)
        for sub in (scene.first, scene.second):
            repr((Name(number) in sub, list(sub), sub.remove(Name(number))))
            sub.remove_if(Callback(lambda item: Name(item) == Name(1)))
        scene.offer(scene.second, 5)
        scene.second.clear()


@entry("SubQueue.enable")
@entry("SubQueue.disable")
def switch(scene: Scene) -> None:
    for number in range(5):
        fill(scene)
        scene.first.disable(Text("text"))
        scene.take()
        scene.first.enable(Text("text"))
        scene.first.priority = Number(number)  # type: ignore[assignment]
        scene.first.weight = Number(1 + number)  # type: ignore[assignment]
        scene.first.capacity = Number(1 + number)  # type: ignore[assignment]


@entry("MultiQueue.__class_getitem__", "priority")
@entry("SubQueue.__class_getitem__", "priority")
@entry("QueueAwaitable.__class_getitem__", "priority")
def subscripts(scene: Scene) -> None:
    repr((MultiQueue[Name(1)], SubQueue[Name(1)], QueueAwaitable[Name(1)]))  # type: ignore[misc]


@entry("MultiQueue.get_async")
@entry("MultiQueue.get_item_async")
@entry("MultiQueue.get_many_async")
@entry("MultiQueue.__aiter__")
@entry("MultiQueue.__anext__")
@entry("SubQueue.put_async")
@entry("QueueAwaitable.__await__")
@entry("QueueAwaitable.__iter__")
@entry("QueueAwaitable.__next__")
@entry("QueueAwaitable.send")
def tasks(scene: Scene) -> None:
    async def main() -> None:
        for number in range(4):
            putters = [asyncio.ensure_future(put_one(scene.first, number)) for _ in range(3)]
            getters = [asyncio.ensure_future(get_one(number + more)) for more in range(2)]
            await asyncio.sleep(0)
            strike("call")
            getters[0].cancel()
            putters[0].cancel()
            for task in (*putters, *getters):
                with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
                    await task

    async def put_one(sub: SubQueue[Name], number: int) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            try:
                await asyncio.wait_for(sub.put_async(Name(number)), PATIENCE if sub.capacity is None else 0.01)
            finally:
                strike("call")

    async def get_one(number: int) -> None:
        queue = scene.queue
        call = (queue.get_async, queue.get_item_async, lambda: queue.get_many_async(2))[number % 3]
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(call(), 0.01)

    asyncio.run(main())
    # A call that is cancelled may have been answered in the same moment, so the queue's own books count here.
    mischief.end_strikes()
    now = scene.queue.stats()
    scene.put[:], scene.got[:] = [None] * now.put, [None] * now.got


@entry("MultiQueue.__reduce__")
@entry("QueueAwaitable.__reduce__")
@entry("SubQueue.__reduce__")
def reduce(scene: Scene) -> None:
    getter = scene.queue.get_async()
    for value in (scene.queue, scene.first, getter):
        mischief.stays(value)
    getter.close()


@entry("QueueAwaitable.throw")
@entry("QueueAwaitable.close")
def ends(scene: Scene) -> None:
    """One that was never awaited warns as a coroutine does."""
    for kind in (Name, KeyError):
        with contextlib.suppress(KeyError, TypeError):
            scene.first.put_async(Name(1)).throw(kind, Name(2))
        scene.first.put_async(Name(1)).close()
        scene.queue.get_async().close()
        scene.first.put_async(Name(1))
        scene.queue.get_async()
