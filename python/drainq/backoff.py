"""Backoff: the pauses between tries, shared by all retries.

:class:`Tries` counts the failures, of a database call, a consumer, a source or a sink. A :class:`Backoff` gives the
pauses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from drainq.arguments import seconds
from drainq.clock import Clock, MonotonicClock


@final
@dataclass(frozen=True)
class Backoff:
    """Delays that grow by a factor up to a maximum, less a random part, so that clients do not retry together.

    Args:
        initial: seconds before the first retry; 0 for retries without a pause.
        maximum: the longest delay in seconds.
        factor: the ratio of a delay to the delay before; at least 1.
        jitter: the largest random part that is taken off a delay, 0 to 1.

    Raises:
        TypeError, ValueError: a value is no number, or out of range.

    Example:
        >>> backoff = Backoff(0.1, 1.0, 2.0, jitter=0)
        >>> [backoff.delay(attempt) for attempt in (0, 1, 2, 3, 4, 10_000)]
        [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    """

    initial: float = 0.1
    maximum: float = 10.0
    factor: float = 2.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", seconds("initial", self.initial))
        object.__setattr__(self, "maximum", seconds("maximum", self.maximum))
        for name, value in (("factor", self.factor), ("jitter", self.jitter)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{name} must be a number, got {value!r}")
        if not self.initial <= self.maximum:
            raise ValueError(f"maximum must be a number of seconds >= initial ({self.initial!r}), got {self.maximum!r}")
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"factor must be >= 1, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1, got {self.jitter!r}")

    def delay(self, attempt: int, *, chance: Callable[[], float] | None = None) -> float:
        """Return the seconds to wait after a failed try.

        Args:
            attempt: the number of failed tries before this one.
            chance: returns a number in [0, 1) for the jitter; None is ``random.random``.
        """
        try:
            grown = min(self.maximum, self.initial * self.factor**attempt)
        except OverflowError:
            grown = self.maximum if self.initial else 0.0
        if chance is None:
            import random  # imported late, so that ``import drainq`` stays cheap

            chance = random.random
        return grown * (1 - self.jitter * chance())


def check_backoff(value: object, name: str = "backoff") -> Backoff:
    """Return the argument ``name`` if it is a :class:`Backoff`. Otherwise raise TypeError, with an example."""
    if not isinstance(value, Backoff):
        raise TypeError(f"{name} must be a drainq.Backoff, such as Backoff(0.1, 10.0), got {value!r}")
    return value


class Tries:
    """Counts the failed tries of one piece of work, and decides when to try again and when to give up.

    Args:
        backoff: the pauses.
        most: the retries after the first try; None for no limit.
        within: seconds from now after which no try begins; None for no limit.
        clock: measures the seconds.

    Example:
        >>> tries = Tries(Backoff(0.1, 1.0, jitter=0), most=2)
        >>> tries.failed(), tries.failed(), tries.failed()
        (0.1, 0.2, None)
    """

    def __init__(
        self, backoff: Backoff, *, most: int | None = None, within: float | None = None, clock: Clock | None = None
    ) -> None:
        self._backoff, self._most, self._within = backoff, most, within
        self._clock = MonotonicClock() if clock is None else clock
        self.failures = 0
        self._began = self._clock.now()

    def spent(self) -> float:
        """Return the seconds since this object was made."""
        return self._clock.now() - self._began

    def failed(self, error: BaseException | None = None) -> float | None:
        """Note a failed try. Return the seconds until the next, or None to give up.

        Args:
            error: the exception of the try. Its ``after``, if it has one, is the shortest pause in seconds.
        """
        pause = self._backoff.delay(self.failures)
        after = getattr(error, "after", None)
        if isinstance(after, (int, float)):
            pause = max(pause, after)
        self.failures += 1
        if self._most is not None and self.failures > self._most:
            return None
        if self._within is not None and self.spent() + pause > self._within:
            return None
        return pause
