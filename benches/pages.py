"""The pages of figures: one maker for all of them, from the JSON that a run wrote.

Run it:  python -m benches.pages [TITLE ...]      renders the pages of benches/results into build/figures

A page in docs/benchmarks has text of its own around one region, which stays empty there and is made here: the machine,
what drainq loses, how the ratios stand to those of the runs before, and a table a figure with a row a contestant. The
site has the rendered pages. Other documents state some of the figures, in marked places that are made here as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benches import ranges
from benches.runs import Figure, Run, Verdict, read

RESULTS = Path(__file__).resolve().parent / "results"
DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = DOCS / "benchmarks"
RENDERED = DOCS.parent / "build" / "figures"
STATED = (DOCS.parent / "README.md", DOCS / "explain" / "not_the_right_tool.md", DOCS / "howto" / "tuning.md")
"""Documents that state figures of the run of the batch queue, each between ``<!-- NAME -->`` and ``<!-- end of NAME -->``."""
BEGIN, END = "<!-- figures -->", "<!-- end of the figures -->"
OURS = "drainq"
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
CPU = "cpu-"
CHEAPEST = "the cost of the cheapest of"
KNEE = "knee: "
COUNTED = ("item", "message", "line")
"""What is also shown as a rate a second."""


def publish(run: Run, folder: Path) -> Path:
    """Write a run's page with its figures into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    page, known = folder / f"{run.title}.md", PAGES / f"{run.title}.md"
    page.write_text(rendered(known.read_text(encoding="utf-8"), run), encoding="utf-8")
    return page


def rendered(page: str, run: Run) -> str:
    """Return the text of a page with the figures of ``run``."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page of {run.title} has no region {BEGIN} ... {END} for its figures")
    parts = [about(run.machine), losses(run), ranges.summary(run), *map(section, run.figures)]
    return before + BEGIN + "\n" + "\n\n".join(filter(None, parts)) + "\n" + END + after


def state(run: Run) -> None:
    """Put the figures of ``run`` into the other documents that state them."""
    for path in STATED:
        path.write_text(stated(path.read_text(encoding="utf-8"), run), encoding="utf-8")


def stated(document: str, run: Run) -> str:
    """Return the text of a document with the figures of ``run`` in the marked places."""
    for name, text in {"bounded": bounded, "knees": knees}.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if run.title == "batch_queue" and begin in document:
            before, _, rest = document.partition(begin)
            document = before + begin + text(run) + end + rest.partition(end)[2]
    return document


def bounded(run: Run) -> str:
    """Return the lowest and the highest share of the cheapest rival's processor time that an item takes in a bounded
    queue.
    """
    verdicts = [
        verdict
        for figure in run.figures
        for verdict in figure.verdicts
        if f"{OURS} at most" in verdict.asked and CHEAPEST in verdict.asked
    ]
    text = shares([verdict.reached for verdict in verdicts])
    if run.earlier:
        over = shares([reached for verdict in verdicts for reached in ranges.reached(verdict)])
        text += f" (over the last {1 + len(run.earlier)} published runs {over})"
    return text


def shares(reached: Sequence[str]) -> str:
    """Return the lowest and the highest of some ratios as text, as shares.

    Example:
        >>> shares(["0.98x", "10.4x", "9.31x"])
        '0.98 to 10.4'
    """
    return " to ".join(end.removesuffix("x") for end in ranges.ends(reached).split(" to "))


def knees(run: Run) -> str:
    """Return a table of the cost of an item at each value of the settings that decide the size of batches."""
    lines = ["", "| setting | processor time an item |", "| --- | --: |"]
    for figure in run.figures:
        if figure.name.startswith(KNEE):
            lines.append(f"| **{figure.name.removeprefix(KNEE)}** | |")
            lines += [
                f"| {name.removeprefix(f'{OURS}, ')} | {amount(cost.median, figure.unit)} |"
                for name, cost in figure.costs.items()
            ]
    return "\n".join([*lines, ""])


def about(machine: Mapping[str, Any]) -> str:
    """Describe the machine, its software and the commit in one line."""
    versions = [
        f"{name.title()} {machine[name].split()[0]}" for name in ("python", "rust", "postgres") if name in machine
    ]
    commit = f"commit {machine['commit']}" + (", clean" if machine["clean"] else " with uncommitted changes")
    at = machine["at"].replace("T", " ").rpartition(":")[0]
    load = f"load before {machine['load_before']}"
    return ", ".join([machine["processor"], f"{machine['cores']} cores", *versions, commit, f"{at} UTC", load]) + "."


def losses(run: Run) -> str:
    """Return what drainq loses in these figures: missed goals, and cheaper rivals."""
    verdicts = [(figure, verdict) for figure in run.figures for verdict in figure.verdicts]
    missed = [
        f"- Missed, *{figure.name}*: {verdict.asked}; reached {verdict.reached} ({spreads(verdict)})."
        for figure, verdict in verdicts
        if not verdict.met
    ]
    cheaper = [line for figure in run.figures for line in _cheaper(figure)]
    met = f"{len(verdicts) - len(missed)} of {count(len(verdicts), 'goal')} met"
    if not missed and not cheaper:
        return f"**What drainq loses**: nothing here; {met}."
    return "\n".join([f"**What drainq loses** ({met}):", "", *missed, *cheaper])


def _cheaper(figure: Figure) -> Iterator[str]:
    rivals = {name: cost.median for name, cost in figure.costs.items() if not name.startswith((OURS, "("))}
    for name, cost in figure.costs.items():
        ours = amount(cost.median, figure.unit)
        better = sorted((median, rival) for rival, median in rivals.items() if median < cost.median)
        shown = [f"{rival} {text}" for median, rival in better if (text := amount(median, figure.unit)) != ours]
        if name.startswith(OURS) and shown:
            yield f"- Cheaper, *{figure.name}*: {', '.join(shown)}; {name} {ours}."


def section(figure: Figure) -> str:
    """Return a figure as text: a table with a row for each contestant, its notes and its goals."""
    unit = _Unit(figure.unit)
    header = ["contestant", unit.heading]
    if figure.rounds > 1:
        header.append(f"middle half of {figure.rounds} rounds")
    if unit.counted:
        header.append(f"{unit.per}s a second")
    rows = []
    for name, cost in figure.costs.items():
        row = [name, unit.cell(cost.median)]
        if figure.rounds > 1:
            row.append(f"{unit.cell(cost.low)} to {unit.cell(cost.high)}")
        if unit.counted:
            row.append(rate(cost.median * unit.scale))
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        "| " + " | ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) + " |"
        for row in (header, rule, *rows)
    ]
    parts = [f"### {figure.name}", "\n".join(lines)]
    if figure.note:
        parts.append(f"Note: {figure.note}.")
    if figure.verdicts:
        parts.append("\n".join(map(_goal, figure.verdicts)))
    return "\n\n".join(parts)


def _goal(verdict: Verdict) -> str:
    aim = {None: "", True: ", its aim too", False: ""}[verdict.aim]
    mark = f"met{aim}" if verdict.met else "**missed**"
    return f"- {verdict.asked}: {verdict.reached} ({spreads(verdict)}), {mark}"


def spreads(verdict: Verdict) -> str:
    """Return the middle half of this run's rounds, and the range over the last runs if there is one."""
    return "; ".join(filter(None, (verdict.spread, ranges.over_runs(verdict))))


class _Unit:
    """A unit and how a table shows it: ``s/item``, ``us``, ``cpu-ns/item`` for processor time, or any other, such as ``%``.

    A time is shown with its unit in the cell, everything else with its unit in the heading.
    """

    def __init__(self, unit: str) -> None:
        time, _, self.per = unit.partition("/")
        self.cpu = time.startswith(CPU)
        self.name = time.removeprefix(CPU)
        self.is_time = self.name in TIMES
        self.scale = TIMES.get(self.name, 1.0)
        self.heading = unit
        if self.is_time:
            self.heading = "processor time" if self.cpu else "time"
            if self.per:
                self.heading += f" {'an' if self.per[0] in 'aeiou' else 'a'} {self.per}"

    @property
    def counted(self) -> bool:
        """Whether the table shows how many a second that is."""
        return self.is_time and not self.cpu and self.per in COUNTED

    def cell(self, value: float) -> str:
        return amount(value, self.name) if self.is_time else number(value)


def amount(value: float, unit: str = "s") -> str:
    """Format a value with its unit. A time (``s``, ``ms``, ``us``, ``ns``, with or without ``/item``) gets a suitable
    unit.

    Example:
        >>> amount(0.000133, "s/message"), amount(22601, "us"), amount(0.214, "%")
        ('133 us', '22.6 ms', '0.214 %')
    """
    scale = TIMES.get(unit.partition("/")[0].removeprefix(CPU))
    if scale is None:
        return f"{number(value)} {unit.removesuffix('s') if value == 1 else unit}"
    name = next((name for name, size in TIMES.items() if value * scale >= 0.9995 * size), "ns" if value else "s")
    return f"{number(value * scale / TIMES[name])} {name}"


def number(value: float) -> str:
    """Three digits that count, never an exponent, whole from 100 on."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0")


def rate(seconds: float) -> str:
    """Return the number of items a second, if an item takes ``seconds``.

    Example:
        >>> rate(42.4e-9), rate(133e-6), rate(0.5)
        ('23.6 M', '7.52 k', '2')
    """
    if seconds <= 0:
        return ""
    per_second = 1 / seconds
    name, size = next(
        ((name, size) for name, size in ((" M", 1e6), (" k", 1e3)) if per_second >= 0.9995 * size), ("", 1)
    )
    return number(per_second / size) + name


def count(many: int, thing: str) -> str:
    """Return a number of things as text, in the singular or the plural.

    Example:
        >>> count(1, "producer"), count(1000, "item")
        ('1 producer', '1,000 items')
    """
    return f"{many:,} {thing}" + ("" if many == 1 else "s")


def main(titles: Sequence[str]) -> int:
    """Render the pages of these titles, or of all results."""
    for path in [RESULTS / f"{title}.json" for title in titles] or sorted(RESULTS.glob("*.json")):
        run = read(path)
        print(publish(run, RENDERED))
        state(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
