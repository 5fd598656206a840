"""Spark's executors forward partial aggregates to one long-lived aggregator, and the books agree to the item.

    python examples/spark_to_aggregator.py [--rows 20000] [--partitions 4]

Each task counts its rows in a batch queue, and sends the counts over the network, a message for each key. Spark may
run a task twice, and then both attempts send. So the aggregator keeps the messages of each attempt apart, and adds up
only the attempts that the job's result names. It drops and counts the others. One task fails on purpose after sending.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from drainq.export import RemoteClient, RemoteServer
from drainq.spark import task_info, task_queue

KEYS = 13


@dataclass
class Aggregator:
    """Adds up the counts that tasks send. It is the handler of a :class:`RemoteServer`, which calls it on a thread."""

    counts: Counter[int] = field(default_factory=Counter)
    dropped: int = 0
    _waiting: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, items: list[dict[str, Any]]) -> None:
        """Keep partial counts apart by the attempt that sent them."""
        with self._lock:
            for item in items:
                self._waiting[item["attempt"]].append((item["key"], item["n"]))

    def take(self, attempts: dict[str, int]) -> None:
        """Add up the attempts of a job, each with the number of messages that it sent.

        Raises:
            ValueError: an attempt's messages are not all there; nothing was added.
        """
        with self._lock:
            short = {name: n for name, n in attempts.items() if len(self._waiting.get(name, ())) != n}
            if short:
                raise ValueError(f"of these attempts not all messages are there: {short}")
            for name in attempts:
                for key, n in self._waiting.pop(name):
                    self.counts[key] += n
            self.dropped += sum(map(len, self._waiting.values()))
            self._waiting.clear()


def forwarding(address: str, job: str, fails: Callable[[Any], bool]) -> Callable[[Iterable[int]], Iterator[Any]]:
    """Return the function for ``mapPartitions``: it counts, sends, and returns the attempt and the number of items
    sent.
    """

    def forward(rows: Iterable[int]) -> Iterator[tuple[str, int]]:
        info, partial = task_info(), Counter()
        with task_queue() as queue:
            queue.add_handler(int, lambda batch: partial.update(n % KEYS for n in batch))
            queue.produce_many(rows)
        attempt = f"{job}/{info.partition}/{info.task_attempt_id}"
        with RemoteClient(address=address) as client:
            client.produce_many({"attempt": attempt, "key": key, "n": n} for key, n in partial.items())
            if not client.flush(timeout=60):
                raise ConnectionError(f"the aggregator did not acknowledge everything: {client.stats()}")
            sent = client.stats().sent
        if fails(info):
            raise RuntimeError("a task that fails after it has sent")
        yield attempt, sent

    return forward


def run(spark: Any, rows: int, partitions: int) -> tuple[Aggregator, Any, int]:
    """Run a job; return the aggregator, its server's counters, and how many messages the kept attempts sent."""
    aggregator = Aggregator()
    with RemoteServer(address="127.0.0.1:0", handler=aggregator) as server:
        numbers = spark.sparkContext.parallelize(range(rows), partitions)
        forward = forwarding(server.address, "job-1", lambda info: info.partition == 1 and info.attempt == 0)
        attempts = dict(numbers.mapPartitions(forward).collect())
        aggregator.take(attempts)
        stats = server.stats()
    assert len(attempts) == partitions
    assert stats.received == stats.handled == sum(attempts.values()) + aggregator.dropped
    return aggregator, stats, sum(attempts.values())


def main() -> int:
    """Run the job on this machine, and check its result against plain arithmetic."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        aggregator, stats, sent = run(spark, options.rows, options.partitions)
    finally:
        spark.stop()
    assert aggregator.counts == Counter(n % KEYS for n in range(options.rows))
    print(
        f"{options.rows:,} rows: {stats.received} messages received, {sent} of the attempts that count added up, "
        f"{aggregator.dropped} of an attempt that failed dropped"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
