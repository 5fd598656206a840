"""How many more messages may be in flight, for the whole queue and for each key prefix that has a limit.

A prefix counts every message whose key begins with it; the empty one counts them all, and one key may begin with
several. A back end counts what is in flight, and then asks of each due message, in the order of delivery, whether there
is room for it: a message that finds none is stepped over, so that a full prefix holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Room:
    """The room that limits leave.

    Args:
        limits: how many messages at most may be in flight, by key prefix; ``""`` is the whole queue.
        in_flight: the keys of the messages that are.

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
        """Whether there is room for a message of this key; if so, it is taken."""
        prefixes = [prefix for prefix in self._left if key.startswith(prefix)]
        if any(self._left[prefix] <= 0 for prefix in prefixes):
            return False
        for prefix in prefixes:
            self._left[prefix] -= 1
        return True

    def full(self) -> list[str]:
        """The prefixes without room."""
        return [prefix for prefix, left in self._left.items() if left <= 0]
