"""The batch queue end to end, beside what one would build or take instead.

Run it:  python -m benches.versus.batch_queue [--quick] [--only WORD] [--rounds N] [--out DIR]

Needs the rivals: the dependency group ``bench``.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benches import protocol
from benches.pages import count
from benches.protocol import AtMostTimes, Below, Faster, Goal, Report, measure, rounds
from benches.python.batch_rivals import OURS, RIVALS, UNBOUNDED, Drainq, Make, Rival

SIMPLE, DEQUE, OTEL, STANDARD = "SimpleQueue + grouping", "deque + Condition", "OpenTelemetry", "queue.Queue"
TYPES = 100
# Ready-made items: these, again and again, so that it is not the memory that is measured.
POOL = 10_000


def main() -> int:
    """Run the figures that were asked for."""
    # A dropped item is a count here, not a line.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    logging.getLogger("drainq").setLevel(logging.ERROR)
    return protocol.run("batch_queue", end_to_end, dropped, latency)


def make_types(count: int) -> list[type]:
    """Item types with one number in them, as lean as Python allows."""

    def item_type(number: int) -> type:
        def __init__(self: Any, v: float) -> None:
            self.v = v

        return type(f"Item{number}", (), {"__slots__": ("v",), "__init__": __init__})

    return [item_type(number) for number in range(count)]


class Summing:
    """The handler of the end-to-end figures: ``sum(item.v for item in batch)``; counts what it got."""

    def __init__(self) -> None:
        self.total, self.items = 0.0, 0

    def __call__(self, batch: list[Any]) -> None:
        self.total += sum(item.v for item in batch)
        self.items += len(batch)


def end_to_end(report: Report, options: argparse.Namespace) -> None:
    """What does an item cost, from the first put to the end of the last handler call?"""
    many = 20_000 if options.quick else 200_000
    types = make_types(TYPES)
    pool = [types[number % TYPES](number) for number in range(POOL)]
    items = list(itertools.islice(itertools.cycle(pool), many))
    goals: list[Goal] = [
        Faster(OURS, SIMPLE, 2),
        Faster(OURS, DEQUE, 7),
        Faster(OURS, OTEL, 7),
        Faster(OURS, STANDARD, 30),
    ]
    for fresh in (True, False):
        for producers in (1, 4, 16):
            contestants = {
                name: functools.partial(through, make, types, items, producers, fresh) for name, make in RIVALS.items()
            }
            kind = "items made on the way" if fresh else "ready-made items"
            report.add(
                measure(
                    f"burst, {count(producers, 'producer')}, {kind}",
                    "s/item",
                    contestants,
                    rounds=rounds(options, 5),
                    goals=() if fresh else goals,
                    note=f"{many:,} items of 100 types into room for 1,000,000, handler sum(item.v for item in batch); producers loop in Python"
                    + (", and make each item" if fresh else ""),
                )
            )


def through(make: Make, types: Sequence[type], items: Sequence[Any], producers: int, fresh: bool) -> float:
    """Seconds an item; refuses a run in which one was lost."""
    handler = Summing()
    rival = make(types, handler, 1_000_000, True)
    ready = threading.Barrier(producers)
    share = len(items) // producers

    def produce(number: int) -> float:
        put = rival.put
        mine = items[number * share : (number + 1) * share]
        kinds = [type(item) for item in mine] if fresh else []
        ready.wait()
        started = time.perf_counter()
        if fresh:
            for kind in kinds:
                put(kind(1.0))
        else:
            for item in mine:
                put(item)
        return started

    with ThreadPoolExecutor(producers) as pool:
        started = min(pool.map(produce, range(producers)))
    rival.close()
    taken = time.perf_counter() - started
    if handler.items != producers * share:
        raise RuntimeError(f"{handler.items} of {producers * share} items were handled")
    return taken / handler.items


def spin(loops: int) -> None:
    """Python that keeps the GIL."""
    for _ in range(loops):
        pass


def loops_for(seconds: float) -> int:
    """How many loops of :func:`spin` take so long here."""
    best = min(protocol.seconds(lambda: spin(10_000)) for _ in range(20))
    return max(1, round(10_000 * seconds / best))


def dropped(report: Report, options: argparse.Namespace) -> None:
    """Which share of the items do busy producers lose that do not wait for room?"""
    count = 20_000 if options.quick else 100_000
    types = make_types(1)
    loops = loops_for(2e-6)

    def share(make: Make) -> float:
        handler = Summing()
        rival = make(types, handler, 16_384, False)
        ready = threading.Barrier(4)

        def produce(_number: int) -> None:
            put, kind = rival.put, types[0]
            ready.wait()
            for _ in range(count):
                spin(loops)
                put(kind(1.0))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(produce, range(4)))
        rival.close()
        return 100 * (1 - handler.items / (4 * count))

    bounded = {name: functools.partial(share, make) for name, make in RIVALS.items() if name not in UNBOUNDED}
    report.add(
        measure(
            "dropped, no waiting for room",
            "%",
            bounded,
            rounds=rounds(options, 5),
            goals=[Below(OURS, 0.1, "%")],
            note="4 producers, 2 us of Python for each item, 16,384 places; OpenTelemetry drops the oldest items",
        )
    )


def latency(report: Report, options: argparse.Namespace) -> None:
    """How long from put to the handler, at 10,000 items a second and with nothing else to do?"""
    count = 2_000 if options.quick else 20_000
    prompt = f"{OURS}, min_idle=0"
    makes: dict[str, Make] = {
        OURS: RIVALS[OURS],
        prompt: functools.partial(Drainq, min_idle=0.0),
        SIMPLE: RIVALS[SIMPLE],
        STANDARD: RIVALS[STANDARD],
    }
    times: dict[str, list[list[float]]] = {name: [] for name in makes}

    def once(name: str, make: Make) -> float:
        waits = sorted(waits_of(make, count))
        times[name].append(waits)
        return waits[len(waits) // 2]

    contestants: dict[str, Callable[[], float]] = {
        name: functools.partial(once, name, make) for name, make in makes.items()
    }
    number = rounds(options, 5)
    note = "one producer, an item each 100 us; drainq's default lets items gather for 1 ms while they flow"
    goals: list[Goal] = [AtMostTimes(prompt, SIMPLE, 1.5)]
    report.add(measure("latency, p50", "s", contestants, rounds=number, goals=goals, note=note))
    late = {name: [waits[len(waits) * 99 // 100] for waits in runs[-number:]] for name, runs in times.items()}
    report.add(protocol.figure("latency, p99", "s", late, [AtMostTimes(prompt, STANDARD, 1.0)], note))


def waits_of(make: Make, count: int) -> list[float]:
    """The time that each item waited."""
    waits: list[float] = []
    clock = time.perf_counter

    def handler(batch: list[Any]) -> None:
        now = clock()
        waits.extend(now - item.v for item in batch)

    types = make_types(1)
    rival: Rival = make(types, handler, 1_000_000, True)
    put, kind = rival.put, types[0]
    started = clock()
    for number in range(count):
        due = started + number * 1e-4
        while (left := due - clock()) > 0:
            time.sleep(left)
        put(kind(clock()))
    rival.close()
    return waits


if __name__ == "__main__":
    sys.exit(main())
