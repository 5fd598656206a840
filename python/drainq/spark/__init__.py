"""drainq on Spark. PySpark and Java are needed only when a function is called."""

from drainq.spark.aggregate import aggregate, partition_fn
from drainq.spark.queue_of_task import task_queue
from drainq.spark.register import register
from drainq.spark.row_task import Handler
from drainq.spark.rows import Rows
from drainq.spark.ship_package import archive, ship
from drainq.spark.sink import PartitionReport, SinkReport, sink
from drainq.spark.sink_settings import OnError
from drainq.spark.sink_table import sink_table
from drainq.spark.task_attempt import TaskInfo, task_info
from drainq.spark.unrouted import Unrouted, UnroutedItems
from drainq.spark.version_check import VersionMismatch
from drainq.spark.worker_resource import worker_resource

__all__ = [
    "Handler",
    "OnError",
    "PartitionReport",
    "Rows",
    "SinkReport",
    "TaskInfo",
    "Unrouted",
    "UnroutedItems",
    "VersionMismatch",
    "aggregate",
    "archive",
    "partition_fn",
    "register",
    "ship",
    "sink",
    "sink_table",
    "task_info",
    "task_queue",
    "worker_resource",
]
