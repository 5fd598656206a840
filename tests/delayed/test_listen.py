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
    from drainq.delayed.storage.postgres_listen import channel

    queue = postgres.open(notify=True)
    with psycopg.connect(postgres.url, autocommit=True) as listener:
        listener.execute(f'LISTEN "{channel(queue._session.kind)}"')
        queue.offer_batch([ScheduledMessage(f"{n}", n, postgres.now + 3600) for n in range(50)])
        assert list(listener.notifies(timeout=0)) == []
        queue.offer_batch([ScheduledMessage(f"{n}", n, postgres.now) for n in range(50)])
        assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1
        assert list(listener.notifies(timeout=0)) == []


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


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_back_ends_without_notification_take_the_option_and_poll(backend, tmp_path):
    url = "memory:" if backend == "memory" else f"sqlite:///{tmp_path}/q.db"
    with DelayedQueue.open(url, "mail", notify=True) as queue:
        queue.offer_or_update("a", 1, 0)
        assert queue.poll(timeout=30).payload == 1
