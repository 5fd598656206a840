"""The times and limits of a delayed queue, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from drainq.arguments import seconds, whole
from drainq.backoff import Backoff, check_backoff

MEMORY_POLL_PERIOD = 0.5
"""Seconds. In memory every offer wakes consumers, so the period matters only if a clock is moved by hand."""


@dataclass(frozen=True)
class TimeConfig:
    """The time of a lease, and the interval at which a waiting consumer polls.

    Args:
        acquire_timeout: seconds for which a message belongs to the consumer that polled it. If the
            consumer does not acknowledge it by then, it is delivered again.
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
    """The number of retries of a failed call, and their delays.

    It applies to database calls that failed temporarily (a deadlock, a busy file, a lost connection). It is also the
    default for messages whose handler raised; :meth:`~drainq.delayed.DelayedQueue.consume` can override that.

    Args:
        backoff: the pauses between the tries.
        max_retries: tries after the first; ``None`` for no limit.
        total_timeout: seconds after which no further try of a database call begins; ``None`` for no limit.
        try_timeout: seconds that one try of a database call may take; ``None`` for no limit.

    Example:
        >>> RetryConfig(Backoff(initial=0.5), max_retries=None)
        RetryConfig(backoff=Backoff(initial=0.5, maximum=10.0, factor=2.0, jitter=0.1), max_retries=None, \
total_timeout=30.0, try_timeout=10.0)

    Source: ``RetryConfig`` of funfix ``delayedqueue``.
    """

    backoff: Backoff = field(default_factory=Backoff)
    max_retries: int | None = 5
    total_timeout: float | None = 30.0
    try_timeout: float | None = 10.0

    def __post_init__(self) -> None:
        check_backoff(self.backoff)
        if self.max_retries is not None:
            _keep(self, max_retries=whole("max_retries", self.max_retries, least=0))
        if self.total_timeout is not None:
            _keep(self, total_timeout=seconds("total_timeout", self.total_timeout))
        if self.try_timeout is not None:
            _keep(self, try_timeout=seconds("try_timeout", self.try_timeout, positive=True))


def _keep(frozen: object, **values: float) -> None:
    """Set a field to the value converted from an argument, such as the seconds of a timedelta."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


NO_RETRIES = RetryConfig(max_retries=0)
"""A single try."""
