"""The coroutine of each call that waits for the database: it answers as the call does, and never holds up its loop."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading

import pytest

import drainq.delayed.queue
from drainq.delayed import AckBatch, AckEnvelope, CronHandle, CronMessage, CronService, DelayedQueue, ScheduledMessage
from drainq.delayed.storage_session import Session
from drainq.testing import ManualClock

HOUR = 3600.0
SURE = "Yes, please, I know what I'm doing!"


def tick(at):
    return f"{at:%H:%M}"


async def open_and_close():
    async with await DelayedQueue.open_async("memory:", "other", source="here") as other:
        assert (other.name, other.source) == ("other", "here")


async def handle_once(queue):
    stop = asyncio.Event()

    async def handle(envelope):
        stop.set()

    return await queue.consume_async(handle, stop=stop)


QUEUE = {
    "open": lambda queue: open_and_close(),
    "offer": lambda queue: queue.offer_async("b", 2, delay=5),
    "offer_or_update": lambda queue: queue.offer_or_update_async("b", 2, 0),
    "offer_if_not_exists": lambda queue: queue.offer_if_not_exists_async("a", 2, 0),
    "offer_batch": lambda queue: queue.offer_batch_async([ScheduledMessage("c", 3, 0)]),
    "try_poll": lambda queue: queue.try_poll_async(),
    "try_poll_many": lambda queue: queue.try_poll_many_async(3),
    "poll": lambda queue: queue.poll_async(60),
    "consume": handle_once,
    "get_next_batch": lambda queue: queue.get_next_batch_async(3),
    "done": lambda queue: queue.done_async(queue.held),
    "read": lambda queue: queue.read_async("a"),
    "contains_message": lambda queue: queue.contains_message_async("a"),
    "drop_message": lambda queue: queue.drop_message_async("a"),
    "drop_all_messages": lambda queue: queue.drop_all_messages_async(SURE),
    "drop_messages": lambda queue: queue.drop_messages_async("a"),
    "release": lambda queue: queue.release_async(older_than=0),
    "reschedule": lambda queue: queue.reschedule_async("a"),
    "peek": lambda queue: queue.peek_async(5),
    "stats": lambda queue: queue.stats_async(),
    "pause": lambda queue: queue.pause_async(),
    "resume": lambda queue: queue.resume_async(),
    "paused": lambda queue: queue.paused_async(),
    "history": lambda queue: queue.history_async(5),
    "dead_letters": lambda queue: queue.dead_letters_async("a"),
    "purge_dead": lambda queue: queue.purge_dead_async(30),
    "redrive": lambda queue: queue.redrive_async(prefix="a"),
    "drop_dead_letters": lambda queue: queue.drop_dead_letters_async(everything=True),
    "close": lambda queue: queue.close_async(),
}
ENVELOPE = {
    "ack": lambda queue: queue.held[0].ack_async(),
    "nack": lambda queue: queue.held[0].nack_async(5),
    "snooze": lambda queue: queue.held[0].snooze_async(5),
    "extend": lambda queue: queue.held[0].extend_async(60),
}
BATCH = {"ack_some": lambda queue: queue.batch.ack_some_async(["batched"])} | ENVELOPE
CRON = {
    "install_tick": lambda queue: queue.cron.install_tick_async("hash", "once", [CronMessage(1, tick_at())]),
    "uninstall_tick": lambda queue: queue.cron.uninstall_tick_async("hash", "once"),
    "install": lambda queue: queue.cron.install_async("hash", "own", HOUR, lambda now: []),
    "install_periodic_tick": lambda queue: queue.cron.install_periodic_tick_async("hourly", HOUR, tick),
    "install_cron": lambda queue: queue.cron.install_cron_async("cron", "@daily", tick),
    "install_daily_schedule": lambda queue: queue.cron.install_daily_schedule_async("daily", queue.daily, tick),
    "schedules": lambda queue: queue.cron.schedules_async(),
    "forget": lambda queue: queue.cron.forget_async("installed"),
    "backfill": lambda queue: queue.cron.backfill_async("installed", queue.clock.now() - 3 * HOUR, queue.clock.now()),
    "close": lambda queue: queue.cron.close_async(),
}
HANDLE = {"close": lambda queue: queue.handle.close_async()}
TABLE = {DelayedQueue: QUEUE, AckEnvelope: ENVELOPE, AckBatch: BATCH, CronService: CRON, CronHandle: HANDLE}
CASES = [(of, name) for of, calls in TABLE.items() for name in calls]


def tick_at():
    from datetime import datetime, timezone

    return datetime(2030, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def queue():
    """Yield a queue in memory with a message, one that is leased, a dead letter, and a schedule."""
    import datetime

    from drainq.delayed import CronDailySchedule

    with DelayedQueue.open("memory:", "mail", clock=ManualClock(), max_attempts=1, history=5) as queue:
        queue.daily = CronDailySchedule("UTC", [datetime.time(10)], HOUR, HOUR)
        queue.handle = queue.cron.install_periodic_tick("installed", HOUR, tick)
        queue.offer_or_update("dead", 1, 0)
        queue.poll().nack(error="of no use")
        queue.offer_or_update("held", 1, 0)
        queue.held = [queue.poll()]
        queue.offer_or_update("batched", 1, 0)
        queue.batch = queue.try_poll_many(1)
        queue.offer_or_update("a", 1, 0)
        yield queue


def test_the_tables_name_every_coroutine_and_each_takes_what_its_call_takes():
    for of, calls in TABLE.items():
        twins = {name.removesuffix("_async") for name in dir(of) if name.endswith("_async")}
        assert twins == set(calls), of
        for name in twins - {"paused", "consume"}:
            assert inspect.signature(getattr(of, f"{name}_async")) == inspect.signature(getattr(of, name)), name


@pytest.mark.parametrize(("of", "name"), CASES, ids=[f"{of.__name__}.{name}" for of, name in CASES])
def test_the_loop_goes_on_while_a_coroutine_waits_for_the_database(queue, of, name, monkeypatch):
    reached, gate, try_now, close = threading.Event(), threading.Event(), Session._try, queue._session.storage.close

    def held_up(call):
        def held(*arguments, **more):
            assert threading.current_thread() is not threading.main_thread(), "on the thread of the event loop"
            reached.set()
            assert gate.wait(60)
            return call(*arguments, **more)

        return held

    async def main():
        waiting = asyncio.ensure_future(TABLE[of][name](queue))
        turns = 0
        while not waiting.done() and (not reached.is_set() or turns < 100):
            await asyncio.sleep(0.001 if turns > 100 else 0)
            turns += 1
        assert not waiting.done()
        gate.set()
        return await waiting

    with monkeypatch.context() as patch:  # undone before the queue is closed
        if name == "close" and of is not DelayedQueue:  # these wait for a check that is running
            patch.setattr(queue.handle, "_check", lambda handle: (reached.set(), gate.wait(60)) and HOUR)
            queue.handle.wake()
            assert reached.wait(60)
        elif name == "close":
            patch.setattr(queue._session.storage, "close", held_up(close))
        elif name == "open":
            patch.setattr(drainq.delayed.queue, "open_storage", held_up(drainq.delayed.queue.open_storage))
        else:
            patch.setattr(Session, "_try", held_up(try_now))
        asyncio.run(main())
    assert reached.is_set()


def test_a_queue_that_opens_after_its_task_was_cancelled_is_closed(monkeypatch):
    reached, gate, closed = threading.Event(), threading.Event(), threading.Event()
    reach = drainq.delayed.queue.reach
    monkeypatch.setattr(drainq.delayed.queue, "reach", lambda *a, **b: (reached.set(), gate.wait(60), reach(*a, **b)))
    monkeypatch.setattr(DelayedQueue, "close", lambda queue: closed.set())

    async def main():
        opening = asyncio.ensure_future(DelayedQueue.open_async("memory:"))
        await asyncio.to_thread(reached.wait, 60)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled() and not closed.is_set()
        gate.set()

    asyncio.run(main())
    assert closed.wait(60)


def test_what_a_cancelled_coroutine_took_is_released(queue, monkeypatch):
    async def take(call, give_back):
        give_back(taken := call())
        return taken

    monkeypatch.setattr(queue._session.calls, "take", take)
    before = queue.stats()
    for name in ("try_poll", "try_poll_many", "poll", "get_next_batch"):
        assert asyncio.run(QUEUE[name](queue)) and queue.stats() == before, name
    for name in ("install", "install_periodic_tick", "install_cron", "install_daily_schedule"):
        assert asyncio.run(CRON[name](queue)).closed, name


@pytest.mark.parametrize("fails", [False, True])
def test_a_schedule_is_checked_as_often_as_it_says_and_a_failed_one_again(queue, fails):
    def made(at):
        return CronMessage(1 // (not fails), at)

    own = queue.cron.install("h", "own", 7, lambda now: [made(now)])
    queue.daily = dataclasses.replace(queue.daily, schedule_in_advance=2 * 24 * HOUR, schedule_interval=8)
    daily = queue.cron.install_daily_schedule("daily", queue.daily, lambda at: made(at).payload)
    often = queue.cron.install_periodic_tick("often", 40, lambda at: made(at).payload)
    often._is_called = True  # by the watch
    assert [handle._turn() for handle in (own, daily, often)] == [7, 8, 1 if fails else 10 + 5], (
        "five seconds after the watch"
    )


@pytest.mark.parametrize("of", [DelayedQueue, CronService, CronHandle])
def test_a_close_that_is_awaited_has_its_timeout_and_ends_the_block(of, monkeypatch):
    closes = []
    monkeypatch.setattr(of, "close", lambda self, timeout=None: closes.append(timeout) or True)
    one = object.__new__(of)
    assert asyncio.run(one.close_async(7.5)) is True
    if hasattr(of, "__aexit__"):
        asyncio.run(one.__aexit__(None, None, None))
    assert closes == [7.5, None][: 1 + hasattr(of, "__aexit__")]
