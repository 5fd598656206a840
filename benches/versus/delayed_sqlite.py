"""The delayed queue on SQLite compared with plain ``executemany`` of the same rows into the same table."""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from pathlib import Path

from benches import protocol
from benches.protocol import Faster, Report, measure
from benches.versus.delayed_rivals import DUE, Message, messages

from drainq.delayed import DelayedQueue, ScheduledMessage

_INSERT = (
    'INSERT INTO bench ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt")'
    " VALUES (?, ?, ?, ?, ?, ?)"
)


def run(report: Report, options: argparse.Namespace) -> None:
    """Report the figure, if it was requested: batches of 1,000, one transaction each, in WAL mode."""
    name = "SQLite: offer_batch of 1,000"
    if not protocol.wanted(name, options):
        return
    batches = 5 if options.quick else 40
    contestants = {"drainq": lambda: _offered(batches), "executemany": lambda: _executed(batches)}
    rounds = options.rounds or (3 if options.quick else 9)
    goals = [Faster("drainq", "executemany", 0.8)]
    note = "executemany is given finished rows and returns no outcomes; drainq encodes payloads and returns an outcome each"
    report.add(measure(name, "s/message", contestants, rounds=rounds, goals=goals, note=note))


def _offered(batches: int) -> float:
    with tempfile.TemporaryDirectory() as home:
        queue: DelayedQueue[str] = DelayedQueue.open(f"sqlite:///{home}/queue.db", "bench", table="bench")
        whats = [[ScheduledMessage(m.key, m.payload, m.at) for m in messages(1000)] for _ in range(batches)]
        took = protocol.seconds(lambda: [queue.offer_batch(what) for what in whats])
        queue.close()
    return took / batches / 1000


def _executed(batches: int) -> float:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "queue.db"
        queue: DelayedQueue[str] = DelayedQueue.open(f"sqlite:///{path}", "bench", table="bench")
        queue.offer_or_update("one", "x", DUE)
        queue.close()
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -65536")
        kind = connection.execute('SELECT "pKind" FROM bench').fetchone()[0]
        rows = [[_row(m, kind) for m in messages(1000)] for _ in range(batches)]

        def execute() -> None:
            for chunk in rows:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(_INSERT, chunk)
                connection.execute("COMMIT")

        took = protocol.seconds(execute)
        connection.close()
    return took / batches / 1000


def _row(message: Message, kind: str) -> tuple[object, ...]:
    at = int(message.at * 1000)
    return message.key, kind, f'"{message.payload}"'.encode(), at, at, at
