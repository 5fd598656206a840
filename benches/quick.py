"""The figures that matter most, in two minutes: what a first look may believe.

Run it:  python -m benches.quick [--only WORD] [--rounds N]

Each figure is one of the whole benchmarks with the same load and rivals, and with five rounds: bounded room that is filled
twenty times, items made on the way. Fewer rounds mean a wider spread, which stands beside each figure. Nothing is
published: the pages come from the whole benchmarks.

Needs the rivals: the dependency group ``bench``.
"""

from __future__ import annotations

import argparse
import sys

from benches import pages, protocol
from benches.protocol import Report, rounds
from benches.python import hot_path, multi
from benches.python.batch_loads import dataclasses, dicts, tuples
from benches.python.batch_rivals import LEAN, OURS, RIVALS
from benches.runs import Run
from benches.versus import batch_queue

ROUNDS = 5


def main() -> int:
    """Run the figures that were asked for."""
    options = protocol.arguments("quick")
    options.rounds = rounds(options, ROUNDS)
    report = Report("quick", options)
    for add in (calls, end_to_end, latency, multi_queue):
        if protocol.wanted(add.__name__, options):
            add(report, options)
    print("\n" + pages.losses(Run(report.title, report.machine, report.figures)))
    return 0


def calls(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of a produce call."""
    hot_path.produce(report, options)


def end_to_end(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of an item from the producer to the handler, in a bounded queue."""
    makes = {name: RIVALS[name] for name in (OURS, *LEAN)}
    many = 20 * batch_queue.ROOM
    for load in (dataclasses(100), tuples(100), dicts(100)):
        batch_queue.bounded_load(report, load, 4, makes, many, rounds(options, ROUNDS))


def latency(report: Report, options: argparse.Namespace) -> None:
    """Measure the time from put to the handler."""
    batch_queue.latency(report, options, [(1_000, 500), (10_000, 5_000)])


def multi_queue(report: Report, options: argparse.Namespace) -> None:
    """Measure the cost of a put and a get."""
    multi.pairs(report, options)


if __name__ == "__main__":
    sys.exit(main())
