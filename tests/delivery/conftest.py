"""A delayed queue in memory for dead letters, and its clock."""

import pytest

from drainq.delayed import DelayedQueue
from drainq.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def delayed(clock):
    with DelayedQueue.open("memory:", "letters", clock=clock) as queue:
        yield queue
