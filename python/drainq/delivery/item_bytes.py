"""Item bytes: estimates the memory that an item takes, as its weight in a queue that is bounded in bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

UNITS = 2**20  # the weight of a full queue; small, because a queue has a table that grows with its bound
DEEPEST = 4  # levels of values inside values that are counted


def bytes_of(item: object, depth: int = DEEPEST) -> int:
    """Return about how many bytes an item takes, with the values in it.

    Example:
        >>> 1_000_000 < bytes_of((1, "a" * 1_000_000)) < 1_001_000
        True
    """
    size = sys.getsizeof(item, 64)
    if depth and type(item) not in (str, bytes, int, float, bool):
        size += sum(bytes_of(each, depth - 1) for each in _inside(item))
    return size


def _inside(item: Any) -> Iterator[object]:
    if isinstance(item, (tuple, list, set, frozenset)):
        yield from item
    elif isinstance(item, dict):
        yield from item
        yield from item.values()
    else:
        yield from getattr(item, "__dict__", {}).values()
        for name in getattr(type(item), "__struct_fields__", getattr(type(item), "__slots__", ())):
            yield getattr(item, name, None)


class ItemBytes:
    """Weighs items so that :data:`UNITS` of weight are the bound in bytes, and at most ``most`` items fit.

    Args:
        bound: bytes.
        most: items.

    Example:
        >>> weigh = ItemBytes(1_000_000, most=10_000)
        >>> 2 * weigh.weight("a" * 499_000) < UNITS < 2 * weigh.weight("a" * 501_000), UNITS // weigh.weight("a")
        (True, 9986)
    """

    def __init__(self, bound: int, *, most: int) -> None:
        self.bound, self._least = bound, -(-UNITS // most)

    def weight(self, item: object) -> int:
        """Return the weight of an item."""
        return min(max(self._least, bytes_of(item) * UNITS // self.bound), 2**31 - 1)

    def parts(self, items: list[Any]) -> Iterator[list[Any]]:
        """Yield the items in lists that are within the bound, or of one item."""
        part: list[Any] = []
        size = 0
        for item in items:
            more = bytes_of(item)
            if part and size + more > self.bound:
                yield part
                part, size = [], 0
            part.append(item)
            size += more
        if part:
            yield part
