"""The pytest plugin: fixtures for programs that use drainq. pytest loads it by itself wherever drainq is installed.

What the fixtures hand out is in :mod:`drainq.testing`, which works without pytest; it is imported when a test asks for
a fixture.
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
    """A clock that stands still until the test moves it."""
    from drainq.testing import ManualClock

    return ManualClock()


@pytest.fixture
def recording_handler() -> RecordingHandler:
    """A handler that keeps every batch, and raises when the test says so."""
    from drainq.testing import RecordingHandler

    return RecordingHandler()


@pytest.fixture
def delayed_queue(manual_clock: ManualClock) -> Iterator[DelayedQueue[Any]]:
    """A delayed queue in memory, on ``manual_clock``: ``manual_clock.advance(60)`` makes a minute pass."""
    from drainq.delayed import DelayedQueue

    with DelayedQueue.open("memory:", "test", clock=manual_clock) as queue:
        yield queue


@pytest.fixture
def no_lost_items() -> Iterator[LostItems]:
    """Fails the test if a batch queue rejected, failed, abandoned, could not route or still holds an item of it.

    ``no_lost_items.expect(full=2)`` says which losses the test is about. For a whole module or class:
    ``pytestmark = pytest.mark.usefixtures("no_lost_items")``.
    """
    from drainq.testing import LostItems

    lost = LostItems()
    yield lost
    gc.collect()  # a queue that nothing holds any more ends, and is counted
    complaint = lost.complaint()
    if complaint:
        pytest.fail(complaint, pytrace=False)
