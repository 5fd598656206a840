"""The access-log job: its speed compared with other programs, its memory and its processor time.

Three logs are made of a real one (``--log``, else the one in ``../shared/data``): its lines over and over, the same
with times, request times and paths of their own, 200,000 paths among them, and these as JSON. Measured, each as a
process of its own from its start to its end: the job on Spark and in threads, DuckDB, polars, Spark SQL, plain Python,
and GoAccess where it is installed (of JSON only DuckDB); wall-clock and processor time, and the peak resident memory of
all its processes. And the job on 10,000 lines, which is its start.

The whole takes about 30 minutes. It can be run in parts of less than four, ``start``, ``repeats-1`` to ``repeats-3``,
``own-1`` to ``own-3`` and ``json-1`` to ``json-3``. The page is written once all parts of a commit are there.

    python -m benches.metrics [--part NAME ...] [--quick] [--rounds 3] [--lines 2000000] [--log LOG]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from benches.access_logs import LOG, in_json, own, repeated, write
from benches.parts import Measured, Parts
from benches.protocol import Below, Faster, Report, arguments, figure
from benches.runs import Figure
from benches.versus.metrics import WAYS

SPARK, LOCAL, DUCKDB = "drainq metrics", "drainq metrics --engine local", "DuckDB"
FEW = 10_000  # lines
MOST_MEMORY = 3_000  # MB of all processes
SAMPLED_EVERY = 0.05  # seconds between two readings of the memory
START = "start"
LOGS = {"repeats": repeated, "own": own, "json": in_json}
NAMES = {
    "repeats": "a log that repeats",
    "own": "a log with times and paths of its own",
    "json": "the same as JSON",
}
WHOLE, PROCESSOR, MEMORY = "the whole command", "processor time of all processes", "peak memory of all processes"
GOACCESS = "GoAccess"
FORMATS = {"repeats": "COMBINED", "own": '%h %^[%d:%t %^] "%r" %s %b "%R" "%u" %T'}
"""The format of a line of each log that GoAccess reads, as it reads formats."""


class Command:
    """A contestant: a command that is run once a round.

    Args:
        name: of the contestant. log: what it reads. scratch: where it may write.
        form: the format of a line, as GoAccess reads formats.
    """

    def __init__(self, name: str, log: Path, scratch: Path, form: str = "COMBINED") -> None:
        self._name, self._log, self._scratch, self._form = name, log, scratch, form
        self.walls: list[float] = []
        self.processors: list[float] = []
        self.memories: list[float] = []
        self.said = ""

    def run(self) -> None:
        """Run it, and note what it needed."""
        out = self._scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        started = time.perf_counter()
        process = psutil.Popen(self._words(out), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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

    def _words(self, out: Path) -> list[str]:
        if self._name == GOACCESS:
            formats = [f"--log-format={self._form}", "--date-format=%d/%b/%Y", "--time-format=%H:%M:%S"]
            options = ["--no-global-config", "--no-progress", f"--output={out / 'report.json'}"]
            return ["goaccess", str(self._log), *formats[: 1 if self._form == "COMBINED" else 3], *options]
        if self._name.startswith("drainq"):
            return [sys.executable, "-m", "drainq.cli", *self._name.split()[1:], str(self._log), "--out", str(out)]
        return [sys.executable, "-m", "benches.versus.metrics", self._name, str(self._log), str(out)]


def _needed(process: psutil.Process, used: dict[int, float]) -> float:
    """Return the resident bytes of a process and its children. Record their processor seconds in ``used``."""
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


def compared(kind: str, log: Path, lines: int, rounds: Sequence[int], scratch: Path) -> Measured:
    """Rounds of all ways on one log, in turns."""
    more = [GOACCESS] if shutil.which("goaccess") else []
    rivals = [DUCKDB] if kind == "json" else [*WAYS, *more]
    ways = {way: Command(way, log, scratch, FORMATS.get(kind, "")) for way in (SPARK, LOCAL, *rivals)}
    for number in rounds:
        order = list(ways.values())
        for way in order[number % len(order) :] + order[: number % len(order)]:
            way.run()
    if len({way.said for contestant, way in ways.items() if contestant in WAYS}) > 1:
        raise SystemExit(f"the ways do not agree: { {contestant: way.said for contestant, way in ways.items()} }")
    return {
        f"{NAMES[kind]}, {WHOLE}": {name: [wall / lines for wall in way.walls] for name, way in ways.items()},
        f"{NAMES[kind]}, {PROCESSOR}": {name: [used / lines for used in way.processors] for name, way in ways.items()},
        f"{NAMES[kind]}, {MEMORY}": {name: way.memories for name, way in ways.items()},
    }


def start(log: Path, rounds: int, scratch: Path) -> Measured:
    """Measure the job on few lines."""
    ways = {way: Command(way, log, scratch) for way in (SPARK, LOCAL, f"{SPARK} --no-archive")}
    for _ in range(rounds):
        for way in ways.values():
            way.run()
    return {f"{FEW:,} lines, {WHOLE}": {name: way.walls for name, way in ways.items()}}


def figure_of(name: str, costs: Mapping[str, Sequence[float]], lines: int) -> Figure:
    """Make a figure with its goals judged."""
    if name.startswith(f"{FEW:,}"):
        return figure(name, "s", costs, [Below(SPARK, 4.5, "s"), Below(LOCAL, 1.0, "s")])
    if name.endswith(PROCESSOR):
        return figure(name, "cpu-s/line", costs)
    if name.endswith(MEMORY):
        return figure(name, "MB", costs, [Below(SPARK, MOST_MEMORY, "MB"), Below(LOCAL, MOST_MEMORY, "MB")])
    goals = [Faster(LOCAL, DUCKDB, 1 / 1.5)]
    if not name.startswith(NAMES["json"]):
        goals += [Below(SPARK, 12 / 2_000_000), Faster(SPARK, DUCKDB, 1.0)]
    other = "fewer tables, without minutes or percentiles" if GOACCESS in costs else "not installed here"
    return figure(name, "s/line", costs, goals, f"{lines:,} lines; GoAccess: {other}")


def main() -> int:
    """Measure the parts that were asked for, print, and write the JSON once all are there."""
    parser = argparse.ArgumentParser(description="The figures of the access-log job.")
    parser.add_argument("--lines", type=int, default=None, help="lines of the logs (default: two million)")
    parser.add_argument("--log", type=Path, default=LOG, help="the log to repeat")
    parser.add_argument(
        "--part", nargs="+", default=[], metavar="NAME", help="only these parts, such as start or own-1"
    )
    options = arguments(parser)
    if not options.log.exists():
        raise SystemExit(f"no log at {options.log}: name one with --log")
    lines = options.lines or (100_000 if options.quick else 2_000_000)
    rounds = options.rounds or (1 if options.quick else 3)
    names = [START, *(f"{kind}-{number}" for kind in LOGS for number in range(1, rounds + 1))]
    wrong = [part for part in options.part if part not in names]
    if wrong:
        raise SystemExit(f"--part must be one of {', '.join(names)}, got {', '.join(wrong)}")
    report = Report("metrics", options, {"lines": lines})  # notes the load before our own preparations
    subprocess.run([sys.executable, "-m", "drainq.metrics.make_archive"], check=True)  # as the set-up does
    usual = not (options.quick or options.rounds or options.lines or options.out)
    parts = Parts("metrics", names, report.machine if usual else {**report.machine, "clean": False})
    with tempfile.TemporaryDirectory(prefix="drainq-bench-") as directory:
        scratch = Path(directory)
        for part in options.part or names:
            print(f"measuring {part}", flush=True)
            kind, _, number = part.partition("-")
            log = scratch / (f"{kind}.json" if kind == "json" else f"{kind}.log")
            if not log.exists():
                write(repeated(options.log, FEW) if part == START else LOGS[kind](options.log, lines), log)
            if part == START:
                parts.keep(part, start(log, rounds + 2, scratch))
            else:
                parts.keep(part, compared(kind, log, lines, [int(number) - 1], scratch))
    report.machine["load_before"] = parts.load_before()
    for name, costs in parts.costs().items():
        report.add(figure_of(name, costs, lines))
    report.missing = parts.missing()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
