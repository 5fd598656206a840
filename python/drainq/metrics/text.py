"""Text that fits: values on one printable line, rows under a header."""

from __future__ import annotations

from collections.abc import Sequence

WIDEST = 60  # characters of an endpoint in the table


def shortened(text: str, width: int = WIDEST) -> str:
    """The text on one printable line of at most ``width`` characters."""
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return printable if len(printable) <= width else printable[: width - 3] + "..."


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns under a header; those in ``right`` are set to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
