"""Logs made for a test, and an independent count of their lines."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from pathlib import Path

from drainq.sketch import DDSketch
from drainq.sql import Database, DatabaseUrl

MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}


def timed_lines(count: int, seed: int) -> list[tuple[str, int, float, str]]:
    """(endpoint, minute, seconds, line) of made-up requests with request times."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        endpoint, minute, seconds = f"/e{dice.randrange(4)}", dice.randrange(3), round(dice.lognormvariate(-3, 1.2), 6)
        client, second, size = dice.randrange(9), dice.randrange(60), dice.randrange(999)
        line = (
            f"10.0.0.{client} - - [01/Jan/2026:10:{minute:02d}:{second:02d} +0000] "
            f'"GET {endpoint}?x HTTP/1.1" 200 {size} "-" "t" {seconds:.6f}'
        )
        found.append((endpoint, minute, seconds, line))
    return found


def lines(count: int, seed: int = 1) -> list[str]:
    """Return only the lines."""
    return [line for *_, line in timed_lines(count, seed)]


def write(path: Path, lines: list[str]) -> str:
    """Write lines to a file; return its name."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def counted(log: Path) -> tuple[dict[tuple[str, str], tuple[int, int, int]], dict[tuple[int, str], int], list[int]]:
    """Endpoint minutes, status minutes and bad lines of a Combined log, counted with nothing but ``str.split``."""
    endpoints: dict[tuple[str, str], tuple[int, int, int]] = {}
    statuses: Counter[tuple[int, str]] = Counter()
    bad = []
    for number, line in enumerate(log.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        pieces = line.split('"')
        if len(pieces) != 7 or pieces[6]:
            bad.append(number)
            continue
        stamp = pieces[0].split("[")[1].split("]")[0]
        date, hour, minute, _ = stamp.split(" ")[0].split(":")
        day, month, year = date.split("/")
        assert stamp.endswith(" +0000")
        moment = datetime.datetime(int(year), MONTHS[month], int(day), int(hour), int(minute)).isoformat() + "Z"
        endpoint = pieces[1].split(" ")[1].split("?")[0]
        status, size = pieces[2].split()
        requests, total, errors = endpoints.get((endpoint, moment), (0, 0, 0))
        endpoints[endpoint, moment] = requests + 1, total + int(size.replace("-", "0")), errors + (int(status) >= 400)
        statuses[int(status), moment] += 1
    return endpoints, dict(statuses), bad


TABLES = (
    "service_minute",
    "endpoint_minute",
    "status_minute",
    "client_hour",
    "user_agent_day",
    "referrer_day",
    "top_endpoints",
    "bad_lines",
    "bad_reasons",
)


def contents(url: DatabaseUrl | str, *, sources: bool = True, raw: bool = False) -> dict[str, list[tuple]]:
    """Return everything in the database, without the time at which it came there.

    Sketches are equal if they count the same, unless ``raw``: the last bits of their sums depend on the order of loads.
    """

    def value(stored: object) -> object:
        return DDSketch.from_bytes(stored) if isinstance(stored, bytes) and not raw else stored

    with Database(url) as database:
        found = {
            table: [
                tuple(map(value, row))
                for row in sorted(database.execute(f"SELECT * FROM {table}"), key=lambda row: repr(row[:3]))
            ]
            for table in TABLES
        }
        if sources:
            found["sources"] = sorted(database.execute("SELECT sha256, source, lines, parsed, bad FROM sources"))
    return found
