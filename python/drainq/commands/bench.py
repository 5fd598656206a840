"""``drainq bench``: a quick figure of this machine, beside the standard library's queues in the same run.

Each round sends items, which are made on the way, from one thread to a consumer on another: through a batch queue;
through a ``SimpleQueue``, whose consumer takes all that is there, the fastest that the standard library has; and
through a ``queue.Queue``, one by one. The rounds alternate, so that a busy machine hurts all. Time is taken from the
first put to the end of the last handler call. The published figures come from ``make bench``.
"""

from __future__ import annotations

import argparse
import json
import platform
import queue
import statistics
import time
from collections.abc import Callable
from typing import Any

from drainq._native import BatchQueue, BatchQueueConfig, ThreadPolicy, __version__
from drainq.commands.layout import amount, hung, width
from drainq.errors import DrainqError
from drainq.threads import DaemonThread

ROUNDS = 5
SHOWN = {"batch_queue": "drainq.BatchQueue", "simple_queue": "queue.SimpleQueue", "queue_queue": "queue.Queue"}


def add_commands(subparsers: Any) -> None:
    """Add ``bench`` to the commands."""
    parser = subparsers.add_parser(
        "bench",
        help="a quick figure of this machine",
        description="Send items to another thread, through a batch queue and the standard library's queues in turn.",
    )
    parser.add_argument(
        "--items", type=_items, default=200_000, metavar="N", help="items in a round (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.set_defaults(run=_run)


def _items(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if not 1 <= number <= 10**8:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1 to 100000000, got {text!r}")
    return number


def _run(arguments: argparse.Namespace) -> int:
    figures = measure(arguments.items)
    if arguments.json:
        print(json.dumps(figures))
        return 0
    columns = width()
    for name, shown in SHOWN.items():
        each = figures[name]
        text = f"{amount(each['median'])} items/s (from {amount(each['least'])} to {amount(each['most'])})"
        print(hung(shown, text, columns))
    of = f"of SimpleQueue, medians of {ROUNDS} rounds of {arguments.items:,} items"
    print(hung("ratio", f"{figures['ratio']:.2f} {of}", columns))
    print(hung("on", f"Python {figures['python']}, {figures['machine']}, drainq {figures['drainq']}", columns))
    return 0


def measure(items: int) -> dict[str, Any]:
    """Run all rounds.

    Args:
        items: how many each round sends.
    Returns:
        For ``batch_queue``, ``simple_queue`` and ``queue_queue`` the items per second: ``median``, ``least`` and
        ``most``; the ``ratio`` of the first two medians; and what it ran on.
    Raises:
        DrainqError: an item did not arrive.
    """
    contestants: dict[str, Callable[[int], float]] = {
        "batch_queue": _batch_round, "simple_queue": _simple_round, "queue_queue": _queue_round,
    }  # fmt: skip
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(ROUNDS + 1):
        for name, contestant in contestants.items():
            seconds = contestant(items)
            if round_number:  # the first is for warmth
                rates[name].append(items / seconds)
    figures: dict[str, Any] = {
        name: {"median": statistics.median(each), "least": min(each), "most": max(each)} for name, each in rates.items()
    }
    return {
        **figures,
        "ratio": figures["batch_queue"]["median"] / figures["simple_queue"]["median"],
        "items": items,
        "drainq": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _batch_round(items: int) -> float:
    arrived = 0

    def handle(batch: list[object]) -> None:
        nonlocal arrived
        arrived += len(batch)

    config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=handle)
    sent: BatchQueue[tuple[int, str]] = BatchQueue("drainq-bench", config)
    started = time.perf_counter()
    for item in range(items):
        sent.produce((item, "item"))
    sent.flush()
    seconds = time.perf_counter() - started
    sent.shutdown()
    _check(arrived, items)
    return seconds


def _simple_round(items: int) -> float:
    sent: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
    arrived = 0

    def consume() -> None:
        nonlocal arrived
        last: object = ()
        while last is not None:
            batch = [sent.get()]
            batch += [sent.get_nowait() for _ in range(sent.qsize())]
            arrived, last = arrived + len(batch), batch[-1]

    seconds = _sent_to(consume, sent.put, items)
    _check(arrived - 1, items)  # without the end
    return seconds


def _queue_round(items: int) -> float:
    sent: queue.Queue[tuple[int, str] | None] = queue.Queue(10_000)  # the batch queue's bound
    arrived = 0

    def consume() -> None:
        nonlocal arrived
        while sent.get() is not None:
            arrived += 1

    seconds = _sent_to(consume, sent.put, items)
    _check(arrived, items)
    return seconds


def _sent_to(consume: Callable[[], None], put: Callable[[tuple[int, str] | None], None], items: int) -> float:
    """Seconds that items take to a consumer on a thread of its own; None is the end."""
    consumer = DaemonThread(consume, name="drainq-bench")
    consumer.start()
    started = time.perf_counter()
    for item in range(items):
        put((item, "item"))
    put(None)
    consumer.join()
    return time.perf_counter() - started


def _check(arrived: int, items: int) -> None:
    if arrived != items:
        raise DrainqError(f"{items} items were sent, and {arrived} arrived")
