"""Small batches: the settings below which an item becomes dearer.

Each figure changes one setting and keeps the load of the end-to-end figures: a producer makes each item on the way, and
waits for room. A smaller capacity, a smaller ``max_batch`` and more types to a partition all do the same: fewer items
share the wake-up of a thread and the call of a handler.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

from benches.pages import count
from benches.protocol import Report, measure, rounds
from benches.python.batch_loads import Handler, Load, dataclasses
from benches.python.batch_rivals import Drainq, Rival
from benches.python.batch_runs import ROOM, through


def knees(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of an item with small batches."""
    many = 20_000 if options.quick else 200_000
    note = f"processor time of the process; {many:,} dataclasses made on the way, one producer, one drain thread"

    def add(name: str, types: int, runs: dict[str, Callable[[Load], float]], more: str) -> None:
        load = dataclasses(types)
        contestants = {f"drainq, {setting}": functools.partial(run, load) for setting, run in runs.items()}
        report.add(measure(name, "cpu-s/item", contestants, rounds=rounds(options, 11), note=f"{note}; {more}"))

    def cost(load: Load, *, room: int = ROOM, **setting: Any) -> float:
        def opened(load: Load, handler: Handler, capacity: int, blocking: bool) -> Rival:
            return Drainq(load, handler, capacity, blocking, **setting)

        return through(opened, load, many, 1, room).cpu

    capacities = {f"room for {room:,}": functools.partial(cost, room=room) for room in (10, 100, 1_000, 10_000, ROOM)}
    add("knee: capacity", 1, capacities, "one type")
    batches = {
        f"max_batch={most:,}": functools.partial(cost, max_batch=most) for most in (1, 16, 64, 256, 1_024, 8_192)
    }
    add("knee: max_batch", 100, batches, f"100 types in one partition, room for {ROOM:,}")
    for room in (ROOM, 8 * ROOM):
        partitions = {
            count(number, "partition"): functools.partial(cost, room=room, partitions=number)
            for number in (1, 10, 100, 1_000)
        }
        add(f"knee: partitions, room for {room:,}", 1_000, partitions, "1,000 types; the partitions share the room")
