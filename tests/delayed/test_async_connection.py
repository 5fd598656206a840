"""Offers and acknowledgements in a transaction of an async connection: psycopg's own, and SQLAlchemy's."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.soak.ledger import wait_until


def run(work):
    asyncio.run(asyncio.wait_for(work, 60))


async def until(condition, what):
    await asyncio.to_thread(wait_until, condition, what)


def test_an_offer_and_an_ack_take_part_in_the_transaction(postgres):
    queue = postgres.open()

    async def work():
        async with await psycopg.AsyncConnection.connect(postgres.url) as mine:
            await queue.offer_async("lost", 1, connection=mine)
            await mine.rollback()
            await queue.offer_async("kept", 2, priority=3, connection=mine)
            assert [row.key for row in queue.peek()] == []
            await mine.commit()
            await queue.offer_batch_async([], connection=mine)
            assert [row.key for row in queue.peek()] == ["kept"]
            envelope = queue.try_poll()
            assert await envelope.ack_async(connection=mine)
            await mine.rollback()
            assert queue.contains_message("kept")
            assert await envelope.ack_async(connection=mine)
            await mine.commit()
            assert not queue.contains_message("kept")

    run(work())


def test_in_autocommit_mode_an_offer_is_a_transaction_unless_one_is_open(postgres):
    queue = postgres.open()

    async def work():
        async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as mine:
            await queue.offer_async("at once", 1, connection=mine)
            assert queue.contains_message("at once")
            with pytest.raises(ZeroDivisionError):
                async with mine.transaction():
                    await queue.offer_async("lost", 1, connection=mine)
                    raise ZeroDivisionError
            assert not queue.contains_message("lost")

    run(work())


def test_the_connection_keeps_its_notices_and_is_closed_by_nobody_else(postgres):
    queue, seen = postgres.open(), []

    async def work():
        async with await psycopg.AsyncConnection.connect(postgres.url) as mine:
            mine.add_notice_handler(lambda notice: seen.append(notice.message_primary))
            await queue.offer_async("a", 1, connection=mine)
            await mine.execute("DO $$ BEGIN RAISE NOTICE 'still heard'; END $$")
            await mine.commit()
        assert seen == ["still heard"]

    run(work())


def test_another_task_waits_for_the_connection_and_a_cancelled_call_for_its_statement(postgres):
    queue = postgres.open()
    queue.offer("a", 1)

    async def work():
        with psycopg.connect(postgres.url) as other:
            other.execute(f'SELECT FROM "{postgres.table}" FOR UPDATE')
            async with await psycopg.AsyncConnection.connect(postgres.url) as mine:
                offer = asyncio.create_task(queue.offer_async("a", 2, connection=mine))
                waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
                with psycopg.connect(postgres.url, autocommit=True) as watcher:
                    pid = mine.info.backend_pid
                    await until(lambda: watcher.execute(waits, (pid,)).fetchone()[0], "the offer to wait for the row")
                beside = asyncio.create_task(mine.execute("SELECT 1"))
                offer.cancel()
                for _ in range(10):
                    await asyncio.sleep(0)
                    offer.cancel()
                assert not (offer.done() or beside.done())
                other.rollback()
                with pytest.raises(asyncio.CancelledError):
                    await offer
                assert await (await beside).fetchone() == (1,)
                await mine.rollback()
        assert queue.read("a").payload == 1

    run(work())


def test_a_plain_call_refuses_an_async_connection(postgres):
    queue = postgres.open()

    async def work():
        async with await psycopg.AsyncConnection.connect(postgres.url) as mine:
            with pytest.raises(TypeError, match=r"AsyncConnection.*await.*_async"):
                queue.offer("a", 1, connection=mine)

    run(work())


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_an_offer_takes_part_in_an_async_transaction_of_sqlalchemy(postgres, kind):
    pytest.importorskip("greenlet")
    sqlalchemy = pytest.importorskip("sqlalchemy.ext.asyncio")
    queue = postgres.open()

    async def work():
        engine = sqlalchemy.create_async_engine(postgres.url.replace("postgresql://", "postgresql+psycopg://"))
        async with sqlalchemy.AsyncSession(engine) if kind == "session" else engine.connect() as mine:
            await queue.offer_async("lost", 1, connection=mine)
            await mine.rollback()
            await queue.offer_async("kept", 2, connection=mine)
            await mine.commit()
        await engine.dispose()
        assert [row.key for row in queue.peek()] == ["kept"]

    run(work())
