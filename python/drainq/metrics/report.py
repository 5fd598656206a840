"""``report.html``: one page about everything in the database, in one file that needs no network.

1. The page's content security policy forbids every request, so even hostile text in a log cannot cause one. It allows
   one script, by its digest: a click on a column's head sorts the table.
2. Text from logs is escaped, in the plots too.
3. Each plot and table has a name for people who cannot see it. On a narrow screen a plot scrolls, and the page does
   not. On a dark page plots keep their light background.
4. Percentiles of a longer time come from the merged sketches, never from averages of percentiles.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drainq._native import DDSketch, __version__
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
SHOWN_NAMES = 10  # clients, referrers, slow endpoints

_SORT = """
for (const head of document.querySelectorAll("th")) head.firstChild.onclick = () => {
  const body = head.closest("table").tBodies[0], place = head.cellIndex, down = head.ariaSort !== "descending";
  const value = row => row.cells[place].textContent, number = row => parseFloat(value(row).replaceAll(",", ""));
  const order = (a, b) => head.className ? (number(a) || 0) - (number(b) || 0) : value(a).localeCompare(value(b));
  body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * order(a, b)));
  for (const each of head.parentNode.cells) each.ariaSort = each === head ? (down ? "descending" : "ascending") : null;
};
"""
_DIGEST = base64.b64encode(hashlib.sha256(_SORT.encode()).digest()).decode()

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Service metrics</title>
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'">
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
.wide {{ overflow-x: auto; }} svg {{ width: 100%; min-width: 40rem; height: auto; }}
.tiles {{ display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }}
.tile {{ flex: 1 1 8rem; background: var(--tile); border-radius: .5rem; padding: .6rem .9rem; }}
.tile b {{ display: block; font-size: 1.35rem; }} .tile span {{ color: var(--soft); font-size: .85rem; }}
caption {{ text-align: left; color: var(--soft); }}
table {{ border-collapse: collapse; width: 100%; font-size: .86rem; }}
th, td {{ text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
th button {{ font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }}
th[aria-sort] button {{ text-decoration: underline; }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; }} td.t {{ overflow-wrap: anywhere; }}
</style></head><body><main>
<h1>Service metrics</h1><p class="sub">{span}; made {made} UTC by drainq {version}</p>
{body}
</main><script>{script}</script></body></html>
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
        width = bin_width([row[0] for row in service])
        statuses: Counter[int] = Counter()
        classes: Counter[tuple[str, int]] = Counter()  # by class and the start of each bin
        for minute, status, requests in database.stream("SELECT minute, status, requests FROM status_minute"):
            statuses[status] += requests
            classes[f"{status // 100}xx", _second(minute) // width * width] += requests
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
        tables = _tables(database, [name for name, *_ in outcome.top])
    plotted = plots.classes(classes, width) if service else ""
    page = _page(service, width, statuses, latency, outcome.top, bad, sources, [plotted, *tables])
    path.write_text(page, encoding="utf-8")


def _tables(database: Database, top: list[str]) -> list[str]:
    """Return the tables of endpoints, clients and referrers that are not empty."""
    first = f"ORDER BY 2 DESC, 1 LIMIT {SHOWN_NAMES}"
    slow = database.execute(
        f"SELECT endpoint, MAX(p99_ms) FROM endpoint_minute WHERE p99_ms > 0 GROUP BY endpoint {first}"
    )
    clients = database.execute(
        "SELECT client, CAST(SUM(requests) AS BIGINT), CAST(SUM(errors) AS BIGINT), CAST(SUM(bytes) AS BIGINT) "
        f"FROM client_hour GROUP BY client {first}"
    )
    referrers = database.execute(
        f"SELECT referrer, CAST(SUM(requests) AS BIGINT) FROM referrer_day GROUP BY referrer {first}"
    )
    of = {name: _endpoint(database, name) for name in {*top, *(name for name, _ in slow)}}
    head = ("endpoint", "requests", "errors", "errors %", "bytes", "p50 ms", "p99 ms")
    names = ("client", "requests", "errors", "bytes")
    found = [
        ("Endpoints with the most requests", head, [(name, *of[name]) for name in top]),
        (
            "Endpoints with the slowest minutes",
            (*head, "p99 ms of that minute"),
            [(name, *of[name], worst) for name, worst in slow],
        ),
        ("Clients with the most requests", names, clients),
        ("Referrers with the most requests", ("referrer", "requests"), referrers),
    ]
    return [f"<h2>{html.escape(name)}</h2>\n{_table(name, columns, rows)}" for name, columns, rows in found if rows]


def _endpoint(database: Database, name: str) -> tuple[Any, ...]:
    """Return an endpoint's requests, errors, their share in percent, bytes, and p50 and p99 of its request times."""
    mark, whole, counts = database.dialect.placeholder, _sketch(), [0, 0, 0]
    statement = f"SELECT requests, errors, bytes, latency FROM endpoint_minute WHERE endpoint = {mark}"
    for *numbers, sketch in database.execute(statement, [name]):
        counts = [count + number for count, number in zip(counts, numbers)]
        if sketch is not None:
            whole.merge(DDSketch.from_bytes(sketch))
    requests, errors, size = counts
    times = [whole.quantile(share) if whole.count else None for share in (0.5, 0.99)]
    return requests, errors, 100 * errors / max(1, requests), size, *times


def _page(
    service: list[tuple[int, int, int, int]], width: int, statuses: Counter[int], latency: dict[int, DDSketch],
    top: list[tuple[str, int, int]], bad: list[tuple[Any, ...]], sources: list[tuple[Any, ...]], more: list[str],
) -> str:  # fmt: skip
    requests, errors = sum(row[1] for row in service), sum(row[2] for row in service)
    body = [_tiles(requests, errors, sum(row[3] for row in service), latency, sum(row[3] for row in sources))]
    if service:
        body += [plots.over_time(service, width), plots.endpoints(top), plots.shares(statuses)]
    else:
        body.append("<p>No requests were loaded yet.</p>")
    if latency:
        body.append(plots.percentiles(latency, width, f"Request times, percentiles (each within {RELATIVE_ERROR:.0%})"))
    body += more
    if bad:
        body += [
            f"<h2>Bad lines (the first {len(bad)})</h2>",
            _table(
                "Lines that are no record, with the reason",
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
    made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")
    text = "\n".join(body)
    return _PAGE.format(span=span, body=text, made=made, version=__version__, script=_SORT, digest=_DIGEST)


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
    numbers = (int, float, type(None))
    numeric = [bool(rows) and all(isinstance(row[place], numbers) for row in rows) for place in range(len(header))]
    head = "".join(
        f'<th scope="col" class="{"n" * number}"><button type="button">{name}</button></th>'
        for name, number in zip(header, numeric)
    )
    lines = []
    for row in rows:
        cells = (
            f'<td class="n">{_number(cell)}</td>'
            if number
            else f'<td class="t">{html.escape(shortened(str(cell), 400))}</td>'
            for cell, number in zip(row, numeric)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    name = html.escape(caption)
    return (
        f'<div class="wide" role="region" aria-label="{name}" tabindex="0"><table><caption>{name}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _number(cell: float | None) -> str:
    return "-" if cell is None else f"{cell:,}" if isinstance(cell, int) else f"{cell:,.2f}"


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
