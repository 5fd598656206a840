"""No test of the multi-queue waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.standstill import watched_unless_debugged
from tests.time_limit import SECONDS, each_test_within

time_limit = each_test_within(SECONDS)


@pytest.fixture(scope="package", autouse=True)
def no_standstill(pytestconfig: pytest.Config) -> Iterator[None]:
    with watched_unless_debugged(pytestconfig):
        yield
