"""Output of ``drainq delayed``: tables that fit the terminal, and JSON for programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

_NARROWEST = 6
"""Characters that a column keeps at least; a terminal narrower than all of them wraps."""


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    print(msgspec.json.encode(value).decode())


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns. On a terminal the widest cells are cut, with "...", until a row fits into a line."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    room = _width()
    while room is not None and sum(widths) + 2 * (len(widths) - 1) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    for row in [head, *rows]:
        print("  ".join(_cut(cell, width).ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_line(text: str) -> None:
    """Print one line, cut to the width of a terminal, and whole in a pipe."""
    room = _width() if sys.stdout.isatty() else None
    print(text if room is None else _cut(text, max(room, _NARROWEST)))


def _width() -> int | None:
    """Return the characters in a line. None if the output is no terminal and no environment variable sets the width."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def shown(payload: bytes, most: int = 60) -> str:
    """Return a payload as one line of printable text."""
    return printable(payload.decode("utf-8", "backslashreplace"), most)


def printable(text: str, most: int | None = None) -> str:
    """Escape characters that would move the cursor."""
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return text if most is None or len(text) <= most else text[:most] + "..."


def second(at: datetime) -> str:
    """Format a time to the second, in UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%S")
