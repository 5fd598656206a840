"""One task of a sink: batches go to writers on a batch queue's drain threads, within a window.

    rows -> Batcher -> Window (which writer has least to do) -> BatchQueue -> one Writer on each drain thread
         -> Delivery (tries again, halves, gives up) -> WriterSink -> the user's writer

# Invariants

1. A writer is made, called and closed by one thread: partition, drain thread and writer have the same number, and
   nothing rebalances them.
2. At most ``max_in_flight`` batches are taken and not done. A partition has room for all, so producing never waits.
3. ``read = rows + dropped + parked`` when a task ends well: each row is in one place of a writer's books.
4. After a failure, or when Spark wants no more rows, no further batch is written; the writers are closed by their own
   threads if they end within ``close_timeout``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from drainq._native import BatchQueueConfig, PartitionPolicy, ThreadPolicy
from drainq.errors import DrainqError
from drainq.spark.batcher import Batcher
from drainq.spark.parked_rows import Parking
from drainq.spark.queue_of_task import task_queue
from drainq.spark.sink_settings import Settings
from drainq.spark.sink_window import Window
from drainq.spark.sink_writer import Work, Writer
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.version import check_version


class SinkTask:
    """The rows of one task attempt, from Spark's iterator to the writers' end.

    Args:
        settings: what the user asked for.
        info: which task attempt this is.
    """

    def __init__(self, settings: Settings, info: TaskInfo) -> None:
        self._settings, self._info = settings, info
        self._window = Window(settings.threads, settings.max_in_flight)
        self._parking = Parking(settings.delayed)
        self._failures: list[BaseException] = []

    def run(self, batches: Iterable[Any]) -> dict[str, Any]:
        """Write everything.

        Args:
            batches: record batches.
        Returns:
            The fields of a ``PartitionReport``.
        Raises:
            BaseException: what a writer raised; what the iterator raised.
            DrainqError: the account does not add up.
        """
        settings, started = self._settings, time.monotonic()
        check_version(settings.version)
        writers = [Writer(n, settings, self._info, self._window, self._parking) for n in range(settings.threads)]
        config = BatchQueueConfig(
            threads=ThreadPolicy.fixed(settings.threads),
            partitions=PartitionPolicy.fixed(settings.threads),
            partition_selector=lambda work, _: work.writer,
            dispatch_key=lambda work: work.writer,
            buffer_size=settings.max_in_flight + 1,  # and the end of a writer (invariant 2)
            max_batch=1,
            error_handler=lambda _, error: self._failures.append(error),
        )
        read = 0
        try:
            with task_queue(config) as queue:
                for number, writer in enumerate(writers):
                    queue.add_handler(number, writer)

                def put(number: int, rows: Any) -> None:
                    if rows:
                        queue.produce(Work(number, rows))
                    else:
                        self._window.done(number)

                batcher = Batcher(settings, self._window.take, put)
                try:
                    for batch in batches:
                        read += batch.num_rows
                        batcher.add(batch)
                        if self._window.closed:
                            break
                    batcher.finish()
                except BaseException:
                    self._window.close()
                    raise
                finally:
                    batcher.stop()
                    for number in range(settings.threads):
                        queue.offer(Work(number, None), timeout=settings.close_timeout)
                    # Before the queue is shut down: what is left then is drained by any thread (invariant 1).
                    queue.flush(timeout=settings.close_timeout if self._window.closed else None)
                if self._failures:
                    raise self._failures[0]
            if self._failures:
                raise self._failures[0]
        finally:
            self._parking.close()
        of_each = [writer.counts() for writer in writers]
        counts = {name: sum(each[name] for each in of_each) for name in of_each[0]}
        done = counts["rows"] + counts["dropped"] + counts["parked"]
        if done != read:
            raise DrainqError(f"a sink's account does not add up: {read} rows read, {done} done: {counts}")
        return {"partition": self._info.partition, **counts, "seconds": time.monotonic() - started}
