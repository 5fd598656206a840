"""The coroutines of the workers, each beside an event loop that goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from drainq import BatchQueue
from drainq.sql import Database
from drainq.workers import BatchWriter, DeliveryStopped, MetricsPersister, SendingWorker
from tests.delivery.helpers import Hanging, Table, agree, counts

PATIENCE = 60.0
STEPS = 100  # of the loop while a coroutine waits: one that stopped the loop would end the test at its time limit


async def waits(task):
    """Check that the loop goes on while a task waits."""
    for _ in range(STEPS):
        await asyncio.sleep(0)
    assert not task.done()


async def full(gate, **settings):
    """Return a worker whose sink hangs and whose queue has no room."""
    worker = SendingWorker(gate, **{"buffer_size": 4, **settings})
    assert await worker.produce_async(0)
    assert await asyncio.to_thread(gate.entered.wait, PATIENCE)
    while await worker.offer_async(1, timeout=0):
        pass
    return worker


TWINS = {
    "produce_async": lambda worker: worker.produce_async(2),
    "offer_async": lambda worker: worker.offer_async(2, timeout=PATIENCE),
    "produce_many_async": lambda worker: worker.produce_many_async([2, 2, 2]),
    "flush_async": lambda worker: worker.flush_async(),
    "close_async": lambda worker: worker.close_async(),
}
QUEUED = {"produce_async": 1, "offer_async": 1, "produce_many_async": 3}
CALLS = pytest.mark.parametrize("call", TWINS)
BOUNDS = pytest.mark.parametrize("bound", [{}, {"max_batch_bytes": 120}], ids=["items", "bytes"])


@CALLS
@BOUNDS
def test_a_coroutine_that_waits_for_a_full_worker_does_not_stop_the_loop(call, bound):
    async def main():
        gate = Hanging(heeds=False)
        worker = await full(gate, **bound)
        task = asyncio.create_task(TWINS[call](worker))
        await waits(task)
        gate.go.set()
        assert await task == QUEUED.get(call, True)
        assert await worker.close_async()
        assert agree(worker).sent == len(gate.rows) and gate.rows.count(2) == QUEUED.get(call, 0)

    asyncio.run(main())


@CALLS
@BOUNDS
@pytest.mark.parametrize("steps", [0, 1, 50])
def test_a_cancelled_coroutine_leaves_the_books_right(call, bound, steps):
    async def main():
        gate = Hanging(heeds=False)
        worker = await full(gate, **bound)
        queued = agree(worker).pending
        task = asyncio.create_task(TWINS[call](worker))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if call != "close_async":
            assert agree(worker).pending == queued
        gate.go.set()
        assert await worker.close_async(PATIENCE)
        assert await asyncio.to_thread(gate.closed.wait, PATIENCE)  # by the cancelled close, perhaps
        assert counts(worker) == (queued, 0, 0, 0, 0) and len(gate.rows) == queued

    asyncio.run(main())


@pytest.mark.parametrize("kind", [BatchWriter, MetricsPersister])
def test_a_locked_database_does_not_stop_the_loop(kind, table, rows):
    url = table("k TEXT PRIMARY KEY, n INTEGER")
    more = {"merge": {"n": "sum"}} if kind is MetricsPersister else {}

    async def main():
        with Database(url) as other:
            async with kind(url=url, table="t", columns=["k", "n"], key=["k"], **more) as worker:
                with other.transaction():
                    other.execute("INSERT INTO t VALUES ('other', 1)")
                    assert await worker.produce_many_async((str(n), n) for n in range(1_000)) == 1_000
                    flushing = asyncio.create_task(worker.flush_async())
                    await waits(flushing)
                    names = [thread.name for thread in threading.enumerate()]
                    assert kind is MetricsPersister or "drainq-aside" not in names  # the persister sends on it
                assert await flushing
                with other.transaction():
                    other.execute("INSERT INTO t VALUES ('another', 1)")
                    assert await worker.produce_async(("late", 1))
                    closing = asyncio.create_task(worker.close_async())
                    await waits(closing)
                assert await closing
            assert await worker.produce_async(("closed", 1)) is False
            assert counts(worker) == (1_001, 0, 0, 0, 0)

    asyncio.run(main())
    assert len(rows(url)) == 1_003


def test_many_items_with_room_for_all_do_not_keep_the_loop(table):
    async def main():
        turns = 0

        async def tick():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with SendingWorker(Table()) as worker:
            assert await worker.produce_many_async(range(5_000)) == 5_000
            assert turns >= 5_000 // 256
            ticking.cancel()

    asyncio.run(main())


def test_the_first_coroutine_asks_for_a_missing_table_on_a_thread_of_its_own(table, monkeypatch):
    url = table("k TEXT PRIMARY KEY, n INTEGER")
    entered, go = threading.Event(), threading.Event()

    async def main():
        columns = {"columns": ["k", "n"], "key": ["k"], "merge": {"n": "sum"}}
        async with MetricsPersister(url=url, table="later", **columns) as worker:
            check = worker._table_sink.check
            monkeypatch.setattr(worker._table_sink, "check", lambda: (entered.set(), go.wait(PATIENCE), check()))
            task = asyncio.create_task(worker.produce_async(("a", 1)))
            assert await asyncio.to_thread(entered.wait, PATIENCE)
            await waits(task)
            with Database(url) as database:
                database.execute("CREATE TABLE later (k TEXT PRIMARY KEY, n INTEGER)")
            go.set()
            assert await task

    asyncio.run(main())


def test_a_stopped_worker_tells_a_coroutine():
    async def main():
        table = Table()
        table.down = DeliveryStopped("no right")
        async with SendingWorker(table) as worker:
            assert await worker.produce_async(1) and await worker.flush_async() is False
            for call in ("produce_async", "offer_async", "produce_many_async"):
                with pytest.raises(DeliveryStopped, match="sending-worker/Table is stopped"):
                    await TWINS[call](worker)

    asyncio.run(main())


def test_a_flush_and_a_close_that_are_awaited_have_their_timeout(monkeypatch):
    gate, seen = Hanging(heeds=False), []
    worker = SendingWorker(gate)
    assert worker.produce(1) and asyncio.run(worker.flush_async(0)) is False
    gate.go.set()
    with monkeypatch.context() as watched:
        watched.setattr(worker, "close", lambda timeout=None: seen.append(timeout) or False)
        assert asyncio.run(worker.close_async(7.5)) is False
    assert seen == [7.5] and worker.close()


@pytest.mark.parametrize("flush", ["flush", "flush_async"])
def test_what_the_queues_flush_takes_is_part_of_the_time_of_a_flush(flush, monkeypatch):
    now, deadlines = [100.0], []

    class SlowQueue:
        def flush(self, timeout):
            now[0] += 3.0
            return True

        async def flush_async(self, timeout):
            return self.flush(timeout)

    with SendingWorker(Table()) as worker, monkeypatch.context() as patched:
        patched.setattr("drainq.delivery.worker._deadline", lambda timeout: now[0] + timeout)
        patched.setattr(worker, "_queue", SlowQueue())
        patched.setattr(worker, "_flush_held", lambda deadline: deadlines.append(deadline) or True)
        done = getattr(worker, flush)(5.0)
        assert done if flush == "flush" else asyncio.run(done)
    assert deadlines == [105.0]


def test_coroutines_route_the_types_of_a_shared_queue():
    async def main():
        table = Table()
        async with BatchQueue("shared", threads=1) as queue, SendingWorker(table, queue=queue) as worker:
            assert await worker.produce_many_async([1, "a", 2]) == 3
            await queue.flush_async()
            assert sorted(table.rows, key=str) == [1, 2, "a"] and queue.stats().unrouted == 0

    asyncio.run(main())


def test_a_close_after_a_cancelled_one_waits_for_it():
    async def main():
        gate = Hanging(heeds=False)
        worker = await full(gate)
        accepted, closing = agree(worker).accepted, asyncio.create_task(worker.close_async())
        await waits(closing)
        closing.cancel()
        assert await worker.close_async(0) is False and agree(worker).accepted == accepted
        again = asyncio.create_task(worker.close_async())
        await waits(again)
        gate.go.set()
        await again
        assert sum(counts(worker)) == accepted and agree(worker).pending == 0

    asyncio.run(main())
