"""What single calls of the batch queue cost in Python, beside the standard library's queues.

Run it:  python -m benches.python.hot_path [--quick] [--only WORD] [--rounds N] [--out FILE] [--markdown FILE]

Figures of one thread are processor time of that thread, so what other programs take is not counted; calls are made by
``map``, so that the loop around them costs little. End to end, beside more rivals: ``benches.versus.batch_queue``.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import itertools
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benches import protocol
from benches.protocol import AtMostTimes, Below, Faster, Report, measure

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, PartitionPolicy, ThreadPolicy

OURS = "drainq"


def main() -> int:
    """Run the figures that were asked for."""
    options = protocol.arguments("hot path")
    report = Report("hot_path", protocol.machine(quick=options.quick), options.out)
    for figure in (produce, produce_many, partitions, record_batch, gil_wait, memory, idle, interrupt):
        if protocol.wanted(figure.__name__, options):
            figure(report, options)
    if options.markdown:
        protocol.renew_table(options.markdown, report)
    return report.finish()


def rounds(options: argparse.Namespace, usual: int) -> int:
    """How many rounds count."""
    return options.rounds or (3 if options.quick else usual)


class Item:
    """What is produced."""

    __slots__ = ("v",)

    def __init__(self, v: float = 1.0) -> None:
        self.v = v


def ignore(_batch: list[Any]) -> None:
    """The cheapest handler."""


def open_queue(types: Sequence[type], **options: Any) -> BatchQueue:
    """A queue of one drain thread with room for a million items a partition."""
    config = BatchQueueConfig(**{"threads": ThreadPolicy.fixed(1), "buffer_size": 1_000_000, **options})
    one = BatchQueue("bench", config)
    for kind in types:
        one.add_handler(kind, ignore)
    return one


def cost(call: Callable[[Any], object], arguments: Sequence[Any], items: int) -> float:
    """Processor seconds of this thread, per item, for one call an argument."""
    run: Callable[[Iterable[object]], object] = collections.deque(maxlen=0).extend
    gc.collect()
    started = time.thread_time()
    run(map(call, arguments))
    return (time.thread_time() - started) / items


def ours(types: Sequence[type], arguments: Sequence[Any], items: int, many: bool = False, **options: Any) -> float:
    """The cost in a fresh queue that has handled an item of each type before."""
    with open_queue(types, **options) as one:
        one.produce_many([kind() for kind in types])
        one.flush()
        return cost(one.produce_many if many else one.produce, arguments, items)


def output_of(program: str, *arguments: object) -> str:
    """What a Python program of its own prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def number_from(program: str, *arguments: object) -> float:
    """The number that it prints."""
    return float(output_of(program, *arguments))


def produce(report: Report, options: argparse.Namespace) -> None:
    """What does a produce call cost?"""
    count = 20_000 if options.quick else 200_000
    items = [Item()] * count
    contestants: dict[str, Callable[[], float]] = {
        OURS: lambda: ours([Item], items, count),
        "SimpleQueue.put": lambda: cost(queue.SimpleQueue().put, items, count),
        "queue.Queue.put": lambda: cost(queue.Queue().put, items, count),
        "deque.append": lambda: cost(collections.deque[Any]().append, items, count),
        "drainq, nobody drains": lambda: ours([Item], items, count, linger=5.0),
    }
    goals = [AtMostTimes(OURS, "SimpleQueue.put", 1.0), Faster(OURS, "queue.Queue.put", 25)]
    note = "one producer; drainq's drain thread runs, but for the row that says so; nobody gets from the others"
    report.add(measure("produce", "s/item", contestants, rounds=rounds(options, 15), goals=goals, note=note))


def produce_many(report: Report, options: argparse.Namespace) -> None:
    """What does an item cost in produce_many(100)?"""
    calls = 500 if options.quick else 5_000
    lists = [[Item()] * 100] * calls
    contestants: dict[str, Callable[[], float]] = {
        OURS: lambda: ours([Item], lists, calls * 100, many=True),
        "deque.extend": lambda: cost(collections.deque[Any]().extend, lists, calls * 100),
        "drainq, nobody drains": lambda: ours([Item], lists, calls * 100, many=True, linger=5.0),
    }
    goals = [AtMostTimes(OURS, "deque.extend", 1.5)]
    report.add(measure("produce_many(100)", "s/item", contestants, rounds=rounds(options, 15), goals=goals))


def partitions(report: Report, options: argparse.Namespace) -> None:
    """What do many partitions cost a producer?"""
    count = 20_000 if options.quick else 200_000
    types = [type(f"Item{number}", (Item,), {"__slots__": ()}) for number in range(128)]
    items = list(itertools.islice(itertools.cycle([kind() for kind in types]), count))

    def run(number: int) -> float:
        return ours(types, items, count, partitions=PartitionPolicy.fixed(number))

    contestants = {f"{number} partitions": functools.partial(run, number) for number in (1, 128)}
    goals = [AtMostTimes("128 partitions", "1 partitions", 1.25)]
    note = "items of 128 types in turn"
    report.add(measure("partitions", "s/item", contestants, rounds=rounds(options, 15), goals=goals, note=note))


def record_batch(report: Report, options: argparse.Namespace) -> None:
    """What does it cost to produce a record batch of 1,000 rows?"""
    import pyarrow

    count = 10_000 if options.quick else 100_000
    batch = pyarrow.record_batch({"v": list(range(1000))})
    batches = [batch] * count

    def run(**how: Any) -> float:
        with open_queue([pyarrow.RecordBatch], buffer_size=1_000_000_000, **how) as one:
            one.produce(batch)
            one.flush()
            return cost(one.produce, batches, count)

    contestants: dict[str, Callable[[], float]] = {OURS: run, "drainq, len_of=len": lambda: run(len_of=len)}
    goals = [Below(OURS, 20e-9)]
    report.add(measure("a record batch of 1,000 rows", "s", contestants, rounds=rounds(options, 15), goals=goals))


def gil_wait(report: Report, options: argparse.Namespace) -> None:
    """How long does the drain thread wait for the GIL, while four producers keep it busy?"""
    count = 5_000 if options.quick else 50_000

    def spin() -> None:
        for _ in range(100):
            pass

    def once() -> float:
        with open_queue([Item], buffer_size=16_384, strategy=BufferStrategy.IF_POSSIBLE) as one:

            def work(_number: int) -> None:
                for _ in range(count):
                    spin()
                    one.produce(Item())

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(work, range(4)))
            one.flush()
            waits = one.stats().gil_waits
        total, seen = sum(number for _, number in waits), 0
        for limit, number in waits:
            seen += number
            if seen >= 0.99 * total:
                return limit
        raise RuntimeError("the drain thread never took the GIL")

    limit = 2 * sys.getswitchinterval()
    note = f"the limit of the counter's class; two switch intervals are {protocol.amount(limit)}"
    goals = [Below(OURS, limit * 1.0001)]
    report.add(measure("wait for the GIL, p99", "s", {OURS: once}, rounds=rounds(options, 7), goals=goals, note=note))


MEMORY = """
import collections, os, queue, sys, threading
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
which, count = sys.argv[1], int(sys.argv[2])
items = [object()] * count
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
inside, go_on = threading.Event(), threading.Event()
def hold(batch):
    inside.set()
    go_on.wait()
if which == "drainq":
    one = BatchQueue("bench", BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=count))
    one.add_handler(object, hold)
    one.produce(items[0])
    inside.wait()
    put = one.produce
else:
    one = getattr(queue, which)()
    put = one.put
before = resident()
collections.deque(map(put, items), maxlen=0)
print((resident() - before) / count)
if which == "drainq":
    assert one.stats().queued == count + 1
    go_on.set()
    one.shutdown()
"""


def memory(report: Report, options: argparse.Namespace) -> None:
    """How many bytes does a place take that holds an item?"""
    count = 100_000 if options.quick else 1_000_000
    contestants = {name: functools.partial(number_from, MEMORY, name, count) for name in (OURS, "SimpleQueue", "Queue")}
    note = "growth of the process while that many items are queued, the items themselves not included"
    goals = [Below(OURS, 9, "bytes")]
    report.add(
        measure("memory of a place", "bytes", contestants, rounds=rounds(options, 5), warm=0, goals=goals, note=note)
    )


IDLE = """
import os, sys, threading, time
from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
class Quiet:
    def consume(self, batch): pass
class Watching(Quiet):
    def on_idle(self): pass
config = BatchQueueConfig(threads=ThreadPolicy.fixed(4), partitions=PartitionPolicy.fixed(8))
def wakes():
    lines = [line for task in os.listdir("/proc/self/task") for line in open(f"/proc/self/task/{task}/status")]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
with BatchQueue("idle", config) as queue:
    queue.add_handler(int, (Watching if sys.argv[1] == "on_idle" else Quiet)())
    queue.produce(1)
    queue.flush()
    time.sleep(0.3)
    woken, cpu = wakes(), time.process_time()
    time.sleep(float(sys.argv[2]))
    cpu = time.process_time() - cpu
    print(cpu, wakes() - woken)
"""


def idle(report: Report, options: argparse.Namespace) -> None:
    """What do four idle drain threads cost?"""
    duration = 0.5 if options.quick else 4.0
    woken: dict[str, list[float]] = {}

    def once(kind: str) -> float:
        cpu, wakes = output_of(IDLE, kind, duration).split()
        woken.setdefault(kind, []).append(int(wakes) / duration)
        return 100 * float(cpu) / duration

    contestants = {kind: functools.partial(once, kind) for kind in ("plain", "on_idle")}
    goals = [Below("plain", 0.02, "%"), Below("on_idle", 0.2, "%")]
    number = rounds(options, 5)
    report.add(measure("idle, 4 drain threads", "% of a core", contestants, rounds=number, warm=0, goals=goals))
    note = "the process's voluntary switches; those of the thread that measures are among them"
    verdict = Below("plain", 4, "1/s").judge(woken)
    report.add(protocol.Figure("idle, wake-ups", "1/s", woken, [verdict], note))


INTERRUPTED = """
import os, signal, threading, time
from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
inside, go_on, sent = threading.Event(), threading.Event(), []
def hold(batch):
    inside.set()
    go_on.wait()
queue = BatchQueue("full", BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=1))
queue.add_handler(int, hold)
queue.produce(1)
inside.wait()
queue.produce(2)
def interrupt():
    time.sleep(0.1)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    queue.produce(3)
except KeyboardInterrupt:
    print(time.perf_counter() - sent[0])
go_on.set()
queue.shutdown()
"""


def interrupt(report: Report, options: argparse.Namespace) -> None:
    """How long until Ctrl-C has broken a produce call that waits for room?"""
    once = functools.partial(number_from, INTERRUPTED)
    goals = [Below(OURS, 0.05)]
    report.add(
        measure("Ctrl-C out of a blocked produce", "s", {OURS: once}, rounds=rounds(options, 11), warm=0, goals=goals)
    )


if __name__ == "__main__":
    sys.exit(main())
