"""A daemon of Python workers that has drainq's threads running before it forks, as no daemon should."""

from __future__ import annotations

from pyspark import daemon

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
from drainq.spark import worker_resource
from drainq.timer import SHARED

handled: list[int] = []
queue = BatchQueue(
    "preloaded",
    BatchQueueConfig(threads=ThreadPolicy.fixed(1), partitions=PartitionPolicy.fixed(1), consumer=handled.extend),
)
queue.produce(1)
queue.flush()
SHARED.after(3600, handled.clear)
with worker_resource("preloaded", list):
    pass

if __name__ == "__main__":
    daemon.manager()
