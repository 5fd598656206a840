"""What an aggregation in tasks is made of, as it travels to the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drainq.spark.rows import Rows
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.unrouted import Unrouted
from drainq.spark.version import installed


class Handler(Protocol):
    """What ``make_handlers`` returns for each type. Optional: ``ready() -> rows`` that may leave before the end."""

    def consume(self, batch: list[Any]) -> object:
        """Take a batch; called on a drain thread, never twice at a time."""

    def result(self) -> Iterable[Any]:
        """The rows that the task returns; called once, after everything was consumed."""


MakeHandlers = Callable[[TaskInfo], Mapping[Any, Handler]]


@dataclass(frozen=True)
class Spec:
    """The arguments of ``aggregate`` that a task needs, and what is known of its rows."""

    make_handlers: MakeHandlers
    items: Callable[[], Callable[[Any], Iterable[Any]]] | None
    dispatch_key: Callable[[Any], Any] | None
    threads: int | None
    capacity: int
    len_of: Callable[[Any], int] | None
    stats: Callable[[Any, dict[Any, Any]], Iterable[Any]] | None
    unrouted: Unrouted
    form: Rows | None = None  # of all rows, if they are queued in slices
    version: str = installed
