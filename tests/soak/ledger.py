"""The account of a batch queue's items: plain lists, to which all threads append, compared at the end.

No lock: `list.append` is one step under the GIL, and what is read here is read when all threads have ended.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds after which something that must come has not come. The machine may be loaded."""


class Wrong(AssertionError):
    """A promise that was broken."""


def wait_until(true: Callable[[], Any], what: str, patience: float = PATIENCE) -> None:
    """Wait until `true()` is; raise what was waited for in vain."""
    end, pause = time.monotonic() + patience, threading.Event()
    while not true():
        if time.monotonic() > end:
            raise Wrong(f"waited {patience:.0f} s for: {what}")
        pause.wait(0.0005)


class Ledger:
    """What was offered and what came out.

    Args:
        weighs: whether items count by their weight.
    """

    def __init__(self, *, weighs: bool = False) -> None:
        self.weighs = weighs
        self.numbers = itertools.count(1)
        self.accepted: list[Any] = []  # items of which the queue said so
        self.perhaps: list[Any] = []  # items of calls that were interrupted, or that took a part of them
        self.perhaps_count = 0  # how many of those it said it took, where it said so
        self.seen: list[Any] = []  # items that a handler got
        self.failed: list[Any] = []  # of those: the handler raised
        self.wrong: list[str] = []  # promises that were broken on another thread
        self.drops: list[tuple[str, int]] = []  # what on_drop was told
        self.uncertain = False  # a call was interrupted: what it offered is not known

    def weight(self, items: list[Any]) -> int:
        """Return what items count for."""
        return sum(item.weight for item in items) if self.weighs else len(items)

    def complain(self, what: str) -> None:
        """Note a broken promise; the round fails at its end."""
        self.wrong.append(what)

    def check_numbers(self) -> None:
        """Check that nothing came out twice, or without going in."""
        if self.wrong:
            raise Wrong(self.wrong[0])
        seen = Counter(item.number for item in self.seen)
        if twice := [number for number, count in seen.items() if count > 1]:
            raise Wrong(f"{len(twice)} items were handled twice, such as number {twice[0]}")
        known = {item.number for item in itertools.chain(self.accepted, self.perhaps)}
        if strange := seen.keys() - known:
            raise Wrong(f"{len(strange)} items were handled that were not accepted, such as number {min(strange)}")

    def missing(self) -> list[Any]:
        """Return items that were accepted for sure, and that no handler got."""
        seen = {item.number for item in self.seen}
        return [item for item in self.accepted if item.number not in seen]

    def check_order(self) -> None:
        """Items of one origin and type came in the order in which they were accepted."""
        last: dict[Any, int] = {}
        for item in self.seen:
            if item.number < last.get((item.origin, type(item)), 0):
                raise Wrong(f"item {item.number} of {item.origin} came after a later one of its type")
            last[(item.origin, type(item))] = item.number

    def check_stats(self, stats: Any, *, running: bool = False) -> None:
        """Check that the queue's counters agree with each other, and at the end with these lists."""
        check_identity(stats)
        if running:
            return
        if stats.queued:
            raise Wrong(f"{stats.queued} items are queued after the end: {stats}")
        sure, perhaps = self.weight(self.accepted), self.weight(self.perhaps)
        if not sure <= stats.accepted <= sure + perhaps:
            raise Wrong(f"accepted {sure} for sure and perhaps {perhaps}, but the queue says {stats}")
        if not self.weighs and not self.uncertain and stats.accepted != sure + self.perhaps_count:
            raise Wrong(f"accepted {sure} + {self.perhaps_count}, but the queue says {stats}")
        if stats.abandoned == 0:
            failed = self.weight(self.failed)
            handled = self.weight(self.seen) - failed
            if (stats.handled, stats.failed + stats.dead_lettered) != (handled, failed):
                raise Wrong(f"handlers got {handled} and failed on {failed}, but the queue says {stats}")
        if self.weight(self.missing()) > stats.unrouted + stats.abandoned:
            raise Wrong(f"{len(self.missing())} accepted items were never handled, and the queue says {stats}")
        told = {reason: sum(count for of, count in self.drops if of == reason) for reason in ("unrouted", "abandoned")}
        if told != {"unrouted": stats.unrouted, "abandoned": stats.abandoned}:
            raise Wrong(f"on_drop was told {told}, but the queue says {stats}")


def check_identity(stats: Any) -> None:
    """Check that every item is in exactly one place."""
    ended = stats.handled + stats.failed + stats.unrouted + stats.dead_lettered + stats.abandoned
    if stats.offered != stats.accepted + sum(stats.rejected.values()) or stats.accepted != ended + stats.queued:
        raise Wrong(f"the counters do not add up: {stats}")
