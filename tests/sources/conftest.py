"""What the tests of the sources drive by hand: the clock, and the background; and no test waits for ever."""

from __future__ import annotations

import pytest

from drainq import PrefetchSource
from drainq.testing import ManualClock
from tests.sources.by_hand import EXACT, Delivered, HandExecutor
from tests.time_limit import SECONDS, each_test_within

time_limit = each_test_within(SECONDS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def background() -> HandExecutor:
    return HandExecutor()


@pytest.fixture
def make(background, clock):
    """Makes sources whose refills run when the test says ``background.run()``."""

    def make(source, capacity=4, threshold=1, **options):
        options = {"executor": background, "clock": clock, "retry": EXACT, **options}
        return PrefetchSource(source, capacity, threshold, **options)

    return make


@pytest.fixture
def delivered() -> Delivered:
    return Delivered()
