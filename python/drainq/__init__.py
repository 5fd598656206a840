"""drainq: the queue layer between a Spark task, or any Python program, and everything slow behind it."""

from drainq._native import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BatchQueueStats,
    BufferStrategy,
    DrainBalancer,
    MultiQueue,
    MultiQueueStats,
    PartitionPolicy,
    PartitionSelector,
    PartitionUsage,
    SubQueue,
    SubQueueStats,
    ThreadPolicy,
    __version__,
)
from drainq.errors import DrainqError, DrainqWarning, DuplicateName, ModeConflict, ShutDown, SubQueueRemoved, WouldDeadlock
from drainq.tuning import tune

__all__ = [
    "BatchQueue",
    "BatchQueueConfig",
    "BatchQueueManager",
    "BatchQueueStats",
    "BufferStrategy",
    "DrainBalancer",
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "ModeConflict",
    "MultiQueue",
    "MultiQueueStats",
    "PartitionPolicy",
    "PartitionSelector",
    "PartitionUsage",
    "ShutDown",
    "SubQueue",
    "SubQueueRemoved",
    "SubQueueStats",
    "ThreadPolicy",
    "WouldDeadlock",
    "__version__",
    "tune",
]
