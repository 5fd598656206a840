"""A batch queue that lives exactly as long as one task attempt.

When a task ends, its Python worker runs no ``atexit`` and gets no signal. The end of the task's own iterator is the
only hook, so the queue is opened and drained inside it:

1. If the block ends normally, every accepted item is handled. Then a handler's error is raised, so that Spark tries
   again. An item without a handler is an error too.
2. After ``GeneratorExit`` (Spark wants no more rows) or another exception, the queued items are dropped at once.
3. Each attempt has its own queue: no item moves to the next task of the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from drainq._native import BatchQueue
from drainq.batch_config import BatchQueueConfig
from drainq.errors import DrainqError
from drainq.spark.task_attempt import TaskInfo, task_info
from drainq.spark.unrouted import Unrouted, check_routed, unrouted_of

CAPACITY = 10_000  # items in a partition of a task's queue before the task waits


def default_config(
    *,
    threads: int,
    capacity: int = CAPACITY,
    dispatch_key: Callable[[Any], Any] | None = None,
    len_of: Callable[[Any], int] | None = None,
) -> BatchQueueConfig:
    """Return the settings of a task's queue: a partition for each drain thread, and producers that wait for room.

    Args:
        threads: drain threads.
        capacity: items that fit into one partition.
        dispatch_key: maps an item to the key of its handler; None takes its exact type.
        len_of: returns the weight of an item; None is 1.
    """
    return BatchQueueConfig(
        threads=threads,
        partitions=threads,
        buffer_size=capacity,
        strategy="blocking",
        dispatch_key=dispatch_key,
        len_of=len_of,
    )


def noting(
    failures: list[BaseException],
    count: Callable[[list[Any]], int] = len,
    kind: Callable[[list[Any]], type] = lambda batch: type(batch[0]),
) -> Callable[[list[Any], BaseException], None]:
    """Return an error handler that collects errors, each with a note about its batch if Python has notes.

    Args:
        failures: the list for the errors.
        count: returns the number of items of a batch. kind: returns their type.
    """

    def on_error(batch: list[Any], error: BaseException) -> None:
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"raised on a batch of {count(batch)} {kind(batch).__name__} items")
        failures.append(error)

    return on_error


@contextlib.contextmanager
def task_queue(
    config: BatchQueueConfig | None = None,
    *,
    failures: list[BaseException] | None = None,
    unrouted: str | Unrouted = Unrouted.FAIL,
    info: TaskInfo | None = None,
) -> Iterator[BatchQueue]:
    """Open a batch queue for this task attempt: a context manager around the loop that produces.

    Args:
        config: the queue's settings; None takes :func:`default_config` with the task's processors. If it has an
            ``on_error``, this is called with failed batches. Otherwise the first error is raised when the block ends.
        failures: a list to which errors are added at once, for a block that stops early.
        unrouted: ``"fail"``: items without a handler raise an error when the block ends. ``"count"``: the queue's
            ``stats()`` only count them.
        info: the task attempt, for use without Spark; None asks Spark.
    Raises:
        RuntimeError: called outside a Spark task without ``info``.
        DrainqError: the queue could not be drained, or items had no handler.
        ValueError: ``unrouted`` is unknown.
        BaseException: the error of the first handler that failed.

    Example:
        >>> def count(rows):                                   # doctest: +SKIP
        ...     seen = []
        ...     with task_queue() as queue:
        ...         queue.add_handler(int, seen.extend)
        ...         for row in rows:
        ...             queue.produce(row)
        ...     yield len(seen)
        >>> rdd.mapPartitions(count).sum()                     # doctest: +SKIP
    """
    on_unrouted = unrouted_of(unrouted)
    info = info or task_info()
    failed: list[BaseException] = [] if failures is None else failures
    config = config or default_config(threads=info.cpus)
    theirs = config.on_error

    config = config.replace(on_error=theirs or noting(failed))
    queue = BatchQueue(f"drainq-task-{info.task_attempt_id}", config)
    try:
        yield queue
    except BaseException:
        queue.shutdown(timeout=0.0)
        raise
    if not queue.shutdown():
        raise DrainqError(
            f"the queue of task attempt {info.task_attempt_id} was not drained in time: {queue.stats()!r}"
        )
    if failed:
        raise failed[0]
    if on_unrouted is Unrouted.FAIL:
        check_routed(queue.stats())
