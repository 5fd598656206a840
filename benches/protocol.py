"""The protocol of all measurements: interleaved rounds in one run, medians, spread, ratios and goals.

A figure asks one question of several contestants. Each round asks every contestant once, in an order that rotates from
round to round, so that a slow minute of the machine falls on all of them. A ratio is the median of the ratios of
single rounds: figures of different runs are never compared.

What a contestant returns is a cost (seconds per item, say): less is better. A contestant whose name begins with
``drainq`` is ours; one in brackets, ``(physical limit)``, is shown for scale; every other one is a rival.

Example:
    options = arguments("queue")
    report = Report("queue", options)
    goals = [Faster("drainq", "theirs", 2.0)]
    report.add(measure("put", "s/item", {"drainq": ours, "theirs": theirs}, rounds=rounds(options, 7), goals=goals))
    sys.exit(report.finish())
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from benches import pages, ranges, runs
from benches.pages import amount, number
from benches.parts import Parts
from benches.runs import Figure, Spread, Verdict

ROOT = Path(__file__).resolve().parent.parent
MADE = ("benches/results", *(str(path.relative_to(ROOT)) for path in pages.STATED))
"""What a benchmark writes: changes there do not make a tree unclean."""
QUIET = 0.5
"""The load before a run, at most, for its figures to be published."""

Round = Callable[[], float]
Costs = Mapping[str, Sequence[float]]


class Goal(Protocol):
    """Something that the costs of a figure must hold."""

    def judge(self, costs: Costs) -> Verdict:
        """Compare the costs, a list of rounds by contestant, with the goal."""
        ...


@dataclass(frozen=True)
class Ratio:
    """How ``ours`` stands to ``theirs``: the limit that must be kept, and perhaps a further aim."""

    ours: str
    theirs: str
    times: float
    aim: float | None = None

    def limits(self) -> str:
        """Return the limit and the aim as text."""
        return f"{self.times:.3g}x" + ("" if self.aim is None else f" (aim {self.aim:.3g}x)")

    def ratios(self, costs: Costs) -> list[float]:
        """Return the cost of ``ours`` for each unit of ``theirs``, round by round."""
        return [ours / theirs for ours, theirs in zip(costs[self.ours], costs[self.theirs], strict=True)]


class Faster(Ratio):
    """``ours`` is at least ``times`` as fast as ``theirs``; below 1: it may be slower by that factor."""

    def judge(self, costs: Costs) -> Verdict:
        asked = f"{self.ours} at least {self.limits()} as fast as {self.theirs}"
        ratios = [1 / ratio for ratio in self.ratios(costs)]
        return _verdict(asked, ratios, "x", lambda reached, limit: reached >= limit, self.times, self.aim)


class AtMostTimes(Ratio):
    """``ours`` costs at most ``times`` what ``theirs`` costs."""

    def judge(self, costs: Costs) -> Verdict:
        asked = f"{self.ours} at most {self.limits()} the cost of {self.theirs}"
        return _verdict(asked, self.ratios(costs), "x", lambda reached, limit: reached <= limit, self.times, self.aim)


@dataclass(frozen=True)
class NoMoreThanBest:
    """``ours`` costs at most ``times`` what the cheapest of ``theirs`` costs, round by round."""

    ours: str
    theirs: Sequence[str]
    times: float
    aim: float | None = None

    def judge(self, costs: Costs) -> Verdict:
        cheapest = [min(others) for others in zip(*(costs[name] for name in self.theirs), strict=True)]
        best = Ratio(self.ours, "the cheapest", self.times, self.aim)
        asked = f"{self.ours} at most {best.limits()} {pages.CHEAPEST} {', '.join(self.theirs)}"
        ratios = best.ratios({self.ours: costs[self.ours], "the cheapest": cheapest})
        return _verdict(asked, ratios, "x", lambda reached, limit: reached <= limit, self.times, self.aim)


@dataclass(frozen=True)
class Below:
    """``ours`` costs at most ``limit`` of the unit."""

    ours: str
    limit: float
    unit: str = "s"
    aim: float | None = None

    def judge(self, costs: Costs) -> Verdict:
        aim = "" if self.aim is None else f" (aim {amount(self.aim, self.unit)})"
        asked = f"{self.ours} at most {amount(self.limit, self.unit)}{aim}"
        return _verdict(asked, costs[self.ours], self.unit, lambda reached, most: reached <= most, self.limit, self.aim)


@dataclass(frozen=True)
class Either:
    """One of two goals holds: the verdict is that of the first that does, or else of the first."""

    first: Goal
    second: Goal

    def judge(self, costs: Costs) -> Verdict:
        verdicts = [goal.judge(costs) for goal in (self.first, self.second)]
        chosen = next((verdict for verdict in verdicts if verdict.met), verdicts[0])
        return replace(chosen, asked=" or ".join(verdict.asked for verdict in verdicts))


def _verdict(
    asked: str,
    values: Sequence[float],
    unit: str,
    holds: Callable[[float, float], bool],
    limit: float,
    aim: float | None,
) -> Verdict:
    def text(value: float) -> str:
        return amount(value, unit) if unit != "x" else f"{value:.2f}x" if value < 9.995 else f"{number(value)}x"

    low, middle, high = quartiles(values)
    reached, lowest, highest = map(text, (middle, low, high))
    met = holds(middle, limit)
    return Verdict(asked, reached, f"{lowest} to {highest}", met, None if aim is None else holds(middle, aim))


def figure(name: str, unit: str, costs: Costs, goals: Sequence[Goal] = (), note: str = "") -> Figure:
    """Make a figure from the cost of each contestant in each round."""
    spreads = {contestant: Spread(*map(_short, quartiles(values))) for contestant, values in costs.items()}
    rounds = len(next(iter(costs.values())))
    return Figure(name, unit, rounds, spreads, [goal.judge(costs) for goal in goals], note)


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
    """Ask every contestant once a round, in a rotating order, and judge the goals.

    Args:
        name: the question.
        unit: of what the contestants return, as :func:`benches.pages.amount` reads it.
        contestants: name -> callable that runs one round and returns its cost.
        rounds: the number of rounds that count.
        goals: the goals to judge.
        warm: rounds before the others, which do not count.
        note: a remark for readers of the figure.
    """
    names = list(contestants)
    costs: dict[str, list[float]] = {contestant: [] for contestant in names}
    for round_number in range(-warm, rounds):
        first = round_number % len(names)
        for contestant in names[first:] + names[:first]:
            cost = contestants[contestant]()
            if round_number >= 0:
                costs[contestant].append(cost)
    return figure(name, unit, costs, goals, note)


@dataclass
class Report:
    """The figures of one run. Each is printed as soon as it is there; :meth:`finish` writes the JSON and the page."""

    title: str
    options: argparse.Namespace
    about: Mapping[str, Any] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    missing: Sequence[str] = ()
    """Parts without which the page is not written."""

    def __post_init__(self) -> None:
        self.machine = machine(**self.about)

    def add(self, figure: Figure) -> None:
        """Take in a figure and print it."""
        self.figures.append(figure)
        print("\n" + pages.section(figure), flush=True)

    def finish(self) -> int:
        """Write the JSON and the page: the published ones after a whole run of a clean commit, else copies in ``target``.

        A published run takes what the runs before it reached into its ranges.

        Returns:
            The exit code 0: a missed goal is a finding and stands in the page.
        """
        options = self.options
        part = options.quick or options.only or options.rounds or options.out is not None
        against = self.against_publishing()
        publish = not part and not against
        folder = pages.RESULTS if publish else options.out or ROOT / "target" / "benchmarks"
        folder.mkdir(parents=True, exist_ok=True)
        run, path = runs.Run(self.title, self.machine, self.figures), folder / f"{self.title}.json"
        if publish:
            former = runs.read(path) if path.is_file() else None
            run = ranges.following(run, former, again=bool(getattr(options, "part", ())))
        runs.write(run, path)
        pages.publish(run, pages.RENDERED if publish else folder)
        if publish:
            pages.state(run)
        print("\n" + pages.losses(run))
        if not part and against:
            print(f"\nnot published: {against}")
        elif publish and not any(verdict.earlier for figure in run.figures for verdict in figure.verdicts):
            print("\nrun it again in another hour: each goal has the figures of one run so far")
        print(f"\n{path}")
        return 0

    def against_publishing(self) -> str:
        """Returns why the figures of this run must not be published; "" if they may be."""
        if not self.machine["clean"]:
            return "the tree has uncommitted changes"
        if self.missing:
            return f"these parts of this commit are missing: {', '.join(self.missing)}"
        load = self.machine["load_before"]
        return (
            f"the machine was busy, with a load of {load} before the run (at most {QUIET})"
            if load and load > QUIET
            else ""
        )


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def machine(**more: object) -> dict[str, Any]:
    """Describe where the figures were measured: processor, cores, versions, commit, load. ``more`` is added."""
    others = [f":!{path}" for path in MADE]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "clean": not _git("status", "--porcelain", "--untracked-files=no", "--", ".", *others),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        **more,
    }


def seconds(work: Callable[[], object]) -> float:
    """Measure the time of ``work``."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def processor_seconds(work: Callable[[], object]) -> float:
    """Measure the processor time of this thread for ``work``, without that of other programs."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


def rounds(options: argparse.Namespace, usual: int, quick: int = 3) -> int:
    """Return the number of rounds: the requested number, or the usual one."""
    return options.rounds or (quick if options.quick else usual)


def wanted(name: str, options: argparse.Namespace) -> bool:
    """Return whether a figure was requested."""
    return options.only.lower() in name.lower()


def run(title: str, *figures: Callable[[Report, argparse.Namespace], None]) -> int:
    """Run the figures whose function was asked for by its name, and write the report.

    Args:
        title: of the report.
        figures: each adds its figures to the report, and is a part of its own for ``--part``.
    """
    names = [add.__name__ for add in figures]
    options = arguments(title, names)
    report = Report(title, options)
    run_parts(report, names, [functools.partial(add, report, options) for add in figures])
    return report.finish()


def run_parts(report: Report, names: Sequence[str], figures: Sequence[Callable[[], None]]) -> None:
    """Run the parts that were asked for; with ``--part``, the report then has all that there are of this commit.

    Args:
        report: gets the figures.
        names: of all parts, in order.
        figures: each adds the figures of one part to the report.
    """
    options, machine = report.options, report.machine
    whole = not (options.quick or options.rounds or options.only)
    parts = Parts(report.title, names, machine if whole else {**machine, "clean": False})
    for name, add in zip(names, figures, strict=True):
        if name in options.part if options.part else wanted(name, options):
            before = len(report.figures)
            add()
            if options.part:
                parts.keep_figures(name, report.figures[before:])
    if options.part:
        report.figures[:] = parts.figures()
        report.missing = parts.missing()
        machine["load_before"] = parts.load_before()


def arguments(parser: argparse.ArgumentParser | str, parts: Sequence[str] = ()) -> argparse.Namespace:
    """Add the options that every benchmark has to its own, and read them from the command line.

    Args:
        parser: the benchmark's own options, or just what its figures are of.
        parts: the names of the parts in which it can be run, if any.
    """
    if isinstance(parser, str):
        parser = argparse.ArgumentParser(description=f"The {parser} figures.")
    parser.add_argument(
        "--quick", action="store_true", help="fewer items and rounds: to see that it runs, not to quote"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only the figures whose name contains this")
    if parts:
        note = "only these parts; the page is written once all parts of a commit are there"
        parser.add_argument("--part", nargs="+", default=[], choices=parts, help=note)
    parser.add_argument("--rounds", type=int, default=None, help="rounds that count")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="where JSON and page go")
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
        done = subprocess.run(["git", *command], capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit("this is the protocol; run a benchmark, such as: python -m benches.versus.delayed")
