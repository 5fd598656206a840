"""One run of a load through a queue that drains itself: from the first put to the end of the last handler call."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from benches.python.batch_loads import Load
from benches.python.batch_rivals import Make

ROOM = 16_384
# Ready-made items: these, again and again, so that it is not the memory that is measured.
POOL = 10_000


class Cost(NamedTuple):
    """What a run cost, in seconds an item: on the clock, and of the processor."""

    wall: float
    cpu: float


class Summing:
    """The handler of the end-to-end figures: adds the values of a batch up; counts what it got."""

    def __init__(self, load: Load) -> None:
        self.total, self.items, self._total_of = 0.0, 0, load.total

    def __call__(self, batch: list[Any]) -> None:
        self.total += self._total_of(batch)
        self.items += len(batch)


def through(make: Make, load: Load, many: int, producers: int, room: int, ready_made: bool = False) -> Cost:
    """Send ``many`` items through; refuses a run in which one was lost."""
    handler = Summing(load)
    rival = make(load, handler, room, True)
    ready = threading.Barrier(producers)
    share = many // producers
    keys = list(itertools.islice(itertools.cycle(load.keys), share))
    pool: list[Any] = []
    if ready_made:
        load.send(pool.append, keys[:POOL])

    def produce(_number: int) -> float:
        mine = list(itertools.islice(itertools.cycle(pool), share)) if ready_made else []
        ready.wait()
        started = time.perf_counter()
        if ready_made:
            put = rival.put
            for item in mine:
                put(item)
        else:
            load.send(rival.put, keys)
        return started

    gc.collect()
    with ThreadPoolExecutor(producers) as threads:
        cpu = time.process_time()
        started = min(threads.map(produce, range(producers)))
    rival.close()
    taken = Cost(time.perf_counter() - started, time.process_time() - cpu)
    if handler.items != producers * share:
        raise RuntimeError(f"{handler.items} of {producers * share} items were handled")
    return Cost(taken.wall / handler.items, taken.cpu / handler.items)
