"""The batch writer compared with the database's own fastest way, by hand: the same rows, the same transactions.

1. Insert and upsert, SQLite and PostgreSQL: ``produce_many`` and ``flush`` against ``executemany`` (SQLite), COPY, and
   COPY into a temporary table and a merge from there (PostgreSQL), in transactions of 8,192 rows, drainq's batch size.
2. 10,000 rows of which half are poison, against the same number of clean ones.

The rows are made, the table is empty and the connection is open before the clock starts, for all.

Run it:  make bench-workers
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benches import protocol
from benches.protocol import AtMostTimes, Faster, Report, measure, wanted
from tests.postgres import PostgresServer

from drainq.sql import Database, Dialect
from drainq.workers import BatchWriter

CHUNK = 8_192  # rows of a rival's transaction
POISONED = 10_000
_MERGE = ' ON CONFLICT ("id") DO UPDATE SET "name" = excluded."name", "amount" = excluded."amount"'

Row = tuple[int, "str | None", float]


def main() -> int:
    """Run the figures that were asked for."""
    logging.getLogger("drainq").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as home, PostgresServer() as server:
        urls = {"SQLite": f"sqlite:///{home}/bench.db", "PostgreSQL": server.url}
        options = protocol.arguments("workers")
        report = Report("workers", options)
        for label, url in urls.items():
            _compare(label, url, report, options)
        return report.finish()


def _compare(label: str, url: str, report: Report, options: argparse.Namespace) -> None:
    count, times = (40_000 if options.quick else 200_000), protocol.rounds(options, 11)
    rival = {"SQLite": "executemany", "PostgreSQL": "COPY"}[label]
    for kind, key in (("insert", None), ("upsert", ["id"])):
        name = f"{label}: {kind}"
        by_hand = rival if key is None or label == "SQLite" else "COPY and merge"
        if wanted(name, options):
            contestants = {
                "drainq": partial(_written, url, count, key),
                by_hand: partial(_by_hand, url, count, key),
            }
            goals = [Faster("drainq", by_hand, 0.8)]
            report.add(measure(name, "s/item", contestants, rounds=times, goals=goals))
    name = f"{label}: half poison"
    if wanted(name, options):
        contestants = {
            "drainq, half poison": partial(_poisoned, url, 2),
            "drainq, clean": partial(_poisoned, url, 0),
        }
        goals = [AtMostTimes("drainq, half poison", "drainq, clean", 10.0)]
        report.add(measure(name, "s", contestants, rounds=times, goals=goals))


@contextmanager
def _table(url: str) -> Iterator[Database]:
    with Database(url) as database:
        database.execute("DROP TABLE IF EXISTS bench")
        database.execute("CREATE TABLE bench (id INTEGER PRIMARY KEY, name TEXT NOT NULL, amount DOUBLE PRECISION)")
        yield database


def _rows(count: int, key: list[str] | None) -> list[Row]:
    """Rows in no order of their keys; with a key each comes twice."""
    ids = range(count) if key is None else [n % (count // 2) for n in range(count)]
    return [(n * 7919 % 1_000_003 if key is None else n, f"name {n}", n / 3) for n in ids]


def _seconds(write: Callable[[], object], database: Database, expected: int) -> float:
    took = protocol.seconds(write)
    ((found,),) = database.execute("SELECT COUNT(*) FROM bench")
    assert found == expected, f"{found} rows instead of {expected}"
    return took


def _written(url: str, count: int, key: list[str] | None) -> float:
    rows = _rows(count, key)
    with _table(url) as database:
        writer = BatchWriter(url=url, table="bench", columns=["id", "name", "amount"], key=key)
        try:

            def write() -> None:
                assert writer.produce_many(rows) == count
                assert writer.flush()

            return _seconds(write, database, count if key is None else count // 2) / count
        finally:
            writer.close()


def _by_hand(url: str, count: int, key: list[str] | None) -> float:
    rows = _rows(count, key)
    with _table(url) as database:
        write = _sqlite if database.dialect is Dialect.SQLITE else _postgres
        expected = count if key is None else count // 2
        return _seconds(lambda: write(database, rows, key), database, expected) / count


def _sqlite(database: Database, rows: list[Row], key: list[str] | None) -> None:
    statement = "INSERT INTO bench (id, name, amount) VALUES (?, ?, ?)" + (_MERGE if key else "")
    for start in range(0, len(rows), CHUNK):
        with database.transaction():
            database.connection.executemany(statement, rows[start : start + CHUNK])


def _postgres(database: Database, rows: list[Row], key: list[str] | None) -> None:
    target = "staged" if key else "bench"
    if key:
        database.execute("CREATE TEMPORARY TABLE IF NOT EXISTS staged AS SELECT id, name, amount FROM bench LIMIT 0")
    for start in range(0, len(rows), CHUNK):
        with database.transaction():
            with database.connection.cursor() as cursor:
                with cursor.copy(f"COPY {target} (id, name, amount) FROM STDIN") as copy:
                    for row in rows[start : start + CHUNK]:
                        copy.write_row(row)
            if key:
                database.execute("INSERT INTO bench (id, name, amount) SELECT id, name, amount FROM staged" + _MERGE)
                database.execute("TRUNCATE staged")


def _poisoned(url: str, every: int) -> float:
    rows: list[Row] = [(n, None if every and n % every == 1 else f"name {n}", n / 3) for n in range(POISONED)]
    expected = sum(row[1] is not None for row in rows)
    with _table(url) as database:
        writer = BatchWriter(url=url, table="bench", columns=["id", "name", "amount"])
        try:

            def write() -> None:
                assert writer.produce_many(rows) == POISONED
                writer.flush()

            return _seconds(write, database, expected)
        finally:
            writer.close()


if __name__ == "__main__":
    sys.exit(main())
