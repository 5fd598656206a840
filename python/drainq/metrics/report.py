"""``report.html``: one page about everything in the database, in one file that needs no network.

1. The page's content security policy forbids every request, so even hostile text in a log cannot cause one.
2. Text from logs is escaped, in the plots too.
3. Each plot and table has a name for people who cannot see it. On a narrow screen a plot scrolls, and the page does
   not. On a dark page plots keep their light background.
4. Percentiles of a longer time come from the merged sketches, never from averages of percentiles.
"""

from __future__ import annotations

import datetime
import html
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq._native import DDSketch
from drainq.metrics import plots
from drainq.metrics.metric_types import RELATIVE_ERROR
from drainq.metrics.summary import shortened
from drainq.metrics.tables import PERCENTS
from drainq.sql import Database

if TYPE_CHECKING:
    from drainq.metrics.outcome import JobOutcome

MOST_BINS = 240  # points along a time axis
WIDTHS = [60 * minutes for minutes in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 10080, 40320, 524160)]  # seconds
SHOWN_BAD_LINES = 20

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Service metrics</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root {{ --ink: #222831; --soft: #555f6b; --page: #fff; --tile: #f3f5f8; --line: #e3e7ec; }}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: #e8ebef; --soft: #aab4c0; --page: #14181d; --tile: #232a32;
  --line: #39424d; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin-bottom: 0; }} h2 {{ font-size: 1.1rem; margin: 2.2rem 0 .4rem; }}
p.sub {{ color: var(--soft); margin-top: .2rem; }}
.wide {{ overflow-x: auto; }} svg {{ width: 100%; min-width: 40rem; height: auto; background: #fff; }}
.tiles {{ display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }}
.tile {{ flex: 1 1 8rem; background: var(--tile); border-radius: .5rem; padding: .6rem .9rem; }}
.tile b {{ display: block; font-size: 1.35rem; }} .tile span {{ color: var(--soft); font-size: .85rem; }}
caption {{ text-align: left; color: var(--soft); }}
table {{ border-collapse: collapse; width: 100%; font-size: .86rem; }}
th, td {{ text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; }} td.t {{ overflow-wrap: anywhere; }}
</style></head><body><main>
<h1>Service metrics</h1><p class="sub">{span}</p>
{body}
</main></body></html>
"""


def write_report(database: Database, path: Path, outcome: JobOutcome) -> None:
    """Write the page.

    Args:
        database: where the metrics are; everything loaded so far is shown.
        path: the file to write. outcome: the run whose endpoints are shown.
    """
    # one transaction: PostgreSQL streams only inside one, and all plots show one state of the tables
    with database.transaction():
        service = [(_second(minute), requests, errors, size) for minute, requests, errors, size in database.stream(
            "SELECT minute, requests, errors, bytes FROM service_minute ORDER BY minute")]  # fmt: skip
        statuses = Counter(
            dict(database.execute("SELECT status, CAST(SUM(requests) AS BIGINT) FROM status_minute GROUP BY status"))
        )
        width = bin_width([row[0] for row in service])
        latency: dict[int, DDSketch] = defaultdict(_sketch)  # by the start of each bin
        for minute, sketch in database.stream("SELECT minute, latency FROM service_minute WHERE latency IS NOT NULL"):
            latency[_second(minute) // width * width].merge(DDSketch.from_bytes(sketch))
        bad = database.execute(
            "SELECT source, line_number, line, reason FROM bad_lines "
            f"ORDER BY source, line_number LIMIT {SHOWN_BAD_LINES}"
        )
        sources = database.execute(
            "SELECT source, lines, parsed, bad, loaded_at FROM sources ORDER BY loaded_at, source"
        )
    path.write_text(_page(service, width, statuses, latency, outcome.top, bad, sources), encoding="utf-8")


def _page(
    service: list[tuple[int, int, int, int]], width: int, statuses: Counter[int], latency: dict[int, DDSketch],
    top: list[tuple[str, int, int]], bad: list[tuple[Any, ...]], sources: list[tuple[Any, ...]],
) -> str:  # fmt: skip
    requests, errors = sum(row[1] for row in service), sum(row[2] for row in service)
    body = [_tiles(requests, errors, sum(row[3] for row in service), latency, sum(row[3] for row in sources))]
    if service:
        body += [plots.over_time(service, width), plots.endpoints(top), plots.shares(statuses)]
    else:
        body.append("<p>No requests were loaded yet.</p>")
    if latency:
        body.append(plots.percentiles(latency, width, f"Request times, percentiles (each within {RELATIVE_ERROR:.0%})"))
    if bad:
        body += [
            f"<h2>Bad lines (the first {len(bad)})</h2>",
            _table(
                "Lines that are in neither log format, with the reason",
                ("source", "line", "reason", "text"),
                [(b[0], b[1], b[3], shortened(b[2], 300)) for b in bad],
            ),
        ]
    body += [
        "<h2>Logs</h2>",
        _table("Every log in the database", ("log", "lines", "parsed", "bad", "loaded at"), sources),
    ]
    span = "nothing loaded"
    if service:
        first, last = plots.text_of(service[0][0]), plots.text_of(service[-1][0])
        span = f"{first} to {last} UTC, one point for {plots.duration(width)}"
    return _PAGE.format(span=span, body="\n".join(body))


def bin_width(seconds: list[int]) -> int:
    """Choose the narrowest of ``WIDTHS`` that puts these times into at most ``MOST_BINS`` bins."""
    if not seconds:
        return WIDTHS[0]
    return next((width for width in WIDTHS if seconds[-1] // width - seconds[0] // width < MOST_BINS), WIDTHS[-1])


def _tiles(requests: int, errors: int, size: int, latency: dict[int, DDSketch], bad: int) -> str:
    tiles = [
        (f"{requests:,}", "requests"),
        (f"{errors / requests:.2%}" if requests else "-", f"errors ({errors:,})"),
        (_size(size), "sent"),
    ]
    whole = _sketch()
    for sketch in latency.values():
        whole.merge(sketch)
    for percent in PERCENTS if whole.count else ():
        tiles.append((f"{whole.quantile(percent / 100):.3g} ms", f"p{percent}"))
    tiles.append((f"{bad:,}", "bad lines"))
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
        + "</div>"
    )


def _table(caption: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    numeric = [all(isinstance(row[place], int) for row in rows) and bool(rows) for place in range(len(header))]
    head = "".join(
        f'<th scope="col" class="n">{name}</th>' if number else f'<th scope="col">{name}</th>'
        for name, number in zip(header, numeric)
    )
    lines = []
    for row in rows:
        cells = (
            f'<td class="n">{cell:,}</td>' if number else f'<td class="t">{html.escape(shortened(str(cell), 400))}</td>'
            for cell, number in zip(row, numeric)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    name = html.escape(caption)
    return (
        f'<div class="wide" role="region" aria-label="{name}" tabindex="0"><table><caption>{name}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _sketch() -> DDSketch:
    return DDSketch(RELATIVE_ERROR)


def _second(minute: str) -> int:
    return int(datetime.datetime.fromisoformat(minute.replace("Z", "+00:00")).timestamp())


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"
