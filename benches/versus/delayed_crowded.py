"""The delayed queue on a table that is full of other rows: future rows, dead rows, a million rows under a schedule."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import count, islice
from multiprocessing.connection import Connection
from typing import Any

import psycopg
from benches import protocol
from benches.protocol import AtMostTimes, Below, Report, measure
from benches.versus.delayed_rivals import DUE

from drainq.delayed import CronMessage, DelayedQueue, ScheduledMessage

EMPTY, CLEAN = "drainq, empty table", "drainq, clean table"
DEAD_EMPTY, DEAD_ACK = "empty poll over dead rows", "poll + ack over dead rows"
POLLS = 2_000
FUTURE_MS = 4_000_000_000_000  # far beyond the end of the run


def run(report: Report, url: str, options: argparse.Namespace) -> None:
    """Report all requested figures of this file."""
    rounds = options.rounds or (3 if options.quick else 9)
    rows = 50_000 if options.quick else 1_000_000
    if any(protocol.wanted(name, options) for name in ("empty poll", "cron tick")):
        _with_future_rows(report, url, options, rounds, rows)
    if any(protocol.wanted(name, options) for name in (DEAD_EMPTY, DEAD_ACK)):
        _over_dead_rows(report, url, options, rounds, 5_000 if options.quick else 60_000)
    if protocol.wanted("wake-up", options):
        _wake_up(report, url, rounds, 10 if options.quick else 50)


def _with_future_rows(report: Report, url: str, options: argparse.Namespace, rounds: int, rows: int) -> None:
    with _queue(url, "bench_empty") as empty, _queue(url, "bench_future") as full:
        _fill(url, "bench_future", full, rows, FUTURE_MS)
        if protocol.wanted("empty poll", options):
            contestants = {
                EMPTY: lambda: _empty_poll(empty),
                f"drainq, {rows:,} future rows": lambda: _empty_poll(full),
            }
            goals = [AtMostTimes(f"drainq, {rows:,} future rows", EMPTY, 1.2)]
            report.add(measure("empty poll", "s/poll", contestants, rounds=rounds, goals=goals))
        if protocol.wanted("cron tick", options):
            ticks = (datetime(2200, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=minute) for minute in count())

            def tick() -> float:
                def install() -> None:
                    for at in islice(ticks, 10):
                        full.cron.install_tick("bench-hash", "bench", [CronMessage("x", at)])

                return protocol.seconds(install) / 10

            with psycopg.connect(url) as connection:
                contestants = {
                    "drainq": tick,
                    "source SQL": lambda: sum(_source_tick(connection, at) for at in islice(ticks, 10)) / 10,
                }
                note = "the database sorts by bytes (locale C), where the source's LIKE finds the index; elsewhere it does not"
                report.add(
                    measure(
                        f"cron tick at {rows:,} rows",
                        "s/tick",
                        contestants,
                        rounds=rounds,
                        goals=[Below("drainq", 0.005)],
                        note=note,
                    )
                )


def _empty_poll(queue: DelayedQueue[str]) -> float:
    """Measure the seconds of a poll that finds nothing: the mean of many, since the first polls of a table differ."""

    def polls() -> None:
        for _ in range(POLLS):
            if queue.try_poll() is not None:
                raise AssertionError("the queue was to have nothing due")

    return protocol.seconds(polls) / POLLS


def _source_tick(connection: psycopg.Connection[Any], at: datetime) -> float:
    """Delete by LIKE, then insert: the statements of the source document, each in its own transaction."""

    def tick() -> None:
        with connection.transaction():
            connection.execute(
                'DELETE FROM bench_future WHERE "pKind" = (SELECT "pKind" FROM bench_future LIMIT 1)'
                ' AND "pKey" LIKE %s AND "pKey" NOT LIKE %s',
                ("source/%", "source/hash%"),
            )
        with connection.transaction():
            connection.execute(
                'INSERT INTO bench_future ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt")'
                ' SELECT %s, "pKind", \'x\', %s, %s, 0 FROM bench_future LIMIT 1 ON CONFLICT ("pKey", "pKind") DO NOTHING',
                (f"source/hash/{at.isoformat()}", FUTURE_MS, FUTURE_MS),
            )

    return protocol.seconds(tick)


def _over_dead_rows(report: Report, url: str, options: argparse.Namespace, rounds: int, rows: int) -> None:
    """Dead rows that no vacuum may remove, for another transaction holds an older snapshot. The clean queue is in another database: a
    snapshot holds up the dead rows of its own database only."""
    each = 100
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE held")
    held = url.replace("/postgres?", "/held?")
    with _queue(url, "bench_clean") as clean, _queue(held, "bench_dead") as dead, psycopg.connect(held) as holder:
        _fill(held, "bench_dead", dead, 1, FUTURE_MS)
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM bench_dead")
        _fill(held, "bench_dead", dead, rows, int(DUE * 1000) - rows)
        with psycopg.connect(held, autocommit=True) as connection:
            connection.execute('DELETE FROM bench_dead WHERE "scheduledAt" < %s', (FUTURE_MS,))
            connection.execute("VACUUM ANALYZE bench_dead")
        if protocol.wanted(DEAD_EMPTY, options):
            contestants = {CLEAN: lambda: _empty_poll(clean), f"drainq, {rows:,} dead rows": lambda: _empty_poll(dead)}
            goals = [AtMostTimes(f"drainq, {rows:,} dead rows", CLEAN, 2.0)]
            report.add(measure(DEAD_EMPTY, "s/poll", contestants, rounds=rounds, goals=goals))
        if not protocol.wanted(DEAD_ACK, options):
            return
        numbers = count()

        def poll(queue: DelayedQueue[str]) -> float:
            queue.offer_batch([ScheduledMessage(f"{next(numbers)}", "x" * 100, time.time() - 1) for _ in range(each)])

            def polls() -> None:
                for _ in range(each):
                    envelope = queue.try_poll()
                    if envelope is None:
                        raise AssertionError("the queue was to have something due")
                    envelope.ack()

            return protocol.seconds(polls) / each

        contestants = {CLEAN: lambda: poll(clean), f"drainq, {rows:,} dead rows": lambda: poll(dead)}
        goals = [AtMostTimes(f"drainq, {rows:,} dead rows", CLEAN, 2.0)]
        report.add(measure(DEAD_ACK, "s/message", contestants, rounds=rounds, goals=goals))


def _wake_up(report: Report, url: str, rounds: int, each: int) -> None:
    """Measure the time from the start of an offer in another process to the end of the waiting poll."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    producer = spawn.Process(target=_produce, args=(url, there), daemon=True)
    producer.start()
    here.recv()
    with _queue(url, "bench_wake", notify=True) as consumer:
        consumer.poll(timeout=0.5)  # it listens now

        def wake_ups() -> float:
            took = []
            for number in range(each):
                here.send(f"{number}")
                envelope = consumer.poll(timeout=30)
                arrived = time.perf_counter()
                if envelope is None:
                    raise AssertionError("no message within 30 s")
                envelope.ack()
                took.append(arrived - here.recv())
            return statistics.median(took)

        goals = [Below("drainq, NOTIFY", 0.002)]
        figure = "wake-up of a waiting consumer"
        note = f"a round is the median of {each} messages"
        report.add(measure(figure, "s", {"drainq, NOTIFY": wake_ups}, rounds=rounds, goals=goals, note=note))
    here.send(None)
    producer.join(30)


def _produce(url: str, pipe: Connection) -> None:
    with _queue(url, "bench_wake", notify=True) as queue:
        queue.offer_or_update("warm", "x", datetime(2200, 1, 1, tzinfo=timezone.utc))
        pipe.send("ready")
        while (key := pipe.recv()) is not None:
            time.sleep(0.02)  # the consumer has found nothing and waits
            started = time.perf_counter()
            queue.offer_or_update(key, "x", time.time() - 1)
            pipe.send(started)


@contextmanager
def _queue(url: str, table: str, *, notify: bool = False) -> Iterator[DelayedQueue[str]]:
    queue: DelayedQueue[str] = DelayedQueue.open(url, "bench", table=table, notify=notify)
    try:
        yield queue
    finally:
        queue.close()


def _fill(url: str, table: str, queue: DelayedQueue[str], rows: int, first_ms: int) -> None:
    """Copy one message of the queue ``rows`` times, due one millisecond after the other."""
    queue.offer_or_update("first", "x" * 100, datetime(2200, 1, 1, tzinfo=timezone.utc))
    columns = '"pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt"'
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f'INSERT INTO "{table}" ({columns}) SELECT %(first)s::text || n, "pKind", "payload", %(first)s + n, %(first)s + n, 0'
            f' FROM "{table}" CROSS JOIN generate_series(1, %(rows)s) AS n WHERE "pKey" = \'first\'',
            {"first": first_ms, "rows": rows},
        )
        connection.execute(f'VACUUM ANALYZE "{table}"')
