"""The chart of the README: how many items a second go through, end to end, from the JSON of the batch queue's figures.

Run it:  python -m benches.chart [--figure NAME] [--results FILE] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from benches.protocol import RESULTS

FIGURE = "end to end, 4 producers, existing objects"


def main() -> int:
    """Draw the chart that was asked for."""
    parser = argparse.ArgumentParser(description="Draw one figure as bars: items a second, more is better.")
    parser.add_argument("--figure", default=FIGURE, help="the name of a figure in seconds an item")
    parser.add_argument("--results", type=Path, default=RESULTS / "batch_queue.json", help="the JSON of a run")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/batch_queue.svg"), help="the SVG")
    options = parser.parse_args()
    if not options.results.exists():
        print(f"{options.results} is not there: run make bench-python first", file=sys.stderr)
        return 2
    run = json.loads(options.results.read_text(encoding="utf-8"))
    figures = {figure["name"]: figure for figure in run["figures"]}
    if options.figure not in figures:
        print(f"no figure {options.figure!r} in {options.results}; there are: {', '.join(figures)}", file=sys.stderr)
        return 2
    draw(figures[options.figure], run["machine"], options.out)
    print(options.out)
    return 0


def draw(figure: dict, machine: dict, out: Path) -> None:
    """One bar a contestant: the median, with the whole range of the rounds as a line."""
    import matplotlib

    matplotlib.use("svg")
    # The same figures make the same file, and text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "drainq", "svg.fonttype": "none"})
    from matplotlib import pyplot

    rates = {name: sorted(1e-6 / cost for cost in costs) for name, costs in figure["costs"].items()}
    names = sorted(rates, key=lambda name: statistics.median(rates[name]))
    middles = [statistics.median(rates[name]) for name in names]
    spread = [
        [middle - rates[name][0] for name, middle in zip(names, middles, strict=True)],
        [rates[name][-1] - middle for name, middle in zip(names, middles, strict=True)],
    ]
    colours = ["#c2410c" if name == "drainq" else "#94a3b8" for name in names]
    chart, axes = pyplot.subplots(figsize=(8, 0.45 * len(names) + 1.3), layout="constrained")
    bars = axes.barh(names, middles, xerr=spread, color=colours, error_kw={"elinewidth": 1, "ecolor": "#475569"})
    axes.bar_label(bars, labels=[f"{middle:.2f}" for middle in middles], padding=6)
    axes.set_xlabel("million items a second (median; line: all rounds)")
    axes.set_title(figure["name"], loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    chart.supxlabel(
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, commit {machine['commit']}",
        fontsize=7,
        color="#475569",
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    chart.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
