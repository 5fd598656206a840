"""Finds the logs that have more bad lines than the command allows.

A log that was loaded before is judged by its stored counts, so a second run gives the same answer as the first.
A complaint shows the first bad line, its number and the reason. The command prints complaints, and raises none of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from drainq.metrics.outcome import COMMON, LogCounts
from drainq.metrics.summary import shortened
from drainq.metrics.tables import BAD_LINES, SOURCES

if TYPE_CHECKING:
    from drainq.metrics.follow.counted import Counted
    from drainq.sql import Database

SHOWN = 200  # characters of a bad line


def complaints(database: Database, logs: Iterable[LogCounts], max_bad: float) -> list[str]:
    """Return a sentence for each log of which more than ``max_bad`` percent of the lines are bad."""
    quote, mark = database.dialect.quote, database.dialect.placeholder
    found = []
    for log in logs:
        path, lines, bad, first = log.path, log.lines, log.bad, log.first_bad
        if not lines:
            stored = f"SELECT source, lines, bad FROM {quote(SOURCES.name)} WHERE sha256 = {mark}"
            [(path, lines, bad)] = database.execute(stored, [log.sha256]) or [(path, 0, 0)]
        if not lines or bad * 100 <= max_bad * lines:
            continue
        first = first or _stored_first(database, path)
        where = ""
        if first:
            remedy = "; declare another format with --format" if bad == lines else ""
            read_as = "" if log.format is None else f" (read as {log.format or COMMON}{remedy})"
            where = f"; the first is line {first[0]:,}: {first[1]}{read_as}: {shortened(first[2], SHOWN)}"
        found.append(f"{bad:,} of {lines:,} lines of {log.path!r} are bad, more than {max_bad:g} %{where}")
    return found


def followed_logs(rows: Iterable[Counted], path: str, total: LogCounts) -> Sequence[LogCounts]:
    """Return the counts of the followed file, or of the directory's existing files; if no line is bad, of this run."""
    is_directory = os.path.isdir(path)
    found = []
    for row in rows:
        name = os.path.join(path, row.name) if is_directory else path
        if os.path.exists(name) if is_directory else row.name == os.path.basename(path):
            found.append(LogCounts(name, row.sha256, row.lines, row.parsed, row.bad))
    return found if any(log.bad for log in found) else [total]


def _stored_first(database: Database, path: str) -> tuple[int, str, str] | None:
    """Return the number of a log's first bad line, the reason and the line, or None if several logs had this name."""
    quote, mark = database.dialect.quote, database.dialect.placeholder
    if len(database.execute(f"SELECT 1 FROM {quote(SOURCES.name)} WHERE source = {mark}", [path])) > 1:
        return None
    statement = (
        f"SELECT line_number, reason, line FROM {quote(BAD_LINES.name)} WHERE source = {mark} ORDER BY line_number"
    )
    rows = database.execute(f"{statement} LIMIT 1", [path])
    return rows[0] if rows else None
