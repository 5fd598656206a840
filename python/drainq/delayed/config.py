"""The times and limits of a delayed queue, with their defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drainq.arguments import seconds, whole
from drainq.backoff import grown_delay

MEMORY_POLL_PERIOD = 0.5
"""Seconds; in memory every offer is seen, so the period only bounds how late a clock moved by hand is noticed."""


@dataclass(frozen=True)
class TimeConfig:
    """How long a message is leased, and how often a waiting consumer polls again.

    Args:
        acquire_timeout: seconds for which a message belongs to the consumer that polled it. Without an acknowledgement
            it is delivered again after that.
        poll_period: the most seconds that a waiting consumer sleeps before it polls again. A known due time or offer
            wakes it earlier.

    Example:
        >>> TimeConfig(poll_period=0.1)
        TimeConfig(acquire_timeout=300.0, poll_period=0.1)

    Source: ``DelayedQueueTimeConfig`` of funfix ``delayedqueue``.
    """

    acquire_timeout: float = 300.0
    poll_period: float = 3.0

    def __post_init__(self) -> None:
        _keep(self, acquire_timeout=seconds("acquire_timeout", self.acquire_timeout, positive=True))
        _keep(self, poll_period=seconds("poll_period", self.poll_period, positive=True))


@dataclass(frozen=True)
class RetryConfig:
    """How often, and with what delays, a failed call is tried again.

    It is used for database calls that failed for a passing reason (a deadlock, a busy file, a lost connection), and for
    messages whose handler raised in :meth:`~drainq.delayed.DelayedQueue.consume`.

    Args:
        initial_delay: seconds before the second try.
        max_delay: the most seconds between two tries.
        factor: the growth of the delay after each try; at least 1.
        max_retries: tries after the first; ``None`` for no limit.
        total_timeout: seconds after which no further try of a database call begins; ``None`` for no limit.
        try_timeout: seconds that one try of a database call may take; ``None`` for no limit.

    Example:
        >>> [RetryConfig(initial_delay=0.05, max_delay=0.2).delay(n) for n in (1, 2, 3, 4)]
        [0.05, 0.1, 0.2, 0.2]

    Source: ``RetryConfig`` of funfix ``delayedqueue``.
    """

    initial_delay: float = 0.1
    max_delay: float = 5.0
    factor: float = 2.0
    max_retries: int | None = 5
    total_timeout: float | None = 30.0
    try_timeout: float | None = 10.0

    def __post_init__(self) -> None:
        _keep(self, initial_delay=seconds("initial_delay", self.initial_delay))
        _keep(self, max_delay=seconds("max_delay", self.max_delay))
        if isinstance(self.factor, bool) or not isinstance(self.factor, (int, float)):
            raise TypeError(f"factor must be a number, got {self.factor!r}")
        if not self.factor >= 1 or math.isinf(self.factor):
            raise ValueError(f"factor must be at least 1 and finite, got {self.factor!r}")
        if self.max_retries is not None:
            _keep(self, max_retries=whole("max_retries", self.max_retries, least=0))
        if self.total_timeout is not None:
            _keep(self, total_timeout=seconds("total_timeout", self.total_timeout))
        if self.try_timeout is not None:
            _keep(self, try_timeout=seconds("try_timeout", self.try_timeout, positive=True))

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after the ``failures``-th failed try (1, 2, ...)."""
        return grown_delay(self.initial_delay, self.max_delay, self.factor, failures - 1)


def _keep(frozen: object, **values: float) -> None:
    """Set a field to the value converted from an argument, such as the seconds of a timedelta."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


NO_RETRIES = RetryConfig(max_retries=0)
"""One try, no second."""
