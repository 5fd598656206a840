"""The whole page as a reader sees it: all its texts in their order, and what each plot is drawn with."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.metrics import plots
from drainq.metrics.metric_types import RELATIVE_ERROR
from drainq.metrics.outcome import JobOutcome
from drainq.metrics.report import write_report
from drainq.sketch import DDSketch

BAD = [f"a.log|{number}|odd|&lt;b&gt;{number}" for number in range(76, 101, 2)]
BAD += [f"b.log|{number}|odd|&lt;b&gt;{number}" for number in range(77, 91, 2)]
PAGE = [
    "Service metrics|2026-01-01 10:00 to 2026-01-02 10:00 UTC, one point for 15 minutes",
    "3,003|requests|0.10%|errors (3)|3 MB|sent|40 ms|p50|60 ms|p90|60 ms|p99|25|bad lines",
    "Requests and errors over time",
    "0|400|800|1,200|1,600|2,000|01-01 12:00|01-01 15:00|01-01 18:00|01-01 21:00|01-02 00:00|01-02 03:00|01-02 06:00|"
    "01-02 09:00|in 15 minutes|requests|errors (status 400 and above)",
    "Top 2 endpoints",
    f"2. /b|1. /{'a' * 44}...|\u20021,003|\u20022,000",
    "Status shares",
    "600|500|200|\u20020.03%  (1)|\u20020.10%  (3)|\u200299.87%  (3,000)",
    "Request times, percentiles (each within 1%)",
    "40|48|56|64|01-01 12:00|01-01 15:00|01-01 18:00|01-01 21:00|01-02 00:00|01-02 03:00|01-02 06:00|01-02 09:00|"
    "milliseconds|p50|p90|p99",
    "Statuses over time",
    "0|400|800|1,200|1,600|2,000|01-01 12:00|01-01 15:00|01-01 18:00|01-01 21:00|01-02 00:00|01-02 03:00|01-02 06:00|"
    "01-02 09:00|in 15 minutes|2xx|5xx|6xx",
    "Endpoints with the most requests",
    "Endpoints with the most requests|endpoint|requests|errors|errors %|bytes|p50 ms|p99 ms|"
    f"/{'a' * 60}|0|0|0.00|0|-|-|/b|0|0|0.00|0|-|-",
    "Bad lines (the first 20)",
    "|".join(["Lines that are no record, with the reason|source|line|reason|text", *BAD]),
    "Logs",
    "Every log in the database|log|lines|parsed|bad|loaded at|b.log|3,000|2,985|15|2026-01-01|"
    f"{'a' * 397}...|1,003|993|10|2026-01-02",
]


@pytest.fixture
def drawn(monkeypatch):
    """Collects the charts that are drawn."""
    charts, draw = [], plots._drawn
    monkeypatch.setattr(plots, "_drawn", lambda chart, title: charts.append(chart) or draw(chart, title))
    return charts


def texts(page):
    """Return the texts of each line and of each picture, without those of a picture's styles."""
    page = re.sub(
        r"<(style|script).*?</\1>|; made 20.*? by drainq [^<]*", "", page.partition("<main>")[2], flags=re.DOTALL
    )
    lines = [
        re.sub(r"\|+", "|", re.sub(r"<[^>]*>", "|", line)).strip("|") for line in re.split(r"\n|<svg|</svg>", page)
    ]
    return [re.sub(r'^ role="img"[^|]*\|', "", line) for line in lines if line.strip("|")]


@pytest.mark.usefixtures("in_tokyo")
def test_the_page_says_all_of_this_and_nothing_else(database, tmp_path, drawn):
    minutes = [f"2026-01-0{day}T10:0{minute}:00Z" for day, minute in ((1, 0), (1, 1), (2, 0))]
    with database.transaction():
        for place, minute in enumerate(minutes):
            sketch = DDSketch(RELATIVE_ERROR)
            sketch.add(20.0 * (place + 1), 10)
            row = (minute, 1000 + place, 1_000_000, place, sketch.to_bytes() if place else None)
            database.execute("INSERT INTO service_minute (minute, requests, bytes, errors, latency) VALUES (?, ?, ?, ?, ?)", row)  # fmt: skip
            database.execute("INSERT INTO status_minute VALUES (200, ?, 1000), (500, ?, ?)", (minute, minute, place))
        database.execute("INSERT INTO status_minute VALUES (600, ?, 1)", (minutes[0],))
        for n in reversed(range(76, 101)):
            database.execute("INSERT INTO bad_lines VALUES (?, ?, ?, 'odd')", (f"{'ab'[n % 2]}.log", n, f"<b>{n}"))
        database.execute("INSERT INTO sources VALUES ('2', ?, 1003, 993, 10, '2026-01-02')", ("a" * 500,))
        database.execute("INSERT INTO sources VALUES ('1', 'b.log', 3000, 2985, 15, '2026-01-01')")
    outcome = JobOutcome([], top=[("/" + "a" * 60, 2000, 1), ("/b", 1003, 1)])
    write_report(database, tmp_path / "report.html", outcome)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert texts(page) == PAGE
    first, end = 1767261600, 1767261600 + 86_400 + 900
    assert [settings(chart) for chart in drawn] == [
        {**AGAINST_TIME, "range": (0, 2000 * 1.05), "xrange": (first, end), "show_dots": False, "legend_at_bottom_columns": 3,
         "colors": (plots.CLASSES["2xx"], plots.CLASSES["5xx"], plots.SOFT)},
        {**AGAINST_TIME, "range": (0, 2001 * 1.05), "xrange": (first, end), "colors": (plots.BLUE, plots.RED),
         "show_dots": False, "legend_at_bottom_columns": 2},
        {**BARS, "range": (0, 2000 * 1.2), "height": 96},
        {**BARS, "range": (0, 3000 * 1.2), "height": 124},
        {**AGAINST_TIME, "range": pytest.approx((40 / 1.2, 60 * 1.2), rel=RELATIVE_ERROR), "xrange": (first, end),
         "colors": plots.PERCENTILE_COLOURS, "logarithmic": True, "legend_at_bottom_columns": 3},
    ]  # fmt: skip
    _, over_time, _, shares, percentiles = drawn
    assert [options.get("fill") for _, options in over_time.raw_series] == [True, None]
    assert [options["allow_interruptions"] for _, options in percentiles.raw_series] == [True] * 3
    assert [(options["title"], sorted(set(values))[-1]) for values, options in drawn[0].raw_series] == [
        ("2xx", (1767348900, 1000)), ("5xx", (1767348900, 2)), ("6xx", (1767348900, 0)),
    ]  # fmt: skip
    assert [bar["color"] for bar in shares.raw_series[0][0]] == [plots.SOFT, plots.CLASSES["5xx"], plots.CLASSES["2xx"]]


def test_the_page_of_an_empty_database_says_only_this(database, tmp_path):
    write_report(database, tmp_path / "report.html", JobOutcome([]))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert texts(page) == [
        "Service metrics|nothing loaded",
        "0|requests|-|errors (0)|0 bytes|sent|0|bad lines",
        "No requests were loaded yet.",
        "Logs",
        "Every log in the database|log|lines|parsed|bad|loaded at",
    ]
    assert 'class="n"' not in page


SETTINGS = (
    "range",
    "xrange",
    "logarithmic",
    "height",
    "show_dots",
    "print_values",
    "show_legend",
    "legend_at_bottom_columns",
)
AGAINST_TIME = dict(zip(SETTINGS, (None, None, False, 300, True, False, True, None)))
BARS = {**AGAINST_TIME, "print_values": True, "show_legend": False, "colors": (plots.INK,)}


def settings(chart):
    """Return what a chart is drawn with."""
    given = {**chart.config.to_dict(), **vars(chart)}
    return {**{name: given[name] for name in SETTINGS}, "colors": given["style"]["colors"]}


def test_a_hostile_title_is_text_and_an_axis_shows_what_tells_its_marks_apart(drawn):
    plots.shares({200: 1})
    assert "&lt;b&gt;" in plots._drawn(drawn[0], "<b>") and 'id="chart-plot-b"' in plots._drawn(drawn[0], "<b>")
    second = 1767261600  # 2026-01-01 10:00
    for length, label in ((3600, "10:00"), (86_400, "01-01 10:00"), (30 * 86_400, "2026-01-01")):
        chart = plots._against_time(second, second + length, (plots.INK,))
        assert chart.config.x_value_formatter(second) == label
    nothing = DDSketch(RELATIVE_ERROR)
    nothing.add(0.0, 1)
    plots.percentiles({0: nothing}, 60, "times")
    assert (drawn[-1].range, drawn[-1].logarithmic) == ((0, 1), False), "a logarithmic axis has no place for 0"
    assert [end - begin for begin, end in pairwise(plots.ticks(0, 100 * 365 * 86_400))] == [4563 * 86_400] * 7
    assert plots.duration(600) == "10 minutes"
