"""Snapshot: the difference of two scrapes of a process as plain values, which ``drainq top`` shows.

1. A rate is a difference of counters over the time between the scrapes. It is None after the first scrape, or if a
   counter decreased, as after a restart.
2. ``--json`` prints every value unchanged.
"""

from __future__ import annotations

from typing import Any

from drainq.commands.scrape import Scrape

_LOST = ("failed", "unrouted", "abandoned")


def snapshot(now: Scrape, before: Scrape | None) -> dict[str, Any]:
    """Return the state of a process.

    Args:
        now: the scrape to show.
        before: an earlier answer of the same process, from which the rates are computed. None: no rates.
    Returns:
        ``url``, ``error`` and, if there is no error, ``version`` and a list for each kind of object.
    """
    if now.error is not None:
        return {"url": now.url, "error": now.error}
    versions = now.labels("drainq_build_info", "version")
    return {
        "url": now.url,
        "error": None,
        "version": versions[0] if versions else None,
        "batch_queues": [_batch(now, before, name) for name in now.labels("drainq_batch_queued", "queue")],
        "multi_queues": [_multi(now, before, name) for name in now.labels("drainq_multi_depth", "queue")],
        "delayed_queues": [_delayed(now, name) for name in now.labels("drainq_delayed_ready", "queue")],
        "workers": [_worker(now, before, name) for name in now.labels("drainq_worker_pending", "worker")],
        "sources": [_source(now, before, name) for name in now.labels("drainq_source_size", "source")],
    }


def rate(now: Scrape, before: Scrape | None, name: str, **labels: str) -> float | None:
    """Return the growth of a counter per second."""
    if before is None or before.error is not None or now.at <= before.at:
        return None
    grown = now.value(name, **labels) - before.value(name, **labels)
    return grown / (now.at - before.at) if grown >= 0 else None


def _batch(now: Scrape, before: Scrape | None, name: str) -> dict[str, Any]:
    def count(what: str) -> int:
        return int(now.value(f"drainq_batch_{what}", queue=name))

    rejected = now.samples.get("drainq_batch_rejected_total", ())
    lost = {labels["reason"]: int(value) for labels, value in rejected if labels["queue"] == name and value}
    lost |= {what: number for what in _LOST if (number := count(f"{what}_total"))}
    threads = now.labels("drainq_batch_thread_busy_seconds_total", "thread", queue=name)
    return {
        "name": name,
        "running": bool(count("running")),
        "queued": count("queued"),
        "capacity": count("capacity"),
        "accepted": count("accepted_total"),
        "handled": count("handled_total"),
        "accepted_per_second": rate(now, before, "drainq_batch_accepted_total", queue=name),
        "handled_per_second": rate(now, before, "drainq_batch_handled_total", queue=name),
        "dead_lettered": count("dead_lettered_total"),
        "lost": lost,
        "rebalances": count("rebalances_total"),
        "partitions": [
            {
                "partition": int(partition),
                "used": int(now.value("drainq_batch_partition_used", queue=name, partition=partition)),
                "owner": int(now.value("drainq_batch_partition_owner", queue=name, partition=partition)),
            }
            for partition in now.labels("drainq_batch_partition_used", "partition", queue=name)
        ],
        "threads": [
            {
                "thread": int(thread),
                "busy": rate(now, before, "drainq_batch_thread_busy_seconds_total", queue=name, thread=thread),
                "handled": int(now.value("drainq_batch_thread_handled_total", queue=name, thread=thread)),
                "in_flight": int(now.value("drainq_batch_thread_in_flight", queue=name, thread=thread)),
            }
            for thread in threads
        ],
    }


def _multi(now: Scrape, before: Scrape | None, name: str) -> dict[str, Any]:
    depth = "drainq_multi_sub_queue_depth"
    return {
        "name": name,
        "depth": int(now.value("drainq_multi_depth", queue=name)),
        "put_per_second": rate(now, before, "drainq_multi_put_total", queue=name),
        "got_per_second": rate(now, before, "drainq_multi_got_total", queue=name),
        "rejected": int(now.value("drainq_multi_rejected_total", queue=name)),
        "oldest_age": now.value("drainq_multi_oldest_age_seconds", queue=name),
        "blocked_putters": int(now.value("drainq_multi_blocked_putters", queue=name)),
        "blocked_getters": int(now.value("drainq_multi_blocked_getters", queue=name)),
        "sub_queues": {
            sub: int(now.value(depth, queue=name, sub_queue=sub)) for sub in now.labels(depth, "sub_queue", queue=name)
        },
    }


def _delayed(now: Scrape, name: str) -> dict[str, Any]:
    counts = ("ready", "scheduled", "in_flight", "redelivered", "dead")
    shown: dict[str, Any] = {what: int(now.value(f"drainq_delayed_{what}", queue=name)) for what in counts}
    return {"name": name, **shown, "oldest_ready_age": now.value("drainq_delayed_oldest_ready_age_seconds", queue=name)}


def _worker(now: Scrape, before: Scrape | None, name: str) -> dict[str, Any]:
    counts = ("accepted", "sent", "retried", "refused", "dead_lettered")
    return {
        "name": name,
        **{what: int(now.value(f"drainq_worker_{what}_total", worker=name)) for what in counts},
        "lost": int(now.value("drainq_worker_lost", worker=name)),
        "pending": int(now.value("drainq_worker_pending", worker=name)),
        "sent_per_second": rate(now, before, "drainq_worker_sent_total", worker=name),
    }


def _source(now: Scrape, before: Scrape | None, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "size": int(now.value("drainq_source_size", source=name)),
        "capacity": int(now.value("drainq_source_capacity", source=name)),
        "fetched_per_second": rate(now, before, "drainq_source_fetched_total", source=name),
        "errors": int(now.value("drainq_source_errors_total", source=name)),
    }
