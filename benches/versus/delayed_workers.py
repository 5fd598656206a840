"""The rivals' own worker loops, as their documentation shows them, and drainq's, with eight handlers at once.

pgqueuer's ``QueueManager`` in its default batch mode (ten jobs a fetch, and their ends logged ten at a time), each job
a task of the event loop and as many at once as there are; procrastinate's ``Worker``, whose jobs are deleted when they
have succeeded. Both stop when their queue is empty. drainq's handlers run on threads, and as tasks of an event loop.
The time ends with the last message that was handed to a task, so that what the loops do afterwards (to wait, to log, to
say goodbye) is not counted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from benches.versus.delayed_rivals import RIVALS, Drainq, DrainqAlone, PgQueuer, Procrastinate, Rival

CONCURRENCY = 8


class DrainqThreads(Drainq):
    """drainq's ``consume`` on threads."""

    name = f"drainq, {CONCURRENCY} threads"

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        ended, stop = [time.perf_counter()], threading.Event()

        def handle(_envelope: Any) -> None:
            if last():
                stop.set()
            ended.append(time.perf_counter())

        taken = self.queue.consume(handle, stop=stop, concurrency=CONCURRENCY)
        return taken, max(ended)


class DrainqTasks(Drainq):
    """drainq's ``consume_async`` on an event loop."""

    name = f"drainq, {CONCURRENCY} tasks"

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        return asyncio.run(self._consume(last))

    async def _consume(self, last: Callable[[], bool]) -> tuple[int, float]:
        ended, stop = time.perf_counter(), asyncio.Event()

        async def handle(_envelope: Any) -> None:
            nonlocal ended
            if last():
                stop.set()
            ended = time.perf_counter()

        taken = await self.queue.consume_async(handle, stop=stop, concurrency=CONCURRENCY)
        return taken, ended


class PgQueuerWorker(PgQueuer):
    """pgqueuer's ``QueueManager``, on the connection of its query layer."""

    name = "pgqueuer worker"

    async def _consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        import asyncpg
        from pgqueuer.core.qm import QueueManager
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.domain.types import QueueExecutionMode
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(self._url)  # the manager closes what it listens on
        manager = QueueManager(Queries(AsyncpgDriver(connection)))
        taken, ended = 0, time.perf_counter()

        @manager.entrypoint("bench")  # type: ignore[untyped-decorator, unused-ignore]
        async def handle(job: Any) -> None:
            nonlocal taken, ended
            taken += 1
            last()
            ended = time.perf_counter()

        try:
            await manager.run(mode=QueueExecutionMode.drain)
        finally:
            await connection.close()
        return taken, ended


class ProcrastinateWorker(Procrastinate):
    """procrastinate's ``Worker``."""

    name = "procrastinate worker"

    def consume(self, size: int, last: Callable[[], bool]) -> tuple[int, float]:
        return self._run(self._work(last))

    async def _work(self, last: Callable[[], bool]) -> tuple[int, float]:
        import procrastinate

        taken, ended = 0, time.perf_counter()
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self._url))

        @app.task(name="bench", queue="bench")  # type: ignore[untyped-decorator, unused-ignore]
        async def handle(key: str, payload: str) -> None:
            nonlocal taken, ended
            taken += 1
            last()
            ended = time.perf_counter()

        async with app.open_async():
            await app.run_worker_async(
                queues=["bench"],
                wait=False,
                concurrency=CONCURRENCY,
                install_signal_handlers=False,
                listen_notify=False,
                delete_jobs="always",
            )
        return taken, ended


WORKERS: dict[str, Callable[[str], Rival]] = {worker.name: worker for worker in (PgQueuerWorker, ProcrastinateWorker)}
AT_ONCE: dict[str, Callable[[str], Rival]] = {ours.name: ours for ours in (DrainqThreads, DrainqTasks)}
CONTESTANTS: dict[str, Callable[[str], Rival]] = {**RIVALS, **WORKERS, **AT_ONCE, DrainqAlone.name: DrainqAlone}
