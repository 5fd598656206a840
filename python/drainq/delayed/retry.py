"""Trying a database call again while its failure may pass.

Only failures that the storage calls transient are tried again; a wrong table name, a refused password or a bug come
out at once. Between two tries the thread waits in real time.

Source: ``withRetries`` of funfix ``delayedqueue``; ours retries no error of the caller's own making.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from drainq.delayed.config import RetryConfig
from drainq.errors import DrainqError

R = TypeVar("R")
_log = logging.getLogger("drainq")


class ResourceUnavailable(DrainqError):
    """The database went on failing; ``errors`` has the error of every try, ``__cause__`` the last."""

    def __init__(self, message: str, errors: list[BaseException]) -> None:
        super().__init__(message)
        self.errors = errors


def with_retries(
    call: Callable[[], R],
    config: RetryConfig,
    is_transient: Callable[[BaseException], bool],
    *,
    wait: Callable[[float], object] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> R:
    """Return what ``call`` returns, calling it again while it fails for a passing reason.

    Args:
        call: the work; safe to repeat.
        config: how often and how patiently.
        is_transient: tells the failures that may pass.
        wait: waits so many seconds between two tries; by default in real time.
        monotonic: the clock that ``total_timeout`` is read on.

    Raises:
        ResourceUnavailable: every try failed. Other errors come out as they are.

    Example:
        >>> tries = iter([ConnectionError("gone"), None])
        >>> def call():
        ...     if error := next(tries):
        ...         raise error
        ...     return "done"
        >>> with_retries(call, RetryConfig(initial_delay=0), lambda error: isinstance(error, ConnectionError))
        'done'
    """
    started = monotonic()
    errors: list[BaseException] = []
    while True:
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                raise
            errors.append(error)
        retries = len(errors) - 1
        delay = config.delay(len(errors))
        out_of_tries = config.max_retries is not None and retries >= config.max_retries
        out_of_time = config.total_timeout is not None and monotonic() - started + delay > config.total_timeout
        if out_of_tries or out_of_time:
            last = errors[-1]
            raise ResourceUnavailable(f"Giving up after {retries} retries: {last}", errors) from last
        _log.warning(
            "the delayed queue's database failed (%s); trying again in %.3g s", type(errors[-1]).__name__, delay
        )
        (wait or _wait)(delay)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
