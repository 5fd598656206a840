"""Queues that end with their test, and handlers that a test can hold and watch."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import pytest

from drainq import BatchQueue, BatchQueueConfig, BatchQueueManager, ThreadPolicy
from drainq.statistics import BatchQueueStats
from tests.own_log import caplog  # noqa: F401
from tests.time_limit import no_standstill  # noqa: F401

PATIENCE = 20.0
"""Seconds after which a test that waits has failed."""

R = TypeVar("R")


def within_a_second(act: Callable[[], R]) -> R:
    """Do something, anew if it took a second, as it may on a busy machine: what is lost within a second is told together."""
    for _ in range(50):
        begin = time.monotonic()
        result = act()
        if time.monotonic() - begin < 1.0:
            return result
    raise AssertionError("it never took less than a second")


def accounts(stats: BatchQueueStats) -> None:
    """Assert that every item is in exactly one place."""
    assert stats.offered == stats.accepted + sum(stats.rejected.values())
    ended = stats.handled + stats.failed + stats.unrouted + stats.dead_lettered + stats.abandoned
    assert stats.accepted == ended + stats.queued, stats
    assert stats.balanced


class Gate:
    """A handler that keeps its batches, and does not return while it is closed."""

    made: ClassVar[weakref.WeakSet[Gate]] = weakref.WeakSet()

    def __init__(self, *, is_open: bool = True) -> None:
        self.made.add(self)
        self.batches: list[list[Any]] = []
        self.entered = threading.Semaphore(0)
        self._open = threading.Event()
        if is_open:
            self._open.set()

    def __call__(self, batch: list[Any]) -> None:
        self.batches.append(batch)
        self.entered.release()
        assert self._open.wait(PATIENCE)

    def open(self) -> None:
        self._open.set()

    def wait_entered(self) -> None:
        assert self.entered.acquire(timeout=PATIENCE)

    @property
    def items(self) -> list[Any]:
        return [item for batch in self.batches for item in batch]


@pytest.fixture
def make_queue() -> Iterator[Callable[..., BatchQueue]]:
    """Make a queue by the settings given; one thread unless said otherwise."""
    queues: list[BatchQueue] = []

    def make(**settings: Any) -> BatchQueue:
        if "shared_scheduler" not in settings:
            settings.setdefault("threads", ThreadPolicy.fixed(1))
        queue = BatchQueue(f"test-{len(queues)}", BatchQueueConfig(**settings))
        queues.append(queue)
        return queue

    yield make
    for gate in list(Gate.made):  # a test that failed has left its gates closed, and is to end at once all the same
        gate.open()
    for queue in queues:
        queue.shutdown(PATIENCE)
        accounts(queue.stats())


@pytest.fixture
def clean_manager() -> Iterator[None]:
    """Empty the registry before and after."""
    assert BatchQueueManager.names() == []
    yield
    BatchQueueManager.shutdown_all(PATIENCE)
