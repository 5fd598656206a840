"""The task attempt of the calling thread."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskInfo:
    """One attempt of one task.

    Args:
        stage, partition: Spark's numbers.
        attempt: 0 for the first try of this partition, 1 for the next.
        task_attempt_id: unique within the application.
        cpus: the processors of the task (``spark.task.cpus``).
        write_id: the same in all task attempts of one call of ``sink`` or ``sink_table``; None elsewhere.
        query_id, batch_id: the streaming query and its batch, if the task belongs to one.
    """

    stage: int
    partition: int
    attempt: int
    task_attempt_id: int
    cpus: int
    write_id: str | None = None
    query_id: str | None = None
    batch_id: int | None = None


def task_info() -> TaskInfo:
    """Return the task attempt of the calling thread. Call this in the task's own thread.

    Raises:
        RuntimeError: this thread runs no task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("task_info() must be called inside a Spark task, in the task's own thread")
    batch = context.getLocalProperty("streaming.sql.batchId")
    return TaskInfo(
        stage=context.stageId(),
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
        task_attempt_id=context.taskAttemptId(),
        cpus=context.cpus(),
        query_id=context.getLocalProperty("sql.streaming.queryId"),
        batch_id=None if batch is None else int(batch),
    )
