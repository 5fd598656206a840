"""The figures of the Rust core: runs ``cargo bench``, which prints a JSON line a figure, judges and publishes them.

Run it:  python -m benches.core [--quick] [--only WORD] [--part GROUP ...] [--rounds N] [--out DIR]

Needs no drainq and no package, only cargo.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

from benches.protocol import ROOT, AtMostTimes, Below, Faster, Goal, Report, arguments, figure, run_parts
from benches.runs import Figure

PARTS = ("op", "contend", "scale", "source", "seed", "wake", "burst", "move", "grow", "shutdown", "sketch")
"""The groups of the Rust program."""


def main() -> int:
    """Run the figures that were asked for."""
    options = arguments("core", PARTS)
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    report = Report("core", options, {"rust": rust})
    if not options.part:
        bench(report, options.only)
    else:
        run_parts(report, PARTS, [functools.partial(bench, report, f"{part}: ") for part in PARTS])
    return report.finish()


def bench(report: Report, only: str) -> None:
    """Add the figures whose name contains ``only``; ends the program if the Rust one fails."""
    options = report.options
    command = ["cargo", "bench", "-p", "drainq-core", "--", "--only", only]
    command += ["--quick"] * options.quick + (["--rounds", str(options.rounds)] if options.rounds else [])
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("{"):
                report.add(judged(json.loads(line)))
            else:
                print(line, end="")
    if running.returncode:
        sys.exit(running.returncode)


def judged(found: dict[str, Any]) -> Figure:
    """Make a figure from a line of the Rust benchmarks: every round, and the goals as data."""
    goals = [_goal(goal, found["unit"]) for goal in found["goals"]]
    return figure(found["name"], found["unit"], found["costs"], goals, found["note"])


def _goal(goal: dict[str, Any], unit: str) -> Goal:
    ours, theirs, must, aim = (goal[name] for name in ("ours", "theirs", "must", "aim"))
    if theirs is None:
        return Below(ours, must, unit, aim)
    return (Faster if goal["side"] == "at least" else AtMostTimes)(ours, theirs, must, aim)


if __name__ == "__main__":
    sys.exit(main())
