"""A slow query, a fast one and a queue, fed into one target: first directly, then through prefetching sources.

    python examples/slow_sources.py --plot slow-sources.png

One loop asks three sources in turn. Two answer within a millisecond. The third is a query that takes 60 ms. If it is
asked directly, it stops the whole loop for that time: the target gets a burst, then nothing. Behind a prefetching
source the query runs in the background, early and for many rows at once, and the loop never waits for it.

The program prints the throughput over time of both runs. ``--plot`` draws it (``pip install matplotlib``), ``--json``
writes the numbers. The rows come from SQLite, and a sleep of 60 ms stands for a loaded database.

Source: the story of "Fast Critical Path with Async Queueing".
"""

from __future__ import annotations

import argparse
import itertools
import json
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drainq.sources import Fair, PrefetchSource, SourceScheduler

BIN = 0.02
"""Seconds that one figure of the throughput spans."""

BATCH = 600
"""Rows that one round of the loop asks for."""

PER_ROW = 4e-6
"""Seconds that the target takes for a row: at most 250,000 rows a second."""


class Query:
    """A query for the rows after the last one seen.

    A query for the first rows would return the same rows until they are marked as done. A buffer that is half full of
    these rows would gain only half of the rows that it asks for.

    Args:
        latency: seconds that the database is busy with each call.
    """

    def __init__(self, *, latency: float) -> None:
        self._latency = latency
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._last = 0

    def get_next_batch(self, batch_size: int) -> list[int]:
        time.sleep(self._latency)
        rows = self._database.execute(
            "WITH RECURSIVE pending(id) AS (SELECT ? + 1 UNION ALL SELECT id + 1 FROM pending LIMIT ?) "
            "SELECT id FROM pending",
            (self._last, batch_size),
        ).fetchall()
        self._last = rows[-1][0]
        return [row[0] for row in rows]


class QueueService:
    """A message queue that hands out at most ten messages a call, as hosted ones do."""

    def __init__(self, *, latency: float) -> None:
        self._latency = latency
        self._numbers = itertools.count()

    def get_next_batch(self, batch_size: int) -> list[int]:
        time.sleep(self._latency)
        return list(itertools.islice(self._numbers, min(batch_size, 10)))


Target = Callable[[str, list[int]], None]
Step = Callable[[], object]
Loop = Callable[[dict[str, Any], Target], tuple[Step, Step]]


def asked_directly(sources: dict[str, Any], target: Target) -> tuple[Step, Step]:
    """Ask each source in turn, in a simple loop. Return one round of the loop, and a function that ends the loop."""

    def step() -> None:
        for name, source in sources.items():
            target(name, source.get_next_batch(BATCH // len(sources)))

    return step, lambda: None


def prefetched(sources: dict[str, Any], target: Target) -> tuple[Step, Step]:
    """Ask the sources through buffers that adapt their size. Return one step, and a function that ends the refills."""
    buffered = {
        name: PrefetchSource(source, capacity=2000, replenish_threshold=1000, max_capacity=64_000, name=name)
        for name, source in sources.items()
    }
    scheduler = SourceScheduler(buffered, target, Fair(*buffered), batch_size=BATCH)

    def close() -> None:
        for source in buffered.values():
            source.close()

    return scheduler.step, close


def throughput(loop: Loop, *, seconds: float, slow: float) -> list[float]:
    """Run a loop for a while; return the target's throughput over time, in rows a second.

    Args:
        loop: makes the step from the sources and the target.
        seconds: how long to run.
        slow: seconds that the slow query takes.
    """
    sources = {"orders": Query(latency=slow), "audits": Query(latency=0.0002), "mail": QueueService(latency=0.0005)}
    bins = [0] * max(1, round(seconds / BIN))
    started = time.perf_counter()

    def target(name: str, rows: list[int]) -> None:
        time.sleep(PER_ROW * len(rows))
        now = int((time.perf_counter() - started) / BIN)
        if now < len(bins):
            bins[now] += len(rows)

    step, close = loop(sources, target)
    while time.perf_counter() - started < seconds:
        step()
    close()
    return [rows / BIN for rows in bins]


def spread(rates: list[float]) -> float:
    """Compute the standard deviation of the throughput, relative to its mean."""
    return statistics.pstdev(rates) / (statistics.fmean(rates) or 1)


def bars(rates: list[float]) -> str:
    """Draw the throughput over time as a line of text."""
    levels, top = " .:-=+*#%@", max(rates) or 1
    return "".join(levels[round(rate / top * (len(levels) - 1))] for rate in rates[:100])


def plot(runs: dict[str, list[float]], path: Path) -> None:
    """Draw the runs above each other, each on its own scale."""
    try:
        import matplotlib
    except ImportError:
        sys.exit("--plot needs matplotlib: pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(runs), 1, figsize=(9, 5), sharex=True, layout="constrained")
    for axis, (name, rates) in zip(axes, runs.items(), strict=True):
        axis.step([BIN * number for number in range(len(rates))], [rate / 1000 for rate in rates], where="post")
        axis.set(title=f"{name}: {statistics.fmean(rates):,.0f} rows/s", ylabel="1,000 rows/s", ylim=(0, None))
    axes[-1].set_xlabel("seconds")
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each of the two runs takes")
    parser.add_argument("--slow", type=float, default=0.060, help="seconds that the slow query takes")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the throughput over time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the throughput over time")
    options = parser.parse_args()
    if not (options.seconds > 0 and options.slow >= 0):
        parser.error(f"--seconds must be > 0 and --slow >= 0, got {options.seconds} and {options.slow}")

    runs = {
        name: throughput(loop, seconds=options.seconds, slow=options.slow)
        for name, loop in (("asked directly", asked_directly), ("prefetched", prefetched))
    }
    for name, rates in runs.items():
        print(f"{name}: {statistics.fmean(rates):,.0f} rows/s, spread {spread(rates):.2f} of the mean")
        print(f"  |{bars(rates)}|")
    before, after = (statistics.fmean(rates) for rates in runs.values())
    print(f"prefetched is {after / max(before, 1):.0f} times as fast")
    if options.json:
        options.json.write_text(json.dumps({"seconds_per_bin": BIN, "rows_per_second": runs}), encoding="utf-8")
    if options.plot:
        plot(runs, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
