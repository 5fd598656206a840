"""``BatchQueueManager``: the batch queues of a process by name.

The registry takes no lock: each change is one operation on a dict with numbers as keys. A name belongs to the running
queue that was entered first. A fork may happen between any two operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drainq._native import BatchQueue, PartitionSelector, end_queues
from drainq.arguments import Seconds, flag
from drainq.batch_config import BatchQueueConfig, partitioning, queue_config
from drainq.errors import DuplicateName, ModeConflict, warn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from drainq.batch_config import AllSettings

__all__ = ["BatchQueueManager"]

_queues: dict[int, tuple[str, BatchQueue[Any], BatchQueueConfig]] = {}  # in the order in which they were made
_numbers = itertools.count()

_INFRASTRUCTURE = (
    "threads", "shared_scheduler", "buffer_size", "capacity", "strategy", "max_batch", "min_idle",
    "max_idle", "linger", "shutdown_timeout", "rebalance_interval",
)  # fmt: skip


class BatchQueueManager:
    """The batch queues of this process by name. All methods are called on the class.

    Example:
        >>> from drainq import BatchQueueManager
        >>> queue = BatchQueueManager.get_or_create("example", threads=1)
        >>> BatchQueueManager.get("example") is queue
        True
        >>> BatchQueueManager.shutdown("example")
        True

    Source: ``BatchQueueManager`` in SkyWalking's ``library-batch-queue``.
    """

    @staticmethod
    def create(
        name: str,
        config: BatchQueueConfig | None = None,
        *,
        handlers: Mapping[Any, Any] | None = None,
        **settings: Unpack[AllSettings],
    ) -> BatchQueue[Any]:
        """Make a queue of this name.

        Args:
            name, config, handlers, settings: as :class:`BatchQueue`.
        Raises:
            DuplicateName: a running queue has this name.
        """
        name = _text(name)
        if _running(name):
            raise _duplicate(name)
        return _make(name, queue_config(config, settings), handlers)

    @staticmethod
    def get_or_create(
        name: str,
        config: BatchQueueConfig | None = None,
        *,
        handlers: Mapping[Any, Any] | None = None,
        **settings: Unpack[AllSettings],
    ) -> BatchQueue[Any]:
        """Return the queue of this name. Make it if there is none.

        An existing queue keeps its configuration. If ``config`` asks for other threads, partitions, sizes, strategy
        or times, a ``DrainqWarning`` is issued. Without ``config`` only the ``settings`` are compared.

        Args:
            name, config, settings: as :class:`BatchQueue`.
            handlers: as :class:`BatchQueue`. They are added to an existing queue, too.
        Raises:
            ModeConflict: one configuration has a ``consumer`` and the other has none.
        """
        name = _text(name)
        found = _running(name)
        if not found:
            try:
                return _make(name, queue_config(config, settings), handlers)
            except DuplicateName:
                found = _running(name)
                if not found:
                    raise
        queue, first = found
        if config is None and handlers:
            settings = {"consumer": None, **settings}
        wanted = queue_config(first if config is None else config, settings)
        modes = ("handlers by type", "one consumer for everything")
        has, asked = (modes[each.consumer is not None] for each in (first, wanted))
        if has != asked:
            raise ModeConflict(f"queue {name!r} has {has}, but was asked for with {asked}; take another name")
        if _infrastructure(first) != _infrastructure(wanted):
            warn(f"queue {name!r} exists with other settings, which stay: {first} (asked for: {wanted})")
        queue._add_handlers(handlers)
        return queue

    @staticmethod
    def get(name: str) -> BatchQueue[Any] | None:
        """Return the running queue of this name, or None."""
        found = _running(_text(name))
        return found[0] if found else None

    @staticmethod
    def names() -> list[str]:
        """Return the names of the running queues, in the order in which they were made."""
        return [name for name, queue, _ in list(_queues.values()) if queue.running]

    @staticmethod
    def shutdown(name: str, timeout: Seconds | None = None, *, missing_ok: bool = False) -> bool:
        """Shut down the queue of this name, and remove it from the registry.

        Args:
            name: the queue's name.
            timeout: seconds; None takes the queue's own setting.
            missing_ok: True to do nothing if no queue has the name.
        Returns:
            The result of its ``shutdown``, or True if there is no such queue.
        Raises:
            KeyError: there is no queue of this name, and ``missing_ok`` is False.
            WouldDeadlock: called from a handler of the queue.
        """
        number, queue = _to_end(name, missing_ok)
        clean = queue is None or queue.shutdown(timeout)
        _queues.pop(number, None)
        return clean

    @staticmethod
    async def shutdown_async(name: str, timeout: Seconds | None = None, *, missing_ok: bool = False) -> bool:
        """Call :meth:`shutdown` as a coroutine. A cancel has the same effect as on the queue's ``shutdown_async``."""
        number, queue = _to_end(name, missing_ok)
        clean = queue is None or await queue.shutdown_async(timeout)
        _queues.pop(number, None)
        return clean

    @staticmethod
    def shutdown_all(timeout: Seconds | None = None) -> bool:
        """Shut down all queues, the oldest first, and remove them. Then end the shared schedulers.

        Args:
            timeout: seconds for all together; None takes each queue's own setting.
        Returns:
            True if nothing was abandoned.
        Raises:
            WouldDeadlock: called from a handler of one of the queues. Then all queues continue.
        """
        entries = list(_queues.items())
        clean = end_queues([queue for _, (_, queue, _) in entries], timeout)
        for number, _ in entries:
            _queues.pop(number, None)
        return clean

    @staticmethod
    async def shutdown_all_async(timeout: Seconds | None = None) -> bool:
        """Call :meth:`shutdown_all` as a coroutine. Cancelling it does not stop the shutdown."""
        from drainq.aio import end_all  # asyncio loads with its first use

        return await end_all(BatchQueueManager.shutdown_all, timeout)


def _to_end(name: str, missing_ok: bool) -> tuple[int, BatchQueue[Any] | None]:
    """Return the queue of this name, and its number in the registry."""
    name, may_miss = _text(name), flag("missing_ok", missing_ok)
    found = [(number, queue) for number, (other, queue, _) in list(_queues.items()) if other == name]
    if found:
        return found[-1]  # running, or its shutdown was interrupted
    if may_miss:
        return 0, None
    raise KeyError(
        f"name must be that of a queue that runs, got {name!r}; running are {BatchQueueManager.names()!r}; "
        "missing_ok=True takes a name that has ended"
    )


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {name!r}")
    return name


def _running(name: str) -> tuple[BatchQueue[Any], BatchQueueConfig] | None:
    """Return the queue of a name, and remove the queues that have ended."""
    for number, (_, queue, _) in list(_queues.items()):
        if not queue.running:
            _queues.pop(number, None)
    return next(((queue, config) for other, queue, config in list(_queues.values()) if other == name), None)


def _make(name: str, config: BatchQueueConfig, handlers: Mapping[Any, Any] | None) -> BatchQueue[Any]:
    queue: BatchQueue[Any] = BatchQueue(name, config, handlers=handlers)
    number = next(_numbers)
    _queues[number] = (name, queue, config)
    # Another thread, or code that ran while the queue was made, may have registered the name first.
    found = _running(name)
    if found and found[0] is not queue:
        _queues.pop(number, None)
        queue.shutdown()
        raise _duplicate(name)
    return queue


def _duplicate(name: str) -> DuplicateName:
    return DuplicateName(f"there is a queue {name!r} already; take it with get({name!r}), or another name")


def _infrastructure(config: BatchQueueConfig) -> tuple[object, ...]:
    """Return the settings that ``get_or_create`` compares. Of callables it compares at most whether they are set."""
    partitions, selector = partitioning(config)
    by_type = isinstance(selector, PartitionSelector) and repr(selector) == "PartitionSelector.type_hash()"
    settings = (getattr(config, name) for name in _INFRASTRUCTURE)
    return (*settings, partitions, by_type, config.len_of is None, config.balancer is None)
