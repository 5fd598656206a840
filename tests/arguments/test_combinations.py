"""Arguments of which each is right, and which do not go together; and limits that the table of single arguments leaves out."""

from __future__ import annotations

from collections.abc import Callable

from drainq import BatchQueue, BatchQueueConfig, MultiQueue, SetQueue, ThreadPolicy
from drainq.delayed import DelayedQueue, RetryConfig
from drainq.monitoring import MetricsServer
from drainq.sketch import DDSketch
from drainq.sources import Fair, PrefetchSource, SourceScheduler


def config(**named: object) -> BatchQueueConfig:
    return BatchQueueConfig(threads=ThreadPolicy.fixed(1), **named)  # type: ignore[arg-type]


def prefetch(**named: object) -> object:
    return PrefetchSource(lambda n: [], 4, 1, **named)  # type: ignore[arg-type]


def scheduler(**named: object) -> object:
    return SourceScheduler({"x": iter(())}, print, Fair("x"), **named)  # type: ignore[arg-type]


def queue(call: Callable[[DelayedQueue], object], **named: object) -> object:
    with DelayedQueue.open("memory:", **named) as opened:  # type: ignore[arg-type]
        return call(opened)


def weighed(rows: object) -> object:
    with BatchQueue("weighed", config(len_of=lambda item: rows)) as queue:
        return queue.produce("x")


ROWS: list[tuple[Callable[[], object], str]] = [
    (lambda: config(capacity=2**30 + 1), "capacity"),
    (lambda: config(buffer_size=2**62), f"buffer_size must be at most {2**30} items, got {2**62}"),
    (lambda: config(max_batch=2**62), "max_batch"),
    (lambda: config(max_idle=0.0001), "max_idle"),
    (lambda: ThreadPolicy.cpu_cores_with_base(0, 0.0), "got 0"),
    (lambda: weighed(-1), "len_of must say"),
    (lambda: weighed(1.5), "a whole number from 0 to 2147483647, got 1.5"),
    (lambda: weighed(2**31), "got 2147483648"),
    (lambda: SetQueue(in_flight="ttl"), "needs ttl="),
    (lambda: SetQueue(ttl=1.0), "needs in_flight="),
    (lambda: MultiQueue().get_many(3, min_items=4), "min_items must be 0 to n (3) items, got 4"),
    (lambda: prefetch(on_error="ignore"), "on_error"),
    (lambda: prefetch(max_capacity=3), "max_capacity must be >= capacity (4), got 3"),
    (lambda: prefetch(in_flight="ttl"), "ttl"),
    (lambda: prefetch(min_interval=float("inf")), "got inf"),
    (lambda: scheduler(backlog=lambda: 0), "go together"),
    (lambda: scheduler(max_backlog=3), "go together"),
    (lambda: scheduler(backlog=lambda: 0, max_backlog=0), "got 0"),
    (lambda: scheduler(backlog=lambda: 0, max_backlog=5, resume_backlog=5), "below max_backlog"),
    (lambda: scheduler(resume_backlog=5), "got 5"),
    (lambda: scheduler(backlog=lambda: 0, max_backlog="3"), "max_backlog must be a number of items, got '3'"),
    (lambda: scheduler(idle=3), "idle must be a drainq.Backoff"),
    (lambda: scheduler(tracker=3), "tracker must be an ItemTracker"),
    (lambda: prefetch(executor=3), "such as ThreadPoolExecutor(1)"),
    (lambda: RetryConfig(try_timeout=float("inf")), "try_timeout"),
    (lambda: queue(len, table="x" * 39), "table"),
    (lambda: queue(len, table="sqlite_x"), "table"),
    (lambda: queue(lambda q: q.consume(print, stop=object())), "is_set"),
    (lambda: queue(lambda q: q.offer_or_update("é" * 201, 1, 0)), "a key must have 1 to 200 characters, got 201"),
    (lambda: queue(lambda q: q.cron.install_tick("", "p", [])), "config_hash"),
    (lambda: queue(lambda q: q.cron.install_tick("h", "p" * 180, [])), "200"),
    (lambda: queue(lambda q: q.cron.uninstall_tick("h", "p\0")), "key_prefix"),
    (lambda: queue(lambda q: q.cron.install("h", "p", 60, lambda a, b: 1)), "generate_many"),
    (lambda: queue(lambda q: q.cron.install("h", "p", 0, lambda now: [])), "got 0"),
    (lambda: queue(lambda q: q.cron.install_periodic_tick("p", 1e-5, lambda at: 1)), "period"),
    (lambda: queue(lambda q: q.cron.install_periodic_tick("p", 60, lambda at: 1, catch_up="some")), "catch_up"),
    (lambda: queue(lambda q: q.cron.install_cron("p", "* * * *", lambda at: 1)), "* * * *"),
    (lambda: queue(lambda q: q.cron.install_cron("p", "@daily", lambda at: 1, tz="Mars/Olympus")), "Mars/Olympus"),
    (lambda: DDSketch(relative_accuracy=1), "relative_accuracy must be at least 1e-5 and below 1, got 1"),
    (lambda: DDSketch().merge(DDSketch(0.02)), "relative_accuracy and max_buckets are the same, got 0.01 and 0.02"),
    (lambda: MetricsServer(port=0, host="192.0.2.1"), "host= must be an address of this machine"),
]


def answer(call: Callable[[], object]) -> str:
    try:
        return f"returned {call()!r}"
    except (TypeError, ValueError, OSError) as refusal:
        return str(refusal)


def test_each_is_refused_in_words_that_name_it() -> None:
    assert [(words, said) for call, words in ROWS if words not in (said := answer(call))] == []
