"""One web service that stores each page view, written in three ways: requests a second and the slowest of a hundred.

``drainq`` is a ``BatchWriter``, as in the tutorial. ``asyncio.Queue`` is a task of the event loop that hands each batch
to a thread. ``thread and queue.Queue`` is a thread that takes batches. All three have a bounded queue, wait for room,
write to one SQLite file in transactions, and end with everything stored, which is checked.

Each round starts uvicorn with the service, sends requests over open connections from this process, each connection
one after the other, and ends the service by SIGTERM. Only the requests are timed.

Run it:  make bench-service
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

from benches import protocol
from benches.protocol import Faster, Report, figure

from drainq.workers import BatchWriter

CONNECTIONS, CAPACITY, BATCH = 16, 10_000, 1_000
WAYS = {"drainq": "with_drainq", "asyncio.Queue": "with_task", "thread and queue.Queue": "with_thread"}
INSERT = "INSERT INTO visits (page, browser) VALUES (?, ?)"

Offer = Callable[[tuple[str, str]], Any]


def service(opened: Callable[[str], AbstractAsyncContextManager[Offer]]) -> Callable[..., Any]:
    """Return the ASGI application whose lifespan holds what ``opened`` opens, and whose requests offer one row each."""
    state: dict[str, Any] = {}

    async def application(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with opened(os.environ["VISITS"]) as state["offer"]:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = (await receive())["body"]
        await state["offer"]((body.decode(), "a browser"))
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    return application


@asynccontextmanager
async def _drainq(path: str) -> AsyncIterator[Offer]:
    columns = ["page", "browser"]
    async with BatchWriter(url=f"sqlite:///{path}", table="visits", columns=columns, buffer_size=CAPACITY) as visits:
        yield visits.produce_async


@asynccontextmanager
async def _task(path: str) -> AsyncIterator[Offer]:
    visits: asyncio.Queue[tuple[str, str]] = asyncio.Queue(CAPACITY)
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:

        async def store() -> None:
            while True:
                rows = [await visits.get()]
                while len(rows) < BATCH and not visits.empty():
                    rows.append(visits.get_nowait())
                await asyncio.to_thread(_store, database, rows)
                for _ in rows:
                    visits.task_done()

        task = asyncio.create_task(store())
        yield visits.put
        await visits.join()
        task.cancel()


@asynccontextmanager
async def _thread(path: str) -> AsyncIterator[Offer]:
    visits: queue.Queue[tuple[str, str] | None] = queue.Queue(CAPACITY)

    def store() -> None:
        with closing(sqlite3.connect(path)) as database:
            more = True
            while more:
                rows = [visits.get()]
                while len(rows) < BATCH and not visits.empty():
                    rows.append(visits.get())
                more = None not in rows
                _store(database, [row for row in rows if row])

    async def offer(row: tuple[str, str]) -> None:
        try:
            visits.put_nowait(row)
        except queue.Full:
            await asyncio.to_thread(visits.put, row)

    thread = threading.Thread(target=store)
    thread.start()
    yield offer
    visits.put(None)
    await asyncio.to_thread(thread.join)


def _store(database: sqlite3.Connection, rows: list[tuple[str, str]]) -> None:
    with database:
        database.executemany(INSERT, rows)


with_drainq, with_task, with_thread = map(service, (_drainq, _task, _thread))


def main() -> int:
    """Run both figures: they come from the same rounds."""
    options = protocol.arguments("service")
    report = Report("service", options)
    requests, rounds = (2_000, 3) if options.quick else (20_000, protocol.rounds(options, 7))
    names = list(WAYS)
    mean: dict[str, list[float]] = {name: [] for name in names}
    slow: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % 3 :] + names[: number % 3]:
            seconds, latencies = _round(WAYS[name], requests)
            mean[name].append(seconds / requests)
            slow[name].append(sorted(latencies)[requests * 99 // 100])
    for title, unit, costs in (("requests", "s/request", mean), ("99th percentile of the answer", "s", slow)):
        goals = [Faster("drainq", rival, 1.0) for rival in names[1:]]
        report.add(figure(title, unit, costs, goals))
    return report.finish()


def _round(way: str, requests: int) -> tuple[float, list[float]]:
    """Return the seconds of all requests together, and of each."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "visits.db"
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE visits (page TEXT, browser TEXT)")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            command = [sys.executable, "-m", "uvicorn", f"benches.versus.service:{way}", "--log-level", "error"]
            command += ["--no-access-log", "--fd", str(listening.fileno())]
            environment = {**os.environ, "VISITS": str(path)}
            process = subprocess.Popen(command, pass_fds=[listening.fileno()], cwd=protocol.ROOT, env=environment)
            try:
                asyncio.run(_send(listening.getsockname()[1], CONNECTIONS))  # the first answers wait for the start
                started = time.perf_counter()
                latencies = asyncio.run(_send(listening.getsockname()[1], requests))
                took = time.perf_counter() - started
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            finally:
                process.kill()
        with closing(sqlite3.connect(path)) as database:
            ((stored,),) = database.execute("SELECT count(*) FROM visits")
        assert stored == requests + CONNECTIONS, f"{stored} of {requests + CONNECTIONS} stored"
        return took, latencies


async def _send(port: int, requests: int) -> list[float]:
    """Send requests over the connections, and return the seconds of each."""
    latencies: list[float] = []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // CONNECTIONS):
            started = time.perf_counter()
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n/cart")
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 202 " in answer, answer
            latencies.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return latencies


if __name__ == "__main__":
    sys.exit(main())
