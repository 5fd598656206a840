"""The delayed queue compared with the source document's SQL, procrastinate and pgqueuer, and on crowded tables.

Run it:  python -m benches.versus.delayed [--quick] [--only WORD] [--rounds N] [--disk DIR] [--out DIR]

A PostgreSQL server of its own is started with the defaults of the distribution (``fsync`` and ``synchronous_commit``
on), on a unix socket. By default its files are in memory: every commit then takes its whole way but for the disk, and
the figures compare the queues and not the minutes at which a shared disk was busy. ``--disk DIR`` puts them on a disk.

What it needs: ``pip install --group bench``.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import psycopg
from benches import protocol
from benches.protocol import Faster, Goal, Report, measure
from benches.versus import delayed_crowded, delayed_sqlite
from benches.versus.delayed_processes import Consumers
from benches.versus.delayed_rivals import (
    RIVALS,
    Drainq,
    DrainqAlone,
    PgQueuer,
    Procrastinate,
    Rival,
    SourceSql,
    messages,
)
from benches.versus.delayed_workers import AT_ONCE, CONCURRENCY, WORKERS, PgQueuerWorker, ProcrastinateWorker
from tests.postgres import PostgresServer

OURS = Drainq.name
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"


def main() -> int:
    """Run the figures that were asked for."""
    parser = argparse.ArgumentParser(description="The delayed queue's figures.")
    parser.add_argument("--disk", metavar="DIR", default=_MEMORY, help=f"where the database lives; default {_MEMORY}")
    options = protocol.arguments(parser)
    with PostgresServer(options={}, parent=options.disk) as server:
        with psycopg.connect(server.url) as connection:
            version = connection.execute("SHOW server_version").fetchone()
        about = {"postgres": version[0] if version else "?", "database on": options.disk}
        report = Report("delayed", options, about)
        versus(report, server.url, options)
        delayed_crowded.run(report, server.url, options)
    delayed_sqlite.run(report, options)
    return report.finish()


def versus(report: Report, url: str, options: argparse.Namespace) -> None:
    """Offering and consuming, every contestant in every round."""
    rivals = {name: make(url) for name, make in RIVALS.items()}
    for rival in rivals.values():
        rival.install()
    try:
        _offers(report, rivals, options)
        for processes in (1, 4):
            _consumers(report, rivals, url, options, processes)
        _at_once(report, url, options)
    finally:
        for rival in rivals.values():
            rival.close()


def _offers(report: Report, rivals: dict[str, Rival], options: argparse.Namespace) -> None:
    singles, batches = (100, 3) if options.quick else (150, 5)

    def one_by_one(rival: Rival) -> float:
        rival.clear()
        what = messages(singles)
        return protocol.seconds(lambda: rival.offer_one_by_one(what)) / singles

    def batch(rival: Rival) -> float:
        rival.clear()
        whats = [messages(1000) for _ in range(batches)]
        return protocol.seconds(lambda: [rival.offer_batch(what) for what in whats]) / batches / 1000

    goals: list[Goal] = _faster({SourceSql: 1.5, Procrastinate: 2.5, PgQueuer: 1.3})
    if protocol.wanted("offer one by one", options):
        contestants = {name: lambda rival=rival: one_by_one(rival) for name, rival in rivals.items()}
        report.add(measure("offer one by one", "s/message", contestants, rounds=_rounds(options), goals=goals))
    goals = _faster({SourceSql: 1.7, Procrastinate: 4.5, PgQueuer: 1.2})
    if protocol.wanted("offer_batch of 1,000", options):
        contestants = {name: lambda rival=rival: batch(rival) for name, rival in rivals.items()}
        report.add(measure("offer_batch of 1,000", "s/message", contestants, rounds=_rounds(options), goals=goals))


def _consumers(report: Report, rivals: dict[str, Rival], url: str, options: argparse.Namespace, processes: int) -> None:
    by = "1 process" if processes == 1 else f"{processes} processes"
    # Enough that a process does not measure its own start.
    few, many = (100, 2000) if options.quick else (400 * processes, 4000 * processes)
    contestants_at_once = {**rivals, **{name: make(url) for name, make in WORKERS.items()}}
    in_batches = [name for name, rival in contestants_at_once.items() if not isinstance(rival, Procrastinate)]
    contestants_at_once[DrainqAlone.name] = rivals[OURS]  # the same table; what differs is in the consuming processes
    figures = [
        (
            f"consume one by one, {by}",
            1,
            few,
            [*rivals, DrainqAlone.name, ProcrastinateWorker.name],
            {SourceSql: (2.5, 1.8), Procrastinate: (4, 4), ProcrastinateWorker: (4, 4), PgQueuer: (3, 4)},
        ),
        (
            f"fetch 100 + ack, {by}",
            100,
            many,
            in_batches,
            {SourceSql: (1.2, 1.2), PgQueuer: (2, 2), PgQueuerWorker: (2, 2)},
        ),
    ]
    figures = [figure for figure in figures if protocol.wanted(figure[0], options)]
    if not figures:
        return
    every = {name for _, _, _, names, _ in figures for name in names}
    consumers = {name: Consumers(name, url, processes) for name in every}
    try:
        for figure, size, count, names, factors in figures:

            def consume(name: str, size: int = size, count: int = count) -> float:
                contestants_at_once[name].clear()
                for start in range(0, count, 1000):
                    contestants_at_once[name].offer_batch(messages(min(1000, count - start)))
                return consumers[name].seconds_to_consume(count, size) / count

            contestants = {name: lambda name=name: consume(name) for name in names}
            goals = _faster({rival: pair[processes > 1] for rival, pair in factors.items()})
            report.add(measure(figure, "s/message", contestants, rounds=_rounds(options), goals=goals))
    finally:
        for group in consumers.values():
            group.close()
        for name in WORKERS:
            contestants_at_once[name].close()


def _at_once(report: Report, url: str, options: argparse.Namespace) -> None:
    """Workers of one process, each with the same number of handlers at once, which do nothing."""
    name, count = f"consume, {CONCURRENCY} handlers at once", 500 if options.quick else 2000
    if not protocol.wanted(name, options):
        return
    rivals = {name: make(url) for name, make in (WORKERS | AT_ONCE).items()}
    consumers = {name: Consumers(name, url, 1) for name in rivals}

    def consume(name: str) -> float:
        rivals[name].clear()
        rivals[name].offer_batch(messages(count))
        return consumers[name].seconds_to_consume(count, 1) / count

    try:
        contestants = {name: functools.partial(consume, name) for name in rivals}
        goals: list[Goal] = [
            Faster(ours, rival.name, times)
            for ours in AT_ONCE
            for rival, times in ((ProcrastinateWorker, 3), (PgQueuerWorker, 2))
        ]
        report.add(measure(name, "s/message", contestants, rounds=_rounds(options), goals=goals))
    finally:
        for group in consumers.values():
            group.close()
        for rival in rivals.values():
            rival.close()


def _faster(factors: dict[type, float]) -> list[Goal]:
    return [Faster(OURS, rival.name, times) for rival, times in factors.items()]


def _rounds(options: argparse.Namespace) -> int:
    return protocol.rounds(options, 15, quick=2)  # short and many: a busy moment spoils a round, not the median


if __name__ == "__main__":
    sys.exit(main())
