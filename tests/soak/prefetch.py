"""A round of the prefetching source: a flaky source, several pullers; each of its items comes out once, in order."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from typing import Any

from drainq.sources import Backoff, PrefetchSource
from tests.soak.hostile import give_up_the_gil
from tests.soak.ledger import PATIENCE, Wrong


class Flaky:
    """Rows that stay until they are done, as a table's do; now and then it raises, has nothing, or brings too much."""

    def __init__(self, seed: int, total: int, *, stays: bool, overshoots: bool) -> None:
        self.rng, self.total, self.stays, self.overshoots = random.Random(f"{seed} source"), total, stays, overshoots
        self.next, self.open, self.lock = 0, {}, threading.Lock()

    def get_next_batch(self, batch_size: int) -> list[int] | None:
        give_up_the_gil()
        with self.lock:
            chance = self.rng.random()
            if chance < 0.05:
                raise self.rng.choice([ValueError, SystemExit, KeyboardInterrupt])("on purpose")
            if chance < 0.1:
                return []
            n = batch_size * 3 if self.overshoots and chance < 0.3 else batch_size
            if not self.stays:
                found = list(range(self.next, min(self.next + n, self.total)))
                self.next += len(found)
                return found or None
            while self.next < self.total and len(self.open) < 3 * n:
                self.open[self.next] = None
                self.next += 1
            return list(self.open)[:n] if self.open else None

    def done(self, items: list[int]) -> None:
        with self.lock:
            for item in items:
                del self.open[item]


def run(seed: int) -> None:
    """One round."""
    logging.getLogger("drainq").setLevel(logging.CRITICAL + 1)
    rng = random.Random(seed)
    total, stays, overshoots = rng.choice([10, 300, 3000]), rng.random() < 0.6, rng.random() < 0.5
    capacity, pullers = rng.choice([1, 3, 20, 100]), rng.choice([1, 2, 3])
    said = f"seed {seed}: total {total}, stays {stays}, overshoots {overshoots}, capacity {capacity}, pullers {pullers}"
    flaky = Flaky(seed, total, stays=stays, overshoots=overshoots)
    source: PrefetchSource[int] = PrefetchSource(
        flaky, capacity=capacity, replenish_threshold=rng.choice([0, capacity // 2]), in_flight="ack" if stays else "forget",
        backoff=Backoff(0.0001, 0.002, 2.0), max_capacity=rng.choice([None, 4 * capacity]),
    )  # fmt: skip
    got: list[int] = []
    wrong: list[str] = []

    def pull(n: int) -> None:
        mine = random.Random(f"{seed} {n}")
        try:
            while not source.finished:
                items = source.get_next_batch(mine.choice([1, 2, 50]))
                got.extend(items)
                if stays and items:
                    flaky.done(items)
                    source.done(items)
                elif not items:
                    source.wait(0.005)
        except BaseException as error:
            wrong.append(f"{error!r}")

    threads = [threading.Thread(target=pull, args=(n,), daemon=True) for n in range(pullers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        if thread.is_alive():
            raise Wrong(f"a puller has not ended in {PATIENCE:.0f} s: {source.stats()}\n{said}")
    closed = source.close(PATIENCE)
    counts: Counter[Any] = Counter(got)
    twice = [item for item, count in counts.items() if count > 1]
    missing = set(range(total)) - counts.keys()
    if wrong or twice or missing or not closed:
        raise Wrong(f"wrong {wrong[:1]}, {len(twice)} items twice {twice[:3]}, {len(missing)} missing, closed {closed}: "
                    f"{source.stats()}\n{said}")  # fmt: skip
    if pullers == 1 and got != sorted(got) and not stays:
        raise Wrong(f"items came out of order\n{said}")
