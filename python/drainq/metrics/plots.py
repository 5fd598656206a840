"""The plots of the report: an ``<svg>`` each, drawn by pygal.

pygal is a small charting library in pure Python: importing it and drawing a page's plots takes less than a tenth of a
second.

1. A plot runs and loads nothing: pygal's script, which shows the values beside the pointer, is removed.
2. The same values give the same text, without a date or a random name.
3. Each plot has a name for people who cannot see it.

Source: https://www.pygal.org
"""

from __future__ import annotations

import datetime
import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drainq.metrics.summary import shortened
from drainq.metrics.tables import PERCENTS

if TYPE_CHECKING:
    from drainq._native import DDSketch

BLUE, RED, INK, SOFT, GUIDE, GROUND = "#2f6fab", "#c8452d", "#222831", "#8a94a0", "#e3e7ec", "#ffffff"
CLASSES = {"1xx": "#9aa5b1", "2xx": "#4c9f70", "3xx": "#6a8fc7", "4xx": "#e0a33a", "5xx": "#c8452d"}
PERCENTILE_COLOURS = ("#9cc3e6", "#2f6fab", "#12304f")
WIDTH, LINE_HEIGHT, BAR_HEIGHT, MARGIN = 960, 300, 28, 40  # of a plot, in the units of its picture
MOST_TICKS = 9
_TEXT_AFTER_BAR = "inline:.text-overlay text { text-anchor: start !important }"  # pygal centres it on the bar's end
MINUTE, HOUR, DAY = 60, 3600, 86_400  # seconds
STEPS = [*(n * MINUTE for n in (1, 5, 10, 30)), *(n * HOUR for n in (1, 3, 6, 12)), *(n * DAY for n in (1, 2, 7, 28))]


def over_time(service: Sequence[tuple[int, int, int, int]], width: int) -> str:
    """Plot the number of requests and of errors in each ``width`` seconds.

    Args:
        service: second, requests, errors and bytes of each minute; at least one.
    """
    requests: Counter[int] = Counter()
    errors: Counter[int] = Counter()
    for second, count, wrong, _ in service:
        requests[second // width * width] += count
        errors[second // width * width] += wrong
    bins = range(min(requests), max(requests) + width, width)
    chart = _against_time(bins[0], bins[-1] + width, (BLUE, RED), y_title=f"in {duration(width)}", show_dots=False)
    chart.range = (0, max(requests.values()) * 1.05)
    chart.add("requests", _steps(bins, width, requests), fill=True)
    chart.add("errors (status 400 and above)", _steps(bins, width, errors))
    return _drawn(chart, "Requests and errors over time")


def percentiles(latency: Mapping[int, DDSketch], width: int, title: str) -> str:
    """Plot percentiles of the request times in milliseconds. ``latency``: bin start -> sketch, not empty."""
    bins = sorted(latency)
    chart = _against_time(bins[0], bins[-1] + width, PERCENTILE_COLOURS, y_title="milliseconds", dots_size=1.6)
    lines = [[latency[second].quantile(percent / 100) or 0.0 for second in bins] for percent in PERCENTS]
    times = [time for line in lines for time in line if time]
    chart.logarithmic = bool(times)
    chart.range = (min(times) / 1.2, max(times) * 1.2) if times else (0, 1)
    for percent, line in zip(PERCENTS, lines):  # a logarithmic axis has no place for 0
        points = [(second, time if time or not times else None) for second, time in zip(bins, line)]
        chart.add(f"p{percent}", points, allow_interruptions=True)
    return _drawn(chart, title)


def endpoints(top: Sequence[tuple[str, int, int]]) -> str:
    """Plot the requests of the endpoints with the most requests."""
    bars = [
        (f"{rank}. {shortened(name, 48)}", count, f"{count:,}", BLUE) for rank, (name, count, _) in enumerate(top, 1)
    ]
    return _drawn(_bars(bars), f"Top {len(top)} endpoints")


def shares(statuses: Mapping[int, int]) -> str:
    """Plot each status's share of the requests."""
    total = sum(statuses.values())
    bars = [
        (str(status), count, f"{count / total:.2%}  ({count:,})", CLASSES.get(f"{status // 100}xx", SOFT))
        for status, count in sorted(statuses.items())
    ]
    return _drawn(_bars(bars), "Status shares")


def classes(counts: Mapping[tuple[str, int], int], width: int) -> str:
    """Plot the requests of each class of statuses. ``counts``: (class, bin start) -> requests, not empty."""
    seconds = [second for _, second in counts]
    bins = range(min(seconds), max(seconds) + width, width)
    found = sorted({name for name, _ in counts})
    colours = [CLASSES.get(name, SOFT) for name in found]
    chart = _against_time(bins[0], bins[-1] + width, colours, y_title=f"in {duration(width)}", show_dots=False)
    chart.range = (0, max(counts.values()) * 1.05)
    for name in found:
        chart.add(name, _steps(bins, width, {second: counts.get((name, second), 0) for second in bins}))
    return _drawn(chart, "Statuses over time")


def ticks(first: int, last: int) -> list[int]:
    """Choose the labelled seconds of a time axis: at round times, at least one and at most ``MOST_TICKS``."""
    step = next((step for step in STEPS if (last - first) // step < MOST_TICKS), 0)
    step = step or -(-(last - first) // (MOST_TICKS - 1) // DAY) * DAY
    return list(range(-(-first // step) * step, last + 1, step)) or [first]


def text_of(second: int) -> str:
    """Format a time for the page."""
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")


def duration(seconds: int) -> str:
    """Describe a width of bins in words, such as ``a minute`` and ``5 minutes``."""
    for unit, length in (("day", DAY), ("hour", HOUR), ("minute", MINUTE)):
        if seconds % length == 0:
            count = seconds // length
            return f"{'an' if unit == 'hour' else 'a'} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{seconds} s"


def _steps(bins: Sequence[int], width: int, counts: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the corners of a line that is level within each bin."""
    return [corner for second in bins for corner in ((second, counts[second]), (second + width, counts[second]))]


def _against_time(first: int, last: int, colours: Sequence[str], **options: Any) -> Any:
    import pygal

    marked = ticks(first, last)
    days = len({second // DAY for second in marked}) > 1
    cut = slice(0, 10) if all(second % DAY == 0 for second in marked) else slice(5, 16) if days else slice(11, 16)
    return pygal.XY(
        _config(LINE_HEIGHT, colours),
        xrange=(first, last),
        x_labels=marked,
        x_value_formatter=lambda second: text_of(int(second))[cut],
        value_formatter=lambda value: f"{value:,.10g}",
        max_scale=6,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(colours),
        legend_box_size=10,
        stroke_style={"width": 1.4},
        **options,
    )


def _bars(bars: Sequence[tuple[str, int, str, str]]) -> Any:
    """Draw bars from the top down. Each bar has a name, a length, a text at its end, and a colour."""
    import pygal

    chart = pygal.HorizontalBar(
        _config(MARGIN + BAR_HEIGHT * len(bars), [INK], opacity="1"),
        css=("file://style.css", "file://graph.css", _TEXT_AFTER_BAR),
        show_legend=False,
        show_x_labels=False,
        show_y_guides=False,
        print_values=True,
        print_values_position="top",
        range=(0, max(length for _, length, _, _ in bars) * 1.2),
    )
    upwards = list(reversed(bars))
    chart.x_labels = [name for name, *_ in upwards]
    chart.add("", [
        {"value": length, "formatter": lambda _, text=text: f"\u2002{text}", "color": colour}
        for _, length, text, colour in upwards
    ])  # fmt: skip
    return chart


def _config(height: int, colours: Sequence[str], *, opacity: str = ".25") -> Any:
    from pygal import Config
    from pygal.style import Style

    style = Style(
        background=GROUND, plot_background="transparent", colors=tuple(colours), opacity=opacity,
        foreground=INK, foreground_strong=INK, foreground_subtle=GUIDE, value_colors=(INK,),
        guide_stroke_color=GUIDE, guide_stroke_dasharray="none",
        major_guide_stroke_color=GUIDE, major_guide_stroke_dasharray="none",
        font_family="inherit", label_font_size=12, major_label_font_size=12, legend_font_size=12, title_font_size=12,
        value_font_size=12, transition="none",
    )  # fmt: skip
    return Config(
        style=style, width=WIDTH, height=height, margin=8, margin_right=36, js=(), disable_xml_declaration=True,
        truncate_label=-1, truncate_legend=-1,
    )  # fmt: skip


def _drawn(chart: Any, title: str) -> str:
    """Return a heading and an ``<svg>``."""
    name = html.escape(title)
    chart.uuid = f"plot-{''.join(filter(str.isalpha, title))}"
    chart.add_xml_filter(_still)
    svg = chart.render(is_unicode=True).replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    return f'<h2>{name}</h2><div class="wide" role="region" aria-label="{name}" tabindex="0">{svg}</div>'


def _still(root: Any) -> Any:
    """Remove scripts, descriptions and titles from the picture."""
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.rpartition("}")[2] in ("script", "desc", "title"):
                parent.remove(child)
    return root
