"""The pytest plugin: fixtures for programs that use drainq. pytest loads it if drainq is installed.

The fixtures return objects of :mod:`drainq.testing`, which works without pytest and is imported by the first fixture.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from drainq.delayed import DelayedQueue
    from drainq.testing import LostItems, ManualClock, RecordingHandler


@pytest.fixture
def manual_clock() -> ManualClock:
    """Return a clock that stands still until the test moves it."""
    from drainq.testing import ManualClock

    return ManualClock()


@pytest.fixture
def recording_handler() -> RecordingHandler:
    """Return a handler that records every batch, and raises errors on request."""
    from drainq.testing import RecordingHandler

    return RecordingHandler()


@pytest.fixture
def delayed_queue(manual_clock: ManualClock) -> Iterator[DelayedQueue[Any]]:
    """Open a delayed queue in memory, on ``manual_clock``: ``manual_clock.advance(60)`` makes a minute pass."""
    from drainq.delayed import DelayedQueue

    with DelayedQueue.open("memory:", "test", clock=manual_clock) as queue:
        yield queue


@pytest.fixture
def no_lost_items() -> Iterator[LostItems]:
    """Fail the test if a batch queue rejected, failed, abandoned, could not route or still holds an item.

    ``no_lost_items.expect(full=2)`` allows losses that the test causes. For a whole module or class:
    ``pytestmark = pytest.mark.usefixtures("no_lost_items")``.
    """
    from drainq.testing import LostItems

    lost = LostItems()
    yield lost
    gc.collect()  # ends and counts queues that are no longer referenced
    complaint = lost.complaint()
    if complaint:
        pytest.fail(complaint, pytrace=False)
