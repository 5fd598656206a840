"""No test of the sketch waits for ever, for a lock of its own, say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.standstill import watched_unless_debugged


@pytest.fixture(scope="package", autouse=True)
def no_standstill(pytestconfig: pytest.Config) -> Iterator[None]:
    with watched_unless_debugged(pytestconfig):
        yield
