"""The two engines that run tasks: Spark's executors, or threads of this process.

1. A task's results depend only on its blocks, and arrive in the order of the tasks. So both engines give the same
   tables, to the last bit.
2. An engine that fails or is interrupted returns nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from drainq.metrics.blocks import Task
from drainq.metrics.errors import Interrupted
from drainq.metrics.handlers import MakeHandlers, queue_counts
from drainq.metrics.metric_types import METRICS, records_of
from drainq.metrics.reader import Reader
from drainq.metrics.remote import RemoteLog, digests, read
from drainq.metrics.spark_session import is_local
from drainq.spark.aggregate import partition_fn
from drainq.spark.task_attempt import TaskInfo

if TYPE_CHECKING:
    from pyspark import SparkContext

RECORDS_QUEUED = 100_000 * len(METRICS)  # the most records between parsing and aggregation, which is a few pieces


class Runs(Protocol):
    """Runs tasks, which write files into a directory. Returns the results in the order of the tasks."""

    def __call__(self, tasks: Sequence[Task], spool: Path) -> list[Any]: ...

    def done(self) -> tuple[int, int]:
        """Return the number of tasks that have ended, and the number of all tasks."""


def task_function(
    spool: Path | None, info: TaskInfo | None = None, check: Callable[[], object] = bool
) -> Callable[..., Any]:
    """Return the function that runs tasks: it maps an iterator of tasks to an iterator of results."""
    return partition_fn(
        MakeHandlers(None if spool is None else str(spool)), rows="arrow", items=lambda: Reader(check),
        stats=queue_counts, capacity=RECORDS_QUEUED, len_of=records_of, info=info,
    )  # fmt: skip


class InThreads:
    """Runs tasks in threads: one for each usable processor, or 2 on macOS. Parsing and aggregation need no GIL."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0, 0])
        self._running: list[Future[list[Any]]] = []
        self._stopped = threading.Event()

    def __call__(self, tasks: Sequence[Task], spool: Path) -> list[Any]:
        def run(number: int, task: Task) -> list[Any]:
            info = TaskInfo(stage=0, partition=number, attempt=0, task_attempt_id=number, cpus=1)
            return list(task_function(spool, info, self._check)([task]))

        with ThreadPoolExecutor(self._threads, thread_name_prefix="drainq-metrics") as pool:
            self._running = [pool.submit(run, number, task) for number, task in enumerate(tasks)]
            try:
                return [result for running in self._running for result in running.result()]
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _check(self) -> None:
        if self._stopped.is_set():
            raise Interrupted("interrupted; nothing was loaded")

    def done(self) -> tuple[int, int]:
        """Return the number of tasks that have ended, and the number of all tasks."""
        return sum(running.done() for running in self._running), len(self._running)


class OnSpark:
    """Runs tasks on Spark's executors. On a cluster a task's result contains the bytes of the task's files.

    An executor opens a log on a disk by the driver's path. Spark's text source reads a log at a URL.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def __call__(self, tasks: Sequence[Task], spool: Path) -> list[Any]:
        run = task_function(spool if is_local(str(self._context.master)) else None)
        remote = [part for task in tasks for part in task if isinstance(part, RemoteLog)]
        near = [task for task in tasks if not isinstance(task[0], RemoteLog)]
        results = self._context.parallelize(near, len(near)).mapPartitions(run).collect() if near else []
        return results + (read(self._context, remote, run) if remote else [])

    def done(self) -> tuple[int, int]:
        """Return the number of ended tasks and of all tasks, in the running stages."""
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


class DigestOnSpark(OnSpark):
    """Computes the digests of logs at URLs on Spark's executors. A result is a URL and its digest."""

    def __call__(self, tasks: Sequence[Task], spool: Path) -> list[Any]:
        return digests(self._context, [part for (part,) in tasks if isinstance(part, RemoteLog)])
