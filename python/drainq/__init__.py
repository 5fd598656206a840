"""drainq: a queue between a Python program, or a Spark task, and the slow part behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drainq._native import (
    BatchQueue,
    BatchQueueConfig,
    BufferStrategy,
    DrainBalancer,
    MultiQueue,
    PartitionPolicy,
    PartitionSelector,
    SetQueue,
    SubQueue,
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
    from drainq.manager import BatchQueueManager
    from drainq.sigterm import stop_on_sigterm
    from drainq.sources import Fair, ItemState, ItemTracker, Prefer, PrefetchSource, SourceScheduler, Weighted
    from drainq.statistics import BatchQueueStats, MultiQueueStats, PartitionUsage, SetQueueStats, SubQueueStats

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
    "stop_on_sigterm",
]


def __getattr__(name: str) -> object:
    """Load the manager, the statistics, the sources or the SIGTERM handler when it is first used."""
    if name in __all__:
        from drainq import manager, sigterm, sources, statistics

        rooms = (manager, sigterm, statistics, sources)
        return next(getattr(room, name) for room in rooms if hasattr(room, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
