"""A batch queue that lives exactly as long as one task attempt.

A Python worker runs no ``atexit``, gets no signal and no listener when a task ends; the end of the task's own iterator
is the only hook there is. So the queue is opened and drained inside it:

1. The block ends normally: everything accepted is handled, then a handler's error is raised, so that Spark tries again.
   An item that no handler takes is an error too.
2. ``GeneratorExit`` (Spark wants no more rows) or another exception: what is queued is dropped, nothing waits for it.
3. One queue per attempt: nothing is carried over to the next task of the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from drainq._native import BatchQueue, BatchQueueConfig, BufferStrategy, PartitionPolicy, ThreadPolicy
from drainq.errors import DrainqError
from drainq.spark.task_attempt import TaskInfo, task_info
from drainq.spark.unrouted import Unrouted, check_routed, unrouted_of

CAPACITY = 10_000  # items that wait in a task's queue before the task does


def default_config(
    *,
    threads: int,
    capacity: int = CAPACITY,
    dispatch_key: Callable[[Any], Any] | None = None,
    len_of: Callable[[Any], int] | None = None,
) -> BatchQueueConfig:
    """What a task needs: as many drain threads as it has processors, and a producer that waits rather than loses.

    Args:
        threads: drain threads, each with a partition of its own.
        capacity: items that fit into one partition.
        dispatch_key: maps an item to the key of its handler; None: its exact type.
        len_of: says for how many an item counts; None: for one.
    """
    return BatchQueueConfig(
        threads=ThreadPolicy.fixed(threads),
        partitions=PartitionPolicy.fixed(threads),
        buffer_size=capacity,
        strategy=BufferStrategy.BLOCKING,
        dispatch_key=dispatch_key,
        len_of=len_of,
    )


def noting(
    failures: list[BaseException],
    count: Callable[[list[Any]], int] = len,
    kind: Callable[[list[Any]], type] = lambda batch: type(batch[0]),
) -> Callable[[list[Any], BaseException], None]:
    """An error handler that keeps each error, with a note of the batch that it was raised on.

    Args:
        failures: gets the errors.
        count: the items of a batch. kind: their type.
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
    """Open a batch queue for this task attempt; a context manager around the loop that produces.

    Args:
        config: the queue's settings; None: :func:`default_config` with the task's processors. Its ``on_error``, if
            it has one, is called with failed batches; without one the first error is raised when the block ends.
        failures: a list that gets the errors as they happen, for a block that wants to stop early.
        unrouted: ``"fail"``: items without a handler raise when the block ends; ``"count"``: the queue's ``stats()``
            count them, and nothing else happens.
        info: which task attempt this is, for use without Spark; None: Spark knows.
    Raises:
        RuntimeError: not inside a Spark task, and ``info`` does not say which.
        DrainqError: the queue could not be drained, or items had no handler.
        ValueError: ``unrouted`` is neither.
        BaseException: what the first failing handler raised.

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
