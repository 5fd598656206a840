"""Items, keys and handlers of unfriendly programs: they give up the GIL, raise, or call the queue again."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from tests.soak.ledger import Ledger


class Item:
    """An item with a number of its own, the name of its producer, and a weight."""

    __slots__ = ("__weakref__", "key", "number", "origin", "weight")

    def __init__(self, ledger: Ledger, origin: str, key: Any, weight: int = 1) -> None:
        self.number, self.origin, self.key, self.weight = next(ledger.numbers), origin, key, weight


class Other(Item):
    """A second class of items."""

    __slots__ = ()


class Orphan(Item):
    """Items for which there is no handler."""

    __slots__ = ()


def fresh_class(name: str) -> type[Item]:
    """Return a class that nobody else holds, in a cycle with itself as all classes are."""
    return type(name, (Item,), {"__slots__": ()})


def give_up_the_gil() -> None:
    """Let another thread run."""
    time.sleep(0)


class Key:
    """A key or an item whose hash and comparison are Python code that gives up the GIL, as a data class's may."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        give_up_the_gil()
        return self.value % 7  # collisions, so that keys are compared

    def __eq__(self, other: object) -> bool:
        give_up_the_gil()
        return isinstance(other, Key) and self.value == other.value


class Handler:
    """Notes its items, and misbehaves by its mood.

    Args:
        serial: whether two threads may never be in here at once.
        raises: the share of its batches on which it raises.
        again: a function that may produce from within; None: it does not.
    """

    def __init__(
        self, ledger: Ledger, seed: str, *, serial: bool, raises: float = 0.0, again: Any = None, idles: bool = False
    ) -> None:
        self.ledger, self.mood, self.serial, self.raises, self.again = (
            ledger,
            random.Random(seed),
            serial,
            raises,
            again,
        )
        self.inside = threading.Lock()
        if idles:
            self.on_idle = self._idle

    def __call__(self, batch: list[Item]) -> None:
        alone = self.inside.acquire(blocking=False)
        try:
            if self.serial and not alone:
                self.ledger.complain("two threads were in one handler")
            self.ledger.seen.extend(batch)
            self._misbehave(batch)
        finally:
            if alone:
                self.inside.release()

    def _misbehave(self, batch: list[Item]) -> None:
        chance = self.mood.random()
        if chance < 0.3:
            give_up_the_gil()
        if chance < 0.05 and self.again is not None:
            self.again()
        if self.mood.random() < self.raises:
            self.ledger.failed.extend(batch)
            raise self.mood.choice([ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])("on purpose")
        if chance > 0.9:
            batch.clear()  # it is the handler's own list

    def _idle(self) -> None:
        chance = self.mood.random()
        if chance < 0.2:
            give_up_the_gil()
        elif chance < 0.21:
            raise ValueError("idle on purpose")


class DeadLetters:
    """An error handler that keeps some of a batch, or raises itself."""

    dead_letters = True

    def __init__(self, seed: str) -> None:
        self.mood = random.Random(seed)

    def __call__(self, batch: list[Any], error: BaseException) -> int:
        if self.mood.random() < 0.2:
            raise ValueError("error handler on purpose")
        return self.mood.randint(0, 5)
