"""No test of the multi-queue waits for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.time_limit import SECONDS, at_most


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    with at_most(SECONDS):
        yield
