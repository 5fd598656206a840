"""What the tests of the sources drive by hand: the clock, and the background."""

from __future__ import annotations

import pytest
from tests.sources.by_hand import HandClock, HandExecutor


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def background() -> HandExecutor:
    return HandExecutor()
