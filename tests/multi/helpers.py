"""Threads and patience for the tests of the multi-queue; nothing here sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from drainq import MultiQueue
from tests.patience import PATIENCE, Call, eventually

__all__ = [
    "PATIENCE",
    "blocked_getters",
    "blocked_putters",
    "drain",
    "ended",
    "eventually",
    "in_thread",
    "totals_add_up",
]


def in_thread(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    """Run ``call`` on a thread of its own; the future has its result or exception."""
    return Call(partial(call, *args, **kwargs))


def blocked_getters(queue: MultiQueue, count: int) -> Callable[[], bool]:
    """Return whether ``count`` getters wait."""
    return lambda: queue.stats().blocked_getters == count


def blocked_putters(queue: MultiQueue, count: int) -> Callable[[], bool]:
    """Return whether ``count`` putters wait."""
    return lambda: queue.stats().blocked_putters == count


def drain(queue: MultiQueue) -> list:
    """Return everything that can be got now, one by one."""
    return [queue.get_nowait() for _ in range(queue.qsize())]


def totals_add_up(queue: MultiQueue) -> None:
    """Check that every item that was put is accounted for, in total and in each sub-queue."""
    stats = queue.stats()
    assert stats.put == stats.got + stats.removed + stats.depth
    for key in queue:
        sub = stats[key]
        assert sub.put == sub.got + sub.removed + sub.depth
    assert sum(queue[key].qsize() for key in queue) == stats.depth
    assert sum(queue[key].qsize() for key in queue if queue[key].enabled) == queue.qsize()


@contextmanager
def ended(*futures: Future) -> Iterator[None]:
    """Wait for the futures at the end, and raise what they raised."""
    yield
    for future in futures:
        future.result(PATIENCE)
