"""The producers of a batch queue: every call, in random order."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

from drainq import BatchQueue
from drainq.errors import DrainqError
from tests.soak.hostile import Item, Key, Orphan, Other
from tests.soak.interrupt import Interrupted, Signals
from tests.soak.ledger import PATIENCE, Ledger


class Producer:
    """One thread's calls, and its own list of what was accepted.

    Args:
        kinds: the classes of its items; the last ones may have no handler.
        keys: how many values the items' keys have; 0: no key.
    """

    def __init__(
        self, queue: BatchQueue, ledger: Ledger, seed: str, *, kinds: list[type[Item]], keys: int, hostile: bool,
        flushes: bool, signals: Signals,
    ) -> None:  # fmt: skip
        self.queue, self.ledger, self.name, self.kinds = queue, ledger, seed, kinds
        self.keys, self.hostile, self.flushes, self.signals = keys, hostile, flushes, signals
        self.rng = random.Random(seed)
        self.own: list[Item] = []
        self.checked = 0
        self.failure: BaseException | None = None

    def run(self, calls: int) -> None:
        """Make so many calls; what goes wrong is kept for the end of the round."""
        try:
            for _ in range(calls):
                self.call()
        except BaseException as error:
            self.failure = error
            self.ledger.complain(f"{self.name}: {error!r}")

    def item(self) -> Item:
        kind = self.rng.choice(self.kinds)
        key: Any = self.rng.randrange(self.keys) if self.keys else None
        if self.hostile and self.keys:
            key = Key(key)
        return kind(self.ledger, self.name, key, self.rng.choice([0, 1, 1, 2, 5]))

    def call(self) -> None:
        chance = self.rng.random()
        if chance < 0.5:
            self.one()
        elif chance < 0.9:
            self.many()
        elif chance < 0.95:
            self.look()
        elif self.flushes:
            self.flush()

    def one(self) -> None:
        item = self.item()
        how = self.rng.choice(["produce", "produce", "offer", 0.0, 0.0005])
        calls = {"produce": lambda: self.queue.produce(item), "offer": lambda: self.queue.offer(item)}
        try:
            taken = self.signals.call(calls.get(how, lambda: self.queue.offer(item, timeout=how)))
        except Interrupted:
            self.ledger.uncertain = True
            self.ledger.perhaps.append(item)
            return
        if taken:
            self.own.append(item)
            self.ledger.accepted.append(item)

    def many(self) -> None:
        count = self.rng.choice([0, 1, 2, 7, 60])
        same = self.rng.random() < 0.5
        items = [self.item() for _ in range(count)]
        if same and items:
            items = [type(items[0])(self.ledger, self.name, item.key, item.weight) for item in items]
        end = self.rng.choice(["list", "iterator", "raises"])
        given: list[Item] = []
        try:
            taken = self.signals.call(
                lambda: self.queue.produce_many(items if end == "list" else self._iterate(items, given, end))
            )
        except (Interrupted, ZeroDivisionError):
            self.ledger.uncertain = True
            self.ledger.perhaps.extend(items if end == "list" else given)
            return
        if taken == len(items):
            self.own.extend(items)
            self.ledger.accepted.extend(items)
        else:
            self.ledger.perhaps.extend(items)
            self.ledger.perhaps_count += taken

    def _iterate(self, items: list[Item], given: list[Item], end: str) -> Iterator[Item]:
        for item in items:
            given.append(item)
            yield item
        if end == "raises" and items:
            raise ZeroDivisionError

    def look(self) -> None:
        chance = self.rng.random()
        if chance < 0.6:
            self.ledger.check_stats(self.queue.stats(), running=True)
        elif chance < 0.8:
            self.queue.assignments()
        else:
            with contextlib.suppress(ValueError):  # the balancer's, on purpose
                self.queue.rebalance()

    def flush(self) -> None:
        """After a flush each of the items that this thread had accepted has been through a handler."""
        mine = len(self.own)
        if not self.queue.running:
            return
        patience = self.rng.choice([0.0, 0.001, PATIENCE])
        if not self.queue.flush(patience):
            if patience == PATIENCE and self.queue.running:
                self.ledger.complain(f"a flush took longer than {PATIENCE:.0f} s")
            return
        seen = {item.number for item in self.ledger.seen}
        late = [item for item in self.own[self.checked : mine] if item.number not in seen]
        if late and not all(isinstance(item, Orphan) for item in late) and self.queue.running:
            self.ledger.complain(
                f"{len(late)} items were not handled before the flush returned, such as {late[0].number}"
            )
        self.checked = mine


class Again:
    """Produces from where it should not: a handler, a finaliser, a signal handler. It never waits."""

    def __init__(self, queue: list[BatchQueue], ledger: Ledger, origin: str, key: Any = None) -> None:
        self.queue, self.ledger, self.origin, self.key = queue, ledger, origin, key

    def __call__(self) -> None:
        if not self.queue:
            return
        item = Other(self.ledger, self.origin, self.key)
        try:
            if self.queue[0].offer(item, timeout=0):
                self.ledger.accepted.append(item)
        except DrainqError as error:
            self.ledger.complain(f"offer without a wait raised {error!r}")
