"""The results of a benchmark run, and their JSON.

1. The goals of a figure are judged when it is measured; nothing here measures or judges.
2. A published run also says what the same goals reached in the published runs before it: :mod:`benches.ranges`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Spread:
    """The middle half of a contestant's rounds: lower quartile, median, upper quartile."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What a goal asked for and what was reached; ``spread`` is the middle half of the rounds.

    ``aim`` says whether the goal's further aim was reached too; None: it has none. ``earlier`` is what the goal reached
    in earlier published runs, by the time of the run, for goals that are ratios.
    """

    asked: str
    reached: str
    spread: str
    met: bool
    aim: bool | None = None
    earlier: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """One question: what it cost each contestant, and how that stands to the goals."""

    name: str
    unit: str
    rounds: int
    costs: Mapping[str, Spread]
    verdicts: Sequence[Verdict]
    note: str = ""


@dataclass(frozen=True)
class Earlier:
    """An earlier published run: its commit and its time."""

    commit: str
    at: str


@dataclass(frozen=True)
class Run:
    """The figures of one run, the machine that made them, and the published runs before it, the last first."""

    title: str
    machine: Mapping[str, Any]
    figures: Sequence[Figure]
    earlier: Sequence[Earlier] = ()


def write(run: Run, path: Path) -> None:
    """Write a run as JSON, a line a figure and a line an earlier run."""
    head = f' "title": {json.dumps(run.title)},\n "machine": {json.dumps(dict(run.machine))},\n'
    earlier, figures = (_lines(rows) for rows in (run.earlier, run.figures))
    path.write_text(f'{{\n{head} "earlier": {earlier},\n "figures": {figures}\n}}\n', encoding="utf-8")


def _lines(rows: Sequence[Earlier] | Sequence[Figure]) -> str:
    return "[\n" + ",\n".join("  " + json.dumps(asdict(row)) for row in rows) + "\n ]" if rows else "[]"


def read(path: Path) -> Run:
    """Read what :func:`write` wrote."""
    run = json.loads(path.read_text(encoding="utf-8"))
    figures = [figure_of(figure) for figure in run["figures"]]
    return Run(run["title"], run["machine"], figures, [Earlier(**earlier) for earlier in run.get("earlier", ())])


def figure_of(made: Mapping[str, Any]) -> Figure:
    """Return the figure from which :func:`dataclasses.asdict` made a dictionary."""
    costs = {name: Spread(**spread) for name, spread in made["costs"].items()}
    verdicts = [Verdict(**verdict) for verdict in made["verdicts"]]
    return Figure(made["name"], made["unit"], made["rounds"], costs, verdicts, made["note"])
