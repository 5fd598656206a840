"""Checks of arguments for this room. Each error shows the name and the value."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

E = TypeVar("E", bound=enum.Enum)


def whole(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least ``least``.

    Raises:
        TypeError, ValueError: the value is no such number.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number >= {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value!r}")
    return value


def member(kind: type[E], value: Any, wanted: str) -> E:
    """Return the member of an enum for its name.

    Args:
        kind: the enum.
        value: a member, or its value.
        wanted: the name of the argument and its possible values, for the error.
    Raises:
        ValueError: there is no such member.

    Example:
        >>> from drainq.spark.rows import Rows
        >>> member(Rows, "arrow", "rows must be ...")
        <Rows.ARROW: 'arrow'>
    """
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{wanted}, got {value!r}") from None
