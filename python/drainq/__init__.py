"""drainq: a queue between a Python program, or a Spark task, and the slow part behind it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from drainq._native import (
    BatchQueue,
    DrainBalancer,
    MultiQueue,
    PartitionSelector,
    SetQueue,
    SubQueue,
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
    from drainq.batch_config import BatchQueueConfig
    from drainq.manager import BatchQueueManager
    from drainq.sigterm import stop_on_sigterm
    from drainq.size_policies import BufferStrategy, PartitionPolicy, ThreadPolicy

__all__ = [
    "Backoff",
    "BatchQueue",
    "BatchQueueConfig",
    "BatchQueueManager",
    "BufferStrategy",
    "DrainBalancer",
    "DrainqError",
    "DrainqWarning",
    "DuplicateName",
    "ModeConflict",
    "MultiQueue",
    "PartitionPolicy",
    "PartitionSelector",
    "SetQueue",
    "ShutDown",
    "SubQueue",
    "SubQueueRemoved",
    "ThreadPolicy",
    "WouldDeadlock",
    "__version__",
    "stop_on_sigterm",
]


def __getattr__(name: str) -> object:
    """Import the modules of the public names on first use, because importing :mod:`dataclasses` alone takes long."""
    if name in __all__:
        rooms = ("batch_config", "size_policies", "manager", "backoff", "sigterm")
        for room in map(import_module, (f"drainq.{room}" for room in rooms)):
            if hasattr(room, name):
                return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
