"""Rows that all have one type go through a task's queue as slices of Arrow batches, and become Python rows at the end.

Rows of a DataFrame are all tuples, or all dictionaries: they have one handler, and nothing is to be decided for each of
them. So an item of the queue is a slice of a record batch, and the drain thread makes a list of rows of it just
before the handler gets that. Few rows exist at a time, whose memory Python uses again at once: on a list of twenty
thousand rows most of the time goes into memory that no cache holds.

1. Capacity and counters are in rows: a slice counts for its rows, and has at most ``capacity`` of them.
2. A handler gets lists of rows, as if the rows had been queued one by one, and is refused for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from drainq._native import BatchQueueConfig
from drainq.callables import check_answer, check_callable
from drainq.spark.queue_of_task import noting
from drainq.spark.rows import Rows

MOST_ROWS = 1000  # of a slice


def of_slices(config: BatchQueueConfig, form: Rows, failures: list[BaseException]) -> BatchQueueConfig:
    """Settings for a queue of slices.

    Args:
        config: of a queue of rows.
        form: of all rows, tuples or records; their type is the key of their handler.
        failures: gets the errors of handlers.
    """
    kind = dict if form is Rows.RECORDS else tuple
    on_error = noting(failures, lambda batch: sum(map(_count, batch)), lambda batch: kind)
    return config.replace(dispatch_key=lambda part: kind, len_of=_count, on_error=on_error)


def taking_slices(handler: Any, form: Rows) -> Any:
    """A handler for slices that hands the rows of each to a handler for rows.

    Raises:
        TypeError: a call of the handler's ``consume`` would run nothing, or it takes other arguments.
    """
    consume = getattr(handler, "consume", handler)
    if not callable(consume):
        return handler  # the queue says what is wrong
    check_callable("handler.consume" if consume is not handler else "handler", consume, "batch")
    return _TakingSlices(handler, consume, form)


def slices(batch: Any, capacity: int) -> Iterator[Any]:
    """Slices of a record batch that fit into a queue."""
    size = min(MOST_ROWS, capacity)
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))


class _TakingSlices:
    """Has the other methods that the handler has."""

    def __init__(self, handler: Any, consume: Callable[[list[Any]], object], form: Rows) -> None:
        self._handler, self._consume, self._form = handler, consume, form

    def consume(self, batch: list[Any]) -> None:
        """Hand the rows of each slice on."""
        for part in batch:
            check_answer("the handler", self._consume(self._form.listed(part)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)


def _count(part: Any) -> int:
    return int(part.num_rows)
