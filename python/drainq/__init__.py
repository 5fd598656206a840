"""drainq: the queue layer between a Spark task, or any Python program, and everything slow behind it."""

from drainq._native import SetQueue, SetQueueStats, __version__
from drainq.errors import DrainqError, DrainqWarning, DuplicateName, ModeConflict, ShutDown, SubQueueRemoved, WouldDeadlock

__all__ = [
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "ModeConflict",
    "SetQueue",
    "SetQueueStats",
    "ShutDown",
    "SubQueueRemoved",
    "WouldDeadlock",
    "__version__",
]
