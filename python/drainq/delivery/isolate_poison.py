"""Poison isolation: halve a refused batch until each poison item stands alone.

1. Parts are sent in the order of their items, so a later item of a key is sent later.
2. A batch of n items with one poison item takes at most ``2 * ceil(log2(n))`` further calls of the sink.
"""

from __future__ import annotations

from typing import Any


class Parts:
    """The parts of one batch that are still to be sent.

    Example:
        >>> parts = Parts([1, 2, 3])
        >>> part = parts.next()
        >>> parts.halve(part), parts.next(), parts.left()
        (True, [1], [2, 3])
        >>> parts.halve([1])
        False
    """

    def __init__(self, items: list[Any]) -> None:
        self._parts = [items]  # the next one last

    def next(self) -> list[Any] | None:
        """Remove and return the next part, or None if there is none."""
        while self._parts:
            part = self._parts.pop()
            if part:
                return part
        return None

    def halve(self, part: list[Any]) -> bool:
        """Split a refused part into two. Return False if it is a single item: the poison."""
        if len(part) == 1:
            return False
        half = len(part) // 2
        self._parts += [part[half:], part[:half]]
        return True

    def left(self) -> list[Any]:
        """Return the items of all parts that :meth:`next` has not returned, in order."""
        return [item for part in reversed(self._parts) for item in part]
