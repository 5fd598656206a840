"""drainq: the queue layer between a Spark task, or any Python program, and everything slow behind it."""

from drainq._native import MultiQueue, MultiQueueStats, SubQueue, SubQueueStats, __version__
from drainq.errors import DrainqError, DrainqWarning, DuplicateName, ModeConflict, ShutDown, SubQueueRemoved, WouldDeadlock

__all__ = [
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "ModeConflict",
    "MultiQueue",
    "MultiQueueStats",
    "ShutDown",
    "SubQueue",
    "SubQueueRemoved",
    "SubQueueStats",
    "WouldDeadlock",
    "__version__",
]
