"""The contestants of the delayed-queue figures, each behind the same five verbs.

Each is driven at the lowest level that its documentation offers, on one connection, so that what is compared is the
queue and not a worker framework around it: ``source SQL`` is the statements of the source document (funfix
``delayedqueue``) on psycopg, one transaction a step as there; procrastinate and pgqueuer are their own query layers.
All acknowledge by deleting the message.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import psycopg

from drainq.delayed import DelayedQueue, ScheduledMessage, TimeConfig

T = TypeVar("T")

DUE = 1_000_000_000.0  # long ago, so that every message is due; one a millisecond from here on


class Message(NamedTuple):
    """What every contestant is given: a name, about a hundred bytes, and when it is due."""

    key: str
    payload: str
    at: float


def messages(count: int) -> list[Message]:
    """``count`` messages that no earlier call has made."""
    batch = uuid.uuid4().hex
    return [Message(f"{batch}-{number}", f"{number:0100}", DUE + number / 1000) for number in range(count)]


class Rival(Protocol):
    """A queue on PostgreSQL."""

    name: str

    def install(self) -> None:
        """Make the tables."""

    def clear(self) -> None:
        """Empty the tables."""

    def offer_one_by_one(self, what: Sequence[Message]) -> None:
        """Put the messages in, each in a call of its own."""

    def offer_batch(self, what: Sequence[Message]) -> None:
        """Put the messages in with one call."""

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        """Take and acknowledge, ``size`` at a time, until nothing is left.

        ``last()`` is to be called for every message taken and says whether it was the last of all.

        Returns:
            How many were taken, and the ``perf_counter`` at the end of the last of them.
        """

    def close(self) -> None:
        """Let go of the connection."""


class Drainq:
    """drainq, with its defaults."""

    name = "drainq"
    _more: ClassVar[Mapping[str, int]] = {}

    def __init__(self, url: str, *, table: str = "bench_drainq") -> None:
        self._url, self._table = url, table
        self.queue: DelayedQueue[str] = DelayedQueue.open(url, "bench", table=table, time=TimeConfig(poll_period=0.05))

    def install(self) -> None:
        """``open`` has migrated."""

    def clear(self) -> None:
        _truncate(self._url, self._table)

    def offer_one_by_one(self, what: Sequence[Message]) -> None:
        for message in what:
            self.queue.offer_or_update(message.key, message.payload, message.at)

    def offer_batch(self, what: Sequence[Message]) -> None:
        self.queue.offer_batch([ScheduledMessage(message.key, message.payload, message.at) for message in what])

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        taken, ended, stop = 0, time.perf_counter(), threading.Event()

        def handle(envelope: Any) -> None:
            nonlocal taken, ended
            for _ in range(len(envelope.payload) if size > 1 else 1):
                taken += 1
                if last():
                    stop.set()
            ended = time.perf_counter()

        self.queue.consume(handle, batch_size=size, stop=_Stop(stop, last), **self._more)
        return taken, ended

    def close(self) -> None:
        self.queue.close()


class DrainqAlone(Drainq):
    """drainq without a prefetch: each message is taken and acknowledged by itself."""

    name = "drainq, prefetch=1"
    _more: ClassVar[Mapping[str, int]] = {"prefetch": 1}


class _Stop:
    """Set once the last message of all was taken, by this process or by another."""

    def __init__(self, here: threading.Event, last: Any) -> None:
        self._here, self._everywhere = here, last

    def is_set(self) -> bool:
        return self._here.is_set() or self._everywhere.reached()

    def wait(self, timeout: float | None = None) -> bool:
        return self._here.wait(timeout) or self.is_set()


class SourceSql:
    """The source document's statements: insert, else select for update and compare-and-set; lock; delete by lock."""

    name = "source SQL"

    _COLUMNS = '"pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt"'

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)

    def install(self) -> None:
        with self._connection.transaction():
            self._connection.execute(
                """
                CREATE TABLE IF NOT EXISTS bench_source (
                    "id" BIGSERIAL PRIMARY KEY, "pKey" VARCHAR(200) NOT NULL, "pKind" VARCHAR(100) NOT NULL,
                    "payload" BYTEA NOT NULL, "scheduledAt" BIGINT NOT NULL, "scheduledAtInitially" BIGINT NOT NULL,
                    "lockUuid" VARCHAR(36) NULL, "createdAt" BIGINT NOT NULL);
                CREATE UNIQUE INDEX IF NOT EXISTS bench_source_key ON bench_source ("pKey", "pKind");
                CREATE INDEX IF NOT EXISTS bench_source_due ON bench_source ("pKind", "scheduledAt");
                CREATE INDEX IF NOT EXISTS bench_source_lock ON bench_source ("lockUuid", "id");
                """
            )

    def clear(self) -> None:
        with self._connection.transaction():
            self._connection.execute("TRUNCATE bench_source")

    def offer_one_by_one(self, what: Sequence[Message]) -> None:
        for message in what:
            self._offer(message)

    def _offer(self, message: Message) -> str:
        at, now = int(message.at * 1000), _now_ms()
        payload = message.payload.encode()
        with self._connection.transaction():
            inserted = self._connection.execute(
                f"INSERT INTO bench_source ({self._COLUMNS}) VALUES (%s, 'bench', %s, %s, %s, NULL, %s)"
                ' ON CONFLICT ("pKey", "pKind") DO NOTHING',
                (message.key, payload, at, at, now),
            ).rowcount
        if inserted:
            return "created"
        with self._connection.transaction():
            row = self._connection.execute(
                f'SELECT "id", {self._COLUMNS} FROM bench_source WHERE "pKey" = %s AND "pKind" = \'bench\' LIMIT 1 FOR UPDATE',
                (message.key,),
            ).fetchone()
            if row is None or (bytes(row[3]) == payload and row[5] == at):
                return "ignored"
            self._connection.execute(
                'UPDATE bench_source SET "payload" = %s, "scheduledAt" = %s, "scheduledAtInitially" = %s, "lockUuid" = NULL,'
                ' "createdAt" = %s WHERE "pKey" = %s AND "pKind" = \'bench\' AND "scheduledAtInitially" = %s AND "createdAt" = %s',
                (payload, at, at, now, message.key, row[5], row[7]),
            )
            return "updated"

    def offer_batch(self, what: Sequence[Message]) -> None:
        now = _now_ms()
        with self._connection.transaction():
            keys = [message.key for message in what]
            places = ", ".join(["%s"] * len(keys))
            found = self._connection.execute(
                f'SELECT "pKey" FROM bench_source WHERE "pKind" = \'bench\' AND "pKey" IN ({places})', keys
            ).fetchall()
            there = {row[0] for row in found}
            new = [message for message in what if message.key not in there]
            for start in range(0, len(new), 200):
                chunk = new[start : start + 200]
                places = ", ".join(["(%s, 'bench', %s, %s, %s, NULL, %s)"] * len(chunk))
                times = [int(message.at * 1000) for message in chunk]
                values = [
                    v for m, at in zip(chunk, times, strict=True) for v in (m.key, m.payload.encode(), at, at, now)
                ]
                self._connection.execute(f"INSERT INTO bench_source ({self._COLUMNS}) VALUES {places}", values)

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        taken, ended = 0, time.perf_counter()
        while got := self._take_many(size) if size > 1 else self._take_one():
            lock, count = got
            for _ in range(count):
                last()
            with self._connection.transaction():
                self._connection.execute('DELETE FROM bench_source WHERE "lockUuid" = %s', (lock,))
            taken, ended = taken + count, time.perf_counter()
        return taken, ended

    def _take_one(self) -> tuple[str, int] | None:
        now, lock = _now_ms(), str(uuid.uuid4())
        while True:
            with self._connection.transaction():
                row = self._connection.execute(
                    f'SELECT "id", {self._COLUMNS} FROM bench_source WHERE "pKind" = \'bench\' AND "scheduledAt" <= %s'
                    ' ORDER BY "scheduledAt" LIMIT 1 FOR UPDATE SKIP LOCKED',
                    (now,),
                ).fetchone()
                if row is None:
                    return None
                acquired = self._connection.execute(
                    'UPDATE bench_source SET "scheduledAt" = %s, "lockUuid" = %s WHERE "pKey" = %s AND "pKind" = \'bench\''
                    ' AND "scheduledAt" = %s',
                    (now + 300_000, lock, row[1], row[4]),
                ).rowcount
            if acquired:
                return lock, 1

    def _take_many(self, size: int) -> tuple[str, int] | None:
        now, lock = _now_ms(), str(uuid.uuid4())
        with self._connection.transaction():
            acquired = self._connection.execute(
                f'UPDATE bench_source SET "lockUuid" = %s, "scheduledAt" = %s WHERE "id" IN (SELECT "id" FROM bench_source'
                f' WHERE "pKind" = \'bench\' AND "scheduledAt" <= %s ORDER BY "scheduledAt" LIMIT {size} FOR UPDATE SKIP LOCKED)',
                (lock, now + 300_000, now),
            ).rowcount
            if not acquired:
                return None
            rows = self._connection.execute(
                f'SELECT "id", {self._COLUMNS} FROM bench_source WHERE "lockUuid" = %s ORDER BY "id" LIMIT {acquired}',
                (lock,),
            ).fetchall()
        return lock, len(rows)

    def close(self) -> None:
        self._connection.close()


class Procrastinate:
    """procrastinate: tasks deferred through its synchronous connector, fetched and finished (deleted) through its job manager."""

    name = "procrastinate"

    def __init__(self, url: str) -> None:
        import procrastinate

        self._url = url
        self._app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url))
        self._app.open()
        self._task = self._app.configure_task("bench", queue="bench")
        self._loop = asyncio.new_event_loop()
        self._async_app: Any = None
        self._worker: int = 0

    def install(self) -> None:
        with psycopg.connect(self._url) as connection:
            there = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()
        if there is None or there[0] is None:
            self._app.schema_manager.apply_schema()

    def clear(self) -> None:
        _truncate(self._url, "procrastinate_jobs", "procrastinate_events")

    def offer_one_by_one(self, what: Sequence[Message]) -> None:
        for message in what:
            self._task.defer(key=message.key, payload=message.payload)

    def offer_batch(self, what: Sequence[Message]) -> None:
        self._task.batch_defer(*({"key": message.key, "payload": message.payload} for message in what))

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        if size > 1:
            raise ValueError("procrastinate fetches one job at a time")
        return self._run(self._consume(last))

    async def _consume(self, last: Callable[[], bool]) -> tuple[int, float]:
        from procrastinate.jobs import Status

        manager = (await self._opened()).job_manager
        self._worker = await manager.register_worker()  # one that was silent for half a minute is struck off
        taken, ended = 0, time.perf_counter()
        while job := await manager.fetch_job(["bench"], self._worker):
            last()
            await manager.finish_job(job, Status.SUCCEEDED, delete_job=True)
            taken, ended = taken + 1, time.perf_counter()
        return taken, ended

    async def _opened(self) -> Any:
        if self._async_app is None:
            import procrastinate

            connector = procrastinate.PsycopgConnector(conninfo=self._url, min_size=1, max_size=1)
            self._async_app = procrastinate.App(connector=connector)
            await self._async_app.open_async()
        return self._async_app

    def _run(self, work: Awaitable[T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        if self._async_app is not None:
            self._run(self._async_app.close_async())
        self._app.close()
        self._loop.close()


class PgQueuer:
    """pgqueuer on asyncpg, its quicker driver: its own queries, one connection."""

    name = "pgqueuer"

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._queries = self._run(self._opened())
        self._id = uuid.uuid4()

    async def _opened(self) -> Any:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        self._connection = await asyncpg.connect(self._url)
        return Queries(AsyncpgDriver(self._connection))

    def install(self) -> None:
        if not self._run(self._queries.schema_is_installed()):
            self._run(self._queries.install())

    def clear(self) -> None:
        _truncate(self._url, "pgqueuer", "pgqueuer_log", "pgqueuer_statistics")

    def offer_one_by_one(self, what: Sequence[Message]) -> None:
        async def offer() -> None:
            for message in what:
                await self._queries.enqueue("bench", message.payload.encode())

        self._run(offer())

    def offer_batch(self, what: Sequence[Message]) -> None:
        payloads = [message.payload.encode() for message in what]
        self._run(self._queries.enqueue(["bench"] * len(payloads), payloads, [0] * len(payloads)))

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        return self._run(self._consume(size, last))

    async def _consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        from pgqueuer.ports.repository import EntrypointExecutionParameter

        entrypoints = {"bench": EntrypointExecutionParameter(0)}
        taken, ended = 0, time.perf_counter()
        while jobs := await self._queries.dequeue(size, entrypoints, self._id, None, timedelta(minutes=5)):
            for _ in jobs:
                last()
            await self._queries.log_jobs([(job, "successful", None) for job in jobs])
            taken, ended = taken + len(jobs), time.perf_counter()
        return taken, ended

    def _run(self, work: Awaitable[T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._run(self._connection.close())
        self._loop.close()


RIVALS: dict[str, Callable[[str], Rival]] = {
    rival.name: rival for rival in (Drainq, SourceSql, Procrastinate, PgQueuer)
}


def _truncate(url: str, *tables: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        there = [
            table for table in tables if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)
        ]
        connection.execute(f"TRUNCATE {', '.join(there)} CASCADE")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
