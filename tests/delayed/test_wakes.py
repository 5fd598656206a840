"""Events that wake a waiting consumer: offers, returned messages, an operator, and news of other processes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from drainq.delayed import CronMessage, DelayedQueue, QueueUnavailable, RetryConfig, ScheduledMessage, TimeConfig
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.sqlite.storage import MemoryStorage
from drainq.delayed.wake import Wakeup
from drainq.testing import ManualClock

START = 1000.0


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def queue(clock):
    """Yield a queue with a due message, ``a``, a dead letter, ``d``, and a poll period of 3 seconds."""
    queue = DelayedQueue(
        MemoryStorage(), QueueSettings.of("mail", clock=clock, time=TimeConfig(poll_period=3.0), max_attempts=1)
    )
    queue.offer_or_update("d", "D", START)
    queue.try_poll().nack(error="for good")
    queue.offer_or_update("a", "A", START)
    with queue:
        yield queue


def wakes(queue, act):
    before = queue._session.wakeup.count()
    act(queue)
    return queue._session.wakeup.count() - before


@pytest.mark.parametrize(
    ("act", "times"),
    [
        (lambda queue: queue.offer_or_update("b", "B", START), 1),
        (lambda queue: queue.offer_if_not_exists("b", "B", START + 2.999), 1),  # at once, for nobody waits now
        (lambda queue: queue.offer_or_update("b", "B", START + 3), 0),  # found by the next regular poll
        (lambda queue: queue.offer_batch([]), 0),
        (lambda queue: queue.offer_batch([ScheduledMessage(f"{n}", n, START + n) for n in range(9, -1, -1)]), 1),
        (lambda queue: queue.offer_batch([ScheduledMessage(f"{n}", n, START + n) for n in range(3, 9)]), 0),
        (lambda queue: queue.try_poll(), 0),
        (lambda queue: queue.try_poll().ack(), 0),
        (lambda queue: queue.try_poll().nack(), 0),  # its one attempt is used up: it is dead
        (lambda queue: queue._session.release(queue.try_poll()._held()), 1),
        (lambda queue: queue.pause(), 0),
        (lambda queue: queue.resume(), 1),
        (lambda queue: queue.redrive(), 1),
        (lambda queue: queue.drop_dead_letters(everything=True), 0),
        (lambda queue: queue.drop_message("a"), 0),
        (lambda queue: queue.stats(), 0),
        (lambda queue: queue.close(), 1),
    ],
)
def test_each_call_wakes_the_consumers_that_it_has_news_for(queue, act, times):
    assert wakes(queue, act) == times


@pytest.mark.parametrize(
    "act",
    [
        lambda queue: queue.offer_or_update("b", "B", START),
        lambda queue: queue.offer_batch([ScheduledMessage("b", "B", START)]),
        lambda queue: queue._session.release(queue.try_poll()._held()),
        lambda queue: queue.redrive(),
    ],
)
def test_consumers_are_woken_once_the_message_is_there(queue, act, monkeypatch):
    ready = []
    with monkeypatch.context() as patched:
        patched.setattr(Wakeup, "wake", lambda wakeup: ready.append(queue.stats().ready))
        act(queue)
    assert ready == [queue.stats().ready]


def test_a_wakeup_that_an_alarm_keeps_alive_is_not_that_of_a_later_storage():
    def opened(number):
        ways = (
            lambda: DelayedQueue(MemoryStorage(), QueueSettings.of("mail")),
            lambda: DelayedQueue.open("memory:", "mail"),
        )
        with ways[number % 2]() as queue:
            return queue._session.wakeup  # as an alarm of the timer holds it

    assert len(set(map(opened, range(100)))) == 100


def test_a_message_that_is_given_back_for_another_delivery_wakes(clock):
    with DelayedQueue(MemoryStorage(), QueueSettings.of("mail", clock=clock)) as queue:
        queue.offer_batch([ScheduledMessage(f"{n}", n, START) for n in range(3)])
        assert wakes(queue, lambda queue: queue.try_poll_many(3).nack(delay=5)) == 1


def test_ticks_that_a_schedule_makes_wake_and_those_that_are_there_do_not(queue):
    ticks = [CronMessage("tick", datetime.fromtimestamp(START + 60, timezone.utc))]
    install = [lambda queue: queue.cron.install_tick("hash", "report", ticks)] * 2
    assert [wakes(queue, act) for act in install] == [1, 0]
    queue.cron.install_periodic_tick("hourly", 3600, lambda at: "tick").close()
    backfill = [lambda queue: queue.cron.backfill("hourly", START - 7200, START)] * 2
    assert [wakes(queue, act) for act in backfill] == [1, 0]


@pytest.mark.parametrize(
    ("news", "times"),
    [
        ("@999000", 1),  # another process's consumers were not woken for it: it is due here
        ("other@1000000", 1),
        ("other@1001000", 0),  # in a second: nobody waits here, and who polls meanwhile learns when
        ("", 1),  # of an older version
        ("other@soon", 1),
    ],
)
def test_news_of_another_process_wakes_when_its_message_is_due(queue, news, times):
    queue._session.wakeup._waiting = 1 if times == 0 else 0
    assert wakes(queue, lambda queue: queue._session._heard(news)) == times


def test_news_wakes_although_the_clock_of_the_database_is_away(queue, monkeypatch):
    def away():
        raise QueueUnavailable("away", [])

    monkeypatch.setattr(queue._session, "now", away)
    assert wakes(queue, lambda queue: queue._session._heard("other@1000000")) == 1


def test_news_of_our_own_offers_wake_no_second_time(queue):
    session = queue._session
    session.notify = True
    ours, foreign = session.news(1_000_000, ours=True), session.news(1_000_000, ours=False)
    assert wakes(queue, lambda queue: session._heard(ours)) == 0
    assert wakes(queue, lambda queue: session._heard(foreign)) == 1  # in a caller's transaction: nobody was woken yet
    session.notify = False
    assert session.news(1_000_000, ours=True) is None


def test_the_pause_ends_when_something_is_due_and_after_a_poll_period(queue, clock):
    pause = queue._session.pause_until
    now = round(clock.now() * 1000)
    assert [pause(due) for due in (None, now + 60_000, now + 3_000, now + 1_500)] == [3.0, 3.0, 3.0, 1.5]
    assert 0 < pause(now) == pause(now - 5_000) <= 0.01  # others may be taking it


@pytest.mark.parametrize(
    ("due", "timeout", "least", "most"),
    [
        (None, None, 3600, 3600),  # a poll period
        (7200, None, 3600, 3600),
        (600, None, 600, 600),
        (600, 1800, 600, 600),
        (None, 7200, 3600, 3600),
        (None, 1800, 900, 1800),  # real time
        (2400, 1800, 900, 1800),
    ],
)
def test_a_poll_sleeps_a_poll_period_unless_something_is_due_or_its_time_is_over(
    clock, monkeypatch, due, timeout, least, most
):
    settings = QueueSettings.of("mail", clock=clock, time=TimeConfig(poll_period=3600))
    pauses = []
    with DelayedQueue(MemoryStorage(), settings) as queue:
        if due is not None:
            queue.offer_or_update("later", "L", START + due)

        def wait(_noted, seconds):
            pauses.append(seconds)
            queue.offer_or_update("now", "N", START)

        monkeypatch.setattr(queue._session.wakeup, "wait", wait)
        assert queue.poll(timeout=timeout).payload == "N"
    (pause,) = pauses
    assert least <= pause <= most


def test_an_alarm_is_set_only_if_none_rings_between_now_and_then(monkeypatch):
    alarms, cancelled, now, wakeup = [], [], [100.0], Wakeup()

    def after(*given):
        alarms.append((now[0], *given))
        return SimpleNamespace(cancel=lambda: cancelled.append(given[0]))

    monkeypatch.setattr("drainq.delayed.wake.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("drainq.delayed.wake.SHARED", SimpleNamespace(after=after))
    wakeup.add_listener(list)
    for now[0], seconds in ((100, 5), (100, 7), (101, 4.5), (102, 2), (102.5, 1.5), (104, 3), (105, 1)):
        wakeup.wake_in(seconds)
    assert alarms == [(100, 5, wakeup.wake), (102, 2, wakeup.wake), (104, 3, wakeup.wake), (105, 1, wakeup.wake)]
    assert cancelled == [5, 3]  # those of later times, and not one that is due and has not rung


def test_a_callers_transaction_is_looked_at_less_and_less_often_until_it_ends(sqlite, monkeypatch):
    alarms, pauses, queue = [], [], sqlite.open()
    queue._session.notify = True
    settled, told = [], []
    monkeypatch.setattr(queue._session, "settle", lambda: settled.append(1))
    monkeypatch.setattr(queue._session, "news", lambda due, *, ours: told.append(ours))
    monkeypatch.setattr("drainq.delayed.wake.SHARED", SimpleNamespace(after=lambda *given: alarms.append(given)))
    connection = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"))
    noted = queue._session.wakeup.count()
    queue.offer_or_update("a", "A", sqlite.now, connection=connection)
    for _ in range(10):
        ((seconds, look),) = alarms
        pauses.append(round(seconds * 1000))
        assert queue._session.wakeup.count() == noted
        alarms.clear()
        look()
    connection.commit()
    alarms.pop()[1]()
    assert pauses == [5, 8, 11, 17, 25, 38, 57, 85, 100, 100] and not alarms
    assert (queue._session.wakeup.count() - noted, settled, told) == (1, [1], [False])
    connection.close()


def test_who_waits_for_messages_listens_first(queue, monkeypatch):
    calls, stop = [], threading.Event()
    acquire = queue._session.storage.acquire
    monkeypatch.setattr(queue._session, "listen", lambda: calls.append("listens"))
    monkeypatch.setattr(
        queue._session.storage, "acquire", lambda *given, **more: calls.append("asks") or acquire(*given, **more)
    )

    async def handle(_):
        stopping.set()

    stopping = asyncio.Event()
    for wait in (
        lambda: queue.poll(timeout=0),
        lambda: asyncio.run(queue.poll_async(timeout=0)),
        lambda: queue.offer_or_update("b", "B", START) and queue.consume(lambda _: stop.set(), stop=stop),
        lambda: queue.offer_or_update("c", "C", START) and asyncio.run(queue.consume_async(handle, stop=stopping)),
    ):
        wait()
        assert calls[:2] == ["listens", "asks"] and calls.count("listens") == 1
        calls.clear()
    queue.try_poll()
    assert calls == ["asks"]


@pytest.mark.parametrize(
    ("try_timeout", "timeout", "waits"), [(10, None, 10), (10, 3, 3), (10, 60, 10), (None, None, 30), (None, 60, 30)]
)
def test_closing_waits_as_long_as_it_may_for_what_is_given_back_and_ends_the_listener(try_timeout, timeout, waits):
    queue, ends = (
        DelayedQueue(MemoryStorage(), QueueSettings.of("mail", retry=RetryConfig(try_timeout=try_timeout))),
        [],
    )
    session = queue._session
    session.calls.close = lambda seconds: ends.append((seconds, session.closed)) or False
    session.listener = SimpleNamespace(close=lambda: ends.append(("listener", session.closed)))
    assert session.close(timeout) is False
    assert ends == [(waits, False), ("listener", True)] and session.listener is None
