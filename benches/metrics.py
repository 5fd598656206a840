"""How fast is the access-log job, against a plain dictionary, and does a worker's memory stay flat?

The log (one that is given, or the one in ``../shared/data``) is repeated into a temporary file. Measured are

1. the command, from its start to its end, Spark's start included;
2. reading and aggregating alone, in one warm session, in turns with the same parser feeding a plain dictionary in
   ``mapInArrow``: median, spread and ratio;
3. the peak resident memory of a Python worker for that many lines and for twice as many.

    python benches/metrics.py [--lines 2000000] [--rounds 3] [--log LOG]

A table goes to stderr, JSON to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from drainq.metrics import partials
from drainq.metrics.columns import parse_lines
from drainq.metrics.read import Door, read
from drainq.metrics.session import DEFAULT_MASTER, open_session
from drainq.metrics.sources import find, link
from drainq.spark.aggregate import merged

LOG = Path(__file__).parents[1] / ".." / "shared" / "data" / "apache_access.log"
SAMPLED_EVERY = 0.02  # seconds between looks at the workers' memory


def repeat(log: Path, lines: int, to: Path) -> None:
    """Write a log's lines over and over, ``lines`` of them."""
    content = log.read_bytes().splitlines(keepends=True)
    with open(to, "wb") as file:
        for _ in range(lines // len(content)):
            file.writelines(content)
        file.writelines(content[: lines % len(content)])


def dictionary(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same metrics of the same parser, added up in one plain dictionary: what one writes without a queue."""
    found: dict[tuple[str, bytes | None, int | None, int], list[int]] = {}

    def add(kind: str, name: bytes | None, number: int | None, at: int, size: int, error: int) -> None:
        sums = found.get((kind, name, number, at))
        if sums is None:
            found[kind, name, number, at] = [1, size, error]
        else:
            sums[0] += 1
            sums[1] += size
            sums[2] += error

    for batch in batches:
        for columns in parse_lines(batch["line"])[0]:
            for second, endpoint, client, status, size in zip(
                columns.second.tolist(), columns.endpoint.to_pylist(), columns.client.to_pylist(), columns.status.tolist(), columns.size.tolist()
            ):
                minute, error = second // 60 * 60, int(status >= 400)
                add("service_minute", None, None, minute, size, error)
                add("endpoint_minute", endpoint, None, minute, size, error)
                add("status_minute", None, status, minute, 0, 0)
                add("client_hour", client, None, second // 3600 * 3600, size, error)
            for second, agent, referrer in zip(columns.second[columns.named].tolist(), columns.agent.to_pylist(), columns.referrer.to_pylist()):
                add("user_agent_day", agent, None, second // 86400 * 86400, 0, 0)
                add("referrer_day", referrer, None, second // 86400 * 86400, 0, 0)
    kinds, names, numbers, times = zip(*found) if found else ((), (), (), ())
    arrays = {
        "kind": pa.array(kinds, pa.string()),
        "name": pa.array([None if name is None else partials.name(name) for name in names], pa.string()),
        "number": pa.array(numbers, pa.int64()),
        "time": pa.array(times, pa.int64()),
        **{sum_: pa.array([sums[place] for sums in found.values()], pa.int64()) for place, sum_ in enumerate(partials.SUMS)},
    }
    nothing = {field.name: pa.nulls(len(found), field.type) for field in partials.SCHEMA}
    yield pa.RecordBatch.from_arrays([arrays.get(field.name, nothing[field.name]) for field in partials.SCHEMA], schema=partials.SCHEMA)


def by_dictionary(spark: Any, directory: str) -> pa.Table:
    """Read like the job, aggregate with :func:`dictionary`, merge like the job."""
    from pyspark.sql import functions as F

    lines = spark.read.option("lineSep", "\n").text(directory).select(F.col("value").cast("binary").alias("line"))
    partial = lines.mapInArrow(dictionary, partials.SPARK_SCHEMA)
    return merged(partial, {column: "sum" for column in partials.SUMS}).toArrow()


def requests(rows: pa.Table) -> int:
    """The requests counted by ``service_minute``."""
    return sum(n for kind, n in zip(rows["kind"].to_pylist(), rows["requests"].to_pylist()) if kind == "service_minute")


class WorkerMemory:
    """The largest resident memory of one Python worker while the block runs, in MB."""

    def __enter__(self) -> WorkerMemory:
        self.peak = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLED_EVERY):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "pyspark.daemon" in " ".join(process.cmdline()):
                        self.peak = max(self.peak, process.memory_info().rss / 1e6)
                except psutil.Error:
                    continue


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it returns."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def command(log: Path, out: Path) -> float:
    """Seconds of the whole command, in a process of its own."""
    seconds, done = timed(lambda: subprocess.run([sys.executable, "-m", "drainq.cli", "metrics", log, "--out", out], capture_output=True, text=True))
    if done.returncode != 0:
        raise SystemExit(f"the command failed: {done.stderr}{done.stdout}")
    return seconds


def spread(seconds: list[float], lines: int) -> dict[str, Any]:
    """Median and spread, as seconds and lines a second."""
    median = statistics.median(seconds)
    return {"seconds": [round(value, 3) for value in seconds], "median_seconds": round(median, 3), "lines_per_second": round(lines / median)}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, default=LOG)
    arguments = parser.parse_args()
    if not arguments.log.exists():
        raise SystemExit(f"no log at {arguments.log}: name one with --log")
    lines = arguments.lines
    with tempfile.TemporaryDirectory(prefix="drainq-bench-") as directory:
        once, twice = Path(directory, "once.log"), Path(directory, "twice.log")
        repeat(arguments.log, lines, once)
        repeat(arguments.log, 2 * lines, twice)
        whole = [command(once, Path(directory, f"out{place}")) for place in range(arguments.rounds)]
        links = {}
        for log in (once, twice):
            links[log] = Path(directory, f"links-{log.stem}")
            links[log].mkdir()
            link([find(0, str(log))], links[log])
        queue, plain = [], []
        with open_session(DEFAULT_MASTER, Path(directory, "spark.log"), size=10**12) as spark:
            memory = {}
            for log in (once, twice):
                with WorkerMemory() as peak:
                    read(spark, links[log].as_uri(), Door.ARROW)
                memory[log] = round(peak.peak)
            for _ in range(arguments.rounds):
                seconds, ours = timed(lambda: read(spark, links[once].as_uri(), Door.ARROW))
                queue.append(seconds)
                seconds, theirs = timed(lambda: by_dictionary(spark, links[once].as_uri()))
                plain.append(seconds)
                if requests(ours) != requests(theirs):
                    raise SystemExit(f"the two do not agree: {requests(ours)} and {requests(theirs)} requests")
    result = {
        "benchmark": "metrics",
        "lines": lines,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()},
        "command": spread(whole, lines),
        "queue_in_mapInArrow": spread(queue, lines),
        "dictionary_in_mapInArrow": spread(plain, lines),
        "ratio": {"queue_over_dictionary": round(statistics.median(b / a for a, b in zip(queue, plain)), 2), "rounds": [round(b / a, 2) for a, b in zip(queue, plain)]},
        "worker_peak_rss_mb": {"1x": memory[once], "2x": memory[twice]},
    }
    print(f"{'':34}{'lines/s':>12}{'median s':>10}", file=sys.stderr)
    for name in ("command", "queue_in_mapInArrow", "dictionary_in_mapInArrow"):
        print(f"{name:34}{result[name]['lines_per_second']:>12,}{result[name]['median_seconds']:>10.2f}", file=sys.stderr)
    print(f"queue over dictionary: {result['ratio']['queue_over_dictionary']}x; worker's peak memory {memory[once]} MB, at twice the lines {memory[twice]} MB", file=sys.stderr)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
