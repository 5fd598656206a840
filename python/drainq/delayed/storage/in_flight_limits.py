"""In-flight limits: compute how many more messages may be in flight, for the whole queue and by key prefix.

A prefix counts every message whose key begins with it, and one key may begin with several prefixes. A back end counts
the messages in flight. Then it checks each due message, in the order of delivery, for room. A message without room is
skipped, so a full prefix delays no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Room:
    """The room below the limits.

    Args:
        limits: the most messages in flight, by key prefix; ``""`` is the whole queue.
        in_flight: the keys of the messages in flight.

    Example:
        >>> room = Room({"": 3, "mail/": 1}, in_flight=["mail/a"])
        >>> room.take("mail/b"), room.take("x"), room.take("y"), room.take("z")
        (False, True, True, False)
        >>> room.full()
        ['', 'mail/']
    """

    def __init__(self, limits: Mapping[str, int], in_flight: Iterable[str]) -> None:
        self._left = dict(limits)
        for key in in_flight:
            for prefix in limits:
                self._left[prefix] -= key.startswith(prefix)

    def take(self, key: str) -> bool:
        """Take room for a message of this key. Return whether there was room."""
        prefixes = [prefix for prefix in self._left if key.startswith(prefix)]
        if any(self._left[prefix] <= 0 for prefix in prefixes):
            return False
        for prefix in prefixes:
            self._left[prefix] -= 1
        return True

    def full(self) -> list[str]:
        """Return the prefixes without room."""
        return [prefix for prefix, left in self._left.items() if left <= 0]
