"""How long to wait before the next try: the one growth that everything here shares that tries again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from drainq.arguments import seconds


def grown_delay(initial: float, maximum: float, factor: float, attempt: int) -> float:
    """Return ``initial * factor**attempt``, at most ``maximum``, for any ``attempt`` from 0 on.

    Example:
        >>> [grown_delay(0.1, 1.0, 2.0, attempt) for attempt in (0, 3, 10_000)]
        [0.1, 0.8, 1.0]
    """
    try:
        return min(maximum, initial * factor**attempt)
    except OverflowError:
        return maximum


@dataclass(frozen=True)
class Backoff:
    """Delays that grow by a factor up to a maximum, each cut at random so that clients do not march in step.

    Args:
        initial: seconds before the first retry.
        maximum: seconds that no delay exceeds.
        factor: how much longer each delay is than the one before; at least 1.
        jitter: the largest part of a delay that chance takes away, 0 to 1.

    Raises:
        TypeError, ValueError: a value is no number, or out of range.

    Example:
        >>> backoff = Backoff(0.1, 1.0, 2.0, jitter=0)
        >>> [backoff.delay(attempt) for attempt in range(5)]
        [0.1, 0.2, 0.4, 0.8, 1.0]
    """

    initial: float = 0.1
    maximum: float = 10.0
    factor: float = 2.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", seconds("initial", self.initial, positive=True))
        object.__setattr__(self, "maximum", seconds("maximum", self.maximum))
        for name, value in (("factor", self.factor), ("jitter", self.jitter)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{name} must be a number, got {value!r}")
        if not self.initial <= self.maximum < math.inf:
            raise ValueError(f"maximum must be a number of seconds >= initial ({self.initial!r}), got {self.maximum!r}")
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"factor must be >= 1, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1, got {self.jitter!r}")

    def delay(self, attempt: int, *, chance: Callable[[], float] | None = None) -> float:
        """Return the seconds to wait after the failed try number ``attempt``, the first being 0.

        Args:
            attempt: how many tries in a row had failed before this one.
            chance: gives a number in [0, 1) for the jitter; None is ``random.random``.
        """
        grown = grown_delay(self.initial, self.maximum, self.factor, attempt)
        if chance is None:
            import random  # here: ``import drainq`` is to stay cheap

            chance = random.random
        return grown * (1 - self.jitter * chance())
