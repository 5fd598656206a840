"""The chart on the first page of the figures: the headline of each published run beside its rivals, then what it loses."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from benches import pages
from benches.runs import Figure, Run

HEADLINES = {
    "batch_queue": "dataclass, 100 types, 4 producers, cpu",
    "multi_queue": "5 sub-queues x 50 writers, one reader",
    "sources": "put + get in turn, str items",
    "delayed": "consume one by one, 4 processes",
    "workers": "PostgreSQL: upsert",
    "service": "99th percentile of the answer",
    "export": "OTLP: points that are there",
    "spark": "counts and sums by key",
    "metrics": "a log with times and paths of its own, the whole command",
    "core": "contend: throughput",
}
"""The figure of each run that a user of that part notices most."""

BEGIN, END = "<!-- chart -->", "<!-- end of the chart -->"


def with_chart(page: str, runs: Iterable[Run]) -> str:
    """Return the text of the figures' first page with the headlines and the losses of these runs."""
    known = {run.title: run for run in runs}
    shown = [(run, _headline(run)) for title in HEADLINES if (run := known.get(title))]
    bars = [_bars(run.title, figure) for run, figure in shown]
    lost = [f"### [{run.title.replace('_', ' ')}]({run.title}.md)\n\n{pages.losses(run)}" for run, _ in shown]
    before, _, rest = page.partition(BEGIN)
    return "\n\n".join([before + BEGIN, *bars, "## What drainq loses", *lost, END + rest.partition(END)[2]])


def _headline(run: Run) -> Figure:
    return next(figure for figure in run.figures if figure.name == HEADLINES[run.title])


def _bars(title: str, figure: Figure) -> str:
    """Return one figure as a table: each contestant with a bar as long as its cost, beside the dearest one."""
    dearest = max(cost.median for cost in figure.costs.values())
    rows = [
        f'<tr><td>{escape(name)}</td><td class="bar"><span style="width: {100 * cost.median / dearest:.1f}%"></span></td>'
        f"<td>{pages.amount(cost.median, figure.unit)}</td></tr>"
        for name, cost in figure.costs.items()
    ]
    caption = f'<caption><a href="../{title}/">{escape(figure.name)}</a></caption>'
    return f'<table class="bars">{caption}{"".join(rows)}</table>'
