"""The batch queue end to end, compared with queues that a program would build or take instead.

Run it:  python -m benches.versus.batch_queue [--quick] [--only WORD] [--rounds N] [--out DIR]

The first figures are of the load that drainq is for: producers make each item on the way, and there is room for 16,384 of
them, so that back-pressure is part of the cost. The burst of ready-made items into unlimited room comes after them.

Needs the rivals: the dependency group ``bench``.
"""

from __future__ import annotations

import argparse
import functools
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benches import protocol
from benches.pages import count
from benches.protocol import AtMostTimes, Below, Faster, Goal, NoMoreThanBest, Report, measure, rounds
from benches.python.batch_knees import knees
from benches.python.batch_loads import Load, dataclasses, dicts, tuples
from benches.python.batch_rivals import (
    BY_TYPE,
    DEQUE,
    IN_PRODUCER,
    LEAN,
    OTEL,
    OURS,
    POLLED,
    RIVALS,
    SIMPLE,
    STANDARD,
    UNBOUNDED,
    Drainq,
    Make,
    Rival,
    in_the_producer,
)
from benches.python.batch_runs import ROOM, Cost, Summing, through

UNLIMITED = 1_000_000


def main() -> int:
    """Run the figures that were asked for."""
    # A dropped item is a count here, not a line.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    logging.getLogger("drainq").setLevel(logging.ERROR)
    parts = (bounded_dataclasses, bounded_tuples, bounded_dicts, rare_collector, burst, dropped, latency, knees)
    return protocol.run("batch_queue", *parts)


def compare(
    report: Report,
    name: str,
    runs: Mapping[str, Callable[[], Cost]],
    *,
    count: int,
    wall_goals: list[Goal] | None = None,
    cpu_goals: list[Goal] | None = None,
    note: str,
) -> None:
    """Add two figures of the same runs: the time of an item, and the processor time of an item."""
    costs: dict[str, list[float]] = {contestant: [] for contestant in runs}

    def wall_of(contestant: str) -> float:
        cost = runs[contestant]()
        costs[contestant].append(cost.cpu)
        return cost.wall

    contestants = {contestant: functools.partial(wall_of, contestant) for contestant in runs}
    report.add(measure(f"{name}, time", "s/item", contestants, rounds=count, goals=wall_goals or [], note=note))
    cpu = {contestant: values[-count:] for contestant, values in costs.items()}
    note = "processor time of the whole process; the same runs as above"
    report.add(protocol.figure(f"{name}, cpu", "cpu-s/item", cpu, cpu_goals or [], note))


def bounded_dataclasses(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of an item that its producer creates just before, with room for 16,384."""
    bounded(report, options, dataclasses, [(1, 4), (100, 1), (100, 4), (100, 16)])


def bounded_tuples(report: Report, options: argparse.Namespace) -> None:
    """Measure the same with tuples."""
    bounded(report, options, tuples, [(1, 4), (100, 1), (100, 4), (100, 16)])


def bounded_dicts(report: Report, options: argparse.Namespace) -> None:
    """Measure the same with dicts."""
    bounded(report, options, dicts, [(1, 4), (100, 4)])


def bounded(
    report: Report,
    options: argparse.Namespace,
    loads: Callable[[int], Load],
    shapes: Sequence[tuple[int, int]],
) -> None:
    """Add the figures of loads in bounded room, for each number of types and of producers."""
    many = 40_000 if options.quick else 400_000
    for types, producers in shapes:
        load = loads(types)
        names = [OURS, *([BY_TYPE] if types > 1 else []), *LEAN, DEQUE, OTEL]
        makes = {name: RIVALS[name] for name in names} | {IN_PRODUCER: in_the_producer}
        bounded_load(report, load, producers, makes, many, rounds(options, 11))


def bounded_load(
    report: Report, load: Load, producers: int, makes: Mapping[str, Make], many: int, count_of_rounds: int
) -> None:
    """Add the figures of one load in bounded room."""
    runs = {
        # OpenTelemetry drops what it has no room for, so it gets room for everything.
        name: functools.partial(through, make, load, many, producers, many if name == OTEL else ROOM)
        for name, make in makes.items()
    }
    limit = 0.75 if load.key_of is None else 0.8
    goals: list[Goal] = [NoMoreThanBest(OURS, LEAN, limit, 0.6)]
    if BY_TYPE in makes:
        goals.append(AtMostTimes(BY_TYPE, OURS, 1.1))
    compare(
        report,
        f"{load}, {count(producers, 'producer')}",
        runs,
        count=count_of_rounds,
        cpu_goals=goals,
        note=f"{many:,} items, room for {ROOM:,}"
        + ("; types by a dispatch key" if load.key_of else "; types by class"),
    )


def rare_collector(report: Report, options: argparse.Namespace) -> None:
    """Measure one of these loads where Python's collector runs more rarely, as a program can ask it to."""
    load, many = dataclasses(100), 40_000 if options.quick else 400_000
    runs = {name: functools.partial(through, RIVALS[name], load, many, 4, ROOM) for name in (OURS, *LEAN)}
    usual = gc.get_threshold()
    note = f"{many:,} items, room for {ROOM:,}; the other figures have the thresholds {usual}"
    gc.set_threshold(50_000)
    try:
        compare(report, f"{load}, 4 producers, gc.set_threshold(50_000)", runs, count=rounds(options, 11), note=note)
    finally:
        gc.set_threshold(*usual)


def burst(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of a ready-made item in a burst into an unbounded queue."""
    many = 20_000 if options.quick else 200_000
    load = dataclasses(100)
    rivals = ((SIMPLE, 2.0, 2.5), (DEQUE, 7.0, 8.0), (OTEL, 7.0, 8.0), (STANDARD, 30.0, 60.0))
    goals: list[Goal] = [Faster(BY_TYPE, name, must, aim) for name, must, aim in rivals]
    for producers in (1, 4, 16):
        runs = {
            name: functools.partial(through, make, load, many, producers, UNLIMITED, True)
            for name, make in RIVALS.items()
        }
        contestants = {name: (lambda run=run: run().wall) for name, run in runs.items()}  # type: ignore[misc]
        report.add(
            measure(
                f"burst of ready-made items, {count(producers, 'producer')}",
                "s/item",
                contestants,
                rounds=rounds(options, 11),
                goals=goals,
                note=f"{many:,} dataclasses of 100 types into room for {UNLIMITED:,}: no producer ever waits",
            )
        )


def spin(loops: int) -> None:
    """Python that keeps the GIL."""
    for _ in range(loops):
        pass


def loops_for(seconds: float) -> int:
    """Return the number of loops of :func:`spin` that take ``seconds`` here."""
    best = min(protocol.seconds(lambda: spin(10_000)) for _ in range(20))
    return max(1, round(10_000 * seconds / best))


def dropped(report: Report, options: argparse.Namespace) -> None:
    """Measure the share of the items that busy producers lose if they do not wait for room."""
    each = 20_000 if options.quick else 100_000
    load = dataclasses(1)
    loops = loops_for(2e-6)

    def share(make: Make) -> float:
        handler = Summing(load)
        rival = make(load, handler, ROOM, False)
        ready = threading.Barrier(4)

        def produce(_number: int) -> None:
            put, kind = rival.put, load.keys[0]
            ready.wait()
            for _ in range(each):
                spin(loops)
                put(kind("/search", 1.0))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(produce, range(4)))
        rival.close()
        return 100 * (1 - handler.items / (4 * each))

    bounded = {name: functools.partial(share, make) for name, make in RIVALS.items() if name not in UNBOUNDED}
    report.add(
        measure(
            "dropped, no waiting for room",
            "%",
            bounded,
            rounds=rounds(options, 11),
            goals=[Below(OURS, 0.1, "%")],
            note="4 producers, 2 us of Python for each item, 16,384 places; OpenTelemetry drops the oldest items",
        )
    )


def latency(
    report: Report,
    options: argparse.Namespace,
    loads: Sequence[tuple[int, int]] = ((1_000, 1_000), (10_000, 10_000), (50_000, 50_000)),
) -> None:
    """Measure the time from put to the handler of an idle queue, for each rate a second and number of items."""
    prompt = f"{OURS}, min_idle=0"
    makes: dict[str, Make] = {
        OURS: RIVALS[OURS],
        prompt: functools.partial(Drainq, min_idle=0.0),
        SIMPLE: RIVALS[SIMPLE],
        POLLED: RIVALS[POLLED],
        STANDARD: RIVALS[STANDARD],
    }
    for rate, items in loads:
        items //= 10 if options.quick else 1
        late: dict[str, list[float]] = {name: [] for name in makes}
        cpu: dict[str, list[float]] = {name: [] for name in makes}

        def once(name: str, rate: int = rate, items: int = items, late: Any = late, cpu: Any = cpu) -> float:
            used = time.process_time()
            waits = sorted(waits_of(makes[name], items, rate))
            cpu[name].append((time.process_time() - used) / items)
            late[name].append(waits[len(waits) * 99 // 100])
            return waits[len(waits) // 2]

        contestants = {name: functools.partial(once, name) for name in makes}
        number = rounds(options, 11)
        title = f"latency at {rate:,} items a second"
        note = "one producer that sleeps between its items; drainq with its default settings, and without naps"
        goals: list[Goal] = [AtMostTimes(OURS, SIMPLE, 2.0, 1.2), AtMostTimes(prompt, SIMPLE, 1.5)]
        report.add(measure(f"{title}, p50", "s", contestants, rounds=number, goals=goals, note=note))
        goals = [AtMostTimes(OURS, STANDARD, 1.0), AtMostTimes(prompt, STANDARD, 1.0)]
        report.add(
            protocol.figure(f"{title}, p99", "s", {name: runs[-number:] for name, runs in late.items()}, goals, note)
        )
        goals = [AtMostTimes(OURS, SIMPLE, 1.3)]
        note = "processor time of the process, the producer's sleeps and the measuring included"
        used = {name: runs[-number:] for name, runs in cpu.items()}
        report.add(protocol.figure(f"{title}, cpu", "cpu-s/item", used, goals, note))


def waits_of(make: Make, many: int, rate: int) -> list[float]:
    """Return the time that each item waited."""
    waits: list[float] = []
    clock = time.perf_counter

    def handler(batch: list[Any]) -> None:
        now = clock()
        waits.extend(now - item.value for item in batch)

    load = dataclasses(1)
    rival: Rival = make(load, handler, UNLIMITED, True)
    put, kind = rival.put, load.keys[0]
    started = clock()
    for number in range(many):
        due = started + number / rate
        while (left := due - clock()) > 0:
            time.sleep(left)
        put(kind("/search", clock()))
    rival.close()
    return waits


if __name__ == "__main__":
    sys.exit(main())
