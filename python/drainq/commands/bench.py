"""``drainq bench``: a quick figure of this machine, beside ``queue.Queue`` in the same run.

Each round sends the same items from one thread to a consumer on another: once through a batch queue, once through a
``queue.Queue`` whose consumer takes items one by one. The rounds alternate, so that a busy machine hurts both. Time is
taken from the first put to the end of the last handler call. The published figures come from ``make bench``.
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


def add_commands(subparsers: Any) -> None:
    """Add ``bench`` to the commands."""
    parser = subparsers.add_parser(
        "bench",
        help="a quick figure of this machine",
        description="Send items from one thread to another, through a batch queue and through queue.Queue in turn.",
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
    for name in ("batch_queue", "queue_queue"):
        each = figures[name]
        text = f"{amount(each['median'])} items/s (from {amount(each['least'])} to {amount(each['most'])})"
        print(hung("drainq.BatchQueue" if name == "batch_queue" else "queue.Queue", text, columns))
    print(hung("ratio", f"{figures['ratio']:.1f}, median of {ROUNDS} rounds of {arguments.items:,} items", columns))
    print(hung("on", f"Python {figures['python']}, {figures['machine']}, drainq {figures['drainq']}", columns))
    return 0


def measure(items: int) -> dict[str, Any]:
    """Run all rounds.

    Args:
        items: how many each round sends.
    Returns:
        For ``batch_queue`` and ``queue_queue`` the items per second: ``median``, ``least`` and ``most``; the
        ``ratio`` of the medians; and what it ran on.
    Raises:
        DrainqError: an item did not arrive.
    """
    contestants: dict[str, Callable[[int], float]] = {"batch_queue": _batch_round, "queue_queue": _queue_round}
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
        "ratio": figures["batch_queue"]["median"] / figures["queue_queue"]["median"],
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
    sent: BatchQueue[int] = BatchQueue("drainq-bench", config)
    started = time.perf_counter()
    for item in range(items):
        sent.produce(item)
    sent.flush()
    seconds = time.perf_counter() - started
    sent.shutdown()
    _check(arrived, items)
    return seconds


def _queue_round(items: int) -> float:
    sent: queue.Queue[int | None] = queue.Queue(10_000)  # the batch queue's bound
    arrived = 0

    def consume() -> None:
        nonlocal arrived
        while sent.get() is not None:
            arrived += 1

    consumer = DaemonThread(consume, name="drainq-bench")
    consumer.start()
    started = time.perf_counter()
    for item in range(items):
        sent.put(item)
    sent.put(None)
    consumer.join()
    seconds = time.perf_counter() - started
    _check(arrived, items)
    return seconds


def _check(arrived: int, items: int) -> None:
    if arrived != items:
        raise DrainqError(f"{items} items were sent, and {arrived} arrived")
