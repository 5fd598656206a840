"""``--explain``: shows how the first lines of a log are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from drainq.columns import parse_access_log
from drainq.metrics.log_files import find
from drainq.metrics.log_formats import bad_requests, table_of, unwrapped
from drainq.metrics.open_log import BOM, opened
from drainq.metrics.outcome import COMMON
from drainq.metrics.storable_text import text
from drainq.metrics.summary import shortened

LINES = 10
WIDEST = 200


def explained(path: str, format: str | None) -> Iterator[str]:
    """Yield the format of a log, then each of its first lines with the columns or the reason why the line is no record.

    Raises:
        UserError: the log cannot be read, or several formats fit.
    """
    source = find(0, path, format)
    yield f"{path}: read as {source.format or COMMON}"
    with opened(path) as file:
        for number, line in enumerate(itertools.islice(file, LINES), start=1):
            inner = unwrapped(line.removeprefix(BOM) if number == 1 else line, source.format)
            columns, bad = parse_access_log(inner, table_of(source.format))
            yield f"line {number}: {shortened(text(line.rstrip()), WIDEST)}"
            for row in columns.to_pylist():
                for name, value in row.items():
                    yield f"    {name:13}{shortened(text(value), WIDEST) if isinstance(value, bytes) else value}"
            requests = bad_requests(bad, source.format)
            yield from (f"    {'bad line: ' if requests else ''}{reason}" for *_, reason in bad)
