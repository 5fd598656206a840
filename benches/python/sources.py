"""The figures of the sources: the set queue compared with one written by hand, and the story of the slow source.

python -m benches.python.sources
"""

from __future__ import annotations

import itertools
import queue
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any

from benches.protocol import Faster, Report, arguments, measure, processor_seconds, wanted

from drainq import SetQueue
from drainq.sources import Fair, PrefetchSource, SourceScheduler


class ByHand:
    """The set queue that one writes in Python: a deque for the order, a set for the identity, one lock."""

    def __init__(self) -> None:
        self._order: deque[Hashable] = deque()
        self._known: set[Hashable] = set()
        self._lock = threading.Lock()

    def put(self, item: Hashable) -> bool:
        with self._lock:
            if item in self._known:
                return False
            self._known.add(item)
            self._order.append(item)
            return True

    def get(self) -> Hashable:
        with self._lock:
            item = self._order.popleft()
            self._known.remove(item)
            return item

    def put_many(self, items: list[Hashable]) -> int:
        with self._lock:
            before = len(self._order)
            for item in items:
                if item not in self._known:
                    self._known.add(item)
                    self._order.append(item)
            return len(self._order) - before

    def get_many(self, n: int, *, min_items: int = 0) -> list[Hashable]:
        with self._lock:
            items = [self._order.popleft() for _ in range(min(n, len(self._order)))]
            self._known.difference_update(items)
            return items


class ByOrderedDict:
    """The same on one OrderedDict."""

    def __init__(self) -> None:
        self._items: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, item: Hashable) -> bool:
        with self._lock:
            if item in self._items:
                return False
            self._items[item] = None
            return True

    def get(self) -> Hashable:
        with self._lock:
            return self._items.popitem(last=False)[0]


Work = Callable[[Callable[[Hashable], object], Callable[[], object], list[Hashable]], None]
"""Puts all items into a queue and gets them back, by its ``put`` and ``get``."""


def fill_then_drain(put: Callable[[Hashable], object], get: Callable[[], object], items: list[Hashable]) -> None:
    """Put all items, then get them all: a long queue."""
    for item in items:
        put(item)
    for _ in items:
        get()


def in_turn(put: Callable[[Hashable], object], get: Callable[[], object], items: list[Hashable]) -> None:
    """Put and get each item in turn: a short queue."""
    for item in items:
        put(item)
        get()


def single_calls(make: Callable[[], Any], items: list[Hashable], work: Work) -> Callable[[], float]:
    """Processor seconds of a put and a get."""

    def run() -> float:
        waiting = make()
        return processor_seconds(lambda: work(waiting.put, waiting.get, items)) / len(items)

    return run


def bulk(make: Callable[[], Any], items: list[Hashable]) -> Callable[[], float]:
    """CPU seconds per item offered, in lists of 1,000 of which half are known, and taken in lists of 1,000."""
    batches = [items[first : first + 500] * 2 for first in range(0, len(items), 500)]

    def run() -> float:
        waiting = make()

        def work() -> None:
            for batch in batches:
                waiting.put_many(batch)
            while waiting.get_many(1000, min_items=0):
                pass

        return processor_seconds(work) / len(items)

    return run


def two_threads(make: Callable[[], Any], items: list[Hashable]) -> Callable[[], float]:
    """Measure the seconds for an item from a putting thread to a getting thread, which waits for each."""

    def run() -> float:
        waiting, ready = make(), threading.Barrier(2)

        def put() -> None:
            ready.wait()
            for item in items:
                waiting.put(item)

        putter = threading.Thread(target=put)
        putter.start()
        ready.wait()
        started = time.perf_counter()
        for _ in items:
            waiting.get()
        took = time.perf_counter() - started
        putter.join()
        return took / len(items)

    return run


FAST_CALL, SLOW_CALL, SLOW_ROW = 0.0002, 0.060, 4e-6
"""Seconds: a call of a fast source. A call of the slow one, and each of its rows."""


def fast_source() -> Callable[[int], list[int]]:
    """Return a source of new rows that takes a fraction of a millisecond."""
    first = itertools.count(step=1_000_000)

    def ask(n: int) -> list[int]:
        time.sleep(FAST_CALL)
        start = next(first)
        return list(range(start, start + n))

    return ask


def slow_source() -> Callable[[int], list[int]]:
    """Return a source of new rows that takes 60 ms and more."""
    first = itertools.count(step=1_000_000)

    def ask(n: int) -> list[int]:
        time.sleep(SLOW_CALL + SLOW_ROW * n)
        start = next(first)
        return list(range(start, start + n))

    return ask


def story(capacity: int | None, run_for: float) -> Callable[[], float]:
    """Measure the seconds for a row of a loop that asks two fast sources and a slow one for 200 rows each.

    Args:
        capacity: of the prefetching source in front of the slow one; None asks it directly.
        run_for: seconds.
    """

    def run() -> float:
        slow = slow_source()
        prefetch = None if capacity is None else PrefetchSource(slow, capacity, capacity // 2, eager=True)
        sources = {"x": fast_source(), "y": fast_source(), "z": slow if prefetch is None else prefetch}
        scheduler = SourceScheduler(sources, lambda name, rows: None, Fair("x", "y", "z"), batch_size=600)
        rows, started = 0, time.perf_counter()
        while (took := time.perf_counter() - started) < run_for:
            rows += scheduler.step()
        if prefetch is not None:
            prefetch.close()
        return took / rows

    return run


def main() -> int:
    options = arguments("sources")
    n, rounds, run_for = (20_000, 3, 0.3) if options.quick else (100_000, 11, 1.5)
    rounds = options.rounds or rounds
    ints: list[Hashable] = list(range(n))
    texts: list[Hashable] = [f"order-{number}" for number in range(n)]
    mine, hand, std = "drainq SetQueue", "deque + set + Lock", "queue.Queue (keeps duplicates)"
    report = Report("sources", options, {"items": n})

    def add(name: str, contestants: dict[str, Callable[[], float]], goals: list[Any], note: str = "") -> None:
        unit = "cpu-s/put + get" if "put + get" in name else "cpu-s/item" if "get_many" in name else "s/item"
        if wanted(name, options):
            report.add(measure(name, unit, contestants, rounds=rounds, goals=goals, note=note))

    for kind, items in (("int", ints), ("str", texts)):
        makes: dict[str, Callable[[], Any]] = {mine: SetQueue, hand: ByHand, "OrderedDict + Lock": ByOrderedDict}
        add(
            f"fill with {n:,} {kind} items, then drain: put + get",
            {name: single_calls(make, items, fill_then_drain) for name, make in {**makes, std: queue.Queue}.items()},
            [Faster(mine, hand, 2.0)],
        )
        add(
            f"put + get in turn, {kind} items",
            {name: single_calls(make, items, in_turn) for name, make in {**makes, std: queue.Queue}.items()},
            [Faster(mine, hand, 2.0)],
        )
        add(
            f"put_many of 1,000, half of them known, and get_many of 1,000, {kind} items",
            {mine: bulk(SetQueue, items), hand: bulk(ByHand, items)},
            [],
            note="per item that went in, each of which was offered twice",
        )
    add(
        "one thread puts, another waits for each item",
        {mine: two_threads(SetQueue, ints), std: two_threads(queue.Queue, ints)},
        [Faster(mine, std, 1.0)],
    )
    capacities = {"drainq, prefetch 2,000": 2000, "drainq, prefetch 20,000": 20_000}
    add(
        "a loop over a slow and two fast sources: all rows",
        {"direct": story(None, run_for), **{name: story(size, run_for) for name, size in capacities.items()}},
        [Faster(name, "direct", 30.0) for name in capacities],
        note=f"two sources of {FAST_CALL * 1e3:g} ms a call, one of {SLOW_CALL * 1e3:g} ms and {SLOW_ROW * 1e6:g} us "
        "a row; 200 rows of each asked for in a loop",
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
