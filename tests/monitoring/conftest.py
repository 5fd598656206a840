"""The endpoint that most tests ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drainq.monitoring import MetricsServer
from tests.patience import Call


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    server = MetricsServer(port=0)
    yield server
    Call(server.close).result()  # a close that never ends is a failed test
