"""The checked settings of a sink, which are sent to the executors."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from drainq.arguments import member
from drainq.backoff import Backoff
from drainq.callables import check_callable
from drainq.spark.rows import Rows
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.version_check import installed

Decide: TypeAlias = "Callable[[Any, Exception], Any]"
"""A user's function of a row and its exception. Returns a member of :class:`OnError`, or its value."""


class OnError(enum.Enum):
    """The action for rows that cannot be written."""

    FAIL = "fail"
    SKIP = "skip"
    PARK = "park"


def on_error_of(value: Any, delayed: Any) -> OnError | Decide:
    """Check the arguments ``on_error`` and ``delayed`` of a sink. Return the action.

    Raises:
        TypeError: one of them cannot be called.
        ValueError: the word is unknown, or ``"park"`` has no ``delayed``.
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


MakeWriter = Callable[[TaskInfo], Any]
BACKOFF = Backoff(0.1, 5.0)


@dataclass(frozen=True)
class Settings:
    """The checked arguments of ``sink``."""

    make_writer: MakeWriter
    threads: int
    rows: Rows
    max_in_flight: int
    max_batch_rows: int
    linger: float
    retries: int
    on_error: OnError | Decide
    max_batch_bytes: int | None = None
    backoff: Backoff = BACKOFF
    delayed: Callable[[], Any] | None = None
    close_timeout: float = 5.0
    version: str = installed
