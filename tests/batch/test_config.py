"""`BatchQueueConfig`: defaults, and refusals that show the value."""

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BufferStrategy,
    DrainBalancer,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from drainq.batch_config import partitioning

ONE = ThreadPolicy.fixed(1)


def test_defaults_are_a_blocking_partition_of_ten_thousand_items_for_each_thread():
    config = BatchQueueConfig(threads=ONE)
    assert config.threads == ONE
    assert config.shared_scheduler is None
    assert config.partitions is config.partition_selector is None
    for given, count, selector in (
        ({"threads": 1, "consumer": len}, 1, "type_hash"),
        ({"threads": 3}, 3, "type_hash"),
        ({"threads": 3, "consumer": len}, 3, "round_robin"),
        ({"threads": 3, "consumer": len, "partitions": 2}, 2, "type_hash"),
        ({"threads": 3, "consumer": len, "dispatch_key": len}, 3, "type_hash"),
        ({"shared_scheduler": ("io", 3), "consumer": len}, 1, "type_hash"),
    ):
        chosen = partitioning(BatchQueueConfig(**given))
        assert (chosen[0], repr(chosen[1])) == (PartitionPolicy.fixed(count), f"PartitionSelector.{selector}()")
    assert config.dispatch_key is None
    assert config.buffer_size == 10_000
    assert config.capacity is None
    assert config.strategy == BufferStrategy.BLOCKING
    assert config.consumer is config.on_error is config.on_drop is config.balancer is None
    assert (config.min_idle, config.max_idle) == (0.001, 0.050)
    assert config.max_batch == 8192
    assert config.shutdown_timeout is None
    assert config.rebalance_interval == 10.0


def test_every_setting_can_be_read_back():
    balancer, selector = DrainBalancer.throughput_weighted(), PartitionSelector.round_robin()
    settings = {
        "threads": ThreadPolicy.cpu_cores(0.5), "partitions": PartitionPolicy.adaptive(), "partition_selector": selector,
        "dispatch_key": len, "buffer_size": 7, "capacity": 20, "strategy": BufferStrategy.IF_POSSIBLE, "consumer": print,
        "on_error": print, "on_drop": print, "min_idle": 0.0, "max_idle": 1.5, "max_batch": 9,
        "shutdown_timeout": 2.5, "balancer": balancer, "rebalance_interval": 0.25,
    }  # fmt: skip
    config = BatchQueueConfig(**settings)
    for name, value in settings.items():
        assert getattr(config, name) == value, name


@pytest.mark.parametrize("strategy", [BufferStrategy.BLOCKING, BufferStrategy.IF_POSSIBLE])
@pytest.mark.parametrize("written", [str.lower, str.upper, str.title])
def test_a_strategy_may_be_given_by_its_name_in_letters_of_any_case(strategy, written):
    name = {BufferStrategy.BLOCKING: "blocking", BufferStrategy.IF_POSSIBLE: "if_possible"}[strategy]
    assert BatchQueueConfig(threads=ONE, strategy=written(name)).strategy == strategy


def test_exactly_one_of_threads_and_shared_scheduler_is_needed():
    with pytest.raises(ValueError, match="exactly one of threads.*neither"):
        BatchQueueConfig()
    with pytest.raises(ValueError, match="exactly one of threads.*both"):
        BatchQueueConfig(threads=ONE, shared_scheduler=("pool", ONE))
    assert BatchQueueConfig(shared_scheduler=("pool", ONE)).shared_scheduler == ("pool", ONE)


def test_a_buffer_may_be_as_large_as_its_limit():
    assert BatchQueueConfig(threads=ONE, buffer_size=2**30).buffer_size == 2**30


def test_a_configuration_shows_what_decides_its_size():
    config = BatchQueueConfig(shared_scheduler=("io", 2), capacity=5, partition_selector=None, shutdown_timeout=3)
    assert repr(config) == (
        "BatchQueueConfig(shared_scheduler=('io', ThreadPolicy.fixed(2)), buffer_size=10000, capacity=5, "
        "strategy=BufferStrategy.BLOCKING, max_batch=8192)"
    )
    assert (
        "partitions=PartitionPolicy.fixed(3), " in repr(config.replace(partitions=3)) and config.shutdown_timeout == 3
    )


def test_replace_changes_some_settings_and_keeps_all_others():
    config = BatchQueueConfig(threads=ONE, buffer_size=7, linger=0.5, len_of=len, dispatch_key=str, max_batch=3)
    changed = config.replace(buffer_size=9, threads=None, shared_scheduler=("pool", ONE), linger=0.0)
    assert changed.replace(threads=None).shared_scheduler == ("pool", ONE)
    assert (changed.buffer_size, changed.shared_scheduler, changed.linger) == (9, ("pool", ONE), 0.0)
    names = [name for name in dir(config) if not name.startswith("_") and name != "replace"]
    assert len(names) == 20
    for name in set(names) - {"buffer_size", "threads", "shared_scheduler", "linger"}:
        assert getattr(changed, name) == getattr(config, name), name
    with pytest.raises(ValueError, match="buffer_size"):
        config.replace(buffer_size=0)
    with pytest.raises(TypeError, match="colour"):
        config.replace(colour="red")


def test_a_pool_does_not_linger():
    pool = {"shared_scheduler": ("io", ThreadPolicy.fixed(1))}
    with pytest.raises(ValueError, match="linger needs threads of the queue's own, got 0.5"):
        BatchQueueConfig(linger=0.5, **pool)
    assert BatchQueueConfig(linger=0.0, **pool).linger == 0.0


SHARED = BatchQueueConfig(threads=2, partitions=2, buffer_size=7, consumer=print)
POOL = BatchQueueConfig(shared_scheduler=("beginning", 3))


@pytest.mark.parametrize(
    ("config", "settings", "threads", "buffer_size"),
    [
        (None, {}, 1, 10_000),
        (None, {"threads": None, "consumer": len}, 1, 10_000),
        (None, {"threads": 2, "partitions": 2, "buffer_size": 9}, 2, 9),
        (None, {"shared_scheduler": ("beginning", 3), "partitions": 3}, 3, 10_000),
        (SHARED, {}, 2, 7),
        (SHARED, {"buffer_size": 9}, 2, 9),
        (SHARED, {"shared_scheduler": ("beginning", 3), "partitions": 3}, 3, 7),
        (POOL, {"threads": ThreadPolicy.fixed(1)}, 1, 10_000),
    ],
)
def test_a_queue_is_made_of_a_configuration_and_of_settings_which_win(config, settings, threads, buffer_size):
    with BatchQueue("beginning", config, **settings) as queue:
        assert (queue.thread_count, queue.stats().buffer_size) == (threads, buffer_size)


def test_handlers_and_the_consumer_are_settings_too():
    taken = []
    with BatchQueue("handlers", handlers={str: taken.extend, int: taken.append}) as queue:
        queue.produce_many(["a", "b"])
        queue.produce(3)
    with BatchQueue("consumer", consumer=taken.extend) as queue:
        queue.produce("c")
    with BatchQueue("neither", SHARED, consumer=None, handlers={str: taken.extend}) as queue:
        queue.produce("d")
    assert sorted(map(str, taken)) == ["[3]", "a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"bufer_size": 3}, r"BatchQueue has no setting 'bufer_size': did you mean 'buffer_size'\?"),
        ({"colour": 3}, "BatchQueue has no setting 'colour': the settings are threads, .*, loop$"),
        ({"threads": 1, "shared_scheduler": ("io", 1)}, "exactly one of threads.*both"),
        ({"shared_scheduler": ("io", "2")}, r"^shared_scheduler\[1\] must be a ThreadPolicy, .*got '2'"),
        ({"handlers": {str: 3}}, "handler must be .*got 3"),
        ({"handlers": {"str": len}}, "'str'"),
        (
            {"handlers": [len]},
            r"handlers must be a dict of types and handlers, such as \{Hit: store\}, or None, got \[",
        ),
    ],
)
def test_a_wrong_setting_of_a_queue_is_refused(settings, refusal):
    for config in (None, POOL):
        with pytest.raises((TypeError, ValueError), match=refusal):
            BatchQueue("wrong", config, **settings)
