"""Which worker of a shared queue owns which type of items: one worker for each type."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from drainq._native import BatchQueue

_owners: weakref.WeakKeyDictionary[BatchQueue, dict[type, weakref.ref[Any]]] = weakref.WeakKeyDictionary()


def own(queue: BatchQueue, kind: type, worker: Any, handler: Any, weight: float) -> None:
    """Register the handler of a worker for a type; the worker owns the type from now on.

    Raises:
        ValueError: the type belongs to another worker.
    """
    owners = _owners.setdefault(queue, {})
    owner = owners.get(kind, lambda: None)()
    if owner is not None and owner is not worker:
        raise ValueError(
            f"items of type {kind.__name__} on this queue belong to another {type(owner).__name__}: give each "
            "worker of a shared queue a class of items of its own, or a queue of its own"
        )
    queue.add_handler(kind, handler, weight)
    owners[kind] = weakref.ref(worker)


def disown(queue: BatchQueue, kinds: Iterable[type]) -> None:
    """Let other workers have these types."""
    owners = _owners.get(queue, {})
    for kind in kinds:
        owners.pop(kind, None)
