"""drainq: the queue layer between a Spark task, or any Python program, and everything slow behind it."""

from drainq._native import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BatchQueueStats,
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    PartitionUsage,
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
    "PartitionPolicy",
    "PartitionSelector",
    "PartitionUsage",
    "ShutDown",
    "SubQueueRemoved",
    "ThreadPolicy",
    "WouldDeadlock",
    "__version__",
    "tune",
]
