"""How figures are made here: interleaved rounds in one run, medians, spread, ratios, and the goals they are held to.

A figure asks one question of several contestants. Each round asks every contestant once, in an order that turns from
round to round, so that a slow minute of the machine falls on all of them. A ratio is the median of the ratios of
single rounds: figures of different runs are never compared.

What a contestant returns is a cost (seconds per item, say): less is better.

Example:
    report = Report("queue", machine())
    goals = [Faster("ours", "theirs", 2.0)]
    report.add(measure("put", "s/item", {"ours": ours, "theirs": theirs}, rounds=7, goals=goals))
    sys.exit(report.finish())
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

RESULTS = Path(__file__).resolve().parent / "results"

Round = Callable[[], float]


class Goal(Protocol):
    """Something that the costs of a figure must hold."""

    def judge(self, costs: Mapping[str, Sequence[float]]) -> Verdict:
        """Compare the costs, a list of rounds by contestant, with the goal."""
        ...


@dataclass(frozen=True)
class Verdict:
    """What a goal asked for and what was reached; ``spread`` is the range of the middle half of the rounds."""

    asked: str
    reached: str
    spread: str
    met: bool


@dataclass(frozen=True)
class Faster:
    """``ours`` is at least ``times`` as fast as ``theirs``; below 1: it may be that much slower."""

    ours: str
    theirs: str
    times: float

    def judge(self, costs: Mapping[str, Sequence[float]]) -> Verdict:
        ratios = [theirs / ours for ours, theirs in zip(costs[self.ours], costs[self.theirs], strict=True)]
        low, middle, high = quartiles(ratios)
        asked = f"{self.ours} >= {self.times:g}x {self.theirs}"
        return Verdict(asked, f"{middle:.2f}x", f"{low:.2f}-{high:.2f}", middle >= self.times)


@dataclass(frozen=True)
class AtMostTimes:
    """``ours`` costs at most ``times`` what ``theirs`` costs."""

    ours: str
    theirs: str
    times: float

    def judge(self, costs: Mapping[str, Sequence[float]]) -> Verdict:
        ratios = [ours / theirs for ours, theirs in zip(costs[self.ours], costs[self.theirs], strict=True)]
        low, middle, high = quartiles(ratios)
        asked = f"{self.ours} <= {self.times:g}x {self.theirs}"
        return Verdict(asked, f"{middle:.2f}x", f"{low:.2f}-{high:.2f}", middle <= self.times)


@dataclass(frozen=True)
class Below:
    """``ours`` costs less than ``limit`` of the figure's unit."""

    ours: str
    limit: float
    unit: str = "s"

    def judge(self, costs: Mapping[str, Sequence[float]]) -> Verdict:
        low, middle, high = quartiles(costs[self.ours])
        limit, reached, lowest, highest = (amount(value, self.unit) for value in (self.limit, middle, low, high))
        return Verdict(f"{self.ours} < {limit}", reached, f"{lowest}-{highest}", middle < self.limit)


@dataclass(frozen=True)
class Either:
    """One of two goals holds: the verdict is that of the first that does, or else of the first."""

    first: Goal
    second: Goal

    def judge(self, costs: Mapping[str, Sequence[float]]) -> Verdict:
        verdicts = [goal.judge(costs) for goal in (self.first, self.second)]
        chosen = next((verdict for verdict in verdicts if verdict.met), verdicts[0])
        return replace(chosen, asked=" or ".join(verdict.asked for verdict in verdicts))


@dataclass
class Figure:
    """One question: what it cost each contestant in each round, and how that stands to the goals."""

    name: str
    unit: str
    costs: dict[str, list[float]]
    verdicts: list[Verdict]
    note: str = ""


@dataclass
class Report:
    """The figures of one run. Each is printed as soon as it is there; :meth:`finish` writes them down."""

    title: str
    machine: Mapping[str, Any]
    out: Path | None = None
    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        """Take in a figure and print it."""
        self.figures.append(figure)
        print(table(figure), flush=True)

    def finish(self, page: Path | None = None) -> int:
        """Write the JSON, and the table of a Markdown page if there is one; print what missed its goal.

        Returns:
            The exit code: 1 if anything missed.
        """
        if page is not None:
            renew_table(page, self)
        out = self.out or RESULTS / f"{self.title}.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "title": self.title,
            "machine": dict(self.machine),
            "figures": [asdict(figure) for figure in self.figures],
        }
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        missed = [(figure.name, verdict) for figure in self.figures for verdict in figure.verdicts if not verdict.met]
        judged = sum(len(figure.verdicts) for figure in self.figures)
        print(f"{judged - len(missed)} of {judged} goals met; {out}")
        for name, verdict in missed:
            print(f"  MISSED  {name}: {verdict.asked}, reached {verdict.reached} ({verdict.spread})")
        return 1 if missed else 0


def measure(
    name: str,
    unit: str,
    contestants: Mapping[str, Round],
    *,
    rounds: int,
    goals: Sequence[Goal] = (),
    warm: int = 1,
    note: str = "",
) -> Figure:
    """Ask every contestant once a round, in a turning order, and judge the goals.

    Args:
        name: the question.
        unit: of what the contestants return.
        contestants: name -> callable that runs one round and returns its cost.
        rounds: how many count.
        goals: what must hold.
        warm: rounds before those, thrown away.
        note: what a reader must know to read the figure.
    """
    names = list(contestants)
    costs: dict[str, list[float]] = {contestant: [] for contestant in names}
    for number in range(-warm, rounds):
        turn = number % len(names)
        for contestant in names[turn:] + names[:turn]:
            cost = contestants[contestant]()
            if number >= 0:
                costs[contestant].append(cost)
    return Figure(name, unit, costs, [goal.judge(costs) for goal in goals], note)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def amount(value: float, unit: str = "s") -> str:
    """Seconds in a unit that reads well; anything else as it is."""
    if unit.partition("/")[0] != "s":
        return f"{value:.3g} {unit}"
    for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def table(figure: Figure) -> str:
    """A figure as text: contestants with median and spread, then the goals."""
    lines = [
        f"\n{figure.name}  [{figure.unit}; median (middle half) of {len(next(iter(figure.costs.values())))} rounds]"
    ]
    for contestant, costs in figure.costs.items():
        low, middle, high = quartiles(costs)
        low, middle, high = (amount(value, figure.unit) for value in (low, middle, high))
        lines.append(f"  {contestant:<28} {middle:>9}   ({low} - {high})")
    for verdict in figure.verdicts:
        mark = "ok    " if verdict.met else "MISSED"
        lines.append(f"    {mark} {verdict.asked}: {verdict.reached} ({verdict.spread})")
    if figure.note:
        lines.append(f"    note: {figure.note}")
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """The figures as one Markdown table: a row a figure, what every contestant took, and the goals."""
    lines = ["| figure | cost, median | goal | reached (middle half) | |", "| --- | --- | --- | --- | --- |"]
    for figure in report.figures:
        costs = "<br>".join(
            f"{name} {amount(quartiles(values)[1], figure.unit)}" for name, values in figure.costs.items()
        )
        asked = "<br>".join(verdict.asked for verdict in figure.verdicts)
        reached = "<br>".join(f"{verdict.reached} ({verdict.spread})" for verdict in figure.verdicts)
        met = "<br>".join("met" if verdict.met else "**missed**" for verdict in figure.verdicts)
        lines.append(f"| {figure.name} | {costs} | {asked} | {reached} | {met} |")
    return "\n".join(lines)


TABLE, END = "<!-- table -->", "<!-- end of the table -->"


def renew_table(page: Path, report: Report) -> None:
    """Put the figures into a page in the place of the table that it has, or at its end."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"{TABLE}\n{END}\n"
    before, _, rest = text.partition(TABLE)
    after = rest.partition(END)[2] or "\n"
    ran = "{processor}, {cores} cores, Python {python}, commit {commit}, {at}, load before {load_before}"
    ran = ran.format_map(report.machine)
    page.write_text(f"{before}{TABLE}\n{ran}\n\n{markdown(report)}\n{END}{after}", encoding="utf-8")


def machine(**more: object) -> dict[str, Any]:
    """What ran the figures: processor, cores, versions, commit, load; ``more`` is added."""
    commit = _git("rev-parse", "--short", "HEAD")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else ""),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        **more,
    }


def seconds(work: Callable[[], object]) -> float:
    """How long ``work`` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rounds(options: argparse.Namespace, usual: int, quick: int = 3) -> int:
    """How many rounds count: what was asked for, or what is usual."""
    return options.rounds or (quick if options.quick else usual)


def wanted(name: str, options: argparse.Namespace) -> bool:
    """Whether a figure was asked for."""
    return options.only.lower() in name.lower()


def arguments(parser: argparse.ArgumentParser | str) -> argparse.Namespace:
    """Add the options that every benchmark has to its own, and read them from the command line.

    Args:
        parser: the benchmark's own options, or just what its figures are of.
    """
    if isinstance(parser, str):
        parser = argparse.ArgumentParser(description=f"The {parser} figures.")
    parser.add_argument(
        "--quick", action="store_true", help="fewer items and rounds: to see that it runs, not to quote"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only the figures whose name contains this")
    parser.add_argument("--rounds", type=int, default=None, help="rounds that count")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes")
    parser.add_argument("--markdown", type=Path, default=None, help="write the table as Markdown too")
    return parser.parse_args()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _git(*command: str) -> str:
    try:
        done = subprocess.run(["git", *command], capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit("this is the protocol; run a benchmark, such as: python -m benches.versus.delayed")
