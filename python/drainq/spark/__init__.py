"""drainq on Spark. Nothing here is imported, and no Java looked for, before it is used."""

from drainq.spark.aggregate import Handler, Rows, aggregate, partition_fn
from drainq.spark.queue import task_queue
from drainq.spark.task import TaskInfo, task_info
from drainq.spark.unrouted import Unrouted, UnroutedItems

__all__ = [
    "Handler",
    "Rows",
    "TaskInfo",
    "Unrouted",
    "UnroutedItems",
    "aggregate",
    "partition_fn",
    "task_info",
    "task_queue",
]
