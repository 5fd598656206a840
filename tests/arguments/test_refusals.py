"""Refusals name the parameter, tell what to pass, and show the value."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import inspect
import math
import pickle
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from drainq import (
    BatchQueue,
    BatchQueueConfig,
    BufferStrategy,
    DrainqError,
    MultiQueue,
    PartitionPolicy,
    SetQueue,
    ShutDown,
    SubQueue,
    ThreadPolicy,
    stop_on_sigterm,
)
from drainq.arguments import seconds
from drainq.batch_config import queue_config
from drainq.delayed import CronDailySchedule, DelayedQueue, RetryConfig, ScheduledMessage
from drainq.delayed.storage.postgres.pool import PostgresPool
from drainq.delivery.payload import pack
from drainq.export import RemoteClient
from drainq.monitoring import MetricsServer, instrument
from drainq.sketch import DDSketch
from drainq.sources import Fair, PrefetchSource, SourceScheduler, Weighted
from drainq.sql.quoting import quote
from drainq.timer import Timer
from drainq.workers import BatchWriter, MetricsAggregator, MetricsPersister, WorkerOptions

from .calls import CALLS, SECONDS, WRONG
from .makers import batch_queue

VALUES = {"key", "group", "keys", "payload"}
"""What a delayed queue takes that may be of a program's users: a refusal shows its type or length."""


def shows(message: str, value: Any) -> bool:
    """Return whether a message shows a value, in Python's words or in Rust's."""
    if isinstance(value, float) and math.isnan(value):
        return "nan" in message.lower()
    if isinstance(value, str):
        return repr(value) in message or f'"{value}"' in message or value[:40] in message
    return repr(value) in message or (isinstance(value, tuple) and any(repr(part) in message for part in value))


def test_the_table_asks_hundreds_of_questions():
    assert sum(len(WRONG[kind]) for _, parameters in CALLS.values() for kind in parameters.values()) > 500


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_value_is_refused_by_name_and_shown(name, subtests):
    call, parameters = CALLS[name]
    for parameter, value in [(parameter, value) for parameter, kind in parameters.items() for value in WRONG[kind]]:
        with subtests.test(parameter=parameter, value=getattr(value, "__name__", repr(value))[:60]):
            with pytest.raises((TypeError, ValueError)) as refusal:
                call(**{parameter: value})
            message = str(refusal.value)
            assert parameter in message.replace(" ", "_"), message
            if name.startswith("delayed.") and parameter in VALUES:
                assert any(part in message for part in (type(value).__name__, f"got {len(str(value))}")), message
            else:
                assert shows(message, value), message


def test_a_timedelta_is_taken_wherever_seconds_are(subtests, monkeypatch):
    monkeypatch.setattr("sys.setswitchinterval", lambda seconds: None)
    value = timedelta(milliseconds=20)
    for name, (call, parameters) in CALLS.items():
        for parameter in [parameter for parameter, kind in parameters.items() if kind in SECONDS]:
            if name.startswith("workers.") or parameter == "older_than":
                continue
            with subtests.test(name=name, parameter=parameter):
                try:
                    call(**{parameter: value})
                except ValueError as refusal:  # what does not go together with the other parameters
                    named = str(refusal)
                    assert parameter not in named.split(" must ")[0] or "initial" in named or "in_flight" in named


@pytest.mark.parametrize(
    ("parameter", "call"),
    [
        ("linger", lambda seconds: BatchQueueConfig(threads=1, linger=seconds)),
        ("shutdown_timeout", lambda seconds: BatchQueueConfig(threads=1, shutdown_timeout=seconds)),
        ("ttl", lambda seconds: SetQueue(in_flight="ttl", ttl=seconds)),
    ],
)
@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (1e308, r"must be at most 1\.8446744073709552e19 seconds, got 1e308"),
        (float("inf"), r"must be at most 1\.8446744073709552e19 seconds, got inf"),
        (-1e308, "must be a number of seconds >= 0, got -1e308"),
    ],
)
def test_a_time_that_is_out_of_range_is_shown_in_short_beside_its_limit(parameter, call, seconds, message):
    with pytest.raises(ValueError, match=f"^{parameter} {message}$"):
        call(seconds)


def test_a_plain_value_does_where_it_can_mean_one_thing_only():
    config = BatchQueueConfig(threads=2, partitions=4, strategy="if_possible", linger=timedelta(milliseconds=5))
    assert (config.threads, config.partitions) == (ThreadPolicy.fixed(2), PartitionPolicy.fixed(4))
    assert (config.strategy, config.linger) == (BufferStrategy.IF_POSSIBLE, 0.005)
    assert config.replace(strategy="BLOCKING").strategy == BufferStrategy.BLOCKING
    assert BatchQueueConfig(shared_scheduler=("io", 3)).shared_scheduler == ("io", ThreadPolicy.fixed(3))


@pytest.mark.parametrize(("setting", "policy"), [("threads", "ThreadPolicy"), ("partitions", "PartitionPolicy")])
def test_a_bool_where_a_policy_is_wanted_says_so(setting, policy):
    with pytest.raises(TypeError, match=f"{setting} must be a {policy}, such as .*, got True"):
        BatchQueueConfig(**{setting: True})


@pytest.mark.parametrize("call", [ThreadPolicy.fixed, MultiQueue().get_many, DDSketch, DDSketch().quantile])
@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_number_that_the_machine_cannot_hold_is_a_wrong_value_of_the_right_type(call, value):
    with pytest.raises(ValueError, match=r"must be a number (of at most 64 bits|that a float can hold), got -?10{9}"):
        call(value)


@pytest.mark.parametrize(
    "call", [lambda text: BatchQueue(text, BatchQueueConfig(threads=1)), lambda text: MetricsServer(0, host=text)]
)
def test_a_str_that_is_no_text_says_where_it_is_none(call):
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        call("a\ud800")


def test_integers_of_other_kinds_are_numbers():
    class Three:
        def __index__(self) -> int:
            return 3

    assert ThreadPolicy.fixed(Three()) == ThreadPolicy.fixed(3)


def test_a_time_is_what_is_a_float_and_not_what_is_cut_to_an_int():
    class Half:
        def __float__(self) -> float:
            return 0.5

    class Cut:
        def __int__(self) -> int:
            return 3

    assert BatchQueueConfig(threads=1, linger=Half()).linger == seconds("linger", Half()) == 0.5
    assert seconds("linger", timedelta(days=2, milliseconds=500)) == 172_800.5
    with pytest.raises(ValueError, match="^linger must "):
        seconds("linger", timedelta(seconds=-1))
    with pytest.raises(TypeError, match="^linger must be a number of seconds, or a datetime.timedelta, got "):
        seconds("linger", Cut())


def test_a_value_whose_repr_raises_is_refused_all_the_same():
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(TypeError, match="count must be a whole number .*Shy"):
        ThreadPolicy.fixed(Shy())


@pytest.mark.parametrize("call", [MultiQueue().add_sub_queue, lambda value: unnamed().add_handler(value, len)])
def test_a_name_that_cannot_be_hashed_is_refused_and_shown(call):
    class Unhashed:
        def __hash__(self) -> int:
            raise LookupError("its own")

    with pytest.raises(TypeError, match=r"(key|type) must be hashable.*got \[1\]"):
        call([1])
    with pytest.raises(LookupError, match="^its own$"):
        call(Unhashed())


def test_notify_is_refused_where_no_other_process_is():
    with pytest.raises(ValueError, match="notify must be False with MemoryStorage, got True"):
        DelayedQueue.open("memory:", "mail", notify=True)


def test_an_iterable_that_fails_raises_its_own_error():
    class Failing:
        def __iter__(self) -> Iterator[int]:
            raise LookupError("its own")

    with batch_queue() as queue, pytest.raises(LookupError, match="^its own$"):
        queue.produce_many(Failing())


def unnamed() -> BatchQueue[Any]:
    return BatchQueue("unnamed", BatchQueueConfig(threads=1, dispatch_key=str))


TIMES = {"timeout", "interval", "linger", "ttl", "older_than", "delay", "retry_for", "min_interval", "flush_interval"}


def public_calls() -> Iterator[tuple[str, set[str]]]:
    """Yield the name and the parameters of each public call, classes included."""
    for room in ("", ".delayed", ".workers", ".export", ".monitoring"):
        module = importlib.import_module(f"drainq{room}")
        for name in module.__all__:
            thing = getattr(module, name)
            calls = {name: thing}
            if isinstance(thing, type):
                calls |= {f"{name}.{part}": getattr(thing, part) for part in dir(thing) if not part.startswith("_")}
            for full, call in calls.items():
                if callable(call):
                    with contextlib.suppress(TypeError, ValueError):
                        yield f"{room[1:]}.{full}".lstrip("."), set(inspect.signature(call).parameters)


def test_each_public_time_is_in_the_table():
    asked = {(name.partition(" ")[0], parameter) for name, (_, parameters) in CALLS.items() for parameter in parameters}
    # Every worker has the flush and the close of TopN, and a batch the calls of an envelope.
    inherited = ("workers.", "export.", "delayed.AckBatch.")
    missing = [
        (name, parameter)
        for name, parameters in public_calls()
        for parameter in parameters & TIMES
        if not {(name, parameter), (name.removesuffix("_async"), parameter)} & asked  # a twin is its call
        and not name.startswith(inherited)
    ]
    assert {("BatchQueue.flush", "timeout"), ("monitoring.watch", "interval")} <= asked
    assert missing == KNOWN_ELSEWHERE


KNOWN_ELSEWHERE = [("monitoring.WatchedObject", "interval")]  # made by ``watch`` alone


def test_a_decorator_that_was_not_called_is_refused_where_it_stands():
    with batch_queue() as queue, pytest.raises(TypeError, match="type must be a class.* got <function"):

        @queue.handler
        def show(batch: list[Any]) -> None:
            """Would never be called."""


def test_a_delayed_queue_that_was_closed_cannot_be_entered():
    with DelayedQueue.open("memory:", "mail") as queue:
        pass
    with pytest.raises(ShutDown, match="'mail' is closed"), queue:
        pass


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(DrainqError, match=r"x\.db'; there is no directory '.*nowhere'"):
        DelayedQueue.open(f"sqlite:///{tmp_path}/nowhere/x.db", "mail")


def test_a_strategy_and_a_meter_provider_of_another_kind_are_named():
    with pytest.raises(TypeError, match="weights must map .* got 'x'"):
        Weighted("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="meter_provider must be .* got 3"):
        instrument(3)
    with pytest.raises(TypeError, match="source must be .* got 3"):
        PrefetchSource(3, capacity=2, replenish_threshold=1)  # type: ignore[arg-type]


def on_a_thread(call: Any) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


TABLE = {"table": "t", "columns": ["a"]}
NO_TRIES = RetryConfig(max_retries=0)
HELPED = [
    (
        lambda _: BatchWriter(url="sqlite:///x.db", retry=5, **TABLE),
        "BatchWriter has no setting 'retry': did you mean 'retry_for'?",
    ),
    (
        lambda _: BatchWriter("sqlite:///x.db", **TABLE),
        "BatchWriter takes arguments by name, got 1 without: write url=",
    ),
    (lambda _: RemoteClient("h:1"), "RemoteClient takes arguments by name, got 1 without: write address="),
    (lambda _: WorkerOptions(bufer_size=3), "WorkerOptions has no setting 'bufer_size': did you mean 'buffer_size'?"),
    (
        lambda _: BatchQueueConfig(bufer_size=3),
        "BatchQueueConfig has no setting 'bufer_size': did you mean 'buffer_size'?",
    ),
    (
        lambda _: BatchQueueConfig(colour=3),
        "BatchQueueConfig has no setting 'colour': the settings are threads, ",
    ),
    (
        lambda _: DelayedQueue.open("memory:", max_attempt=3),
        "DelayedQueue.open has no setting 'max_attempt': did you mean 'max_attempts'?",
    ),
    (
        lambda _: DelayedQueue("sqlite:///x.db"),
        "settings must be QueueSettings, got None: DelayedQueue.open(url, queue) opens a queue",
    ),
    (
        lambda _: DelayedQueue("sqlite:///x.db", "mail"),
        "settings must be QueueSettings, got 'mail': DelayedQueue.open(url, queue) opens a queue",
    ),
    (
        lambda _: DelayedQueue.open("memory://"),
        "url must be 'memory:' for a queue in memory, which has no address, got 'memory://'",
    ),
    (
        lambda queue: queue.offer_batch(ScheduledMessage("k", 1)),
        "messages must be a list of ScheduledMessage objects, got one ScheduledMessage: pass [message]",
    ),
    (lambda queue: queue.offer(5, 1), "a key must be a str, got an int"),
    (
        lambda queue: queue.offer_batch([("k", 1)]),
        "message 0 of the batch: a batch holds ScheduledMessage objects, got a tuple",
    ),
    (
        lambda queue: asyncio.run(queue.consume_async(print)),
        "got <built-in function print>: write async def, or use consume",
    ),
    (
        lambda _: DelayedQueue.open("postgresql://me:secret@127.0.0.1:1/d", "mail", retry=NO_TRIES),
        "the database of queue 'mail' does not work now; retry=RetryConfig(...) says how long to try. Giving up after 0 retries: ",
    ),
    (
        lambda _: on_a_thread(stop_on_sigterm),
        "stop_on_sigterm() must be called on the main thread, where the program begins",
    ),
    (lambda _: SetQueue(in_flight=True), "in_flight must be 'forget', 'ack' or 'ttl', got True"),
    (lambda _: SubQueue("x"), "a SubQueue is made by MultiQueue().add_sub_queue(key)"),
    (
        lambda _: queue_config(BatchQueueConfig(threads=2), {"threads": None}),
        "give exactly one of threads=ThreadPolicy... and shared_scheduler=(name, ThreadPolicy...), got neither",
    ),
    (
        lambda queue: queue.cron.install_cron("p", 5, print),
        "a cron expression is a str such as '*/5 * * * *', got 5",
    ),
    (
        lambda _: CronDailySchedule(3, [time(10)]),
        "a time zone must be a name such as 'Europe/Bucharest' or a ZoneInfo, got 3",
    ),
    (lambda _: DelayedQueue.open("memory:", table=" "), "a table name must not be blank, got ' '"),
    (
        lambda _: PostgresPool(None, try_timeout=1, max_connections=1, prepare=3),
        "prepare must be True, False or None, got 3",
    ),
    (lambda _: Timer(most=0), "most must be at least 1, got 0"),
    (lambda _: quote(3), "the name of a table or column must be a str, got 3"),
    (
        lambda _: pack(time(1, tzinfo=ZoneInfo("UTC"))),
        "a time of day in a named zone cannot be kept in a delayed queue",
    ),
    (
        lambda _: MetricsPersister(url="sqlite:///x.db", key=["k"], merge={}, time=len, **TABLE),
        "time and expire_after belong together, got time=<built-in function len>, expire_after=None",
    ),
    (
        lambda _: PrefetchSource(print, capacity=2, replenish_threshold=1).subscribe(3),
        "a listener must be a callable without arguments, got 3",
    ),
    (
        lambda queue: pickle.dumps(queue.cron),
        "its schedules run in this process; send the URL and name of its queue, and take cron of that",
    ),
    (
        lambda _: pickle.dumps(MetricsAggregator(key=len, merge=max, sink=print, flush_interval=None)),
        "its items and books belong to this process; send its settings, and make a worker where it is used",
    ),
    (
        lambda _: copy.copy(PrefetchSource(print, capacity=2, replenish_threshold=1)),
        "its items and its refills belong to this process; send its settings, and make a PrefetchSource where it is used",
    ),
    (
        lambda _: copy.copy(SourceScheduler({"x": print}, print, Fair("x"))),
        "its thread belongs to this process; send its settings, and make a SourceScheduler where it is used",
    ),
    (
        lambda queue: copy.copy(queue.cron.install("h", "own", 60, lambda now: [])),
        "its timer belongs to this process; send the schedule, and install it where it is to run",
    ),
]


def test_a_refusal_names_what_the_program_called_and_what_to_write_instead(monkeypatch):
    monkeypatch.setattr("signal.getsignal", lambda number: signal.SIG_DFL)
    missing = []
    with DelayedQueue.open("memory:") as queue:
        for call, told in HELPED:
            try:
                call(queue)
            except (TypeError, ValueError, DrainqError) as refusal:
                if told not in str(refusal):
                    missing.append((told, str(refusal)))
            else:
                missing.append((told, "is accepted"))
    assert missing == []
