"""The options of a prefetching source: checks them, and makes the source's parts from them.

A forked child makes the parts again. Unlike ``QueueingLimitedSource`` in "Fast Critical Path with Async Queueing", the
schedule does not ask a failing or empty source at every pull.
"""

from __future__ import annotations

import random  # noqa: F401  (Backoff.delay imports it late: a fork during that import would leave it unfinished)
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from drainq._native import SetQueue
from drainq.arguments import check_clock_if_given
from drainq.backoff import Backoff, Tries, check_backoff
from drainq.callables import check_callable
from drainq.clock import Clock
from drainq.sources.prefetch_buffer_size import AutoSize, check_sizes
from drainq.sources.prefetch_read import Refill

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Schedule:
    """The earliest time of the next refill. It has no lock.

    Args:
        backoff: the delays after refills that brought nothing new.
        min_interval: the least seconds from the start of one refill to the next.
    """

    def __init__(self, backoff: Backoff, min_interval: float) -> None:
        self._tries = Tries(backoff)
        self._min_interval = min_interval
        self._earliest = -float("inf")
        self.not_before = -float("inf")
        """The clock's time before which no refill starts."""
        self.only_duplicates = False
        """Whether the last refill found only known items. Once an item is forgotten, a refill may find it again."""

    def begun(self, now: float) -> None:
        """Record the beginning of a refill."""
        self._earliest = now + self._min_interval

    def ended(self, refill: Refill, now: float, *, stream_ended: bool) -> bool:
        """Record the end of a refill. Return whether it brought items."""
        brought = refill.added > 0 and refill.error is None
        self.only_duplicates = refill.error is None and refill.found > 0 and not refill.added
        if brought or (self.only_duplicates and refill.outdated):
            self._tries.failures = 0
            self.not_before = self._earliest
        elif refill.error is not None or not stream_ended:
            self.not_before = max(self._earliest, now + (self._tries.failed() or 0.0))
        return brought

    def forgotten(self) -> None:
        """Record that items were forgotten, so that former duplicates may be new."""
        if self.only_duplicates:
            self.not_before = self._earliest


T = TypeVar("T")

OnError = Literal["log", "raise"] | Callable[[BaseException], object]
InFlight = Literal["forget", "ack", "ttl"]


@dataclass(frozen=True)
class PrefetchOptions(Generic[T]):
    """The arguments of a :class:`~drainq.sources.PrefetchSource`, which documents them."""

    capacity: int
    replenish_threshold: int
    key: Callable[[T], Hashable] | None
    in_flight: InFlight
    ttl: float | None
    on_error: OnError
    backoff: Backoff | None
    name: str | None
    executor: Executor | None
    min_interval: float
    max_capacity: int | None
    clock: Clock | None

    def __post_init__(self) -> None:
        check_sizes(self.capacity, self.replenish_threshold, self.max_capacity)
        if callable(self.on_error):
            check_callable("on_error", self.on_error, "error")
        elif self.on_error not in ("log", "raise"):
            raise ValueError(
                f"on_error must be 'log', 'raise' or a callable that takes the error, got {self.on_error!r}"
            )
        if self.backoff is not None:
            check_backoff(self.backoff)
        if not (self.name is None or isinstance(self.name, str)):
            raise TypeError(f"name must be a str, got {self.name!r}")
        if not (self.executor is None or callable(getattr(self.executor, "submit", None))):
            raise TypeError(
                "executor must be a concurrent.futures.Executor, such as ThreadPoolExecutor(1), "
                f"or None for a thread of drainq's, got {self.executor!r}"
            )
        check_clock_if_given(self.clock)

    def new_buffer(self, clock: Clock) -> SetQueue[T]:
        """Make an empty buffer that refuses the items that it holds or that are in flight."""
        return SetQueue(
            None, self.key, in_flight=self.in_flight, ttl=self.ttl, clock=None if self.ttl is None else clock
        )

    def new_size(self) -> AutoSize:
        """Make the initial size."""
        return AutoSize(self.capacity, self.max_capacity or self.capacity, threshold=self.replenish_threshold)

    def new_schedule(self) -> Schedule:
        """Make a schedule without a refill."""
        return Schedule(Backoff() if self.backoff is None else self.backoff, self.min_interval)
