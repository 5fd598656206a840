"""Many queues of one process on the connections of a pool."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from drainq import ShutDown
from drainq.delayed import ConnectionPool, DelayedQueue, TimeConfig

from ..patience import PATIENCE
from ..soak.ledger import wait_until

pytest.importorskip("psycopg")

import psycopg

QUEUES, MOST = 60, 4


def connections(url):
    with psycopg.connect(url, autocommit=True) as observer:
        rows = observer.execute(
            "SELECT query FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    listening = [query for (query,) in rows if "LISTEN" in query]
    return len(rows) - len(listening), len(listening)


def test_queues_with_schedules_and_listeners_stay_within_the_connections_of_the_pool(own_postgres):
    url, most, done = own_postgres.url, [], threading.Event()
    with ConnectionPool(url, max_connections=MOST) as pool:
        settings = {"notify": True, "time": TimeConfig(poll_period=3600)}
        queues = [DelayedQueue.open(pool, f"queue {n}", **settings) for n in range(QUEUES)]
        with ThreadPoolExecutor(QUEUES) as threads:
            polling = [threads.submit(queue.poll, timeout=PATIENCE) for queue in queues]
            for queue in queues:
                queue.cron.install_cron("tick", "0 0 1 1 *", lambda at: "tick")
                while queue._session.listener is None:
                    done.wait(0.001)
                assert queue._session.listener.listening.wait(PATIENCE)
            most.append(connections(url))
            with ConnectionPool(url, max_connections=2) as elsewhere:
                for n in range(QUEUES):
                    with DelayedQueue.open(elsewhere, f"queue {n}", notify=True) as other:
                        other._session.wakeup = type(other._session.wakeup)()  # another process would have its own
                        other.offer("a", n)
            got = [call.result(PATIENCE) for call in polling]
            most.append(connections(url))
        assert [envelope.payload for envelope in got] == list(range(QUEUES)) and all(each.ack() for each in got)
        assert all(some <= MOST and listening == 1 for some, listening in most)
        for queue in queues[1:]:
            assert queue.close() and queues[0].stats().ready == 0
        assert queues[0].close()
        wait_until(
            lambda: connections(url)[1] == 0, "the end of the listener"
        )  # a server's process ends a little after its connection
    wait_until(lambda: connections(url) == (0, 0), "the end of all connections")


def test_the_statements_of_a_table_are_prepared_once_for_all_queues(postgres):
    with ConnectionPool(postgres.url, max_connections=2) as pool:
        queues = [DelayedQueue.open(pool, f"{n}", table=postgres.table) for n in range(5)]
        for queue in queues:
            queue.offer("a", 1)
            assert queue.try_poll().ack()
        (connection,) = pool._connections.pool._idle
        known = len(connection._known_here)
        DelayedQueue.open(pool, "another", table=postgres.table).offer("a", 1)
        assert len(connection._known_here) == known
        for queue in queues:
            queue.close()


def test_a_pool_of_files_gives_each_queue_its_own(tmp_path):
    url = f"sqlite:///{tmp_path}/q.db"
    with ConnectionPool(url) as pool, DelayedQueue.open(pool, "mail") as mail, DelayedQueue.open(url, "mail") as other:
        mail.offer("a", 1)
        assert other.try_poll().payload == 1
        assert repr(pool) == f"<ConnectionPool to {url}>"


def test_what_a_closed_pool_refuses(world):
    pool = ConnectionPool(world.url)
    queue = DelayedQueue.open(pool, "mail", table=world.table)
    assert pool.close() and pool.close() and pool.closed
    with pytest.raises(ShutDown, match="the pool is closed"):
        DelayedQueue.open(pool, "more", table=world.table)
    with pytest.raises(ShutDown, match="the pool is closed"), pool:
        raise AssertionError
    if world.backend == "postgresql":
        with pytest.raises(ShutDown, match="the connections of this queue are closed"):
            queue.offer("a", 1)
    queue.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"url": "memory:"}, "url must be a database's, got 'memory:', whose queues have no connections to share"),
        (
            {"url": "sqlite:///q.db", "max_connections": 1},
            "max_connections must be a whole number of at least 2, got 1",
        ),
        ({"url": "sqlite:///q.db", "max_connections": True}, "at least 2, got True"),
        ({"url": "mail"}, "url must name a database, got 'mail'"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        ConnectionPool(**arguments)


def test_what_belongs_to_the_pool_is_refused_by_open(tmp_path):
    with ConnectionPool(f"sqlite:///{tmp_path}/q.db") as pool:
        for option in ({"max_connections": 3}, {"prepare": True}):
            with pytest.raises(ValueError, match="max_connections and prepare belong to the pool"):
                DelayedQueue.open(pool, "mail", **option)
