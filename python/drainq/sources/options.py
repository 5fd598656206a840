"""What a prefetching source accepts beside its sizes; everything else is refused before anything is started."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from drainq.backoff import Backoff

OnError = Literal["log", "raise"] | Callable[[BaseException], object]

DEFAULT_RETRY = Backoff()


def check_options(*, on_error: Any, retry: Any, name: Any, executor: Any, min_interval: Any, clock: Any) -> None:
    """Refuse an argument that could not be used later.

    Raises:
        TypeError: it is of the wrong kind; the message says what is needed.
        ValueError: it is out of range.
    """
    if not (callable(on_error) or on_error in ("log", "raise")):
        raise ValueError(f"on_error must be 'log', 'raise' or a callable that takes the error, got {on_error!r}")
    if not (retry is None or isinstance(retry, Backoff)):
        raise TypeError(f"retry must be a drainq.Backoff, such as Backoff(initial=0.1, maximum=10.0), got {retry!r}")
    if not (name is None or isinstance(name, str)):
        raise TypeError(f"name must be a str, got {name!r}")
    if not (executor is None or callable(getattr(executor, "submit", None))):
        raise TypeError(
            "executor must be a concurrent.futures.Executor, such as ThreadPoolExecutor(1), "
            f"or None for a thread of the source's own, got {executor!r}"
        )
    if isinstance(min_interval, bool) or not isinstance(min_interval, (int, float)):
        raise TypeError(f"min_interval must be a number of seconds >= 0, got {min_interval!r}")
    if not 0 <= min_interval < math.inf:
        raise ValueError(f"min_interval must be a number of seconds >= 0, got {min_interval!r}")
    if not (clock is None or callable(getattr(clock, "now", None))):
        raise TypeError(
            "clock must be an object with now() -> float in seconds, such as drainq.testing.ManualClock(), "
            f"got {clock!r}"
        )
