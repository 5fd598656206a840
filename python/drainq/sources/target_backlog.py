"""How much room a target has: what it has not dealt with yet is asked for, and compared with two marks."""

from __future__ import annotations

from collections.abc import Callable

from drainq.callables import check_callable
from drainq.sources.prefetch_buffer_size import number_of_items


class Backlog:
    """The room of a target; not locked.

    Args:
        ask: returns how many items the target has not dealt with yet; None: there is always room.
        maximum: items; there is room for ``maximum - ask()``.
        resume: items; once the maximum has been reached there is no room until the backlog is down to this. None: there
            is room again as soon as the backlog is below the maximum.

    Raises:
        ValueError: one of ``ask`` and ``maximum`` is missing, or not ``0 <= resume < maximum``.
        TypeError: a value is no number of items.
    """

    def __init__(self, ask: Callable[[], int] | None, maximum: int | None, resume: int | None) -> None:
        for option, number in (("max_backlog", maximum), ("resume_backlog", resume)):
            if number is not None:
                number_of_items(option, number)
        if (ask is None) != (maximum is None):
            raise ValueError(f"backlog and max_backlog go together, got {ask!r} and {maximum!r}")
        if maximum is not None and maximum < 1:
            raise ValueError(f"max_backlog must be >= 1, got {maximum!r}")
        if resume is not None and not (maximum is not None and 0 <= resume < maximum):
            raise ValueError(f"resume_backlog must be >= 0 and below max_backlog ({maximum}), got {resume!r}")
        if ask is not None:
            check_callable("backlog", ask)
        self._ask = ask
        self._maximum = maximum
        self._resume = resume
        self.paused = False
        """Whether the maximum was reached, and the backlog is not down to ``resume`` since."""

    def room(self, wanted: int) -> int:
        """How many of ``wanted`` items the target has room for; raises what ``ask`` raises."""
        if self._ask is None or self._maximum is None:
            return wanted
        backlog = number_of_items("what backlog() returns", self._ask())
        if backlog >= self._maximum:
            self.paused = True
        elif not self.paused or self._resume is None or backlog <= self._resume:
            self.paused = False
        return 0 if self.paused else min(wanted, self._maximum - backlog)
