"""How fast is the access-log job beside what one would write instead, and what does it need?

Two logs are made of a real one (``--log``, else the one in ``../shared/data``): its lines over and over, and the same
with times, request times and paths of their own, 200,000 paths among them. Measured, each as a process of its own from
its start to its end: the job on Spark and in threads, DuckDB, polars, Spark SQL and plain Python, wall-clock and processor
time, and the peak resident memory of all its processes. And the job on 10,000 lines, which is its start.

    python -m benches.metrics [--quick] [--rounds 3] [--lines 2000000] [--log LOG]
"""

from __future__ import annotations

import argparse
import calendar
import functools
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from benches.protocol import Below, Faster, Report, arguments, figure
from benches.versus.metrics import WAYS

LOG = Path(__file__).parents[1] / ".." / "shared" / "data" / "apache_access.log"
SPARK, LOCAL, DUCKDB = "drainq metrics", "drainq metrics --engine local", "DuckDB"
FEW = 10_000  # lines
MOST_MEMORY = 3_000  # MB of all processes
SAMPLED_EVERY = 0.05  # seconds between two readings of the memory
_LINE = re.compile(rb'^(.*? \[)([^\]]*)(\] "[A-Z]+ )([^ "]+)(.*)$', re.DOTALL)


def repeated(log: Path, lines: int) -> Iterator[bytes]:
    """A log's lines over and over."""
    content = log.read_bytes().split(b"\n")[:-1]
    for place in range(lines):
        yield content[place % len(content)]


def own(log: Path, lines: int, paths: int = 200_000) -> Iterator[bytes]:
    """A log's lines, each round an hour later, with request times; a fifth of them have one of many paths."""
    dice = random.Random(7)
    content = log.read_bytes().split(b"\n")[:-1]
    for place in range(lines):
        line = content[place % len(content)]
        match = _LINE.match(line)
        if not match or not line.endswith(b'"'):
            yield line
            continue
        moment = calendar.timegm(time.strptime(match[2].decode().split()[0], "%d/%b/%Y:%H:%M:%S"))
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(moment + place // len(content) * 3607)).encode()
        path = match[4] if place % 5 else b"/item/%d/view" % (place * 7919 % paths)
        yield b"%s%s%s%s%s %.3f" % (match[1], stamp, match[3], path, match[5], min(30, dice.lognormvariate(-3.5, 1.1)))


def write(lines: Iterator[bytes], to: Path) -> Path:
    """Write lines to a file."""
    with open(to, "wb", buffering=1 << 20) as file:
        for line in lines:
            file.write(line + b"\n")
    return to


class Command:
    """A contestant: a command that is run once a round.

    Args:
        name: of the contestant. log: what it reads. scratch: where it may write.
    """

    def __init__(self, name: str, log: Path, scratch: Path) -> None:
        self._name, self._log, self._scratch = name, log, scratch
        self.walls: list[float] = []
        self.processors: list[float] = []
        self.memories: list[float] = []
        self.said = ""

    def run(self) -> None:
        """Run it, and note what it needed."""
        out = self._scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        ours = ["-m", "drainq.cli", *self._name.split()[1:], str(self._log), "--out", str(out)]
        theirs = ["-m", "benches.versus.metrics", self._name, str(self._log), str(out)]
        started = time.perf_counter()
        process = psutil.Popen(
            [sys.executable, *(ours if self._name.startswith("drainq") else theirs)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        used: dict[int, float] = {}
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, _needed(process, used))
            time.sleep(SAMPLED_EVERY)
        self.walls.append(time.perf_counter() - started)
        self.said = process.communicate()[0]
        if process.returncode:
            raise SystemExit(f"{self._name} failed: {self.said}")
        self.processors.append(sum(used.values()))
        self.memories.append(peak / 1e6)


def _needed(process: psutil.Process, used: dict[int, float]) -> float:
    """The resident bytes of a process and its children; their processor seconds so far go into ``used``."""
    resident = 0.0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    for each in family:
        try:
            times = each.cpu_times()
            used[each.pid] = times.user + times.system
            resident += each.memory_info().rss
        except psutil.Error:
            continue
    return resident


def compared(report: Report, name: str, log: Path, lines: int, rounds: int, scratch: Path) -> None:
    """All ways on one log, in turns."""
    ways = {way: Command(way, log, scratch) for way in (SPARK, LOCAL, *WAYS)}
    for number in range(rounds):
        order = list(ways.values())
        for way in order[number % len(order) :] + order[: number % len(order)]:
            way.run()
    if len({way.said for contestant, way in ways.items() if contestant in WAYS}) > 1:
        raise SystemExit(f"the ways do not agree: { {contestant: way.said for contestant, way in ways.items()} }")
    walls = {contestant: [wall / lines for wall in way.walls] for contestant, way in ways.items()}
    goals = [Faster(LOCAL, DUCKDB, 1 / 1.5), Below(SPARK, 12 / 2_000_000), Faster(SPARK, DUCKDB, 1.0)]
    report.add(figure(f"{name}, the whole command", "s/line", walls, goals, f"{lines:,} lines"))
    processors = {contestant: [used / lines for used in way.processors] for contestant, way in ways.items()}
    report.add(figure(f"{name}, processor time of all processes", "cpu-s/line", processors))
    memories = {contestant: way.memories for contestant, way in ways.items()}
    goals = [Below(SPARK, MOST_MEMORY, "MB"), Below(LOCAL, MOST_MEMORY, "MB")]
    report.add(figure(f"{name}, peak memory of all processes", "MB", memories, goals))


def start(report: Report, log: Path, rounds: int, scratch: Path) -> None:
    """The job on few lines."""
    ways = {way: Command(way, log, scratch) for way in (SPARK, LOCAL, f"{SPARK} --no-archive")}
    for _ in range(rounds):
        for way in ways.values():
            way.run()
    goals = [Below(SPARK, 4.5, "s"), Below(LOCAL, 1.0, "s")]
    report.add(figure(f"{FEW:,} lines, the whole command", "s", {n: way.walls for n, way in ways.items()}, goals))


def main() -> int:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description="The figures of the access-log job.")
    parser.add_argument("--lines", type=int, default=None, help="lines of the logs (default: two million)")
    parser.add_argument("--log", type=Path, default=LOG, help="the log to repeat")
    options = arguments(parser)
    if not options.log.exists():
        raise SystemExit(f"no log at {options.log}: name one with --log")
    lines = options.lines or (100_000 if options.quick else 2_000_000)
    rounds = options.rounds or (1 if options.quick else 3)
    report = Report("metrics", options, {"lines": lines})
    with tempfile.TemporaryDirectory(prefix="drainq-bench-") as directory:
        scratch = Path(directory)
        make = functools.partial(write, to=scratch / "access.log")
        start(report, make(repeated(options.log, FEW)), rounds + 2, scratch)
        compared(report, "a log that repeats", make(repeated(options.log, lines)), lines, rounds, scratch)
        compared(report, "a log with times and paths of its own", make(own(options.log, lines)), lines, rounds, scratch)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
