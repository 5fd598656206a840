"""Ranges: a goal's ratio over the last published runs, and the goals whose ratio changed.

A machine is not the same on another day, so a ratio of one run is one sample. A published run therefore carries what the
runs before it reached for the same goals, and its page shows the range over all of them.

1. Only ratios have a range: absolute values of different runs are never compared.
2. A goal is the same if its figure's name and its text are the same. A goal that is changed starts a range of its own.
3. A range is that of the medians of at most ``RUNS`` published runs, the run that the page shows included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benches.runs import Earlier, Figure, Run, Verdict

RUNS = 5
NEAR = 1.15
"""A ratio came back if the runs differ by no more than this factor."""


def following(run: Run, former: Run | None, again: bool = False) -> Run:
    """Return the run to publish next, with the ratios of the runs before it.

    Args:
        run: what was measured now.
        former: the run that is published now, with its own earlier runs; None: there is none.
        again: the run replaces the former one if both are of one commit, because it shares some of its parts.
    """
    if former is None:
        return run
    before = list(former.earlier)
    replaced = again and former.machine["commit"] == run.machine["commit"]
    if former.machine["clean"] and not replaced:
        before.insert(0, Earlier(former.machine["commit"], former.machine["at"]))
    before = before[: RUNS - 1]
    known = {(figure.name, verdict.asked): verdict for figure in former.figures for verdict in figure.verdicts}

    def earlier(figure: Figure, verdict: Verdict) -> dict[str, str]:
        of = known.get((figure.name, verdict.asked))
        if of is None or ratio(verdict.reached) is None:
            return {}
        reached = {former.machine["at"]: of.reached, **of.earlier}
        return {one.at: text for one in before if (text := reached.get(one.at)) is not None and ratio(text) is not None}

    figures = [
        replace(figure, verdicts=[replace(verdict, earlier=earlier(figure, verdict)) for verdict in figure.verdicts])
        for figure in run.figures
    ]
    return replace(run, figures=figures, earlier=before)


def ratio(reached: str) -> float | None:
    """Return the number of a ratio such as ``0.98x`` or ``1,204x``, or None.

    Example:
        >>> ratio("1,204x"), ratio("8.19 ms")
        (1204.0, None)
    """
    return float(reached[:-1].replace(",", "")) if reached.endswith("x") else None


def ends(reached: Sequence[str]) -> str:
    """Return the lowest and the highest of some ratios as text.

    Example:
        >>> ends(["0.98x", "10.4x", "9.31x"])
        '0.98x to 10.4x'
    """
    return f"{min(reached, key=_number)} to {max(reached, key=_number)}"


def _number(reached: str) -> float:
    return ratio(reached) or 0.0


def over_runs(verdict: Verdict) -> str:
    """Return the range of a goal's ratio over the last runs as text, or "" if no earlier run had the goal.

    Example:
        >>> over_runs(Verdict("at most 1x", "0.98x", "0.97x to 1.01x", True, earlier={"2026-01-01T00:00:00Z": "0.83x"}))
        'over 2 runs 0.83x to 0.98x'
    """
    return f"over {1 + len(verdict.earlier)} runs {ends(reached(verdict))}" if verdict.earlier else ""


def reached(verdict: Verdict) -> list[str]:
    """Return the ratios of a goal in this run and in the earlier ones."""
    return [verdict.reached, *verdict.earlier.values()]


def came_back(verdict: Verdict) -> bool:
    """Return whether the ratios of a goal in its runs differ by at most the factor ``NEAR``."""
    numbers = list(map(_number, reached(verdict)))
    return max(numbers) <= NEAR * min(numbers)


def summary(run: Run) -> str:
    """List the runs of the ranges, and tabulate the ratios that did not come back. Return "" without earlier runs."""
    ratios = [(figure, verdict) for figure in run.figures for verdict in figure.verdicts if verdict.earlier]
    if not ratios:
        return ""
    moved = [(figure, verdict) for figure, verdict in ratios if not came_back(verdict)]
    runs = ", ".join(f"{one.commit} of {one.at.replace('T', ' ').rpartition(':')[0]} UTC" for one in run.earlier)
    came = f"{len(ratios) - len(moved)} of {len(ratios)} ratios differ by at most {100 * (NEAR - 1):.0f} %"
    text = f"**Over the last published runs** (this one, {runs}): {came} between them."
    if not moved:
        return text
    rows = [
        f"| {figure.name} | {verdict.asked} | {verdict.reached} | {ends(reached(verdict))} |"
        for figure, verdict in moved
    ]
    head = ["| figure | goal | this run | all runs |", "| --- | --- | --: | --: |"]
    return "\n".join([text + " Read the others as ranges:", "", *head, *rows])
