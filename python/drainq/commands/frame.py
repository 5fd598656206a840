"""One frame of ``drainq top`` as lines of text of at least 40 columns. A terminal colours a line by its first word."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

_PIPE = 100  # columns where the output goes to no terminal, and no environment variable says its width


def width() -> int:
    """Return the number of columns of a line."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return _PIPE
    return max(20, shutil.get_terminal_size().columns)


def hung(mark: str, text: str, columns: int) -> str:
    """Wrap a text after a mark. Further lines are indented below the text."""
    indent = " " * (len(mark) + 1)
    return textwrap.fill(text, columns, initial_indent=f"{mark} ", subsequent_indent=indent) or mark


def amount(number: float) -> str:
    """Format a number in at most six characters: 999, 12.3k, 1.20M.

    Example:
        >>> amount(999), amount(12_345), amount(1_200_000), amount(0.25)
        ('999', '12.3k', '1.20M', '0.25')
    """
    if number != number:
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= limit:
            scaled = number / (1e3 if unit == "k" else limit)
            return f"{scaled:.{1 if scaled >= 10 else 2}f}{unit}"
    return f"{number:.2f}" if number != int(number) else str(int(number))


_BAR = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_MOST = 16
"""The most partitions, threads and sub-queues in a frame. Of more, the fullest are shown."""


def frame(processes: Iterable[dict[str, Any]], columns: int) -> list[str]:
    """Return the lines of a frame.

    Args:
        processes: snapshots, as :func:`drainq.commands.snapshot.snapshot` makes them.
        columns: characters in a line.
    """
    lines: list[str] = []
    for process in processes:
        for piece in _process(process):
            indent = " " * (len(piece) - len(piece.lstrip()))
            lines += textwrap.wrap(piece.strip(), columns, initial_indent=indent, subsequent_indent=f"{indent}  ")
        lines.append("")
    return lines[:-1]


def _process(process: dict[str, Any]) -> Iterator[str]:
    if process["error"] is not None:
        yield f"{process['url']}: {process['error']}"
        return
    yield f"{process['url']}, drainq {process['version']}"
    kinds = ("batch_queues", "multi_queues", "delayed_queues", "workers", "sources")
    if not any(process[kind] for kind in kinds):
        yield "no queue, worker or source is published here; see drainq.monitoring.watch"
    for queue in process["batch_queues"]:
        yield from _batch(queue)
    for queue in process["multi_queues"]:
        yield (
            f"multi {queue['name']}: depth {amount(queue['depth'])}, put {_rate(queue['put_per_second'])}, "
            f"got {_rate(queue['got_per_second'])}, oldest {queue['oldest_age']:.1f} s, "
            f"rejected {amount(queue['rejected'])}, waiting {queue['blocked_putters']} putters "
            f"{queue['blocked_getters']} getters"
        )
        fullest = sorted(queue["sub_queues"].items(), key=lambda pair: -pair[1])[:_MOST]
        if fullest:
            yield "  " + ", ".join(f"{name} {amount(depth)}" for name, depth in fullest)
    for queue in process["delayed_queues"]:
        yield (
            f"delayed {queue['name']}: ready {amount(queue['ready'])}, scheduled {amount(queue['scheduled'])}, "
            f"in flight {amount(queue['in_flight'])}, dead {amount(queue['dead'])}, "
            f"oldest {queue['oldest_ready_age']:.1f} s"
        )
    for worker in process["workers"]:
        yield (
            f"worker {worker['name']}: sent {_rate(worker['sent_per_second'])}, pending {amount(worker['pending'])}, "
            f"retried {amount(worker['retried'])}, refused {amount(worker['refused'])}, lost {amount(worker['lost'])}"
        )
    for source in process["sources"]:
        yield (
            f"source {source['name']}: {amount(source['size'])} of {amount(source['capacity'])}, "
            f"fetched {_rate(source['fetched_per_second'])}, errors {amount(source['errors'])}"
        )


def _batch(queue: dict[str, Any]) -> Iterator[str]:
    state = "" if queue["running"] else " (shut down)"
    lost = ", ".join(f"{reason} {amount(number)}" for reason, number in queue["lost"].items()) or "none"
    yield (
        f"batch {queue['name']}{state}: {amount(queue['queued'])} of {amount(queue['capacity'])} queued, "
        f"in {_rate(queue['accepted_per_second'])}, out {_rate(queue['handled_per_second'])}, "
        f"rebalances {queue['rebalances']}, lost {lost}"
    )
    partitions = queue["partitions"]
    if partitions:
        room = max(1, queue["capacity"] // len(partitions))
        shown = sorted(partitions, key=lambda one: -one["used"])[:_MOST] if len(partitions) > _MOST else partitions
        bars = "".join(_BAR[min(7, one["used"] * 8 // room)] for one in shown)
        yield f"  partitions {len(partitions)} {bars}"
    threads = [one for one in queue["threads"] if one["busy"] is not None][:_MOST]
    if threads:
        yield "  threads busy " + " ".join(f"{min(1.0, one['busy']):.0%}" for one in threads)
    elif queue["threads"]:
        yield f"  threads {len(queue['threads'])}"


def _rate(number: float | None) -> str:
    return "-/s" if number is None else f"{amount(round(number, 2) if number < 10 else round(number))}/s"
