"""Layout: fits the commands' lines to a terminal, down to 40 columns."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

_PIPE = 100  # columns where the output goes to no terminal, and no environment variable says its width


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
