"""Retries a database call after temporary failures, within two limits of time.

Only failures that the storage classifies as transient are tried again. A wrong table name, a refused password or a bug
is raised at once. Between two tries the thread waits in real time. The deadline of a try is the earlier end of
``try_timeout`` and ``total_timeout``: see :mod:`drainq.delayed.deadline`.

Source: ``withRetries`` of funfix ``delayedqueue``; drainq does not retry errors that the caller caused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from drainq.backoff import Tries
from drainq.clock import Clock
from drainq.delayed.config import RetryConfig
from drainq.delayed.deadline import set_deadline
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.sql.dialect import Failure
from drainq.sql.driver_errors import failure_of, sqlstate_of
from drainq.sql.error_text import error_text, to_show

R = TypeVar("R")
_log = logging.getLogger("drainq")
_NOT_STORABLE = {
    "22P05": "it has characters that the database's encoding has not; a database of encoding UTF8 has all",
    "22001": "it is longer than its column, which counts bytes in a database of encoding SQL_ASCII",
}
"""SQLSTATEs of texts that the database cannot store."""

_QUIET = 60.0  # seconds between two warnings about the same database


class RareWarning:
    """Logs a warning at most once a minute. The next warning states how many were left out.

    Args:
        monotonic: the clock that measures the minute.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._next = float("-inf")
        self._left_out = 0

    def __call__(self, message: str, *values: object) -> None:
        now = self._monotonic()
        if now < self._next:
            self._left_out += 1  # not exact if two threads count at once
            return
        self._next, left_out, self._left_out = now + _QUIET, self._left_out, 0
        if left_out:
            message, values = message + " (and %d times in the minute before)", (*values, left_out)
        _log.warning(message, *values)


def with_retries(
    call: Callable[[], R],
    config: RetryConfig,
    is_transient: Callable[[BaseException], bool],
    *,
    wait: Callable[[float], object] | None = None,
    clock: Clock | None = None,
    warn: Callable[..., object] = _log.warning,
    values: bool = False,
    of: str = "the queue",
) -> R:
    """Call ``call`` until it succeeds or fails for a permanent reason. Return its result.

    Args:
        call: the function, which must be safe to repeat.
        config: the number of tries, and their delays.
        is_transient: returns whether a failure is temporary.
        wait: waits for the given seconds between two tries; by default in real time.
        clock: measures ``total_timeout``; None: the machine's monotonic clock.
        warn: is called with each failure before another try.
        values: whether the raised errors may show the caller's values.
        of: names the queue, or the object, whose database fails.

    Raises:
        QueueUnavailable: every try failed.
        ValueError: the database cannot store a text.
        QueueBroken: the database's driver raised a permanent error. Other errors are raised unchanged.

    Example:
        >>> from drainq import Backoff
        >>> tries = iter([ConnectionError("gone"), None])
        >>> def call():
        ...     if error := next(tries):
        ...         raise error
        ...     return "done"
        >>> with_retries(call, RetryConfig(Backoff(0)), lambda error: isinstance(error, ConnectionError))
        'done'
    """
    tries = Tries(config.backoff, most=config.max_retries, within=config.total_timeout, clock=clock)
    errors: list[BaseException] = []
    spent = 0.0
    while True:
        before = set_deadline(_end_of_try(config, spent))
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                failure = failure_of(error)
                if failure is None:
                    raise
                cause = to_show(error, values=values or failure is not Failure.DATA)
                why = _NOT_STORABLE.get(sqlstate_of(error) or "")
                if why is not None:
                    raise ValueError(f"the database cannot store this text: {why}") from cause
                raise QueueBroken(
                    f"the delayed queue's database refused: {error_text(error, values=values)}"
                ) from cause
            errors.append(error)
        finally:
            set_deadline(before)
        last = errors[-1]
        pause = tries.failed(last)
        if pause is None:
            raise QueueUnavailable(
                f"the database of {of} does not work now; retry=RetryConfig(...) says how long to try. "
                f"Giving up after {tries.failures - 1} retries: {error_text(last, values=values)}",
                errors,
            ) from last
        warn("the delayed queue's database failed (%s); trying again", error_text(last, values=values))
        (wait or _wait)(pause)
        spent = tries.spent()


def _end_of_try(config: RetryConfig, spent: float) -> float | None:
    most = config.try_timeout
    if config.total_timeout is not None:
        left = max(0.0, config.total_timeout - spent)
        most = left if most is None else min(left, most)
    return None if most is None else time.monotonic() + most


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
