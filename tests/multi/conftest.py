"""A queue for each test, and no test of the multi-queue waits for ever."""

from __future__ import annotations

import pytest

from drainq import MultiQueue
from tests.time_limit import SECONDS, each_test_within, no_standstill  # noqa: F401

time_limit = each_test_within(SECONDS)


@pytest.fixture
def queue() -> MultiQueue:
    return MultiQueue()
