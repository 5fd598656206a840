"""drainq: the queue layer between a Spark task, or any Python program, and everything slow behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drainq._native import (
    BatchQueue,
    BatchQueueConfig,
    BatchQueueManager,
    BatchQueueStats,
    BufferStrategy,
    DDSketch,
    DrainBalancer,
    ExponentialHistogram,
    MultiQueue,
    MultiQueueStats,
    PartitionPolicy,
    PartitionSelector,
    PartitionUsage,
    SetQueue,
    SetQueueStats,
    SubQueue,
    SubQueueStats,
    ThreadPolicy,
    __version__,
)
from drainq.errors import (
    DrainqError,
    DrainqWarning,
    DuplicateName,
    ModeConflict,
    ShutDown,
    SubQueueRemoved,
    WouldDeadlock,
)

if TYPE_CHECKING:
    from drainq.backoff import Backoff
    from drainq.sources import Fair, ItemState, ItemTracker, Prefer, PrefetchSource, SourceScheduler, Weighted

__all__ = [
    "Backoff",
    "BatchQueue",
    "BatchQueueConfig",
    "BatchQueueManager",
    "BatchQueueStats",
    "BufferStrategy",
    "DDSketch",
    "DrainBalancer",
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "ExponentialHistogram",
    "Fair",
    "ItemState",
    "ItemTracker",
    "ModeConflict",
    "MultiQueue",
    "MultiQueueStats",
    "PartitionPolicy",
    "PartitionSelector",
    "PartitionUsage",
    "Prefer",
    "PrefetchSource",
    "SetQueue",
    "SetQueueStats",
    "ShutDown",
    "SourceScheduler",
    "SubQueue",
    "SubQueueRemoved",
    "SubQueueStats",
    "ThreadPolicy",
    "Weighted",
    "WouldDeadlock",
    "__version__",
]


def __getattr__(name: str) -> object:
    """The names of :mod:`drainq.sources` load with their first use: ``import drainq`` is to cost little."""
    if name in __all__:
        from drainq import sources

        return getattr(sources, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
