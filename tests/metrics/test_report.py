"""The page, the summary and the progress line."""

from __future__ import annotations

import base64
import gc
import hashlib
import html
import io
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")


from drainq import __version__
from drainq.metrics import plots, report
from drainq.metrics.metric_types import RELATIVE_ERROR
from drainq.metrics.outcome import JobOutcome, LogCounts, Stage
from drainq.metrics.progress import Progress
from drainq.metrics.report import MOST_BINS, bin_width, write_report
from drainq.metrics.summary import as_json, shortened, summary
from drainq.sketch import DDSketch

HOSTILE = '/<script>alert(1)</script>$x^2$&"\x07\u202e\U0001f980'


def fill(database):
    with database.transaction():
        for minute in range(3):
            at = f"2026-01-01T10:{minute:02d}:00Z"
            database.execute(
                "INSERT INTO service_minute (minute, requests, bytes, errors) VALUES (?, 10, 1000, 1)", (at,)
            )
            database.execute("INSERT INTO status_minute VALUES (200, ?, 9), (500, ?, 1)", (at, at))
            sketch = DDSketch(RELATIVE_ERROR)
            sketch.add(20.0 + minute, 10)
            database.execute("UPDATE service_minute SET latency = ? WHERE minute = ?", (sketch.to_bytes(), at))
            database.execute(
                "INSERT INTO endpoint_minute (endpoint, minute, requests, bytes, errors, p99_ms, latency) "
                "VALUES (?, ?, 8, 800, 1, ?, ?), ('/slow', ?, 2, 9, 0, 900.5, ?)",
                (HOSTILE, at, 20.0 + minute, sketch.to_bytes(), at, sketch.to_bytes()),
            )
            database.execute(
                "INSERT INTO client_hour VALUES (?, ?, ?, 70, 3), (?, ?, 9, 1, 1)", ("::1", at, minute, HOSTILE, at)
            )
            database.execute("INSERT INTO referrer_day VALUES (?, ?, 4)", (HOSTILE, at))
        database.execute("INSERT INTO bad_lines VALUES (?, 7, ?, 'cut off')", (HOSTILE, HOSTILE))
        database.execute("INSERT INTO sources VALUES ('x', ?, 31, 30, 1, '2026-01-01')", (HOSTILE,))
    return JobOutcome([], top=[(HOSTILE, 25, 2500), ("/", 5, 500)])


class Reader(HTMLParser):
    """Notes what a page would load or run."""

    def __init__(self):
        super().__init__()
        self.tags, self.outside = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [
            (tag, name, value)
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#")
        ]


def page_of(database, tmp_path, outcome):
    path = tmp_path / "report.html"
    write_report(database, path, outcome)
    text = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    return text, reader


def test_the_page_has_its_five_plots_and_asks_nothing_of_the_network(database, tmp_path, recwarn):
    gc.collect()  # of other tests, which may warn when they are collected
    recwarn.clear()
    text, reader = page_of(database, tmp_path, fill(database))
    assert reader.tags.count("svg") == 5
    assert re.search(r"<b>21(\.\d)? ms</b><span>p50<", text)  # of all minutes together
    assert reader.outside == [] and "desc" not in reader.tags and "url(http" not in text
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", text)]
    shown = html.escape(shortened(HOSTILE, 400))
    p99 = pytest.approx(22, rel=0.01)
    assert [shown, "24", "3", "12.50", "2,400"] in [row[:5] for row in rows]
    assert [float(row[6]) for row in rows if row[:2] == [shown, "24"]] == [p99, p99]
    slowest = [(row[0], row[7]) for row in rows if len(row) == 8]
    assert slowest == [("/slow", "900.50"), (shown, "22.00")]
    assert [row for row in rows if row[0] == "::1" or row[1:] in (["27", "3", "3"], ["12"])] == [
        [shown, "27", "3", "3"], ["::1", "3", "9", "210"], [shown, "12"],
    ]  # fmt: skip
    assert re.search(rf"; made 20\d\d-\d\d-\d\d \d\d:\d\d UTC by drainq {re.escape(__version__)}<", text)
    assert not [str(w.message) for w in recwarn]


def test_a_point_of_several_minutes_has_the_percentiles_of_all_of_them(database, tmp_path):
    with database.transaction():
        for minute, milliseconds in ((0, 900.0), (1, 20.0), (MOST_BINS + 1, 20.0)):
            sketch = DDSketch(RELATIVE_ERROR)
            sketch.add(milliseconds, 10)
            at = f"2026-01-01T{10 + minute // 60}:{minute % 60:02d}:00Z"
            database.execute("INSERT INTO status_minute VALUES (200, ?, 10)", (at,))
            database.execute("INSERT INTO service_minute (minute, requests, bytes, errors, latency) VALUES (?, 10, 0, 0, ?)", (at, sketch.to_bytes()))  # fmt: skip
    text, _ = page_of(database, tmp_path, JobOutcome([], top=[("/", 30, 0)]))
    assert re.search(r"<b>(89|90)\d ms</b><span>p90<", text) and re.search(r"<b>20(\.\d)? ms</b><span>p50<", text)


def test_a_hostile_path_is_text(database, tmp_path):
    text, _ = page_of(database, tmp_path, fill(database))
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert "$x^2$" in text and "\x07" not in text and "\u202e" not in text


@pytest.mark.parametrize("span", [0, 60, 86_400, 30 * 86_400, 20 * 365 * 86_400])
def test_a_time_axis_has_a_bounded_number_of_points(span):
    width = bin_width([1_000_000_020, 1_000_000_020 + span])
    assert (1_000_000_020 + span) // width - 1_000_000_020 // width < MOST_BINS


def test_what_the_plots_are_drawn_from(monkeypatch):
    charts = []
    monkeypatch.setattr(plots, "_drawn", lambda chart, title: charts.append(chart) or title)
    plots.over_time([(0, 5, 1, 0), (60, 7, 2, 0), (120, 1, 0, 0)], 120)
    assert [list(values) for values, _ in charts.pop().raw_series] == [
        [(0, 12), (120, 12), (120, 1), (240, 1)],
        [(0, 3), (120, 3), (120, 0), (240, 0)],
    ]
    assert plots.endpoints([("/a", 5, 0), ("/b", 3, 0)]) == "Top 2 endpoints"
    assert charts.pop().x_labels == ["2. /b", "1. /a"]  # from below
    plots.shares({500: 1, 200: 3})
    bars = charts[0].raw_series[0][0]
    assert charts.pop().x_labels == ["500", "200"] and [bar["color"] for bar in bars] == [
        plots.CLASSES["5xx"],
        plots.CLASSES["2xx"],
    ]
    none, some = DDSketch(RELATIVE_ERROR), DDSketch(RELATIVE_ERROR)
    none.add(0.0, 1)
    some.add(8.0, 1)
    plots.percentiles({60: some, 0: none}, 60, "times")
    assert [second for second, _ in charts[0].raw_series[0][0]] == [0, 60]
    assert [value for _, value in charts.pop().raw_series[0][0]] == [None, pytest.approx(8.0, rel=RELATIVE_ERROR)]


def test_widths_sizes_and_the_marks_of_an_axis():
    assert [bin_width([0, 60 * minutes]) for minutes in (239, 240)] == [60, 300]
    assert [report._size(count) for count in (999, 1000, 1_500_000, 2.5e15)] == [
        "999 bytes", "1 kB", "1.5 MB", "2.5 PB",
    ]  # fmt: skip
    assert plots.ticks(0, 480) == list(range(0, 481, 60)) and plots.ticks(0, 540) == [0, 300]
    assert plots.ticks(30, 90) == [60] and plots.ticks(61, 62) == [61]
    assert [plots.duration(seconds) for seconds in (60, 300, 3600, 7200, 86_400, 61)] == [
        "a minute", "5 minutes", "an hour", "2 hours", "a day", "61 s",
    ]  # fmt: skip


QUEUE = {
    "offered": 9,
    "accepted": 9,
    "rejected_full": 0,
    "handled": 9,
    "failed": 0,
    "unrouted": 0,
    "dead_lettered": 0,
    "abandoned": 0,
    "queued": 0,
}


def outcome(**changes):
    made = JobOutcome(
        [LogCounts("a.log", "x", lines=10, parsed=9, bad=1)], queue=dict(QUEUE), l2=dict(QUEUE), parsed_in_tables=9
    )
    made.stages.append(Stage("read", 10, "lines", 0.5))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


SUMMARY = """\
rank  endpoint      requests  bytes
----  ------------  --------  -----
   1  /a long name     1,234     12
   2  /b                   9  1,100

stage        items     time        pace
-----  -----------  -------  ----------
read      10 lines   0.50 s  20 lines/s
start      1 Spark  12.25 s           -
load   1,000 dozen   0.00 s           -

b.log: loaded before, not counted again

lines    10 read = 9 parsed + 1 bad; 9 requests in the tables: ok
tasks    11 offered = 9 accepted + 2 rejected (full 1 closed 1); accepted = 9 handled + 0 failed + 0 unrouted + \
0 dead-lettered + 0 abandoned + 0 queued: WRONG
load     9 offered = 9 accepted + 0 rejected; accepted = 4 handled + 1 failed + 1 unrouted + 1 dead-lettered + \
1 abandoned + 1 queued: WRONG"""


def test_the_summary_is_this_text_and_this_json():
    stages = [Stage("read", 10, "lines", 0.5), Stage("start", 1, "Spark", 12.25), Stage("load", 1000, "dozen", 0.0)]
    lost = dict.fromkeys(("failed", "unrouted", "dead_lettered", "abandoned", "queued"), 1)
    made = outcome(
        top=[("/a long name", 1234, 12), ("/b", 9, 1100)], stages=stages, written={"t": 3},
        queue={**QUEUE, "offered": 11, "rejected_full": 1, "rejected_closed": 1}, l2={**QUEUE, **lost, "handled": 4},
    )  # fmt: skip
    made.sources.append(LogCounts("b.log", "y", loaded_before=True))
    assert summary(made) == SUMMARY
    log = {"lines": 0, "parsed": 0, "bad": 0, "loaded_before": False, "before": 0}
    log |= {"bad_before": 0, "first_bad": None, "format": None, "reasons": {}}
    assert json.loads(as_json(made, "report.html")) == {
        "reconciled": False, "lines": 10, "parsed": 9, "bad": 1, "parsed_in_tables": 9,
        "logs": [{**log, "path": "a.log", "sha256": "x", "lines": 10, "parsed": 9, "bad": 1},
                 {**log, "path": "b.log", "sha256": "y", "loaded_before": True}],
        "top": [{"endpoint": "/a long name", "requests": 1234, "bytes": 12},
                {"endpoint": "/b", "requests": 9, "bytes": 1100}],
        "stages": [{"name": "read", "items": 10, "unit": "lines", "seconds": 0.5},
                   {"name": "start", "items": 1, "unit": "Spark", "seconds": 12.25},
                   {"name": "load", "items": 1000, "unit": "dozen", "seconds": 0.0}],
        "queues": {"tasks": made.queue, "load": made.l2}, "written": {"t": 3}, "report": "report.html",
    }  # fmt: skip
    assert outcome().reconciled and summary(outcome()).count(": ok") == 3


@pytest.mark.parametrize("change", [
    {"parsed_in_tables": 8},
    {"queue": {**QUEUE, "offered": 10, "rejected_full": 1}},
    {"queue": {**QUEUE, "handled": 8, "abandoned": 1}},
    {"sources": [LogCounts("a.log", "x", lines=11, parsed=9, bad=1)]},
    *({"queue": {**QUEUE, counter: QUEUE[counter] + 1}} for counter in QUEUE),
    {"l2": {**QUEUE, "offered": 10, "accepted": 10, "failed": 1}},
])  # fmt: skip
def test_anything_unaccounted_for_is_said_and_not_reconciled(change):
    wrong = outcome(**change)
    assert not wrong.reconciled and "WRONG" in summary(wrong)


def test_shortened_text_is_printable_and_short():
    assert shortened("a\nb\x00") == "a\\x0ab\\x00" and len(shortened("x" * 99, 10)) == 10 == len(
        shortened("x" * 11, 10)
    )
    assert shortened("x" * 10, 10) == "x" * 10


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_terminals_alone():
    quiet, terminal = io.StringIO(), Terminal()
    for stream in (quiet, terminal):
        with Progress(stream).during("reading", lambda: (1, 2)):
            pass
    assert quiet.getvalue() == "" and "reading" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[K")


def test_the_progress_line_counts_the_tasks_once_there_are_some_until_they_cannot_be_asked(monkeypatch):
    terminal, answers, joined = Terminal(), iter([(0, 0), (0, 3), (2, 3)]), []

    def start(watch, name, args):
        *given, ended = args
        watch(*given, SimpleNamespace(wait=lambda seconds: ended.is_set()))
        return SimpleNamespace(join=lambda: joined.append(ended.is_set()))

    monkeypatch.setattr("drainq.metrics.progress.start_thread", start)
    with Progress(terminal).during("reading", lambda: next(answers)):
        shown = terminal.getvalue().split("\r\x1b[K")
    assert shown == ["", "reading", "reading: 0/3 tasks", "reading: 2/3 tasks"] and joined == [True]
