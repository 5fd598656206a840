"""The parts of a batch that are still to be sent: what is refused is halved until the poison stands alone.

1. Parts are sent in the order of their items, so of one key the later item is sent later.
2. A batch of n items with one poison item takes at most ``2 * log2(n) + 1`` further calls of the sink.
"""

from __future__ import annotations

from typing import Any


class Parts:
    """The parts of one batch.

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
        """Return the next part, and leave it out; None when all were returned."""
        while self._parts:
            part = self._parts.pop()
            if part:
                return part
        return None

    def halve(self, part: list[Any]) -> bool:
        """Put a refused part back as two; False if it is a single item: poison that stands alone."""
        if len(part) == 1:
            return False
        half = len(part) // 2
        self._parts += [part[half:], part[:half]]
        return True

    def left(self) -> list[Any]:
        """Return the items of all parts that :meth:`next` has not returned, in order."""
        return [item for part in reversed(self._parts) for item in part]
