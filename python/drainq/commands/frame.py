"""One frame of ``drainq top`` as tables that fit the screen, of at least 40 columns. No row is wrapped."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

_PIPE = 100  # columns if the output is no terminal and no environment variable sets the width


def width() -> int:
    """Return the number of columns of a line."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return _PIPE
    return max(20, shutil.get_terminal_size().columns)


def hung(mark: str, text: str, columns: int) -> str:
    """Wrap a text after a mark. Further lines are indented below the text."""
    indent = " " * (len(mark) + 1)
    return textwrap.fill(text, columns, initial_indent=f"{mark} ", subsequent_indent=indent) or mark


def amount(number: float) -> str:
    """Format a number in at most six characters: 999, 12.3k, 1.20M.

    Example:
        >>> amount(999), amount(12_345), amount(1_200_000), amount(0.25)
        ('999', '12.3k', '1.20M', '0.25')
    """
    if number != number:
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= limit:
            scaled = number / (1e3 if unit == "k" else limit)
            return f"{scaled:.{1 if scaled >= 10 else 2}f}{unit}"
    return f"{number:.2f}" if number != int(number) else str(int(number))


_HEADER = ("kind", "name", "waiting", "full", "in/s", "out/s", "lost", "oldest", "busy")
_WIDTHS = (7, 5, 6, 6, 6, 7, 5)
"""Widths of the number columns. With a kind of 7 and a name of 23 characters they fill 80."""
_MOST = 16
"""The most sub-queues of a multi-queue in a frame. Beyond that the fullest are shown."""

Row = tuple[str, ...]
"""The texts of a row, by column of the header."""


def frame(processes: Iterable[dict[str, Any]], columns: int) -> list[str]:
    """Return the lines of a frame: for each process a table with a row for each object.

    Args:
        processes: snapshots, as :func:`drainq.commands.snapshot.snapshot` makes them.
        columns: characters in a line.
    """
    lines: list[str] = []
    for process in processes:
        if process["error"] is not None:
            heads, rows = [f"{process['url']}: {process['error']}"], []
        else:
            heads, rows = [f"{process['url']}, drainq {process['version']}"], list(_rows(process))
            if not rows:
                heads.append("no queue, worker or source is published here; see drainq.monitoring.watch")
        for head in heads:
            lines += textwrap.wrap(head, columns, subsequent_indent="  ")
        lines += [_line(row, columns) for row in [_HEADER, *rows] if rows]
        lines.append("")
    return lines[:-1]


def _line(row: Row, columns: int) -> str:
    kind, name, *numbers = row
    wide = max(8, columns - 8 - sum(_WIDTHS) - len(_WIDTHS))
    if len(name) > wide:
        name = f"{name[: wide // 2]}\u2026{name[len(name) - (wide - 1) // 2 :]}"
    line = f"{kind:8}{name:{wide}}"[:columns]
    for text, size in zip(numbers, _WIDTHS):
        line += f" {text:>{size}}" if len(line) + size < columns else ""  # a number that does not fit is left out
    return line.rstrip()


def _rows(process: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each object, and below it rows for the parts of one of its numbers."""
    for queue in process["batch_queues"]:
        name = queue["name"] + ("" if queue["running"] else " (shut down)")
        room = max(1, queue["capacity"] // max(1, len(queue["partitions"])))
        fullest = max((one["used"] for one in queue["partitions"]), default=0)
        busiest = max((one["busy"] for one in queue["threads"] if one["busy"] is not None), default=None)
        rates = _rate(queue["accepted_per_second"]), _rate(queue["handled_per_second"])
        lost = amount(sum(queue["lost"].values()))
        yield "batch", name, amount(queue["queued"]), _share(fullest / room), *rates, lost, "", _share(busiest)
        yield from (_part(reason, lost=count) for reason, count in queue["lost"].items())
    for queue in process["multi_queues"]:
        rates = _rate(queue["put_per_second"]), _rate(queue["got_per_second"])
        counts = amount(queue["rejected"]), _age(queue["oldest_age"])
        yield "multi", queue["name"], amount(queue["depth"]), "", *rates, *counts
        yield from (_part(*pair) for pair in sorted(queue["sub_queues"].items(), key=lambda pair: -pair[1])[:_MOST])
    for queue in process["delayed_queues"]:
        counts = amount(queue["dead"]), _age(queue["oldest_ready_age"])
        yield "delayed", queue["name"], amount(queue["ready"]), "", "", "", *counts
        yield from (_part("scheduled", queue["scheduled"]), _part("in flight", queue["in_flight"]))
    for worker in process["workers"]:
        lost, sent = amount(worker["refused"] + worker["lost"]), _rate(worker["sent_per_second"])
        yield "worker", worker["name"], amount(worker["pending"]), "", "", sent, lost
        yield from (_part(part, lost=worker[part]) for part in ("refused", "lost") if worker[part])
    for source in process["sources"]:
        full, fetched = _share(source["size"] / max(1, source["capacity"])), _rate(source["fetched_per_second"])
        yield "source", source["name"], amount(source["size"]), full, fetched, "", amount(source["errors"])


def _part(name: str, waiting: int | None = None, *, lost: int | None = None) -> Row:
    waits, loses = ("" if number is None else amount(number) for number in (waiting, lost))
    return "", f"  {name}", waits, "", "", "", loses


def _rate(number: float | None) -> str:
    return "-" if number is None else amount(round(number, 2) if number < 10 else round(number))


def _share(part: float | None) -> str:
    return "-" if part is None else f"{min(1.0, part):.0%}"


def _age(seconds: float) -> str:
    return f"{amount(round(seconds, 1) if seconds < 10 else round(seconds))} s"
