"""What the tests of the sources drive by hand: the clock, and the background."""

from __future__ import annotations

import pytest

from drainq.testing import ManualClock
from tests.sources.by_hand import HandExecutor


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def background() -> HandExecutor:
    return HandExecutor()
