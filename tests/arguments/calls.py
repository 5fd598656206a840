"""The table of public calls: the makers of each call (``makers.py``), and the kind of value of each parameter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from drainq import Backoff, BatchQueue, MultiQueue, PartitionPolicy, PartitionSelector, SetQueue, ThreadPolicy
from drainq.columns import GroupBy
from drainq.delayed import ConnectionPool, DelayedQueue, RetryConfig, TimeConfig
from drainq.export import OtlpMetricsExporter, RemoteClient, RemoteServer, SkyWalkingMetricsExporter
from drainq.monitoring import MetricsServer, watch
from drainq.sketch import DDSketch
from drainq.sources import ItemTracker, Weighted
from drainq.sources.tracker.store import MemoryStore
from drainq.sql import Database
from drainq.testing import ManualClock

from .makers import (
    ONE,
    aggregator,
    close_handle,
    closed,
    config,
    end_managed,
    in_manager,
    parking,
    persister,
    prefetch,
    scheduler,
    top_n,
    with_async_queue,
    with_cron,
    with_delayed,
    with_handlers,
    with_message,
    with_multi,
    with_queue,
    with_scheduler,
    with_set_queue,
    with_source,
    with_stats,
    with_sub_queue,
    writer,
)

NAN = float("nan")


async def never_run(*_: object) -> None:
    """Makes a coroutine that no code waits for."""


def takes_four(one: object, two: object, three: object, four: object) -> None:
    """Takes four arguments, more than drainq passes to any callable."""


WRONG: dict[str, list[Any]] = {
    "seconds": ["1s", None, True, NAN, -1, -0.5, [1], float("-inf")],
    "seconds or None": ["1s", True, NAN, -1, [1]],
    "positive seconds": ["1s", None, True, NAN, -1, 0],
    "count": ["2", None, True, 1.5, 0, -1, NAN],
    "count or None": ["2", 1.5, 0, -1],
    "retries": ["2", True, 1.5, -1],
    "scale": ["2", 1.5, True, -11, 2**40],
    "port": ["80", 1.5, -1, True, 2**16],
    "endpoint": [None, 3, ""],
    "whole": ["2", None, True, 1.5],
    "whole from 0": ["2", None, 1.5, -1],
    "number": ["x", None, [1], NAN],
    "weight": ["x", None, True, NAN, 0, -1, float("inf")],
    "fraction": ["x", None, NAN, -0.1, 1.1],
    "text": [None, 3, b"x"],
    "table": [None, 3, b"x"],
    "text or None": [3, b"x"],
    "name": [None, 3, "", "a\x00b"],
    "items": ["abc", b"abc", bytearray(b"abc"), 3, None],
    "flag": [None, 3, "yes"],
    "callable": [3, "x", never_run, takes_four],
    "needed callable": [3, "x", None, never_run, takes_four],
    "source": [3, None, never_run, takes_four],
    "report": [None, 3, "", never_run, takes_four],
    "threads": ["2", 1.5, 0, -1, True, 10**6],
    "partitions": ["2", 1.5, 0, -1, True, 2**40],
    "strategy": ["wait", None, 3, ""],
    "selector": ["rr", 3],
    "shared": ["io", ("io",), ("io", 1, 2), (3, 1), ("io", "x"), ("io", 0), ("", 1)],
    "config": [{}, 3, len],
    "handlers": [3, [len], "x"],
    "backoff": [3, "x"],
    "in_flight": [None, "keep", 3],
    "clock": [3, "now", time.time],
    "store": [None, 3, {}],
    "codec": [3, "json"],
    "key": [None, 3, "", "k" * 201],
    "key or None": [3, "", "k" * 201],
    "when": ["now", None, NAN, True, 1e308, -1e308, 10**30],
    "priority": ["high", None, 1.5, 2**40],
    "url": ["", "foo", "redis://x", 3],
    "time config": [5, "x"],
    "names": ["abc", [], 3],
    "keys": ["k", 3],
    "keys or None": ["k", 3, 0, ""],
    "needed keys": ["k", 3, 0, None, []],
    "merge": [3, "sum", ["sum"], 0, ""],
    "payload": [{1, 2}, frozenset({1}), b"x"],
}
"""Wrong values for each kind of parameter."""

SECONDS = {"seconds", "seconds or None", "positive seconds"}
"""The kinds that a timedelta must do for."""


CALLS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "Backoff": (Backoff, {"initial": "seconds", "maximum": "seconds", "factor": "number", "jitter": "fraction"}),
    "BatchQueue": (lambda **named: BatchQueue(**{**ONE, **named}).shutdown(), {"name": "name", "config": "config", "handlers": "handlers"}),
    "BatchQueue.add_handler": (with_handlers("add_handler", str), {"handler": "needed callable"}),
    "BatchQueue.add_handler (weight)": (with_handlers("add_handler", str, len), {"weight": "weight"}),
    "BatchQueue.handler": (with_handlers("handler", str), {"weight": "weight"}),
    "BatchQueue.flush": (with_queue("flush"), {"timeout": "seconds or None"}),
    "BatchQueue.flush_async": (with_queue("flush_async"), {"timeout": "seconds or None"}),
    "BatchQueue.offer": (with_queue("offer", 1), {"timeout": "seconds or None"}),
    "BatchQueue.offer_async": (with_queue("offer_async", 1), {"timeout": "seconds or None"}),
    "BatchQueue.produce_many": (lambda items: with_queue("produce_many", items)(), {"items": "items"}),
    "BatchQueue.produce_many_async": (
        lambda items: with_queue("produce_many_async", items)(), {"items": "items"}
    ),
    "BatchQueue.remove_handler": (with_queue("remove_handler", str), {"timeout": "seconds or None"}),
    "BatchQueue.shutdown": (with_queue("shutdown"), {"timeout": "seconds or None"}),
    "BatchQueue.shutdown_async": (with_queue("shutdown_async"), {"timeout": "seconds or None"}),
    "BatchQueueConfig": (
        config,
        {
            "threads": "threads", "shared_scheduler": "shared", "partitions": "partitions", "buffer_size": "count",
            "capacity": "count or None",
            "partition_selector": "selector", "dispatch_key": "callable", "strategy": "strategy",
            "consumer": "callable", "on_error": "callable", "on_drop": "callable", "len_of": "callable",
            "min_idle": "seconds", "max_idle": "seconds", "linger": "seconds", "max_batch": "count",
            "shutdown_timeout": "seconds or None", "rebalance_interval": "positive seconds", "balancer": "callable",
            "loop": "callable",
        },
    ),
    "BatchQueueManager.create": (in_manager("create", **ONE), {"name": "name", "config": "config", "handlers": "handlers"}),
    "BatchQueueManager.get_or_create": (in_manager("get_or_create", **ONE), {"name": "name", "config": "config", "handlers": "handlers"}),
    "BatchQueueManager.get": (in_manager("get"), {"name": "text"}),
    "BatchQueueManager.shutdown": (end_managed, {"name": "text", "timeout": "seconds or None", "missing_ok": "flag"}),
    "BatchQueueManager.shutdown_all": (in_manager("shutdown_all"), {"timeout": "seconds or None"}),
    "BatchQueueStats.partition_used": (with_stats("partition_used"), {"index": "whole"}),
    "BatchQueueStats.partition_used_percentage": (with_stats("partition_used_percentage"), {"index": "whole"}),
    "BatchQueueStats.top_n": (with_stats("top_n"), {"n": "whole from 0"}),
    "DDSketch": (DDSketch, {"relative_accuracy": "weight", "max_buckets": "count or None"}),
    "DDSketch.add": (lambda **named: DDSketch().add(**{"value": 1, **named}), {"value": "number", "count": "count"}),
    "DDSketch.exponential": (DDSketch().exponential, {"scale": "scale"}),
    "DDSketch.quantile": (DDSketch().quantile, {"q": "fraction"}),
    "GroupBy": (
        lambda **named: GroupBy(["a"], {"b": "sum"}, **named),
        {"max_groups": "count or None", "relative_accuracy": "weight"},
    ),
    "ItemTracker.close": (ItemTracker.open("memory:").close, {"timeout": "seconds or None"}),
    "monitoring.WatchedObject.close": (watch(MultiQueue(), "closed").close, {"timeout": "seconds or None"}),
    "ItemTracker.purge": (ItemTracker.open("memory:").purge, {"older_than": "seconds"}),
    "ItemTracker": (
        lambda **named: ItemTracker(**{"store": MemoryStore(), **named}), {"store": "store", "clock": "clock"},
    ),
    "ItemTracker.open": (ItemTracker.open, {"url": "url"}),
    "MetricsServer": (lambda **named: MetricsServer(**{"port": 0, **named}).close(), {"port": "port", "host": "text"}),
    "MultiQueue.add_sub_queue": (
        lambda **named: MultiQueue().add_sub_queue("a", **named),
        {"unique": "callable", "priority": "whole", "capacity": "count or None", "weight": "count", "enabled": "flag", "exist_ok": "flag"},
    ),
    "MultiQueue.get": (with_multi("get"), {"block": "flag", "timeout": "seconds or None"}),
    "MultiQueue.get_item": (with_multi("get_item"), {"block": "flag", "timeout": "seconds or None"}),
    "MultiQueue.get_many": (with_multi("get_many", 2), {"min_items": "whole from 0", "timeout": "seconds or None"}),
    "MultiQueue.get_many (n)": (with_multi("get_many"), {"n": "whole"}),
    "MultiQueue.get_many_async": (
        with_multi("get_many_async", 2), {"min_items": "whole from 0", "timeout": "seconds or None"},
    ),
    "MultiQueue.get_many_async (n)": (with_multi("get_many_async"), {"n": "whole"}),
    "MultiQueue.get_async": (with_multi("get_async"), {"timeout": "seconds or None"}),
    "MultiQueue.get_item_async": (with_multi("get_item_async"), {"timeout": "seconds or None"}),
    "MultiQueue.join": (with_multi("join"), {"timeout": "seconds or None"}),
    "MultiQueue.join_async": (with_multi("join_async"), {"timeout": "seconds or None"}),
    "MultiQueue.shutdown": (with_multi("shutdown"), {"immediate": "flag"}),
    "PartitionPolicy.adaptive": (PartitionPolicy.adaptive, {"multiplier": "count"}),
    "PartitionPolicy.fixed": (PartitionPolicy.fixed, {"count": "count"}),
    "PartitionPolicy.thread_multiply": (PartitionPolicy.thread_multiply, {"multiplier": "count"}),
    "PartitionPolicy.resolve": (
        lambda **named: PartitionPolicy.adaptive().resolve(**{"threads": 1, **named}),
        {"threads": "whole from 0", "weighted_handlers": "number"},
    ),
    "PartitionSelector.by": (PartitionSelector.by, {"key": "needed callable"}),
    "PrefetchSource": (
        prefetch,
        {
            "capacity": "whole", "replenish_threshold": "whole from 0", "max_capacity": "count or None",
            "ttl": "seconds or None", "min_interval": "seconds", "backoff": "backoff", "in_flight": "in_flight",
            "clock": "clock", "key": "callable", "on_error": "report", "name": "text or None", "executor": "clock", "source": "source",
        },
    ),
    "monitoring.MetricsServer.close": (closed(lambda: MetricsServer(port=0), "close"), {"timeout": "seconds or None"}),
    "sql.Database.close": (closed(lambda: Database("sqlite:////dev/null"), "close"), {"timeout": "seconds or None"}),
    "PrefetchSource.close": (with_source("close"), {"timeout": "seconds or None"}),
    "PrefetchSource.wait": (with_source("wait"), {"timeout": "seconds or None"}),
    "PrefetchSource.get_next_batch": (with_source("get_next_batch"), {"batch_size": "whole from 0"}),
    "SetQueue": (
        SetQueue,
        {
            "capacity": "count or None", "key": "callable", "in_flight": "in_flight", "ttl": "seconds or None",
            "clock": "clock",
        },
    ),
    "SetQueue.get": (with_set_queue("get"), {"block": "flag", "timeout": "seconds or None"}),
    "SetQueue.get_many": (
        with_set_queue("get_many", 2), {"min_items": "whole from 0", "timeout": "seconds or None"},
    ),
    "SetQueue.get_many (n)": (with_set_queue("get_many"), {"n": "whole"}),
    "SetQueue.get_many_async": (
        with_set_queue("get_many_async", 2), {"min_items": "whole from 0", "timeout": "seconds or None"},
    ),
    "SetQueue.get_many_async (n)": (with_set_queue("get_many_async"), {"n": "whole"}),
    "SetQueue.get_async": (with_set_queue("get_async"), {"timeout": "seconds or None"}),
    "SetQueue.put_async": (with_set_queue("put_async", 2), {"timeout": "seconds or None"}),
    "SetQueue.put": (with_set_queue("put", 2), {"block": "flag", "timeout": "seconds or None"}),
    "SetQueue.done": (with_set_queue("done"), {"items": "items"}),
    "SetQueue.put_many (items)": (with_set_queue("put_many"), {"items": "items"}),
    "SetQueue.put_many": (with_set_queue("put_many", [2]), {"block": "flag", "timeout": "seconds or None"}),
    "SetQueue.join": (with_set_queue("join"), {"timeout": "seconds or None"}),
    "SetQueue.join_async": (with_set_queue("join_async"), {"timeout": "seconds or None"}),
    "SetQueue.shutdown": (with_set_queue("shutdown"), {"immediate": "flag"}),
    "SourceScheduler": (
        scheduler,
        {
            "batch_size": "count", "target": "needed callable", "item_key": "needed callable", "on_error": "callable",
            "backlog": "callable",
        },
    ),
    "SourceScheduler.add_source": (with_scheduler("add_source", "c", iter([])), {"timeout": "seconds or None"}),
    "SourceScheduler.remove_source": (with_scheduler("remove_source", "b"), {"timeout": "seconds or None"}),
    "SourceScheduler.close": (with_scheduler("close"), {"timeout": "seconds or None"}),
    "SourceScheduler.join": (with_scheduler("join"), {"timeout": "seconds or None"}),
    "SubQueue.put_many (items)": (with_sub_queue("put_many"), {"items": "items"}),
    "SubQueue.put_async": (with_sub_queue("put_async", 1), {"timeout": "seconds or None"}),
    "SubQueue.put": (with_sub_queue("put", 1), {"block": "flag", "timeout": "seconds or None"}),
    "SubQueue.put_many": (with_sub_queue("put_many", [1]), {"block": "flag", "timeout": "seconds or None"}),
    "SubQueue.enable": (with_sub_queue("enable"), {"reason": "text or None"}),
    "SubQueue.disable": (with_sub_queue("disable"), {"reason": "text"}),
    "ThreadPolicy.fixed": (ThreadPolicy.fixed, {"count": "count"}),
    "ThreadPolicy.cpu_cores": (ThreadPolicy.cpu_cores, {"multiplier": "weight"}),
    "ThreadPolicy.cpu_cores_with_base": (
        lambda **named: ThreadPolicy.cpu_cores_with_base(**{"base": 1, "multiplier": 1.0, **named}),
        {"base": "whole from 0", "multiplier": "number"},
    ),
    "Weighted": (lambda weight: Weighted({"a": weight}), {"weight": "weight"}),
    "delayed.DelayedQueue.open": (
        lambda **named: DelayedQueue.open(**{"url": "memory:", **named}).close(),
        {
            "url": "url", "queue": "name", "codec": "codec", "time": "time config", "retry": "time config",
            "clock": "clock", "max_attempts": "count or None", "notify": "flag", "database_time": "flag",
            "history": "count or None", "table": "text",
        },
    ),
    "delayed.DelayedQueue.offer_or_update": (
        lambda **named: with_delayed("offer_or_update")(**{"key": "k", "payload": 1, "schedule_at": 0, **named}),
        {"key": "key", "schedule_at": "when", "priority": "priority", "max_attempts": "count or None", "group": "key or None", "payload": "payload"},
    ),
    "delayed.DelayedQueue.offer_if_not_exists": (
        lambda **named: with_delayed("offer_if_not_exists")(**{"key": "k", "payload": 1, "schedule_at": 0, **named}),
        {"key": "key", "schedule_at": "when", "priority": "priority", "max_attempts": "count or None", "group": "key or None"},
    ),
    "delayed.DelayedQueue.poll": (with_delayed("poll"), {"timeout": "seconds or None"}),
    "delayed.DelayedQueue.purge_dead": (with_delayed("purge_dead"), {"older_than": "seconds"}),
    "delayed.DelayedQueue.peek": (with_delayed("peek"), {"limit": "count"}),
    "delayed.DelayedQueue.offer": (with_delayed("offer", "key", 1), {"delay": "seconds or None", "max_attempts": "count or None"}),
    "delayed.DelayedQueue.history": (with_delayed("history"), {"limit": "count", "key": "key or None"}),
    "delayed.DelayedQueue.dead_letters": (with_delayed("dead_letters"), {"limit": "count"}),
    "delayed.DelayedQueue.redrive": (with_delayed("redrive"), {"keys": "keys"}),
    "delayed.DelayedQueue.consume": (
        with_delayed("consume", len),
        {"prefetch": "count", "batch_size": "count", "max_attempts": "count or None"},
    ),
    "delayed.DelayedQueue.consume (time_limit)": (
        lambda **named: with_delayed("consume", len)(until="empty", **named), {"time_limit": "seconds or None"}
    ),
    "delayed.DelayedQueue.consume (handler)": (with_delayed("consume"), {"handler": "needed callable"}),
    "delayed.AckEnvelope.nack": (with_message("nack"), {"delay": "seconds"}),
    "delayed.AckEnvelope.snooze": (with_message("snooze"), {"delay": "seconds"}),
    "delayed.DelayedQueue.release": (with_delayed("release"), {"older_than": "seconds or None"}),
    "delayed.DelayedQueue.reschedule": (with_delayed("reschedule", "key"), {"delay": "seconds or None"}),
    "delayed.AckEnvelope.extend": (with_message("extend"), {"seconds": "seconds"}),
    "delayed.DelayedQueue.poll_async": (with_async_queue("poll_async"), {"timeout": "seconds or None"}),
    "delayed.DelayedQueue.close": (with_delayed("close"), {"timeout": "seconds or None"}),
    "delayed.ConnectionPool": (
        lambda **more: ConnectionPool("sqlite:////dev/null", **more),
        {"try_timeout": "seconds or None"},
    ),
    "delayed.ConnectionPool.close": (closed(lambda: ConnectionPool("sqlite:////dev/null"), "close"), {"timeout": "seconds or None"}),
    "delayed.AckEnvelope.nack_async": (with_async_queue("nack_async"), {"delay": "seconds"}),
    "delayed.CronHandle.close": (close_handle, {"timeout": "seconds or None"}),
    "delayed.to_delayed_queue": (parking, {"delay": "seconds"}),
    "delayed.CronService.close": (with_cron("close"), {"timeout": "seconds or None"}),
    "delayed.CronService.install": (
        lambda **named: with_cron("install")(
            **{"config_hash": "h", "key_prefix": "p", "schedule_interval": 60, "generate_many": lambda now: [], **named}
        ),
        {"schedule_interval": "positive seconds", "generate_many": "needed callable"},
    ),
    "delayed.CronService.install_periodic_tick": (
        lambda **named: with_cron("install_periodic_tick")(
            **{"key_prefix": "p", "period": 60, "payload_of": lambda at: 1, **named}
        ),
        {"key_prefix": "name", "period": "positive seconds", "payload_of": "needed callable"},
    ),
    "delayed.TimeConfig": (TimeConfig, {"acquire_timeout": "positive seconds", "poll_period": "positive seconds"}),
    "delayed.RetryConfig": (
        RetryConfig,
        {
            "backoff": "backoff", "max_retries": "retries",
            "total_timeout": "seconds or None", "try_timeout": "seconds or None",
        },
    ),
    "workers.TopN": (
        closed(top_n),
        {"n": "count", "score": "needed callable", "group": "callable", "sink": "needed callable",
         "flush_interval": "seconds or None",
         "clock": "clock"},
    ),
    "workers.TopN.flush": (closed(top_n, "flush"), {"timeout": "seconds or None"}),
    "workers.TopN.close": (closed(top_n, "close"), {"timeout": "seconds or None"}),
    "workers.MetricsAggregator": (
        closed(aggregator),
        {"key": "needed callable", "merge": "needed callable", "sink": "needed callable",
         "flush_interval": "seconds or None", "expire_after": "seconds or None", "weight": "weight",
         "clock": "clock"},
    ),
    "workers.BatchWriter": (
        writer,
        {"url": "url", "columns": "names", "threads": "count", "retry_for": "seconds", "key": "keys or None",
         "table": "table"},
    ),
    "workers.MetricsPersister": (
        persister,
        {"url": "url", "columns": "names", "flush_interval": "seconds or None", "retry_for": "seconds",
         "key": "needed keys", "merge": "merge", "table": "table"},
    ),
    "export.OtlpMetricsExporter": (
        closed(lambda **named: OtlpMetricsExporter(**{"endpoint": "http://127.0.0.1:1", "insecure": True, **named})),
        {"endpoint": "endpoint", "timeout": "positive seconds", "retry_for": "seconds"},
    ),
    "export.SkyWalkingMetricsExporter": (
        closed(lambda **named: SkyWalkingMetricsExporter(**{"endpoint": "http://127.0.0.1:1", "insecure": True, **named})),
        {"timeout": "positive seconds", "ask_every": "positive seconds", "retry_for": "seconds"},
    ),
    "export.RemoteClient": (
        closed(lambda **named: RemoteClient(**{"address": "127.0.0.1:1", **named})),
        {"timeout": "positive seconds", "retry_for": "seconds", "window": "count", "batch_size": "count",
         "key": "callable"},
    ),
    "export.RemoteServer.close": (
        closed(lambda: RemoteServer(address="127.0.0.1:0", handler=len, insecure=True), "close"),
        {"timeout": "seconds or None"},
    ),
    "monitoring.watch": (
        lambda **named: watch(MultiQueue(), **{"name": "watched", **named}).close(),
        {"name": "name", "interval": "positive seconds"},
    ),
    "testing.ManualClock": (ManualClock, {"start": "number"}),
    "testing.ManualClock.advance": (ManualClock().advance, {"by": "number"}),
}  # fmt: skip
"""For each public call how it is made with one parameter given, and the kinds of its parameters."""
