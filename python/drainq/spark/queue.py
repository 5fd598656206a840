"""A batch queue that lives exactly as long as one task attempt.

A Python worker runs no ``atexit``, gets no signal and no listener when a task ends; the end of the task's own iterator is
the only hook there is. So the queue is opened and drained inside it:

1. The block ends normally: everything accepted is handled, then a handler's error is raised, so that Spark tries again.
2. ``GeneratorExit`` (nobody wants more rows) or another exception: what is queued is dropped, nothing waits for it.
3. One queue per attempt: nothing is carried over to the next task of the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from drainq._native import BatchQueue, BatchQueueConfig, BufferStrategy, PartitionPolicy, ThreadPolicy
from drainq.spark.task import task_info


def default_config(
    *, threads: int, capacity: int, dispatch_key: Callable[[Any], Any] | None = None, error_handler: Callable[..., object] | None = None
) -> BatchQueueConfig:
    """What a task needs: as many drain threads as it has processors, and a producer that waits rather than loses."""
    return BatchQueueConfig(
        threads=ThreadPolicy.fixed(threads),
        partitions=PartitionPolicy.fixed(threads),
        buffer_size=capacity,
        strategy=BufferStrategy.BLOCKING,
        dispatch_key=dispatch_key,
        error_handler=error_handler,
    )


@contextlib.contextmanager
def task_queue(config: BatchQueueConfig | None = None) -> Iterator[BatchQueue]:
    info = task_info()
    failures = []
    config.error_handler = lambda b, e: failures.append(e)
    with BatchQueue(f"drainq-task-{info.task_attempt_id}", config) as queue:
        yield queue
    if failures: raise failures[0]
