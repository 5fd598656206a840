"""The values of the batch queue, for its table: configuration, statistics, policies, selectors, balancers."""

from __future__ import annotations

import functools
from typing import Any

from drainq import (
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from tests.hostile.batch_scene import ENTRIES, VARIANTS, Scene, entry, read
from tests.hostile.mischief import Callback, Item, Name, Number


@entry("BatchQueueConfig.__new__")
@entry("BatchQueueConfig.replace")
@entry("BatchQueueConfig.__repr__")
def configuration() -> None:
    scene = Scene(**VARIANTS["keys"])
    for settings in VARIANTS.values():
        changes = {name: value for name, value in settings.items() if name != "mode"}
        config = scene.config.replace(**{"buffer_size": Number(50), "linger": Number(0), **changes})
        read(config)
    for wrong in ({"buffer_size": Number(0)}, {"on_drop": Name(1)}, {"consumer": Name(1)}, {"balancer": Name(1)}):
        try:
            scene.config.replace(**wrong)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        raise AssertionError(f"{wrong} is refused")
    scene.end()


def policy(kind: Any, makers: dict[str, tuple[float, ...]], resolve: tuple[float, ...]) -> None:
    """Makes each policy twice, shows and compares it, and resolves it."""
    scene = Scene()
    for maker, args in makers.items():
        one, two = (getattr(kind, maker)(*map(Number, args)) for _ in range(2))
        assert (one == two, hash(one) == hash(two), one == Name(1)) == (True, True, False)
        assert repr(one) == repr(two)
        assert one.resolve(*map(Number, resolve)) >= 1
        try:
            getattr(kind, maker)(*(Number(-1) for _ in args))
        except ValueError:
            continue
        raise AssertionError("a negative number is refused")
    scene.end()


THREADS = {"fixed": (2,), "cpu_cores": (0.5,), "cpu_cores_with_base": (1, 0.5)}
PARTITIONS = {"fixed": (2,), "thread_multiply": (2,), "adaptive": (3,)}
for method in (*THREADS, "resolve", "__repr__", "__eq__", "__hash__"):
    ENTRIES[f"ThreadPolicy.{method}"] = [functools.partial(policy, ThreadPolicy, THREADS, ())]
for method in (*PARTITIONS, "resolve", "__repr__", "__eq__", "__hash__"):
    ENTRIES[f"PartitionPolicy.{method}"] = [functools.partial(policy, PartitionPolicy, PARTITIONS, (2, 5))]


@entry("BufferStrategy.__repr__", "classes")
@entry("BufferStrategy.__eq__", "classes")
@entry("BufferStrategy.__hash__", "classes")
def strategies(_: Scene) -> None:
    blocking = BufferStrategy.BLOCKING
    assert (blocking == BufferStrategy.IF_POSSIBLE, blocking == Name(1)) == (False, False)
    assert len({blocking, BufferStrategy.IF_POSSIBLE, Name(2)}) == 3
    repr(blocking)


@entry("PartitionSelector.__call__", "keys")
@entry("PartitionSelector.__repr__", "keys")
@entry("PartitionSelector.by", "keys")
@entry("PartitionSelector.round_robin", "keys")
@entry("PartitionSelector.type_hash", "keys")
def selectors(_: Scene) -> None:
    by = PartitionSelector.by(Callback(lambda item: Name(item.value)))
    for selector in (by, PartitionSelector.round_robin(), PartitionSelector.type_hash()):
        for number in range(10):
            assert 0 <= selector(Item(number), Number(3)) < 3  # type: ignore[arg-type]
        repr(selector)


@entry("DrainBalancer.__repr__", "balanced")
@entry("DrainBalancer.assign", "balanced")
@entry("DrainBalancer.throughput_weighted", "balanced")
def balancers(_: Scene) -> None:
    balancer = DrainBalancer.throughput_weighted()
    counts, owners = [Number(9), Number(9), Number(1)], [Number(0)] * 3
    assert balancer.assign(counts, owners, Number(2)) == [0, 1, 0]  # type: ignore[arg-type]
    repr(balancer)
