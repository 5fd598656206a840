"""The kit for tests of programs that use drainq.

It has a clock that the test moves, a handler that records its batches, a function that drains a queue before the next
line, and an account of lost items. :mod:`drainq.pytest_plugin` has fixtures for these.
"""

from __future__ import annotations

import math
import threading
from datetime import datetime, timedelta
from typing import Any

from drainq._native import batch_losses
from drainq.arguments import Seconds, seconds, whole

__all__ = ["LostItems", "ManualClock", "RecordingHandler", "drain_now"]


class ManualClock:
    """A clock that stands still until it is moved. Threads may share it.

    Args:
        start: the first time: seconds since the epoch, or an aware datetime.

    Example:
        >>> clock = ManualClock(1_000.0)
        >>> clock.advance(2.5)
        >>> clock.now()
        1002.5
    """

    def __init__(self, start: float | datetime = 1_700_000_000.0) -> None:
        self._lock = threading.Lock()
        self._now = _seconds("start", start)

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        with self._lock:
            return self._now

    def advance(self, by: float | timedelta) -> None:
        """Move the clock by ``by`` seconds. A negative number moves it back."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else _number("by", by)
        with self._lock:
            self._now += seconds

    def set(self, to: float | datetime) -> None:
        """Move the clock to a time: seconds since the epoch, or an aware datetime."""
        with self._lock:
            self._now = _seconds("to", to)


class RecordingHandler:
    """A handler that records its batches.

    Attributes:
        batches: the batches, in the order of the calls.

    Example:
        >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        >>> seen = RecordingHandler()
        >>> with BatchQueue("recorded", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=seen)) as queue:
        ...     _ = queue.produce_many([1, 2, 3])
        ...     drain_now(queue)
        >>> seen.items
        [1, 2, 3]
    """

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self._errors: list[BaseException] = []

    @property
    def items(self) -> list[Any]:
        """All items, in the order of the calls."""
        return [item for batch in self.batches for item in batch]

    def fail_next(self, error: BaseException, times: int = 1) -> None:
        """Make the next calls raise ``error``. Their batches are not recorded.

        Raises:
            TypeError: ``error`` is no exception, or ``times`` no whole number.
            ValueError: ``times`` is below 1.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"error must be an exception, such as OSError('away'), got {error!r}")
        self._errors += [error] * whole("times", times, least=1)

    def __call__(self, batch: list[Any]) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.batches.append(batch)


def drain_now(queue: Any, *, timeout: Seconds = 30.0) -> list[Any] | None:
    """Wait until all items of a queue are handled, or take them out.

    Args:
        queue: a batch queue, a worker or an exporter, which is flushed. Or a multi-queue, set queue or delayed queue,
            whose items, or the payloads of due messages, are taken out and returned. Messages are acknowledged.
        timeout: the most seconds for a flush.
    Returns:
        The items of a queue without handlers, else None.
    Raises:
        AssertionError: the flush did not end in time, or items were abandoned.
        TypeError: ``queue`` is none of these.

    Example:
        >>> from drainq import MultiQueue
        >>> queue = MultiQueue()
        >>> queue.add_sub_queue("mail").put_many(["a", "b"])
        2
        >>> drain_now(queue)
        ['a', 'b']
    """
    timeout = seconds("timeout", timeout)
    if hasattr(queue, "flush"):
        if not queue.flush(timeout):
            raise AssertionError(f"{queue!r} did not handle its items within {timeout} seconds: {queue.stats()!r}")
        return None
    if hasattr(queue, "try_poll"):
        payloads = []
        while (envelope := queue.try_poll()) is not None:
            payloads.append(envelope.payload)
            envelope.ack()
        return payloads
    if hasattr(queue, "get_many") and hasattr(queue, "qsize"):
        return list(queue.get_many(queue.qsize(), min_items=0))
    raise TypeError(f"queue must be a queue, a worker or an exporter of drainq's, got {queue!r}")


class LostItems:
    """The items that the batch queues of this process lost since this object was made.

    Lost are items that were rejected (``full``, ``closed``, ``would_deadlock``), ``failed``, ``unrouted`` or
    ``abandoned``, and items that are still ``queued``. Queues that have ended are counted too.

    Example:
        >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
        >>> lost = LostItems()
        >>> queue = BatchQueue("lossy", BatchQueueConfig(threads=ThreadPolicy.fixed(1)))
        >>> _ = queue.shutdown(), queue.produce("too late")
        >>> lost.counts()
        {'closed': 1}
    """

    def __init__(self) -> None:
        self._before = _losses()
        self._expected: dict[str, int] = {}

    def counts(self) -> dict[str, int]:
        """Return the number of lost items by reason, without zeros."""
        now = _losses()
        return {name: now[name] - self._before[name] for name in now if now[name] != self._before[name]}

    def expect(self, **counts: int) -> None:
        """Set the expected losses: ``expect(full=2, failed=1)``."""
        wrong = sorted(counts.keys() - self._before.keys())
        if wrong:
            raise TypeError(f"counts must be among {', '.join(self._before)}; got {', '.join(wrong)}")
        self._expected = counts

    def complaint(self) -> str | None:
        """Return a sentence about losses that are not as expected, or None."""
        counts = self.counts()
        if counts == {name: count for name, count in self._expected.items() if count}:
            return None
        lost, expected = (
            ", ".join(f"{name} {count}" for name, count in losses.items()) or "none"
            for losses in (counts, self._expected)
        )
        return f"items that batch queues lost: {lost}; expected: {expected}"


def _losses() -> dict[str, int]:
    return dict(batch_losses())


def _seconds(name: str, at: float | datetime) -> float:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ValueError(f"{name} needs a zone, got the naive datetime {at!r}: add tzinfo=timezone.utc")
        return at.timestamp()
    return _number(name, at, " since the epoch, or an aware datetime")


def _number(name: str, value: object, more: str = ", or a timedelta") -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds{more}, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number of seconds{more}, got {value!r}")
    return float(value)
