"""The log of drainq alone: a conftest imports the fixture where tests count lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

__all__ = ["caplog"]


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Yield the log of drainq alone. Tasks that another test left behind write to the log when they are collected."""
    ours = logging.Filter("drainq")
    caplog.handler.addFilter(ours)
    yield caplog
    caplog.handler.removeFilter(ours)
