"""``ThreadPolicy``, ``PartitionPolicy`` and ``BufferStrategy``: rules that the configuration of a batch queue names.

A policy is pickled and copied as the call that makes it, so the receiver runs the checks of that call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from drainq._native import core_count, read_number, read_whole, resolve_partitions

__all__ = ["BufferStrategy", "PartitionPolicy", "ThreadPolicy"]

MAX_THREADS = 4_096
MAX_PARTITIONS = 1 << 20


@dataclass(frozen=True, repr=False)
class _Policy:
    _rule: str
    _numbers: tuple[float, ...]

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self._rule}({', '.join(map(repr, self._numbers))})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[float, ...]]:
        return getattr(type(self), self._rule), self._numbers


class ThreadPolicy(_Policy):
    """The rule for the number of drain threads. It is applied when a queue is made.

    Made by ``fixed``, ``cpu_cores`` or ``cpu_cores_with_base``. A pickle or a copy
    holds the rule, not the number: on another machine ``cpu_cores`` counts that machine's cores.

    Example:
        >>> from drainq import ThreadPolicy
        >>> ThreadPolicy.fixed(4).resolve()
        4

    Source: ``ThreadPolicy`` in SkyWalking's ``library-batch-queue``.
    """

    @staticmethod
    def fixed(count: int) -> ThreadPolicy:
        """Ask for exactly ``count`` threads (1 or more)."""
        number = read_whole("count", count)
        if not 1 <= number <= MAX_THREADS:
            raise ValueError(f"count must be between 1 and {MAX_THREADS} threads, got {number}")
        return ThreadPolicy("fixed", (number,))

    @staticmethod
    def cpu_cores(multiplier: float) -> ThreadPolicy:
        """Ask for ``multiplier`` threads per core, rounded, at least one."""
        number = read_number("multiplier", multiplier)
        if not 0 < number < math.inf:
            raise ValueError(f"multiplier must be greater than 0 threads per core, got {number}")
        return ThreadPolicy("cpu_cores", (number,))

    @staticmethod
    def cpu_cores_with_base(base: int, multiplier: float) -> ThreadPolicy:
        """Ask for ``base`` threads plus ``multiplier`` per core, rounded, at least one."""
        numbers = read_whole("base", base), read_number("multiplier", multiplier)
        if not 0 <= numbers[0] <= MAX_THREADS:
            raise ValueError(f"base must be between 0 and {MAX_THREADS} threads, got {numbers[0]}")
        if not 0 <= numbers[1] < math.inf:
            raise ValueError(f"multiplier must be at least 0 threads per core, got {numbers[1]}")
        if numbers == (0, 0.0):
            raise ValueError("base and multiplier must not both be 0: that would be no thread, got 0 and 0.0")
        return ThreadPolicy("cpu_cores_with_base", numbers)

    def resolve(self) -> int:
        """Compute the thread count for this machine, at least 1."""
        if self._rule == "fixed":
            return int(self._numbers[0])
        *base, multiplier = self._numbers
        return int(max(1, min(sum(base) + math.floor(min(multiplier * core_count(), MAX_THREADS) + 0.5), MAX_THREADS)))


class PartitionPolicy(_Policy):
    """The rule for the number of partitions of a queue.

    Made by ``fixed``, ``thread_multiply`` or ``adaptive``; can be pickled and copied.

    Example:
        >>> from drainq import PartitionPolicy
        >>> PartitionPolicy.adaptive().resolve(8, 500)
        350

    Source: ``PartitionPolicy`` in SkyWalking's ``library-batch-queue``.
    """

    @staticmethod
    def fixed(count: int) -> PartitionPolicy:
        """Ask for exactly ``count`` partitions (1 or more)."""
        return _of_partitions("fixed", "count", count)

    @staticmethod
    def thread_multiply(multiplier: int) -> PartitionPolicy:
        """Ask for ``multiplier`` partitions per drain thread (1 or more)."""
        return _of_partitions("thread_multiply", "multiplier", multiplier)

    @staticmethod
    def adaptive(multiplier: int = 25) -> PartitionPolicy:
        """Ask for a number of partitions that follows the handlers' weights.

        Without handlers there is one partition per thread. Up to ``threads * multiplier`` there is one per unit of
        weight, above that one per two units, at most 1,048,576. A running queue adds partitions and never removes any.
        """
        return _of_partitions("adaptive", "multiplier", multiplier)

    def resolve(self, threads: int, weighted_handlers: float = 0.0) -> int:
        """Return the number of partitions for ``threads`` drain threads and the sum of the handlers' weights."""
        count, weight = read_whole("threads", threads), read_number("weighted_handlers", weighted_handlers)
        if count < 0:
            raise ValueError(f"threads must not be negative, got {count}")
        if not weight >= 0:
            raise ValueError(f"weighted_handlers must not be negative, got {weight}")
        return resolve_partitions(self._rule, int(self._numbers[0]), count, weight)


def _of_partitions(rule: str, name: str, value: Any) -> PartitionPolicy:
    number = read_whole(name, value)
    if not 1 <= number <= MAX_PARTITIONS:
        raise ValueError(f"{name} must be between 1 and {MAX_PARTITIONS}, got {number}")
    return PartitionPolicy(rule, (number,))


class BufferStrategy(Enum):
    """The action of ``produce`` when the item's partition, or the queue, is full.

    ``BLOCKING`` (the default) waits for room. ``IF_POSSIBLE`` gives up at once. The item counts as rejected.

    Example:
        >>> from drainq import BufferStrategy
        >>> BufferStrategy.BLOCKING
        BufferStrategy.BLOCKING

    Source: ``BufferStrategy`` in SkyWalking's ``library-batch-queue``.
    """

    BLOCKING = "blocking"
    IF_POSSIBLE = "if_possible"

    def __repr__(self) -> str:
        return str(self)
