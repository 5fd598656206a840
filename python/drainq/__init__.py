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
    SetQueue,
    SetQueueStats,
    ThreadPolicy,
    __version__,
)
from drainq.errors import DrainqError, DrainqWarning, DuplicateName, ModeConflict, ShutDown, SubQueueRemoved, WouldDeadlock
from drainq.sources import Backoff, Fair, ItemState, ItemTracker, Prefer, PrefetchSource, SourceScheduler, Weighted
from drainq.tuning import tune

__all__ = [
    "Backoff",
    "BatchQueue",
    "BatchQueueConfig",
    "BatchQueueManager",
    "BatchQueueStats",
    "BufferStrategy",
    "DrainBalancer",
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "Fair",
    "ItemState",
    "ItemTracker",
    "ModeConflict",
    "PartitionPolicy",
    "PartitionSelector",
    "PartitionUsage",
    "Prefer",
    "PrefetchSource",
    "SetQueue",
    "SetQueueStats",
    "ShutDown",
    "SourceScheduler",
    "SubQueueRemoved",
    "ThreadPolicy",
    "Weighted",
    "WouldDeadlock",
    "__version__",
    "tune",
]
