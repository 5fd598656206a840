"""A round of the set queue: threads put, take and finish the same few items; at no time is one in it twice."""

from __future__ import annotations

import queue as std
import random
import threading
from collections import Counter
from typing import Any

from drainq import SetQueue
from drainq.errors import ShutDown
from tests.soak.hostile import Key
from tests.soak.interrupt import QUIET, Interrupted, Signals
from tests.soak.ledger import Wrong
from tests.soak.threads import join, run_round, unstarted


class Round:
    """One set queue's life. Each value's puts that said True, less its gets, is 0 or 1 in the end."""

    def __init__(self, seed: int) -> None:
        self.seed, rng = seed, random.Random(seed)
        self.mode = rng.choice(["forget", "forget", "ack"])
        self.capacity = rng.choice([None, 1, 5, 50])
        self.hostile, self.values = rng.random() < 0.5, rng.choice([3, 40, 1000])
        self.putters, self.getters = rng.choice([1, 2, 3]), rng.choice([1, 2])
        self.calls, self.interval = rng.choice([50, 500]), rng.choice([0.0, 0.002])
        self.queue: SetQueue[Any] = SetQueue(self.capacity, in_flight=self.mode)  # type: ignore[arg-type]
        self.put: Counter[int] = Counter()
        self.put_list: list[int] = []
        self.got_list: list[int] = []
        self.unknown = 0  # calls that were interrupted
        self.stop = threading.Event()
        self.wrong: list[str] = []

    def __str__(self) -> str:
        return f"seed {self.seed}: " + str(
            {name: value for name, value in vars(self).items() if type(value) in (bool, int, float, str)}
        )

    def item(self, value: int) -> Any:
        return Key(value) if self.hostile else value

    def value(self, item: Any) -> int:
        return item.value if self.hostile else item

    def produce(self, name: str, calls: int, signals: Signals = QUIET) -> None:
        rng = random.Random(f"{self.seed} {name}")
        call = signals.call
        for _ in range(calls):
            value = rng.randrange(self.values)
            timeout = rng.choice([0, 0.001, 0.01])
            try:
                if call(lambda: self.queue.put(self.item(value), timeout=timeout)):  # noqa: B023
                    self.put_list.append(value)
            except std.Full:
                continue
            except Interrupted:
                self.unknown += 1

    def consume(self, name: str, calls: int = 10**9, signals: Signals = QUIET) -> None:
        rng = random.Random(f"{self.seed} {name}")
        call = signals.call
        for _ in range(calls):
            try:
                if rng.random() < 0.6:
                    timeout = rng.choice([0, 0.001, 0.02])
                    items = [call(lambda: self.queue.get(timeout=timeout))]  # noqa: B023
                else:
                    items = self.queue.get_many(rng.choice([1, 3]))
            except std.Empty:
                items = []
            except ShutDown:
                return
            except Interrupted:
                self.unknown += 1
                items = []
            self.got_list.extend(map(self.value, items))
            if self.mode == "ack" and items:
                if self.queue.done(items) != len(items):
                    self.wrong.append("an item that was got was not in flight")
            if not items and self.stop.is_set() and self.queue.empty():
                return

    def run(self) -> None:
        """Run it whole; raises Wrong if a promise was broken."""
        putters = [self._thread(self.produce, f"putter {n}", self.calls) for n in range(self.putters)]
        getters = [self._thread(self.consume, f"getter {n}") for n in range(self.getters)]
        for thread in (*putters, *getters):
            thread.start()
        with Signals(self.interval) as signals:
            for turn in range(4):
                self.produce(f"main {turn}", self.calls // 10, signals)
                self.consume(f"main {turn}", self.calls // 10, signals)
        join(putters, self.queue.stats)
        self.stop.set()
        join(getters, self.queue.stats)
        self._check()

    def _check(self) -> None:
        if self.wrong and not self.unknown:
            raise Wrong(self.wrong[0])
        stats, left = self.queue.stats(), [self.value(item) for item in self.queue.clear()]
        if left:
            raise Wrong(f"{len(left)} items are left that no getter found")
        put, got = Counter(self.put_list), Counter(self.got_list)
        wrong = sum(((put - got) + (got - put)).values())
        if wrong > self.unknown:
            raise Wrong(
                f"{wrong} puts and gets have no counterpart, and {self.unknown} calls were interrupted: {stats}"
            )
        if not self.unknown and (stats.put, stats.got) != (sum(put.values()), sum(got.values())):
            raise Wrong(f"put {sum(put.values())}, got {sum(got.values())}, but the queue says {stats}")

    def _thread(self, work: Any, *args: Any) -> threading.Thread:
        return unstarted(self.wrong, work, *args)


def run(seed: int) -> None:
    """One round."""
    run_round(Round(seed))
