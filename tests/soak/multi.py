"""A round of the multi-queue: threads and tasks put and get, an administrator changes everything, the main thread is
interrupted. Afterwards each item that was put was got, removed or is still there, once."""

from __future__ import annotations

import asyncio
import queue as std
import random
import threading
from collections import Counter
from typing import Any

from drainq import MultiQueue, ShutDown, SubQueueRemoved
from tests.soak.hostile import Key, give_up_the_gil
from tests.soak.interrupt import QUIET, Interrupted, Signals
from tests.soak.ledger import Wrong
from tests.soak.threads import join, run_round, unstarted


class Account:
    """Plain lists, appended by whoever did something."""

    def __init__(self) -> None:
        self.put: list[int] = []
        self.perhaps: list[int] = []  # put by a call that was interrupted
        self.got: list[int] = []
        self.in_hand = 0  # items that interrupted gets may have had: a signal after a get's end loses what it returned
        self.wrong: list[str] = []

    def check(self, left: list[int]) -> None:
        out = Counter([*self.got, *left])
        if twice := [item for item, count in out.items() if count > 1]:
            raise Wrong(f"{len(twice)} items came out twice, such as {twice[0]}")
        if strange := out.keys() - set(self.put) - set(self.perhaps):
            raise Wrong(f"{len(strange)} items came out that were not put, such as {min(strange)}")
        missing = set(self.put) - out.keys()
        if len(missing) > self.in_hand:
            raise Wrong(f"{len(missing)} items were put and did not come out, such as {min(missing)}; "
                        f"interrupted gets may have had {self.in_hand}")  # fmt: skip
        if self.wrong:
            raise Wrong(self.wrong[0])


class Round:
    """One multi-queue's life, made from a seed."""

    def __init__(self, seed: int) -> None:
        self.seed, rng = seed, random.Random(seed)
        self.hostile = rng.random() < 0.4
        self.selection: Any = rng.choice(["priority", "weighted", "priority"])
        self.subs, self.putters, self.getters = rng.choice([1, 3, 8]), rng.choice([1, 2, 4]), rng.choice([1, 2, 3])
        self.tasks, self.calls = rng.choice([0, 0, 5]), rng.choice([50, 500])
        self.interval = rng.choice([0.0, 0.002])
        self.account, self.queue = Account(), MultiQueue(self.selection)
        self.numbers = iter(range(10**9))
        self.stop = threading.Event()
        self.rng = rng
        for value in range(self.subs):
            self.add(rng, value)

    def __str__(self) -> str:
        return f"seed {self.seed}: " + str(
            {name: value for name, value in vars(self).items() if type(value) in (bool, int, float, str)}
        )

    def key(self, value: int) -> Any:
        return Key(value) if self.hostile else value

    def add(self, rng: random.Random, value: int) -> None:
        self.queue.add_sub_queue(self.key(value), rng.randint(0, 2), rng.choice([None, 1, 3, 50]), weight=rng.randint(1, 3),
                                 exist_ok=True)  # fmt: skip

    # -- who does what ----------------------------------------------------------------------------

    def produce(self, name: str, calls: int, signals: Signals = QUIET) -> None:
        rng = random.Random(f"{self.seed} {name}")
        call = signals.call
        for _ in range(calls):
            item = next(self.numbers)
            sub = self.queue.get_sub_queue(self.key(rng.randrange(self.subs)))
            if sub is None:
                continue
            try:
                if rng.random() < 0.2:
                    if call(lambda: sub.put_many([item], timeout=rng.choice([0, 0.001]))):  # noqa: B023
                        self.account.put.append(item)
                else:
                    call(lambda: sub.put(item, timeout=rng.choice([0, 0.001, 0.01])))  # noqa: B023
                    self.account.put.append(item)
            except (std.Full, SubQueueRemoved, ShutDown):
                continue
            except Interrupted:
                self.account.perhaps.append(item)

    def consume(self, name: str, signals: Signals = QUIET, calls: int = 10**9) -> None:
        rng = random.Random(f"{self.seed} {name}")
        call = signals.call
        for _ in range(calls):
            timeout = rng.choice([0, 0.001, 0.02])
            chance = rng.random()
            most = 1 if chance < 0.7 else 4
            try:
                if chance < 0.5:
                    self.account.got.append(call(lambda: self.queue.get(timeout=timeout)))  # noqa: B023
                elif chance < 0.7:
                    self.account.got.append(call(lambda: self.queue.get_item(timeout=timeout))[1])  # noqa: B023
                else:
                    least = rng.choice([1, 1, 2])
                    self.account.got.extend(call(lambda: self.queue.get_many(most, min_items=least, timeout=timeout)))  # noqa: B023
            except std.Empty:
                if self.stop.is_set() and self.queue.qsize() == 0:
                    return
            except ShutDown:
                return
            except Interrupted:
                self.account.in_hand += most

    def administer(self) -> None:
        rng = random.Random(f"{self.seed} administrator")
        for _ in range(rng.choice([0, 20, 200])):
            value = rng.randrange(self.subs)
            sub = self.queue.get_sub_queue(self.key(value))
            act = rng.randrange(8)
            try:
                if sub is None:
                    self.add(rng, value)
                elif act == 0:
                    self.account.got.extend(self.queue.remove_sub_queue(self.key(value)).clear())
                    self.add(rng, value)
                elif act == 1:
                    sub.disable("soak")
                    give_up_the_gil()
                    sub.enable("soak")
                elif act == 2:
                    sub.capacity = rng.choice([None, 1, 20])
                elif act == 3:
                    sub.priority = rng.randint(0, 2)
                elif act == 4:
                    sub.weight = rng.randint(1, 5)
                elif act == 5:
                    self.account.got.extend(sub.clear())
                elif act == 6:
                    self.account.got.extend(sub.remove_if(lambda item: item % 5 == 0))
                else:
                    stats = self.queue.stats()
                    if stats.put != stats.got + stats.removed + stats.depth:
                        self.account.wrong.append(f"the counters do not add up: {stats}")
            except (KeyError, SubQueueRemoved):
                continue

    def _async(self) -> None:
        asyncio.run(self._all_tasks())

    async def _all_tasks(self) -> None:
        await asyncio.gather(*(self._task(n) for n in range(self.tasks)))

    async def _task(self, n: int) -> None:
        rng = random.Random(f"{self.seed} task {n}")
        for _ in range(self.calls // 5):
            if rng.random() < 0.5:
                sub = self.queue.get_sub_queue(self.key(rng.randrange(self.subs)))
                if sub is None:
                    continue
                item = next(self.numbers)
                try:
                    await asyncio.wait_for(sub.put_async(item), rng.choice([0.001, 0.05]))
                    self.account.put.append(item)
                except (SubQueueRemoved, ShutDown):
                    pass
                except asyncio.TimeoutError:
                    self.account.perhaps.append(item)
            else:
                try:
                    self.account.got.append(await asyncio.wait_for(self.queue.get_async(), rng.choice([0.001, 0.05])))
                except asyncio.TimeoutError:
                    # `wait_for` may throw a result away that came with the timeout: CPython's, not ours.
                    self.account.in_hand += 1
                except ShutDown:
                    return

    # -- the round --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run it whole; raises Wrong if a promise was broken."""
        putters = [self._thread(self.produce, f"putter {n}", self.calls) for n in range(self.putters)]
        putters.append(self._thread(self.administer))
        if self.tasks:
            putters.append(self._thread(self._async))
        getters = [self._thread(self.consume, f"getter {n}") for n in range(self.getters)]
        for thread in (*putters, *getters):
            thread.start()
        with Signals(self.interval) as signals:
            for turn in range(4):
                self.produce(f"main {turn}", self.calls // 10, signals)
                self.consume(f"main {turn}", signals, self.calls // 10)
        join(putters, self.queue.stats)
        self.stop.set()
        if self.rng.random() < 0.5:
            self.queue.shutdown()
        join(getters, self.queue.stats)
        left = []
        for key in self.queue:
            left += self.queue[key].clear()
        stats = self.queue.stats()
        if stats.depth or stats.blocked_getters or stats.blocked_putters:
            raise Wrong(f"a thread still waits, or an item is still there: {stats}")
        self.account.check(left)

    def _thread(self, work: Any, *args: Any) -> threading.Thread:
        return unstarted(self.account.wrong, work, *args)


def run(seed: int) -> None:
    """One round."""
    run_round(Round(seed))
