"""One task of a sink: passes batches through a window to writers, each on its own thread.

    rows -> Batcher -> Window -> one Writer on each thread -> the user's writer

# Invariants

1. A writer is made, called and closed by one thread.
2. At most ``max_in_flight`` batches wait for a writer or are being written.
3. ``read = rows + dropped + parked`` when a task succeeds: each row is in one of a writer's counts.
4. After a failure, or when Spark wants no more rows, no further batch is written. Each thread closes its own writer if
   it ends within ``close_timeout``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from drainq.errors import DrainqError
from drainq.spark.batcher import Batcher
from drainq.spark.sink_settings import Settings
from drainq.spark.sink_window import Window
from drainq.spark.sink_writer import Parking, Writer
from drainq.spark.task_attempt import TaskInfo
from drainq.spark.version_check import check_version
from drainq.threads import start_thread


class SinkTask:
    """One task attempt, from Spark's iterator to the end of the writers.

    Args:
        settings: the sink's settings.
        info: the task attempt.
    """

    def __init__(self, settings: Settings, info: TaskInfo) -> None:
        self._settings, self._info = settings, info
        self._window = Window(settings.threads, settings.max_in_flight)
        self._parking = Parking(settings.delayed)
        self._writers = [Writer(settings, info, self._window, self._parking) for _ in range(settings.threads)]

    def run(self, batches: Iterable[Any]) -> dict[str, Any]:
        """Write all rows.

        Args:
            batches: record batches.
        Returns:
            The fields of a ``PartitionReport``.
        Raises:
            BaseException: the error of a writer or of the iterator.
            DrainqError: the account does not add up.
        """
        started = time.monotonic()
        check_version(self._settings.version)
        try:
            for number, writer in enumerate(self._writers):
                start_thread(writer.run, name=f"drainq-sink-{number}")
            read = self._hand_on(batches)
        except BaseException:
            self._window.close()
            raise
        finally:
            self._window.wait_for_writers(self._settings.close_timeout)
            self._parking.close()
        if self._window.failure is not None:
            raise self._window.failure
        of_each = [writer.counts() for writer in self._writers]
        counts = {name: sum(each[name] for each in of_each) for name in of_each[0]}
        done = counts["rows"] + counts["dropped"] + counts["parked"]
        if done != read:
            raise DrainqError(f"a sink's account does not add up: {read} rows read, {done} done: {counts}")
        return {"partition": self._info.partition, **counts, "seconds": time.monotonic() - started}

    def _hand_on(self, batches: Iterable[Any]) -> int:
        """Pass all rows to the writers. Return their number."""
        read, batcher = 0, Batcher(self._settings, self._window)
        try:
            for batch in batches:
                read += batch.num_rows
                batcher.add(batch)
                if self._window.closed:
                    break
            batcher.finish()
        finally:
            batcher.stop()
            self._window.finish()
        return read
