"""The cost of single calls of the batch queue in Python, compared with the standard library's queues.

Run it:  python -m benches.python.hot_path [--quick] [--only WORD] [--rounds N] [--out DIR]

Figures of one thread are processor time of that thread, so what other programs take is not counted; calls are made by
``map``, so that the loop around them costs little. End to end, beside more rivals: ``benches.versus.batch_queue``.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import operator
import queue
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benches import protocol
from benches.protocol import AtMostTimes, Below, Faster, Goal, Report, measure, rounds

from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy

OURS = "drainq"


def main() -> int:
    """Run the figures that were asked for."""
    figures = (
        produce,
        dispatch_key,
        produce_many,
        mixed_types,
        partitions,
        record_batch,
        gil_wait,
        memory,
        idle,
        interrupt,
    )
    return protocol.run("hot_path", *figures)


class Item:
    """What is produced."""

    __slots__ = ("v",)

    def __init__(self, v: float = 1.0) -> None:
        self.v = v


def ignore(_batch: list[Any]) -> None:
    """Do nothing: the cheapest handler."""


def open_queue(types: Sequence[type], **options: Any) -> BatchQueue:
    """Open a queue with one drain thread and room for a million items in a partition."""
    config = BatchQueueConfig(**{"threads": ThreadPolicy.fixed(1), "buffer_size": 1_000_000, **options})
    one = BatchQueue("bench", config)
    for kind in types:
        one.add_handler(kind, ignore)
    return one


class Calls:
    """Calls on a queue in bursts; after each the queue is emptied, and that is not timed.

    So the memory that a queue uses is warm, as it is where a consumer reads at the other end.
    """

    def __init__(self, call: Callable[[Any], object], empty: Callable[[], object], arguments: Sequence[Any]) -> None:
        self.call, self.empty, self.arguments = call, empty, arguments

    def cost(self, bursts: int, items: int) -> float:
        """Processor seconds of this thread for an item: the median of the bursts, each of ``items``."""
        run: Callable[[Iterable[object]], object] = collections.deque(maxlen=0).extend
        taken = []
        for _ in range(bursts):
            started = time.thread_time()
            run(map(self.call, self.arguments))
            taken.append((time.thread_time() - started) / items)
            self.empty()
        return statistics.median(taken)


def one_by_one(one: BatchQueue) -> Callable[[Iterable[Any]], None]:
    """Return a loop of ``produce`` over a list."""

    def call(items: Iterable[Any]) -> None:
        produce = one.produce
        for item in items:
            produce(item)

    return call


def ours(one: BatchQueue, arguments: Sequence[Any], many: bool = False) -> Calls:
    """Return the calls of a producer of ``one``."""
    return Calls(one.produce_many if many else one.produce, one.flush, arguments)


def simple_queue(arguments: Sequence[Any]) -> Calls:
    """Return the calls of a ``SimpleQueue``, which has no reader during a burst."""
    one: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def empty() -> None:
        while not one.empty():
            one.get()

    return Calls(one.put, empty, arguments)


def standard_queue(arguments: Sequence[Any]) -> Calls:
    """Return the calls of a ``queue.Queue``, which has no reader during a burst."""
    one: queue.Queue[Any] = queue.Queue()
    return Calls(one.put, one.queue.clear, arguments)


def deque(arguments: Sequence[Any], many: bool = False) -> Calls:
    """Return the calls of a ``deque``."""
    one: collections.deque[Any] = collections.deque()
    return Calls(one.extend if many else one.append, one.clear, arguments)


def output_of(program: str, *arguments: object) -> str:
    """Return the output of a Python program that runs in a new process."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def number_from(program: str, *arguments: object) -> float:
    """Return the number that such a program prints."""
    return float(output_of(program, *arguments))


def compare(
    report: Report,
    options: argparse.Namespace,
    name: str,
    calls: dict[str, Calls],
    items: int,
    goals: Sequence[Goal],
    note: str = "",
    per: str = "call",
) -> None:
    """Add a figure of calls, a burst of ``items`` each."""
    bursts = 5 if options.quick else 40
    contestants = {who: functools.partial(each.cost, bursts, items) for who, each in calls.items()}
    note = f"bursts of {items:,} items" + (f"; {note}" if note else "")
    report.add(measure(name, f"cpu-s/{per}", contestants, rounds=rounds(options, 11), goals=goals, note=note))


def produce(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of a produce call."""
    items = [Item()] * 10_000
    with open_queue([Item]) as one, open_queue([Item], linger=5.0) as undrained:
        calls = {
            OURS: ours(one, items),
            "SimpleQueue.put": simple_queue(items),
            "queue.Queue.put": standard_queue(items),
            "deque.append": deque(items),
            "drainq, not drained": ours(undrained, items),
        }
        goals = [AtMostTimes(OURS, "SimpleQueue.put", 1.0), Faster(OURS, "queue.Queue.put", 25)]
        note = "drainq's drain thread runs meanwhile, but for the row that says so; the other queues are not read"
        compare(report, options, "produce", calls, len(items), goals, note)


def dispatch_key(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of a produce call if a value in the item is its type."""
    items = [("kind", 1.0)] * 10_000
    by_value = open_queue([], dispatch_key=operator.itemgetter(0))
    by_value.add_handler("kind", ignore)
    with by_value, open_queue([tuple]) as by_class:
        calls = {
            "drainq, by class": ours(by_class, items),
            "drainq, dispatch_key=itemgetter(0)": ours(by_value, items),
            "SimpleQueue.put": simple_queue(items),
        }
        goals = [AtMostTimes("drainq, dispatch_key=itemgetter(0)", "drainq, by class", 1.3, 1.0)]
        compare(report, options, "dispatch key", calls, len(items), goals, "tuples; one partition")


def mixed_types(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of an item in produce_many of lists with items of many types, compared with a loop of produce."""
    types = [type(f"Item{number}", (Item,), {"__slots__": ()}) for number in range(100)]
    shuffled = [kind() for kind in types]
    random.Random(1).shuffle(shuffled)
    lists = [shuffled] * 100
    with open_queue(types) as one, open_queue(types) as other:
        calls = {
            OURS: ours(one, lists, many=True),
            "a loop of produce": Calls(one_by_one(other), other.flush, lists),
        }
        goals = [AtMostTimes(OURS, "a loop of produce", 0.6, 0.3)]
        name = "produce_many(100) of 100 types"
        compare(report, options, name, calls, 10_000, goals, "each list has an item of each type, shuffled", per="item")


def produce_many(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of an item in produce_many(100)."""
    lists = [[Item()] * 100] * 100
    with open_queue([Item]) as one, open_queue([Item], linger=5.0) as undrained:
        calls = {
            OURS: ours(one, lists, many=True),
            "deque.extend": deque(lists, many=True),
            "drainq, not drained": ours(undrained, lists, many=True),
        }
        compare(
            report, options, "produce_many(100)", calls, 10_000, [AtMostTimes(OURS, "deque.extend", 1.5)], per="item"
        )


def partitions(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of many partitions for a producer."""
    types = [type(f"Item{number}", (Item,), {"__slots__": ()}) for number in range(128)]
    items = list(itertools.islice(itertools.cycle([kind() for kind in types]), 10_000))
    one_partition = open_queue(types, partitions=PartitionPolicy.fixed(1))
    with one_partition, open_queue(types, partitions=PartitionPolicy.fixed(128)) as many:
        calls = {"drainq, 1 partition": ours(one_partition, items), "drainq, 128 partitions": ours(many, items)}
        goals = [AtMostTimes("drainq, 128 partitions", "drainq, 1 partition", 1.25)]
        compare(report, options, "partitions", calls, len(items), goals, "128 types in turn")


def record_batch(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of producing a record batch of 1,000 rows."""
    import pyarrow

    batches = [pyarrow.record_batch({"v": list(range(1000))})] * 10_000
    rows = {"buffer_size": 1_000_000_000, "len_of": len}
    with open_queue([pyarrow.RecordBatch]) as one, open_queue([pyarrow.RecordBatch], **rows) as weighed:
        calls = {OURS: ours(one, batches), "drainq, len_of=len": ours(weighed, batches)}
        compare(report, options, "a record batch of 1,000 rows", calls, len(batches), [Below(OURS, 20e-9)])


GIL_WAIT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, ThreadPolicy
class Item:
    __slots__ = ()
def work(count):
    for _ in range(count):
        for _ in range(100):
            pass
        queue.produce(Item())
config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), buffer_size=16_384, strategy=BufferStrategy.IF_POSSIBLE)
with BatchQueue("bench", config) as queue:
    queue.add_handler(Item, lambda batch: None)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [int(sys.argv[1])] * 4))
    queue.flush()
    waits = queue.stats().gil_waits
seen, total = 0, sum(number for _, number in waits)
for limit, number in waits:
    seen += number
    if seen >= 0.99 * total > 0:
        print(limit)
        break
"""


def gil_wait(report: Report, options: argparse.Namespace) -> None:
    """Measure the drain thread's wait for the GIL while four producers are busy.

    In a process of its own: a collection of the objects that other figures left would hold the GIL for longer.
    """
    once = functools.partial(number_from, GIL_WAIT, 5_000 if options.quick else 300_000)
    limit = 2 * sys.getswitchinterval()
    note = f"the limit of the counter's class; two switch intervals are {protocol.amount(limit)}"
    goals = [Below(OURS, limit * 1.0001)]
    report.add(measure("wait for the GIL, p99", "s", {OURS: once}, rounds=rounds(options, 11), goals=goals, note=note))


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
    """Measure the bytes of a place that holds an item."""
    count = 100_000 if options.quick else 1_000_000
    contestants = {name: functools.partial(number_from, MEMORY, name, count) for name in (OURS, "SimpleQueue", "Queue")}
    note = "growth of the process while that many items are queued, the items themselves not included"
    goals = [Below(OURS, 9, "bytes")]
    report.add(
        measure("memory of a place", "bytes", contestants, rounds=rounds(options, 11), warm=0, goals=goals, note=note)
    )


SLEEPING = "(a thread in time.sleep(0.05))"
PLAIN, WATCHING = "drainq, plain handler", "drainq, handler with on_idle"
"""What it costs this machine to wake a Python thread 20 times a second, as on_idle does by default."""

IDLE = """
import os, sys, threading, time
from drainq import BatchQueue, BatchQueueConfig, PartitionPolicy, ThreadPolicy
class Quiet:
    def consume(self, batch): pass
class Watching(Quiet):
    def on_idle(self): pass
def sleep_for_ever():
    while True:
        time.sleep(0.05)
if sys.argv[1].startswith("(a thread"):
    threading.Thread(target=sleep_for_ever, daemon=True).start()
config = BatchQueueConfig(threads=ThreadPolicy.fixed(4), partitions=PartitionPolicy.fixed(8))
def wakes():
    lines = [line for task in os.listdir("/proc/self/task") for line in open(f"/proc/self/task/{task}/status")]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
with BatchQueue("idle", config) as queue:
    queue.add_handler(int, (Watching if sys.argv[1].endswith("on_idle") else Quiet)())
    queue.produce(1)
    queue.flush()
    time.sleep(0.3)
    woken, cpu = wakes(), time.process_time()
    time.sleep(float(sys.argv[2]))
    cpu = time.process_time() - cpu
    print(cpu, wakes() - woken)
"""


def idle(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of four idle drain threads."""
    duration = 0.5 if options.quick else 2.0
    woken: dict[str, list[float]] = {}

    def once(kind: str) -> float:
        cpu, wakes = output_of(IDLE, kind, duration).split()
        woken.setdefault(kind, []).append(int(wakes) / duration)
        return 100 * float(cpu) / duration

    contestants = {kind: functools.partial(once, kind) for kind in (PLAIN, WATCHING, SLEEPING)}
    goals = [Below(PLAIN, 0.02, "%"), Below(WATCHING, 0.2, "%")]
    number = rounds(options, 11)
    report.add(measure("idle, 4 drain threads", "% of a core", contestants, rounds=number, warm=0, goals=goals))
    note = "the process's voluntary switches; those of the thread that measures are among them"
    goals = [Below(PLAIN, 4, "a second")]
    report.add(protocol.figure("idle, wake-ups", "wake-ups a second", woken, goals, note))


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
    """Measure the time until Ctrl-C interrupts a produce call that waits for room."""
    once = functools.partial(number_from, INTERRUPTED)
    goals = [Below(OURS, 0.05)]
    report.add(
        measure("Ctrl-C out of a blocked produce", "s", {OURS: once}, rounds=rounds(options, 11), warm=0, goals=goals)
    )


if __name__ == "__main__":
    sys.exit(main())
