"""``BatchQueueConfig``: the settings of a batch queue, their checks, and how they reach the native queue.

``import drainq`` does not load this module, because :mod:`dataclasses` takes long to load. The first queue does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

from drainq._calls import handler_parts
from drainq._native import DrainBalancer, PartitionSelector, check_name, read_seconds, read_whole, read_whole_or_none
from drainq.arguments import helpful, refuse_unknown
from drainq.callables import check_callable
from drainq.size_policies import BufferStrategy, PartitionPolicy, ThreadPolicy

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Literal, Protocol, TypedDict, TypeVar

    from typing_extensions import Unpack

    class _Consumer(Protocol):
        def consume(self, batch: list[Any], /) -> object: ...

    class _Balancer(Protocol):
        def assign(self, throughput: list[int], owners: list[int], threads: int, /) -> Sequence[int] | None: ...

    _Policy = TypeVar("_Policy", ThreadPolicy, PartitionPolicy)
    _Seconds = float | timedelta
    _Assign = Callable[[list[int], list[int], int], Sequence[int] | None]
    _Handler = Callable[[list[Any]], object] | _Consumer

    class OtherSettings(TypedDict, total=False):
        """All settings of a queue but its threads and its consumer."""

        partitions: PartitionPolicy | int | None
        partition_selector: PartitionSelector | Callable[[Any, int], int] | None
        dispatch_key: Callable[[Any], Hashable] | None
        buffer_size: int
        capacity: int | None
        strategy: BufferStrategy | Literal["blocking", "if_possible"]
        on_error: Callable[[list[Any], BaseException], object] | None
        on_drop: Callable[[str, int], object] | None
        min_idle: _Seconds
        max_idle: _Seconds
        linger: _Seconds
        len_of: Callable[[Any], int] | None
        max_batch: int
        shutdown_timeout: _Seconds | None
        balancer: DrainBalancer | _Balancer | _Assign | None
        rebalance_interval: _Seconds
        loop: AbstractEventLoop | None

    class BatchSettings(OtherSettings, total=False):
        """All settings of a queue but its consumer."""

        threads: ThreadPolicy | int | None
        shared_scheduler: tuple[str, ThreadPolicy | int] | None

    class AllSettings(BatchSettings, total=False):
        """All settings of a queue."""

        consumer: _Handler | None


MAX_ITEMS = 1 << 30
"""The most items of a partition, a queue or a handler call."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BatchQueueConfig:
    """The settings of a :class:`BatchQueue`. All are keyword-only and readable afterwards.

    Seconds are a number, or a ``datetime.timedelta``.

    A configuration can be pickled and copied with all settings, if the pickler can send its callables: a lambda needs
    ``cloudpickle``, which Spark uses.

    Args:
        threads: a :class:`ThreadPolicy`, or the number of threads: the queue gets drain threads of its own.
        shared_scheduler: ``(name, ThreadPolicy)``, or a number of threads instead of the policy: the queue shares the
            threads of a named scheduler. Give exactly one of ``threads`` and ``shared_scheduler``.
        partitions: a :class:`PartitionPolicy`, or the number of partitions. None: one for each of ``threads``; on a
            shared scheduler one.
        partition_selector: a :class:`PartitionSelector` or a callable ``(item, count) -> int``. None:
            ``PartitionSelector.type_hash()``, or ``round_robin()`` for a ``consumer`` of several ``threads`` if neither
            ``partitions`` nor ``dispatch_key`` is given. Then all threads work, and items of a type lose their order.
        dispatch_key: a callable ``item -> hashable``: items of one key are of one type; default the
            item's exact class. An ``operator.itemgetter`` or ``attrgetter`` of one name costs least.
        buffer_size: items that fit into one partition; default 10,000, at most 2**30.
        capacity: items that fit into all partitions together; None: as many as their ``buffer_size`` allows. With
            many partitions, ``capacity`` limits the memory and, unlike a small ``buffer_size``, does not make batches
            small.
        strategy: a :class:`BufferStrategy`, or its name in letters of any case, such as ``"if_possible"``;
            default ``BLOCKING``.
        consumer: a callable for every batch, whatever the types. Several drain threads call the
            consumer at the same time. Without a consumer, batches go to the handlers that ``add_handler`` registers.
        on_error: a callable ``(batch, error)`` for batches whose handler raised; default
            is to log them.
        on_drop: a callable ``(reason, count)``, called with the number of items that are not handled,
            for each reason (``full``, ``closed``, ``unrouted``, ``abandoned``) at most once a second.
        min_idle: seconds for which a drain thread that found no item lets items gather, while this thread's items
            arrive more often than every 10 microseconds times the number of threads (at most 50). Otherwise the next
            item wakes it.
        max_idle: the longest sleep, in seconds, of a drain thread with ``on_idle`` handlers: it sleeps ``min_idle``,
            then twice as long each time.
        linger: seconds that a drain thread which was idle lets items gather before it takes
            the first; default 0. A half-full partition ends the wait. Not on a shared scheduler.
        len_of: a callable ``item -> int`` that returns the weight of an item, such as the rows of
            an Arrow record batch; at most 2**31 - 1. ``buffer_size``, ``capacity`` and all counters are then in rows.
        max_batch: items that a handler gets at most in one call; default 8,192.
        shutdown_timeout: seconds that ``shutdown`` waits by default; None: as long as it takes.
        balancer: a :class:`DrainBalancer`, an object with ``assign``, or a callable of that
            shape; None: partitions stay with their threads.
        rebalance_interval: seconds between two calls of the balancer; default 10.
        loop: an asyncio event loop: ``async def`` handlers and consumers run there, and the drain thread waits
            for them. It has to run, and to outlive the queue. None: ``async def`` is refused.
    Raises:
        ValueError, TypeError: with the value that is wrong. A callable that would do nothing (``async def``, a
            generator function), or that takes other arguments, is a TypeError.

    Example:
        >>> from drainq import BatchQueueConfig, ThreadPolicy
        >>> BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=500).buffer_size
        500

    Source: ``BatchQueueConfig`` in SkyWalking's ``library-batch-queue``.
    """

    threads: ThreadPolicy | None = None
    shared_scheduler: tuple[str, ThreadPolicy] | None = None
    partitions: PartitionPolicy | None = None
    partition_selector: PartitionSelector | Callable[[Any, int], int] | None = None
    dispatch_key: Callable[[Any], Hashable] | None = None
    buffer_size: int = 10_000
    capacity: int | None = None
    strategy: BufferStrategy = BufferStrategy.BLOCKING
    consumer: _Handler | None = None
    on_error: Callable[[list[Any], BaseException], object] | None = None
    on_drop: Callable[[str, int], object] | None = None
    min_idle: float = 0.001
    max_idle: float = 0.050
    linger: float = 0.0
    len_of: Callable[[Any], int] | None = None
    max_batch: int = 8_192
    shutdown_timeout: float | None = None
    balancer: DrainBalancer | _Balancer | _Assign | None = None
    rebalance_interval: float = 10.0
    loop: AbstractEventLoop | None = None

    if TYPE_CHECKING:

        @overload
        def __init__(
            self, *, threads: ThreadPolicy | int, consumer: _Handler | None = None, **settings: Unpack[OtherSettings]
        ) -> None: ...
        @overload
        def __init__(
            self,
            *,
            shared_scheduler: tuple[str, ThreadPolicy | int],
            consumer: _Handler | None = None,
            **settings: Unpack[OtherSettings],
        ) -> None: ...
        def __init__(self, **settings: Any) -> None: ...

    def __post_init__(self) -> None:
        for name, read in _READERS.items():
            object.__setattr__(self, name, read(name, getattr(self, name)))
        self._check()

    def _check(self) -> None:
        """Refuse callables that do not fit, and settings that exclude each other."""
        if (self.threads is None) == (self.shared_scheduler is None):
            raise ValueError(
                "give exactly one of threads=ThreadPolicy... and shared_scheduler=(name, ThreadPolicy...), "
                f"got {'neither' if self.threads is None else 'both'}"
            )
        for name, arguments in _CALLED_WITH.items():
            if getattr(self, name) is not None:
                check_callable(name, getattr(self, name), *arguments)
        if self.loop is not None:
            from drainq.aio import check_loop

            check_loop(self.loop)
        if self.consumer is not None:
            handler_parts("consumer", self.consumer, self.loop, 0)
        if self.balancer is not None:
            _check_balancer(self.balancer)
        if self.linger > 0 and self.shared_scheduler is not None:
            raise ValueError(f"linger needs threads of the queue's own, got {self.linger}")
        if self.rebalance_interval == 0:
            raise ValueError(f"rebalance_interval must be > 0 seconds, got {self.rebalance_interval}")
        if self.max_idle < self.min_idle:
            raise ValueError(
                f"max_idle must be at least min_idle, got min_idle={self.min_idle} s and max_idle={self.max_idle} s"
            )

    def replace(self, **changes: Unpack[AllSettings]) -> BatchQueueConfig:
        """Return the same settings with some changed.

        Args:
            changes: settings by name. One of ``threads`` and ``shared_scheduler`` takes the place of the other.
        Returns:
            A new configuration.

        Example:
            >>> from drainq import BatchQueueConfig, ThreadPolicy
            >>> config = BatchQueueConfig(threads=ThreadPolicy.fixed(1))
            >>> config.replace(buffer_size=5).buffer_size
            5

        Source: ``dataclasses.replace``.
        """
        return _make(_changed(_by_name(self), changes))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[dict[str, Any]]]:
        return _make, (_by_name(self),)

    def __repr__(self) -> str:
        names = ["shared_scheduler" if self.threads is None else "threads", "partitions", "buffer_size", "capacity"]
        names = [name for name in (*names, "strategy", "max_batch") if getattr(self, name) is not None]
        return f"BatchQueueConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


BatchQueueConfig.__init__ = helpful(BatchQueueConfig.__init__)  # type: ignore[method-assign, assignment]
NAMES = tuple(field.name for field in fields(BatchQueueConfig))

_CALLED_WITH = {
    "dispatch_key": ("item",),
    "len_of": ("item",),
    "on_error": ("batch", "error"),
    "on_drop": ("reason", "count"),
    "partition_selector": ("item", "count"),
}


def _make(settings: dict[str, Any]) -> BatchQueueConfig:
    return BatchQueueConfig(**settings)


def _by_name(config: BatchQueueConfig) -> dict[str, Any]:
    """Return all settings by name, as the constructor takes them."""
    return {name: getattr(config, name) for name in NAMES}


def _changed(settings: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Put ``changes`` over ``settings``. One of ``threads`` and ``shared_scheduler`` takes the place of the other."""
    refuse_unknown("BatchQueue", changes, NAMES)
    for one, other in (("threads", "shared_scheduler"), ("shared_scheduler", "threads")):
        if changes.get(one) is not None:
            settings[other] = None
    return {**settings, **changes}


def queue_config(config: BatchQueueConfig | None, settings: Mapping[str, Any] | None) -> BatchQueueConfig:
    """Make the configuration of a queue from ``config`` and ``settings``, which win over ``config``. The queue has one
    thread if ``config`` is None and ``settings`` has neither ``threads`` nor ``shared_scheduler``.

    Raises:
        TypeError: ``config`` is no configuration, or there is no such setting.

    Example:
        >>> queue_config(None, {"buffer_size": 5})
        BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=5, strategy=BufferStrategy.BLOCKING, max_batch=8192)
    """
    if config is not None and not isinstance(config, BatchQueueConfig):
        raise TypeError(
            f"config must be a BatchQueueConfig, such as BatchQueueConfig(threads=1), or None, got {config!r}"
        )
    every = _changed({} if config is None else _by_name(config), settings or {})
    if config is None and every.get("threads") is None and every.get("shared_scheduler") is None:
        every["threads"] = 1
    return _make(every)


def partitioning(config: BatchQueueConfig) -> tuple[PartitionPolicy, PartitionSelector | Callable[[Any, int], int]]:
    """Return the partitions of a queue and their selector. Defaults are chosen so that every thread can get items.

    Example:
        >>> partitioning(BatchQueueConfig(threads=2, consumer=print))
        (PartitionPolicy.fixed(2), PartitionSelector.round_robin())
    """
    count = 1 if config.threads is None else config.threads.resolve()
    spread = count > 1 and config.consumer is not None and config.partitions is None and config.dispatch_key is None
    selector = config.partition_selector or getattr(PartitionSelector, "round_robin" if spread else "type_hash")()
    return config.partitions or PartitionPolicy.fixed(count), selector


def native_settings(config: BatchQueueConfig | None, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a queue as ``crates/drainq-py/src/batch/config.rs`` reads them: policies are numbers."""
    config = queue_config(config, settings)
    pool, policy = config.shared_scheduler or (None, config.threads or ThreadPolicy.fixed(1))
    partitions, selector = partitioning(config)
    return {
        **_by_name(config),
        "threads": policy.resolve(),
        "policy": repr(policy),
        "pool": pool,
        "partitions": (partitions._rule, partitions._numbers[0]),
        "partition_selector": selector,
        "blocks": config.strategy is BufferStrategy.BLOCKING,
    }


# These functions check and convert a setting. A plain value is accepted if it can mean only one thing: ``threads=2``.


def _threads(name: str, value: Any) -> ThreadPolicy | None:
    return None if value is None else _policy(name, value)


def _policy(name: str, value: Any) -> ThreadPolicy:
    if isinstance(value, ThreadPolicy):
        return value
    if not _is_whole(value):
        wanted = "a ThreadPolicy, such as ThreadPolicy.cpu_cores(1.0), or a number of threads (int)"
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    return _fixed(ThreadPolicy, name, value)


def _fixed(kind: type[_Policy], name: str, value: int) -> _Policy:
    try:
        return kind.fixed(value)
    except ValueError as why:
        raise ValueError(f"{name}={value}: {why}") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _pool(name: str, value: Any) -> tuple[str, ThreadPolicy] | None:
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        wanted = 'a tuple of a name and a ThreadPolicy, such as ("io", ThreadPolicy.fixed(8))'
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    pool, policy = value
    if not isinstance(pool, str):
        raise TypeError(f"{name}[0] must be a str, got {pool!r}")
    check_name(f"the name of a {name}", pool)
    return pool, _policy(f"{name}[1]", policy)


def _partitions(name: str, value: Any) -> PartitionPolicy | None:
    if value is None or isinstance(value, PartitionPolicy):
        return value
    if not _is_whole(value):
        wanted = "a PartitionPolicy, such as PartitionPolicy.adaptive(), or a number of partitions (int)"
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    return _fixed(PartitionPolicy, name, value)


def _strategy(name: str, value: Any) -> BufferStrategy:
    if isinstance(value, BufferStrategy):
        return value
    if isinstance(value, str) and value.lower() in ("blocking", "if_possible"):
        return BufferStrategy(value.lower())
    wanted = 'BufferStrategy.BLOCKING or "blocking", or BufferStrategy.IF_POSSIBLE or "if_possible"'
    raise TypeError(f"{name} must be {wanted}, got {value!r}")


def _items(name: str, value: Any) -> int:
    return _within_bounds(name, read_whole(name, value))


def _capacity(name: str, value: Any) -> int | None:
    number = read_whole_or_none(name, value)
    return None if number is None else _within_bounds(name, number)


def _within_bounds(name: str, number: int) -> int:
    if number < 1:
        raise ValueError(f"{name} must be at least 1 item, got {number}")
    if number > MAX_ITEMS:
        raise ValueError(f"{name} must be at most {MAX_ITEMS} items, got {number}")
    return number


def _timeout(name: str, value: Any) -> float | None:
    return None if value is None else read_seconds(name, value)


def _check_balancer(balancer: Any) -> None:
    shape = ("throughput", "owners", "threads")
    assign = getattr(balancer, "assign", None)
    if assign is None and not callable(balancer):
        raise TypeError(
            f"balancer must have a method assign({', '.join(shape)}), or be a callable of that shape, got {balancer!r}"
        )
    check_callable(*(("balancer", balancer) if assign is None else ("balancer.assign", assign)), *shape)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "threads": _threads,
    "shared_scheduler": _pool,
    "partitions": _partitions,
    "buffer_size": _items,
    "capacity": _capacity,
    "strategy": _strategy,
    "min_idle": read_seconds,
    "max_idle": read_seconds,
    "linger": read_seconds,
    "max_batch": _items,
    "shutdown_timeout": _timeout,
    "rebalance_interval": read_seconds,
}
