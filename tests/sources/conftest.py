"""Fixtures for the tests of the sources: the clock, the background, and a limit for each wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drainq.sources import PrefetchSource
from drainq.testing import ManualClock
from tests.sources.by_hand import EXACT, Delivered, HandExecutor
from tests.standstill import watched_unless_debugged
from tests.time_limit import SECONDS, each_test_within

time_limit = each_test_within(SECONDS)


@pytest.fixture(scope="module", autouse=True)
def no_standstill(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of the set queue's modules: the others wait for a database too, which is none of the test's processes."""
    if not request.module.__name__.rpartition(".")[2].startswith("test_set_queue"):
        yield
        return
    with watched_unless_debugged(request.config):
        yield


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def background() -> HandExecutor:
    return HandExecutor()


@pytest.fixture
def heard() -> list[BaseException]:
    return []


@pytest.fixture
def make(background, clock, heard):
    """Makes sources whose refills run when the test says ``background.run()``; ``heard`` gets the errors."""

    def make(source, capacity=4, threshold=1, **options):
        options = {"executor": background, "clock": clock, "backoff": EXACT, "on_error": heard.append, **options}
        return PrefetchSource(source, capacity, threshold, **options)

    return make


@pytest.fixture
def delivered() -> Delivered:
    return Delivered()
