"""A process without memory: a call that adds an item raises MemoryError, as the standard library's queues do, and the
counters stay right.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("resource")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is on the address space, by /proc"),
]

HEAD = """
import logging, resource, threading
from drainq import BatchQueue, BatchQueueConfig, MultiQueue, PartitionPolicy, SetQueue, ThreadPolicy

def batch(**settings):
    return BatchQueue("full", BatchQueueConfig(threads=ThreadPolicy.fixed(1), partitions=PartitionPolicy.fixed(1),
                                               buffer_size=1 << 28, consumer=consume, **settings))

def consume(items):
    entered.set()
    leave.wait()

entered, leave = threading.Event(), threading.Event()
queue, item = {make}, object()
items = [item] * 1000
if isinstance(queue, BatchQueue):  # its drain thread has what it needs, and stays in the handler
    queue.produce(item)
    entered.wait()

def limited(megabytes):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), resource.RLIM_INFINITY))

def refused():
    try:
        while True:
            {call}
    except MemoryError as error:
        return error

limited(60)
errors = refused(), refused()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert [type(error) for error in errors] == [MemoryError] * 2, errors
leave.set()
{check}
print("ok")
"""

BATCH = """
assert queue.produce(item) and queue.flush(60)
stats = queue.stats()
assert stats.offered == stats.accepted == stats.handled > 100_000 and stats.balanced, stats.as_dict()
"""
MULTI = """
queue["a"].put(item)
stats = queue.stats()
assert stats.put == stats.depth == queue.qsize() > 100_000, stats
assert all(one is item for one in queue.get_many(1 << 30))
"""
SET = """
size = queue.qsize()
assert queue.put("last") and queue.stats().put == size + 1 == queue.qsize() > 10_000
got = queue.get_many(size)
assert len(got) == size and got == sorted(set(got)) and queue.get() == "last"
"""

MULTI_QUEUE = "MultiQueue(); queue.add_sub_queue('a')"
CASES = {
    "produce": ("batch()", "queue.produce(item)", BATCH),
    "produce, weighed": ("batch(len_of=lambda item: 1)", "queue.produce(item)", BATCH),
    "produce, within a capacity": ("batch(capacity=1 << 28)", "queue.produce(item)", BATCH),
    "offer": ("batch()", "queue.offer(item)", BATCH),
    "produce_many": ("batch()", "queue.produce_many(items)", BATCH),
    "put": (MULTI_QUEUE, "queue['a'].put(item)", MULTI),
    "put_nowait": (MULTI_QUEUE, "queue['a'].put_nowait(item)", MULTI),
    "put_many": (MULTI_QUEUE, "queue['a'].put_many(items)", MULTI),
    "set queue": ("SetQueue(); numbers = iter(list(range(4_000_000)))", "queue.put(next(numbers))", SET),
}


def ends(make: str, call: str, check: str) -> str:
    make, _, then = make.partition("; ")
    program = HEAD.replace("{make}, object()", "{make}, object()\n" + then).format(make=make, call=call, check=check)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    return ended.stdout.strip() if ended.returncode == 0 else f"{ended.returncode}: {ended.stderr[-600:]}"


@pytest.mark.needs_gil("without one a slot is claimed before its memory is there: without memory the process ends")
def test_an_item_without_memory_raises_memory_error_and_nothing_is_half_done() -> None:
    assert {name: ends(*case) for name, case in CASES.items()} == dict.fromkeys(CASES, "ok")
