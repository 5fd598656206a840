"""Offers of other processes wake a waiting consumer; without it polling does."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq.delayed import DelayedQueue, TimeConfig

OFFER = (
    "import sys; from drainq.delayed import DelayedQueue;"
    "q = DelayedQueue.open(sys.argv[1], 'mail', table=sys.argv[2], notify=True); q.offer_or_update('a', 1, float(sys.argv[3]))"
)


def offer_elsewhere(world, at):
    subprocess.run([sys.executable, "-c", OFFER, world.url, world.table, str(at)], check=True, timeout=60)


@pytest.mark.system
def test_an_offer_of_another_process_wakes_a_poll_at_once(postgres):
    queue = postgres.open(notify=True, clock=None, time=TimeConfig(poll_period=3600))
    queue._session.listen()
    assert queue._session.listener.listening.wait(30)
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(queue.poll, 60)
        offer_elsewhere(postgres, 0)
        assert polling.result(30).message_id == "a"


def test_a_batch_announces_once_and_only_what_is_due_soon(postgres):
    import psycopg

    from drainq.delayed import ScheduledMessage
    from drainq.delayed.storage.postgres.listen import channel

    queue = postgres.open(notify=True)
    with psycopg.connect(postgres.url, autocommit=True) as listener:
        listener.execute(f'LISTEN "{channel(queue._session.kind)}"')
        queue.offer_batch([ScheduledMessage(f"{n}", n, postgres.now + 3600) for n in range(50)])
        assert list(listener.notifies(timeout=0)) == []
        queue.offer_batch([ScheduledMessage(f"{n}", n, postgres.now) for n in range(50)])
        assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1
        assert list(listener.notifies(timeout=0)) == []


@pytest.mark.system
def test_the_listener_comes_back_after_its_connection_is_lost(postgres):
    import psycopg

    queue = postgres.open(notify=True, clock=None, time=TimeConfig(poll_period=3600))
    woken = threading.Event()
    queue._session.listen()
    assert queue._session.listener.listening.wait(30)
    queue._session.wakeup.add_listener(woken.set)
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        woken.clear()
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s",
            [f"%drainq_{queue._session.kind}%"],
        )
        assert woken.wait(30)  # on reconnecting it looks again
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(queue.poll, 60)
        offer_elsewhere(postgres, 0)
        assert polling.result(30).message_id == "a"


def test_a_file_takes_the_option_and_its_consumers_in_other_processes_poll(tmp_path):
    with DelayedQueue.open(f"sqlite:///{tmp_path}/q.db", "mail", notify=True) as queue:
        queue.offer_or_update("a", 1, 0)
        assert queue.poll(timeout=30).payload == 1


def quiet(world, **options):
    """Return a queue on which everybody who waits does so for an hour."""
    return world.open(clock=None, time=TimeConfig(poll_period=3600), **options)


def asked(queue, monkeypatch):
    """Return the statements that the queue sends, as they are sent."""
    pool, sent = queue._session.storage._pool, []
    for name in ("ask", "run"):
        send = getattr(pool, name)
        monkeypatch.setattr(pool, name, lambda *what, send=send, **more: sent.append(what[0]) or send(*what, **more))
    return sent


@pytest.mark.parametrize("scheduled", [[], [4e9]], ids=["empty", "with a future message"])
def test_an_idle_consumer_asks_once_and_sleeps(postgres, monkeypatch, scheduled):
    queue, stop = quiet(postgres), threading.Event()
    for at in scheduled:
        queue.offer_or_update("later", 1, at)
    sent = asked(queue, monkeypatch)
    monkeypatch.setattr(queue._session.wakeup, "wait", lambda noted, seconds: stop.set())
    assert queue.consume(print, stop=stop) == 0
    assert len(sent) == 1


def test_a_waiting_poll_asks_once_and_sleeps(postgres, monkeypatch):
    queue = quiet(postgres)
    sent = asked(queue, monkeypatch)
    slept = []
    monkeypatch.setattr(queue._session.wakeup, "wait", lambda noted, seconds: slept.append(seconds))
    assert queue.poll(timeout=0) is None
    assert len(sent) == 1


def test_offers_for_later_wake_nobody_before_their_time(world):
    queue = quiet(world, notify=True)
    wakeup, woken = queue._session.wakeup, threading.Event()
    queue.offer_or_update("warm", 1, 4e9)
    wakeup.add_listener(woken.set)
    before = wakeup.count()
    queue.offer_or_update("next century", 1, 4e9)
    queue.offer_or_update("in a quarter of an hour", 1, queue.clock.now() + 900)
    assert wakeup.count() == before
    queue.offer_or_update("soon", 1, queue.clock.now() + 0.01)
    assert woken.wait(30)
    assert queue.clock.now() >= queue.read("soon").schedule_at.timestamp()
    wakeup.remove_listener(woken.set)


def test_news_of_our_own_offers_wakes_nobody_twice(postgres):
    queue = quiet(postgres, notify=True)
    session = queue._session
    session.listen()
    assert session.listener.listening.wait(30)
    heard, count = [], session.wakeup.count()
    session._heard(session.news(0, ours=True))
    assert session.wakeup.count() == count
    for news in (session.news(0, ours=False), "", "of an older version", "someone@else", "someone@0"):
        session._heard(news)
        heard.append(session.wakeup.count() - count)
    assert heard == [1, 2, 3, 4, 5]
