"""drainq: the queue layer between a Spark task, or any Python program, and everything slow behind it."""

from drainq._native import SetQueue, SetQueueStats, __version__
from drainq.errors import (
    DrainqError,
    DrainqWarning,
    DuplicateName,
    ModeConflict,
    ShutDown,
    SubQueueRemoved,
    WouldDeadlock,
)
from drainq.sources import Backoff, Fair, ItemState, ItemTracker, Prefer, PrefetchSource, SourceScheduler, Weighted

__all__ = [
    "Backoff",
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "Fair",
    "ItemState",
    "ItemTracker",
    "ModeConflict",
    "Prefer",
    "PrefetchSource",
    "SetQueue",
    "SetQueueStats",
    "ShutDown",
    "SourceScheduler",
    "SubQueueRemoved",
    "Weighted",
    "WouldDeadlock",
    "__version__",
]
