"""A place for queues with schedules, on each back end in turn, and a clock that the test moves."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drainq.delayed import DelayedQueue, TimeConfig
from drainq.testing import ManualClock
from tests.delayed.conftest import url_of
from tests.delayed.cron.ticks import LEASE, START


@pytest.fixture
def open_queue(request, tmp_path) -> Iterator[Callable[..., DelayedQueue]]:
    """Opens queues of one name in one place, each with a clock of its own."""
    backend, _, encoding = request.param.partition(" ")
    opened: list[DelayedQueue] = []
    table = f"cron_{uuid.uuid4().hex[:12]}"

    def open_one(**options: Any) -> DelayedQueue:
        url = f"sqlite:///{tmp_path}/queue.db"
        if backend == "postgresql":
            url = url_of(request.getfixturevalue("postgres_url"), encoding)
        queue: DelayedQueue = DelayedQueue.open(url, "cron", table=table, **options)
        opened.append(queue)
        return queue

    yield open_one
    for queue in opened:
        queue.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def queue(open_queue, clock) -> DelayedQueue:
    return open_queue(clock=clock, time=TimeConfig(acquire_timeout=LEASE, poll_period=0.05))
