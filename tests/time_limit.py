"""The time limit of a test: an endless wait fails the test, and does not end the whole run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.standstill import watched_unless_debugged

SECONDS = 30.0
"""The limit for a test that takes far less than a second on a machine that is not busy."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail a block that takes longer, and again every 5 seconds while its clean-up hangs.

    The alarm ends calls of the main thread that wait, in Python or in drainq. If a call never returns to Python,
    ``faulthandler_timeout`` ends the process.
    """

    def fail(*_: object) -> None:
        pytest.fail(f"it has not ended after {seconds:g} seconds")

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def outside_the_limit() -> Iterator[None]:
    """Let the block take as long as it takes: the start of a server, say, which is not what the test is about."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, again)


def each_test_within(seconds: float) -> Any:
    """Make the fixture ``time_limit`` for a ``conftest.py``. It runs each test of the folder in :func:`at_most`."""

    @pytest.fixture(autouse=True)
    def time_limit() -> Iterator[None]:
        with at_most(seconds):
            yield

    return time_limit


@pytest.fixture(scope="package", autouse=True)
def no_standstill(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail each test that comes to a standstill, in the folder whose ``conftest.py`` imports this fixture."""
    with watched_unless_debugged(pytestconfig):
        yield
