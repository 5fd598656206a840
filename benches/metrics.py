"""How fast is the access-log job, against a plain dictionary, and does a worker's memory stay flat?

A log (``--log``, else the one in ``../shared/data``) is repeated into a temporary file of two million lines. Measured:

1. reading and aggregating in one warm session: the job's way, and the same parser feeding a plain dictionary in
   ``mapInArrow``; wall-clock, and processor time of Spark and its workers together, which a busy machine spoils less;
2. the command, from its start to its end, Spark's start included;
3. the peak resident memory of a Python worker for that many lines and for twice as many.

    python -m benches.metrics [--quick] [--rounds 5] [--lines 2000000] [--log LOG]
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from benches.pages import count
from benches.protocol import AtMostTimes, Below, Faster, Report, arguments, figure, measure, seconds

from drainq.metrics import partial_rows
from drainq.metrics.columns import parse_lines
from drainq.metrics.log_files import find, link
from drainq.metrics.session import DEFAULT_MASTER, SHORT, open_session
from drainq.metrics.spark_job import Door, read
from drainq.spark.aggregate import merged

LOG = Path(__file__).parents[1] / ".." / "shared" / "data" / "apache_access.log"
OURS, DICTIONARY = "drainq", "dictionary in mapInArrow"
LEAST, AIM = 150_000, 400_000  # lines a second, end to end
MOST_MEMORY = 500  # MB of a worker
FLAT = 1.15  # times the memory that twice the lines may take
SAMPLED_EVERY = 0.02  # seconds between two readings of the workers' memory


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
                columns.second.tolist(),
                columns.endpoint.to_pylist(),
                columns.client.to_pylist(),
                columns.status.tolist(),
                columns.size.tolist(),
            ):
                minute, error = second // 60 * 60, int(status >= 400)
                add("service_minute", None, None, minute, size, error)
                add("endpoint_minute", endpoint, None, minute, size, error)
                add("status_minute", None, status, minute, 0, 0)
                add("client_hour", client, None, second // 3600 * 3600, size, error)
            for second, agent, referrer in zip(
                columns.second[columns.named].tolist(), columns.agent.to_pylist(), columns.referrer.to_pylist()
            ):
                add("user_agent_day", agent, None, second // 86400 * 86400, 0, 0)
                add("referrer_day", referrer, None, second // 86400 * 86400, 0, 0)
    kinds, names, numbers, times = zip(*found) if found else ((), (), (), ())
    arrays = {
        "kind": pa.array(kinds, pa.string()),
        "name": pa.array([None if name is None else partial_rows.name(name) for name in names], pa.string()),
        "number": pa.array(numbers, pa.int64()),
        "time": pa.array(times, pa.int64()),
        **{
            sum_: pa.array([sums[place] for sums in found.values()], pa.int64())
            for place, sum_ in enumerate(partial_rows.SUMS)
        },
    }
    nothing = {field.name: pa.nulls(len(found), field.type) for field in partial_rows.SCHEMA}
    yield pa.RecordBatch.from_arrays(
        [arrays.get(field.name, nothing[field.name]) for field in partial_rows.SCHEMA], schema=partial_rows.SCHEMA
    )


def by_dictionary(spark: Any, directory: str) -> pa.Table:
    """Read like the job, aggregate with :func:`dictionary`, merge like the job."""
    from pyspark.sql import functions as F

    lines = spark.read.option("lineSep", "\n").text(directory).select(F.col("value").cast("binary").alias("line"))
    partial = lines.mapInArrow(dictionary, partial_rows.SPARK_SCHEMA)
    return merged(partial, dict.fromkeys(partial_rows.SUMS, "sum")).toArrow()


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


def processor_time() -> float:
    """Seconds of processor that this process and everything it started have used."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.Error:
            continue
        total += used.user + used.system
    return total


def command(log: Path, out: Path) -> None:
    """Run the whole command, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "drainq.cli", "metrics", log, "--out", out], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"the command failed: {done.stderr}{done.stdout}")


def main() -> int:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description="The figures of the access-log job.")
    parser.add_argument("--lines", type=int, default=None, help="lines of the repeated log (default: two million)")
    parser.add_argument("--log", type=Path, default=LOG, help="the log to repeat")
    options = arguments(parser)
    if not options.log.exists():
        raise SystemExit(f"no log at {options.log}: name one with --log")
    lines = options.lines or (100_000 if options.quick else 2_000_000)
    rounds = options.rounds or (1 if options.quick else 5)
    report = Report("metrics", options, {"lines": lines})
    with tempfile.TemporaryDirectory(prefix="drainq-bench-") as directory:
        logs = {times: Path(directory, f"{times}x.log") for times in (1, 2)}
        for times, log in logs.items():
            repeat(options.log, times * lines, log)
        in_one_session(report, logs, lines, rounds, Path(directory))
        runs = iter(range(rounds + 1))
        whole = lambda: seconds(lambda: command(logs[1], Path(directory, f"out{next(runs)}"))) / lines  # noqa: E731
        goals = [Below("drainq metrics", 1 / LEAST, aim=1 / AIM)]
        report.add(
            measure(
                "the whole command, Spark's start included",
                "s/line",
                {"drainq metrics": whole},
                rounds=rounds,
                goals=goals,
                warm=0,
            )
        )
    return report.finish()


def in_one_session(report: Report, logs: dict[int, Path], lines: int, rounds: int, directory: Path) -> None:
    """Memory for once and twice the lines, then queue and dictionary in turns."""
    links = {times: directory / f"links-{times}" for times in logs}
    for times, log in logs.items():
        links[times].mkdir()
        link([find(0, str(log))], links[times])
    with open_session(DEFAULT_MASTER, directory / "spark.log", size=SHORT + 1) as spark:
        memory = {}
        for times in logs:
            with WorkerMemory() as worker:
                read(spark, links[times].as_uri(), Door.ARROW)
            memory[f"drainq, {times}x the lines"] = [worker.peak]
        once, twice = memory
        goals = [Below(twice, MOST_MEMORY, "MB"), AtMostTimes(twice, once, FLAT)]
        report.add(
            figure(
                "memory of a worker",
                "MB",
                memory,
                goals,
                f"the peak over {count(lines, 'line')}, and over twice as many",
            )
        )
        processor: dict[str, list[float]] = {OURS: [], DICTIONARY: []}
        answers = {}

        def ask(name: str) -> float:
            before = processor_time()
            where = links[1].as_uri()
            taken = seconds(
                lambda: answers.update(
                    {name: read(spark, where, Door.ARROW) if name == OURS else by_dictionary(spark, where)}
                )
            )
            processor[name].append((processor_time() - before) / lines)
            return taken / lines

        goals = [Faster(OURS, DICTIONARY, 0.85), Below(OURS, 1 / LEAST)]
        report.add(
            measure(
                "read and aggregate, warm",
                "s/line",
                {name: functools.partial(ask, name) for name in (OURS, DICTIONARY)},
                rounds=rounds,
                goals=goals,
            )
        )
        processor = {name: taken[1:] for name, taken in processor.items()}  # without the warm round
        goals = [Faster(OURS, DICTIONARY, 0.85)]
        report.add(figure("read and aggregate, processor time of all processes", "cpu-s/line", processor, goals))
        found = {name: requests(rows) for name, rows in answers.items()}
        if found[OURS] != found[DICTIONARY]:
            raise SystemExit(f"the two do not agree on the number of requests: {found}")


if __name__ == "__main__":
    sys.exit(main())
