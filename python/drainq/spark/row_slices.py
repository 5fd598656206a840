"""Slices of Arrow batches, as items of a task's queue. A slice becomes Python rows just before its handler is called.

The rows of a DataFrame are all tuples, or all dictionaries, so they have one handler and need no routing. Few Python
rows exist at a time, and they reuse memory that is in the processor's cache. With a list of twenty thousand rows most
of the time goes into cache misses.

1. Capacity and counters are in rows: the weight of a slice is its number of rows, at most ``capacity``.
2. A handler gets lists of rows, and is checked, as if the rows had been queued singly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from drainq.batch_config import BatchQueueConfig
from drainq.callables import check_answer, check_callable
from drainq.spark.queue_of_task import noting
from drainq.spark.rows import Rows

MOST_ROWS = 1000  # of a slice


def of_slices(config: BatchQueueConfig, form: Rows, failures: list[BaseException]) -> BatchQueueConfig:
    """Change the settings of a queue of rows into those of a queue of slices.

    Args:
        config: the settings of a queue of rows.
        form: the form of all rows, tuples or records. Their type is the dispatch key.
        failures: the list for the handlers' errors.
    """
    kind = dict if form is Rows.RECORDS else tuple
    on_error = noting(failures, lambda batch: sum(map(_count, batch)), lambda batch: kind)
    return config.replace(dispatch_key=lambda part: kind, len_of=_count, on_error=on_error)


def taking_slices(handler: Any, form: Rows) -> Any:
    """Wrap a handler for rows into a handler for slices.

    Raises:
        TypeError: the handler's ``consume`` is a coroutine or generator function, or takes other arguments.
    """
    consume = getattr(handler, "consume", handler)
    if not callable(consume):
        return handler  # the queue raises the error
    check_callable("handler.consume" if consume is not handler else "handler", consume, "batch")
    return _TakingSlices(handler, consume, form)


def slices(batch: Any, capacity: int) -> Iterator[Any]:
    """Cut a record batch into slices that fit into the queue."""
    size = min(MOST_ROWS, capacity)
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))


class _TakingSlices:
    """A handler for slices. It has the wrapped handler's other methods."""

    def __init__(self, handler: Any, consume: Callable[[list[Any]], object], form: Rows) -> None:
        self._handler, self._consume, self._form = handler, consume, form

    def consume(self, batch: list[Any]) -> None:
        """Pass the rows of each slice to the handler."""
        for part in batch:
            check_answer("the handler", self._consume(self._form.listed(part)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)


def _count(part: Any) -> int:
    return int(part.num_rows)
