"""Type owners: on a shared queue, each type of items belongs to one worker."""

from __future__ import annotations

import time
import weakref
from typing import Any

from drainq._native import BatchQueue
from drainq.statistics import BatchQueueStats

_owners: weakref.WeakKeyDictionary[BatchQueue, dict[type, weakref.ref[Any]]] = weakref.WeakKeyDictionary()


class ItemTypes:
    """The types that a shared queue hands to one worker.

    Args:
        queue: the queue.
        weight: the weight of each type when the queue chooses its partition.
    """

    def __init__(self, queue: BatchQueue, weight: float) -> None:
        self._queue, self._weight = queue, weight
        self._before: dict[type, int] = {}  # type -> how many of its items went elsewhere before this worker owned it

    def __contains__(self, kind: type) -> bool:
        return kind in self._before

    def _owner_of(self, kind: type) -> Any:
        return _owners.get(self._queue, {}).get(kind, lambda: None)()

    def is_free(self, kind: type) -> bool:
        """Return whether no worker owns the type."""
        return self._owner_of(kind) is None

    def add(self, kind: type, worker: Any, handler: Any) -> None:
        """Register the worker's handler for a type, which the worker owns from then on.

        Raises:
            ValueError: the type belongs to another worker.
        """
        if kind in self._before:
            return
        owner = self._owner_of(kind)
        if owner is not None:
            raise ValueError(
                f"items of type {kind.__name__} on this queue belong to another {type(owner).__name__}: give each "
                "worker of a shared queue a class of items of its own, or a queue of its own"
            )
        earlier = self._queue.stats().per_type.get(kind)
        self._queue.add_handler(kind, handler, self._weight)
        _owners.setdefault(self._queue, {})[kind] = weakref.ref(worker)
        now = self._queue.stats().per_type.get(kind)
        self._before[kind] = (earlier.handled + earlier.failed if earlier else 0) + (now.unrouted if now else 0)

    def accepted(self, queue: BatchQueueStats) -> int:
        """Return the number of items for this worker that the queue accepted."""
        kinds = list(self._before.items())  # a thread may add one
        return sum(of.accepted - before for kind, before in kinds if (of := queue.per_type.get(kind)) is not None)

    def leave(self, timeout: float | None) -> None:
        """Wait until the queued items are handled, then release the types."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._queue.flush(timeout)
        for kind in list(self._before):
            self._queue.remove_handler(kind, None if deadline is None else max(0.0, deadline - time.monotonic()))
            _owners.get(self._queue, {}).pop(kind, None)

    def renew(self) -> None:
        """Reset the state in a forked child, whose queue counts from zero."""
        self._before = dict.fromkeys(self._before, 0)
