"""Settings keep every value in another process. Objects with threads, connections or items name what to send instead."""

from __future__ import annotations

import contextlib
import copy
import io
import operator
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq import (
    BatchQueueConfig,
    BufferStrategy,
    DrainBalancer,
    MultiQueue,
    PartitionPolicy,
    PartitionSelector,
    SetQueue,
    ThreadPolicy,
)
from drainq.sketch import DDSketch
from drainq.sources import Fair, PrefetchSource, SourceScheduler
from drainq.workers import BatchWriter, TopN

DelayedQueue = pytest.importorskip("drainq.delayed", reason="msgspec is for CPython with a GIL, or 3.14").DelayedQueue

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)

ONE = ThreadPolicy.fixed(1)
SETTINGS = [name for name in dir(BatchQueueConfig) if not name.startswith("_") and name != "replace"]


def consume(batch: list[Any]) -> None: ...


def dead(batch: list[Any], error: BaseException) -> None: ...


def dropped(reason: str, count: int) -> None: ...


def third(item: Any, count: int) -> int:
    return 2


def leave(throughput: list[int], owners: list[int], threads: int) -> None: ...


COUNTS = st.integers(1, 4096)
SECONDS = st.floats(0.001, 1e6)
THREADS = st.one_of(
    st.builds(ThreadPolicy.fixed, COUNTS),
    st.builds(ThreadPolicy.cpu_cores, SECONDS),
    st.builds(ThreadPolicy.cpu_cores_with_base, st.integers(0, 4096), SECONDS),
)
PARTITIONS = st.one_of(
    st.builds(PartitionPolicy.fixed, COUNTS),
    st.builds(PartitionPolicy.thread_multiply, COUNTS),
    st.builds(PartitionPolicy.adaptive, COUNTS),
)
SELECTORS = st.one_of(
    st.builds(PartitionSelector.type_hash),
    st.builds(PartitionSelector.round_robin),
    st.builds(PartitionSelector.by, st.sampled_from([str, operator.itemgetter("user")])),
)
STRATEGIES = st.sampled_from([BufferStrategy.BLOCKING, BufferStrategy.IF_POSSIBLE])
BALANCERS = st.builds(DrainBalancer.throughput_weighted)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
POLICIES = st.one_of(THREADS, PARTITIONS, SELECTORS, STRATEGIES, BALANCERS)


def or_none(*values: Any) -> Any:
    return st.sampled_from([None, *values])


@st.composite
def configs(draw: Callable[[Any], Any]) -> BatchQueueConfig:
    """Return any configuration: on threads of its own, with a linger, or on a shared scheduler."""
    own = {"threads": THREADS, "linger": st.floats(0, 1e6)}
    shared = {"shared_scheduler": st.tuples(NAMES, THREADS)}
    least, more = sorted((draw(SECONDS), draw(SECONDS)))
    others = {
        "partitions": PARTITIONS, "partition_selector": SELECTORS | st.just(third), "dispatch_key": or_none(str, len),
        "buffer_size": st.integers(1, 2**30), "capacity": st.none() | st.integers(1, 2**30),
        "strategy": STRATEGIES, "consumer": or_none(consume, print),
        "on_error": or_none(dead), "on_drop": or_none(dropped), "len_of": or_none(len),
        "max_batch": st.integers(1, 2**30), "shutdown_timeout": st.none() | SECONDS,
        "balancer": BALANCERS | or_none(leave), "rebalance_interval": SECONDS,
    }  # fmt: skip
    chosen = draw(st.fixed_dictionaries(draw(st.sampled_from([own, shared]))))
    return BatchQueueConfig(**chosen, **draw(st.fixed_dictionaries(others)), min_idle=least, max_idle=more)


def copies(value: Any) -> Iterator[Any]:
    """Yield what arrives, by each way there is."""
    yield copy.copy(value)
    yield copy.deepcopy(value)
    for protocol in PROTOCOLS:
        yield pickle.loads(pickle.dumps(value, protocol))
        # There is a second pickler, in Python, with branches of its own.
        buffer = io.BytesIO()
        pickle._Pickler(buffer, protocol).dump(value)  # type: ignore[attr-defined]
        yield pickle.loads(buffer.getvalue())


def same(one: Any, other: Any) -> bool:
    """Return whether two settings are equal; selectors and balancers, which compare by identity, by what they say."""
    by_identity = (PartitionSelector, DrainBalancer, operator.itemgetter)
    return type(one) is type(other) and (repr(one) == repr(other) if isinstance(one, by_identity) else one == other)


@given(POLICIES)
def test_every_policy_selector_strategy_and_balancer_arrives_as_it_was_sent(value):
    for arrived in copies(value):
        assert same(arrived, value), (arrived, value)


@given(configs())
def test_every_setting_of_every_configuration_arrives_as_it_was_sent(config):
    assert len(SETTINGS) == 20
    for arrived in copies(config):
        for name in SETTINGS:
            assert same(getattr(arrived, name), getattr(config, name)), name


def test_a_selector_that_arrives_chooses_as_before_and_takes_turns_from_the_first():
    by = pickle.loads(pickle.dumps(PartitionSelector.by(operator.itemgetter("n"))))
    assert [by({"n": n}, 7) for n in range(9)] == [PartitionSelector.by(abs)(n, 7) for n in range(9)]
    turns = PartitionSelector.round_robin()
    assert [turns(None, 3), turns(None, 3)] == [0, 1]
    assert [arrived(None, 3) for arrived in copies(turns)] == [0] * (2 + 2 * len(PROTOCOLS))


def test_a_lambda_is_refused_by_pickle_in_its_own_words_and_sent_by_cloudpickle():
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    config = BatchQueueConfig(threads=ONE, len_of=lambda item: 7, partition_selector=PartitionSelector.by(lambda _: 1))
    with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
        pickle.dumps(config)
    for protocol in PROTOCOLS:
        arrived = cloudpickle.loads(cloudpickle.dumps(config, protocol))
        assert arrived.len_of("item") == 7
        assert arrived.partition_selector("item", 5) == config.partition_selector("item", 5)
    assert copy.copy(config).len_of is copy.deepcopy(config).len_of is config.len_of


def test_a_deep_copy_has_callables_of_its_own():
    class Consumer:
        def consume(self, batch: list[Any]) -> None: ...

    config = BatchQueueConfig(threads=ONE, consumer=Consumer())
    assert copy.copy(config).consumer is config.consumer
    assert isinstance(copy.deepcopy(config).consumer, Consumer)
    assert copy.deepcopy(config).consumer is not config.consumer


def test_a_configuration_arrives_in_a_process_that_has_not_imported_drainq():
    config = BatchQueueConfig(shared_scheduler=("pool", ONE), consumer=print, buffer_size=7)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
    there = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(config), capture_output=True, check=True)
    assert there.stdout.decode().strip() == repr(config)


@contextlib.contextmanager
def all_that_stays(make_queue: Callable[..., Any], database: Path) -> Iterator[dict[str, tuple[Any, str]]]:
    """Yield what cannot be sent, with a word of what to send instead."""
    queue = make_queue()
    many: MultiQueue[int] = MultiQueue()
    sub = many.add_sub_queue("key")
    awaitable = many.get_async()
    delayed = DelayedQueue.open("memory:", "pickling")
    source = PrefetchSource(lambda n: [], 4, 1)
    handle = delayed.cron.install_periodic_tick("minute", 60.0, lambda at: "tick")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t (a)")
    workers = {
        "BatchWriter": BatchWriter(url=f"sqlite:///{database}", table="t", columns=["a"]),
        "TopN": TopN(3, score=len, sink=print),
    }
    values = {
        "BatchQueue": (queue, "BatchQueueConfig"),
        "MultiQueue": (many, "settings of its sub-queues"),
        "SubQueue": (sub, "capacity and weight"),
        "QueueAwaitable": (awaitable, "what awaiting it returns"),
        "SetQueue": (SetQueue(), "make a SetQueue"),
        "ExponentialHistogram": (DDSketch().exponential(), "the sketch"),
        "DelayedQueue": (delayed, "its URL and name"),
        "CronService": (delayed.cron, "the URL and name"),
        "CronHandle": (handle, "the schedule"),
        "PrefetchSource": (source, "its settings"),
        "SourceScheduler": (SourceScheduler({"a": source}, print, Fair("a")), "its settings"),
        **{name: (worker, "its settings") for name, worker in workers.items()},
    }
    try:
        yield values
    finally:
        awaitable.close()
        handle.close()
        delayed.close()
        for worker in workers.values():
            worker.close()


def test_what_cannot_be_sent_says_in_one_sentence_why_and_what_to_send_instead(make_queue, tmp_path):
    with all_that_stays(make_queue, tmp_path / "t.db") as values:
        for name, (value, instead) in values.items():
            for attempt in (
                pickle.dumps,
                copy.copy,
                copy.deepcopy,
                *(lambda v, p=p: pickle.dumps(v, p) for p in (0, 2)),
            ):
                with pytest.raises(TypeError) as refusal:
                    attempt(value)
                said = str(refusal.value)
                assert said.startswith(f"{name!r} object cannot be pickled or copied: "), said
                assert instead in said.partition("; send ")[2], said
                assert "\n" not in said and ". " not in said, "one sentence"
