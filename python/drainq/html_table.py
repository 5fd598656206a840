"""The table that a notebook shows for a queue, or for its counters: one function for all classes.

A notebook calls ``_repr_html_`` of the value of a cell. The table has a caption, and each heading says whether it heads
a row or a column, so that a screen reader can read it aloud. All text is escaped, and no item, payload or database URL
is in it.
"""

from __future__ import annotations

import dataclasses
import html
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

__all__ = ["of", "table"]

NATIVE_ATTRIBUTES = (GetSetDescriptorType, MemberDescriptorType)
PARTS = {"sub_queues": "sub-queue", "sources": "source"}
"""The counters that are a mapping of further counters, and what its keys stand for."""
MOST_ROWS = 20
"""Sub-queues, or sources, that a table shows."""


def of(thing: Any) -> str:
    """Show a queue with its counters, or the counters alone.

    Args:
        thing: a queue with a method ``stats``, or what this method returns.
    Returns:
        A table in HTML.

    Example:
        >>> from drainq import SetQueue
        >>> print(of(SetQueue().stats()).splitlines()[1])
        <caption>SetQueueStats</caption>
    """
    if not callable(getattr(thing, "stats", None)):
        return _counters(type(thing).__name__, thing)
    caption = _shown(thing).strip("<>")
    try:
        return _counters(caption, thing.stats())
    except Exception as error:  # a database that is away, say; the message might name it
        return table(caption, ("counter", "value"), [("counters", f"not readable: {type(error).__name__}")])


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Make a table of text and numbers; the first cell of each row is its heading.

    Args:
        caption: what the table shows.
        header: the headings of the columns.
        rows: the cells of each row, as many as there are columns.

    Example:
        >>> print(table("Queue <a>", ("counter", "value"), [("put", 1200)]))
        <table>
        <caption>Queue &lt;a&gt;</caption>
        <thead><tr><th scope="col">counter</th><th scope="col">value</th></tr></thead>
        <tbody>
        <tr><th scope="row">put</th><td>1,200</td></tr>
        </tbody>
        </table>
    """
    heads = "".join(f'<th scope="col">{_text(name)}</th>' for name in header)
    lines = [
        f'<tr><th scope="row">{_text(name)}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    ]
    head = f"<caption>{_text(caption)}</caption>\n<thead><tr>{heads}</tr></thead>"
    return "\n".join(["<table>", head, "<tbody>", *lines, "</tbody>", "</table>"])


def _counters(caption: str, stats: Any) -> str:
    values: dict[str, Any] = dict(_values(stats))
    name_of_parts = next((name for name in PARTS if name in values), None)
    if name_of_parts is None:
        return table(caption, ("counter", "value"), values.items())
    parts, kind = values.pop(name_of_parts), PARTS[name_of_parts]
    if len(parts) > MOST_ROWS:
        caption = f"{caption}: {MOST_ROWS} of {len(parts):,} {kind}s, and all together"
    names = [name for name in values if all(hasattr(part, name) for part in parts.values())]
    others = [f"{name} {_text(value, escaped=False)}" for name, value in values.items() if name not in names]
    caption = ", ".join([caption, *others])
    rows = [(_shown(key), *(getattr(part, name) for name in names)) for key, part in list(parts.items())[:MOST_ROWS]]
    return table(caption, (kind, *names), [*rows, ("all", *(values[name] for name in names))])


def _values(stats: Any) -> Iterator[tuple[str, object]]:
    """The counters by name; those of a mapping, such as the rejected items by reason, one by one."""
    if hasattr(stats, "as_dict"):
        values = stats.as_dict()
    elif dataclasses.is_dataclass(stats):
        values = {field.name: getattr(stats, field.name) for field in dataclasses.fields(stats)}
    else:
        members = sorted(vars(type(stats)).items())
        values = {name: getattr(stats, name) for name, member in members if isinstance(member, NATIVE_ATTRIBUTES)}
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in PARTS:
            yield from ((f"{name}, {_text(key, escaped=False)}", count) for key, count in value.items())
        else:
            yield name, value


def _text(value: object, *, escaped: bool = True) -> str:
    if value is None or isinstance(value, bool):
        text = {None: "none", True: "yes", False: "no"}[value]
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:,.6g}"
    else:
        text = value if isinstance(value, str) else _shown(value)
    return html.escape(text) if escaped else text


def _shown(value: object) -> str:
    """A short repr, or the name of the class if the repr raises."""
    try:
        return reprlib.repr(value) if isinstance(value, (str, bytes, tuple, list, dict, set)) else repr(value)
    except Exception:
        return f"an object of class {type(value).__name__}"
