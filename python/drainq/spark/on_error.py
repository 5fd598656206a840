"""What becomes of the rows that a sink's writer cannot write."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeAlias

from drainq.callables import check_callable
from drainq.spark.checks import member

Decide: TypeAlias = "Callable[[Any, Exception], Any]"
"""A function of the user's that answers for a row and its exception with a member of :class:`OnError`, or its word."""


class OnError(enum.Enum):
    """What becomes of rows that cannot be written."""

    FAIL = "fail"
    SKIP = "skip"
    PARK = "park"


def on_error_of(value: Any, delayed: Any) -> OnError | Decide:
    """Return what the arguments ``on_error`` and ``delayed`` of a sink ask for.

    Raises:
        TypeError: one of them cannot be called.
        ValueError: there is no such word, or nothing to park in.
    """
    if delayed is not None:
        check_callable("delayed", delayed)
    if value is None:
        return OnError.PARK if delayed is not None else OnError.FAIL
    if callable(value):
        check_callable("on_error", value, "row", "exception")
        decide: Decide = value
        return decide
    wanted = "on_error must be 'fail', 'skip', 'park' or a function of (row, exception) that returns one of these"
    chosen = member(OnError, value, wanted)
    if chosen is OnError.PARK and delayed is None:
        raise ValueError("on_error='park' needs delayed=, a function that opens a DelayedQueue; got delayed=None")
    return chosen
