"""Drain threads that compute at the same time: for an interpreter without a GIL.

Run it:  python3.14t -m benches.python.parallel [--quick] [--only WORD] [--rounds N] [--out DIR]
On a machine with many cores: -m benches.many_cores, which has a page of its own.

The items of a burst are ready before its time begins. Handlers compute by type, a type on each partition, or as one
consumer. Thread counts double up to the number of cores. In brackets, the handler's loop without any queue: in threads it
shows how far the interpreter goes, in processes how far the machine does.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import queue
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benches import pages, protocol
from benches.protocol import AtMostTimes, Faster, Goal, Report, measure, rounds

from drainq import BatchQueue

LIST = 1000
"""Items in a list for ``produce_many``, or for a process."""
CORES = os.cpu_count() or 1
THREADS = [count for count in (1, 2, 4, 8, 16) if count <= max(CORES, 2)]


class Number:
    """An item to compute with; each type of items is a subclass."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


KINDS: list[type[Any]] = [type(f"Number{number}", (Number,), {"__slots__": ()}) for number in range(max(THREADS))]


def arithmetic(batch: Iterable[Number]) -> float:
    """Add 20 times the value of each item."""
    total = 0.0
    for item in batch:
        step = 0
        while step < 20:
            total += item.value
            step += 1
    return total


def text(batch: Iterable[str]) -> dict[str, list[int]]:
    """Split lines and add them up by status in a table of this call."""
    table: dict[str, list[int]] = {}
    for line in batch:
        parts = line.split()
        row = table.setdefault(parts[2], [0, 0])
        row[0] += 1
        row[1] += int(parts[3])
    return table


class Other(str):
    """A line of the second type."""

    __slots__ = ()


def lines(producers: int, count: int) -> list[list[str]]:
    """Make the lines of each producer, ``count`` in all, of two types in turns."""
    made = [f"10.0.0.{number & 255} /x{number & 63} status{number % 5} {number}" for number in range(count)]
    typed = [Other(line) if number & 1 else line for number, line in enumerate(made)]
    return [typed[len(typed) * part // producers : len(typed) * (part + 1) // producers] for part in range(producers)]


def main() -> int:
    """Run the figures that were asked for."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") != 1:
        sys.exit(
            "these figures are for an interpreter without a GIL, such as python3.14t: see docs/howto/free_threaded.md"
        )
    return protocol.run("parallel", drain_threads, beside_rivals, calls)


def name(threads: int) -> str:
    """Name the contestant with this number of drain threads."""
    return f"drainq, {pages.count(threads, 'drain thread')}"


def drained(threads: int, items: Sequence[Any], *, singly: bool = False, **handlers: Any) -> float:
    """Return the seconds for an item of a burst that ``threads`` drain threads handle. ``singly``: put by single calls,
    else in lists.
    """
    lists = [list(items[start : start + LIST]) for start in range(0, len(items), LIST)]
    with BatchQueue("bench", threads=threads, partitions=threads, buffer_size=1_000_000, **handlers) as one:
        call, parts = (one.produce, items) if singly else (one.produce_many, lists)
        started = time.perf_counter()
        collections.deque(map(call, parts), maxlen=0)
        one.flush()
        return (time.perf_counter() - started) / len(items)


def in_threads(threads: int, work: Callable[[int], object], after: Callable[[], object] = bool) -> float:
    """Return the seconds in which each of ``threads`` threads does ``work`` with its number, and then ``after`` is done."""
    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    started = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    after()
    return time.perf_counter() - started


def drain_threads(report: Report, options: argparse.Namespace) -> None:
    """Measure how handlers that compute share the cores."""
    items = 20_000 if options.quick else 200_000
    numbers = [Number(number) for number in range(items)]
    goals: list[Goal] = [Faster(name(2), name(1), 1.7, 2.0)]
    goals += [AtMostTimes(name(count), f"(the loop alone, threads: {count})", 1.25, 1.1) for count in THREADS]
    fork = multiprocessing.get_context("fork")

    def typed(threads: int) -> list[Any]:
        return [KINDS[number % threads](number) for number in range(items)]

    def by_type(threads: int) -> Callable[[], float]:
        burst, handlers = typed(threads), dict.fromkeys(KINDS[:threads], arithmetic)
        return lambda: drained(threads, burst, handlers=handlers)

    def consumer(threads: int, singly: bool = False) -> Callable[[], float]:
        burst = typed(threads)
        return lambda: drained(threads, burst, singly=singly, consumer=arithmetic)

    def alone(threads: int, start: Callable[..., Any]) -> Callable[[], float]:
        parts = [numbers[number::threads] for number in range(threads)]

        def run() -> float:
            running = [start(target=arithmetic, args=(part,)) for part in parts]
            started = time.perf_counter()
            for each in running:
                each.start()
            for each in running:
                each.join()
            return (time.perf_counter() - started) / items

        return run

    def in_order(make: Callable[[], Any], threads: int) -> Callable[[], float]:
        def run() -> float:
            one = make()
            workers = [threading.Thread(target=arithmetic, args=(iter(one.get, None),)) for _ in range(threads)]
            for worker in workers:
                worker.start()
            started = time.perf_counter()
            collections.deque(map(one.put, numbers), maxlen=0)
            for _ in workers:
                one.put(None)
            for worker in workers:
                worker.join()
            return (time.perf_counter() - started) / items

        return run

    def processes(pool: ProcessPoolExecutor) -> Callable[[], float]:
        lists = [numbers[start : start + LIST] for start in range(0, items, LIST)]
        return lambda: protocol.seconds(lambda: sum(pool.map(arithmetic, lists))) / items

    with ProcessPoolExecutor(CORES, fork) as pool:
        others = {f"(the loop alone, threads: {count})": alone(count, threading.Thread) for count in THREADS}
        others |= {f"(the loop alone, processes: {count})": alone(count, fork.Process) for count in THREADS}
        others[f"ProcessPoolExecutor, {CORES} processes"] = processes(pool)
        rivals = {f"{name(threads)}, single calls": consumer(threads, singly=True) for threads in THREADS}
        rivals |= {
            f"{kind.__name__}, {pages.count(threads, 'thread')}": in_order(kind, threads)
            for kind in (queue.SimpleQueue, queue.Queue)
            for threads in THREADS
        }
        for question, made, beside in (("a handler for each type", by_type, {}), ("one consumer", consumer, rivals)):
            contestants = {name(threads): made(threads) for threads in THREADS} | beside | others
            report.add(measure(question, "s/item", contestants, rounds=rounds(options, 15), goals=goals))


def beside_rivals(report: Report, options: argparse.Namespace) -> None:
    """Measure two threads that add up lines, behind drainq and behind the standard library's queues."""
    items = 10_000 if options.quick else 100_000

    def ours(producers: int) -> Callable[[], float]:
        parts = lines(producers, items)

        def run() -> float:
            with BatchQueue(
                "bench", threads=2, partitions=2, buffer_size=8192, handlers={str: text, Other: text}
            ) as one:

                def produce(number: int) -> None:
                    for line in parts[number]:
                        one.produce(line)

                return in_threads(producers, produce, one.flush) / items

        return run

    def theirs(make: Callable[[], Any], producers: int) -> Callable[[], float]:
        parts = lines(producers, items)

        def run() -> float:
            one = make()

            def produce(number: int) -> None:
                for line in parts[number]:
                    one.put(line)

            workers = [threading.Thread(target=text, args=(iter(one.get, None),)) for _ in range(2)]

            def end() -> None:
                for _ in workers:
                    one.put(None)
                for worker in workers:
                    worker.join()

            for worker in workers:
                worker.start()
            return in_threads(producers, produce, end) / items

        return run

    for producers in (1, 2):
        contestants = {
            "drainq": ours(producers),
            "SimpleQueue": theirs(queue.SimpleQueue, producers),
            "queue.Queue": theirs(lambda: queue.Queue(16_384), producers),
        }
        goals: list[Goal] = [Faster("drainq", "SimpleQueue", 1.3), Faster("drainq", "queue.Queue", 3.0)]
        question = f"two threads add up lines, {pages.count(producers, 'producer')}"
        report.add(measure(question, "s/item", contestants, rounds=rounds(options, 15), goals=goals))


def calls(report: Report, options: argparse.Namespace) -> None:
    """Measure single calls of one producer and of two, beside a reader; each item is an object of its own."""
    items = 10_000 if options.quick else 100_000

    def ours(producers: int, many: bool = False) -> Callable[[], float]:
        bursts = [[Number(number) for number in range(items)] for _ in range(producers)]
        lists = [[burst[start : start + LIST] for start in range(0, items, LIST)] for burst in bursts]

        def run() -> float:
            with BatchQueue("bench", threads=1, buffer_size=1_000_000, handlers={Number: len}) as one:
                return produced(one.produce_many if many else one.produce, lists if many else bursts)

        return run

    def theirs(producers: int) -> Callable[[], float]:
        bursts = [[Number(number) for number in range(items)] for _ in range(producers)]

        def run() -> float:
            one: queue.SimpleQueue[Any] = queue.SimpleQueue()
            reader = threading.Thread(target=collections.deque, args=(iter(one.get, None), 0))
            reader.start()
            cost = produced(one.put, bursts)
            one.put(None)
            reader.join()
            return cost

        return run

    def produced(call: Callable[[Any], object], bursts: Sequence[Sequence[Any]]) -> float:
        """Return the processor seconds of the producers' threads for an item."""
        taken = []

        def produce(number: int) -> None:
            taken.append(protocol.processor_seconds(lambda: collections.deque(map(call, bursts[number]), maxlen=0)))

        in_threads(len(bursts), produce)
        return sum(taken) / len(bursts) / items

    for producers in THREADS:
        contestants = {"drainq, produce": ours(producers), "SimpleQueue.put": theirs(producers)}
        goals: list[Goal] = [AtMostTimes("drainq, produce", "SimpleQueue.put", 1.2 if producers == 1 else 0.8)]
        if producers == 1:
            contestants[f"drainq, produce_many({LIST})"] = ours(1, many=True)
            goals.append(AtMostTimes(f"drainq, produce_many({LIST})", "drainq, produce", 0.5))
        question = f"single calls, {pages.count(producers, 'producer')}"
        report.add(measure(question, "cpu-s/item", contestants, rounds=rounds(options, 25), goals=goals))


if __name__ == "__main__":
    sys.exit(main())
