"""An operator's ordinary day: restarts, kills, demotions, a frozen backend, a full disk.

Each test asks for the least that a service needs: a call that ends in time, and a consumer that is there afterwards.
"""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from drainq import Backoff
from drainq.delayed import NO_RETRIES, DelayedQueue, QueueBroken, QueueUnavailable, RetryConfig, TimeConfig
from drainq.errors import DrainqError
from tests.patience import freeze
from tests.postgres import PostgresServer, running_server
from tests.soak.ledger import wait_until

psycopg = pytest.importorskip("psycopg")

QUICK = RetryConfig(Backoff(0.02, 0.1, jitter=0))
TIME = TimeConfig(acquire_timeout=30, poll_period=0.05)
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Yield one server for the tests of this file."""
    with running_server() as server:
        yield server


@pytest.fixture
def own_postgres(server: PostgresServer) -> Iterator[PostgresServer]:
    """Yield the same server, up and empty and with its own settings for each test."""
    yield server
    if not (server._data / "postmaster.pid").exists():
        server.start()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER DATABASE postgres RESET ALL")
        admin.execute("SET default_transaction_read_only = off")
        admin.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP ROLE IF EXISTS app, hasty")


class Consuming:
    """A consumer on a thread of its own."""

    def __init__(self, queue: DelayedQueue) -> None:
        self.queue = queue
        self.handled: list[object] = []
        self.stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.running = self._pool.submit(queue.consume, self._handle, stop=self.stop)

    def _handle(self, envelope) -> None:
        self.handled.append(envelope.payload)

    def handles(self, payload: object) -> None:
        """Offer a message, and wait until the consumer has handled it."""
        wait_until(lambda: self._offered(payload), f"an offer of {payload!r}")
        wait_until(lambda: payload in self.handled or self.running.done(), f"{payload!r} to be handled")
        assert not self.running.done(), self.running.exception()
        assert payload in self.handled

    def _offered(self, payload: object) -> bool:
        try:
            self.queue.offer_if_not_exists(f"key of {payload}", payload, 0)
        except QueueUnavailable:
            return False
        return True

    def __enter__(self) -> Consuming:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        try:
            if not self.running.done():
                assert self.running.result(60) == len(self.handled)
        finally:
            self._pool.shutdown()


@contextmanager
def opened(url: str, **options) -> Iterator[DelayedQueue]:
    with DelayedQueue.open(url, "mail", **{"retry": QUICK, "time": TIME, **options}) as queue:
        yield queue


def warm(queue: DelayedQueue, connections: int = 10) -> None:
    """Have so many connections in the pool."""
    together = threading.Barrier(connections, timeout=60)

    def use() -> None:
        with queue._session.storage._pool.cursor():
            together.wait()

    with ThreadPoolExecutor(connections) as pool:
        for used in [pool.submit(use) for _ in range(connections)]:
            used.result()
    assert len(queue._session.storage._pool._idle) == connections


def tries_of(queue: DelayedQueue, call) -> int:
    """Return how many statements the storage tried for one call of the queue."""
    pool, tries = queue._session.storage._pool, []
    run = pool.run

    def counted(*arguments, **more):
        tries.append(1)
        return run(*arguments, **more)

    pool.run = counted
    try:
        call()
    finally:
        del pool.run
    return len(tries)


# --- M1: dead connections


@pytest.mark.system
@pytest.mark.parametrize("restart", [False, True])
def test_after_a_kill_of_all_connections_or_a_restart_at_most_one_try_of_a_call_fails(own_postgres, restart):
    with opened(own_postgres.url) as queue:
        warm(queue)
        if restart:
            own_postgres.stop("immediate")
            own_postgres.start()
        else:
            with psycopg.connect(own_postgres.url, autocommit=True) as admin:
                assert len(admin.execute(OTHERS).fetchall()) == 10
        assert tries_of(queue, lambda: queue.offer_or_update("a", 1, 0)) <= 2
        assert queue.contains_message("a")


def test_one_dead_connection_that_says_nothing_costs_one_try_for_all_of_its_round(own_postgres):
    """The sockets are cut at our end, so the goodbye of the server is not there to be seen."""
    import socket

    with opened(own_postgres.url) as queue:
        warm(queue)
        pool = queue._session.storage._pool
        for connection in pool._idle:
            connection.was_spoken_to = lambda: False
            with socket.socket(fileno=os.dup(connection.fileno())) as cut:
                cut.shutdown(socket.SHUT_RDWR)
        assert tries_of(queue, lambda: queue.contains_message("a")) == 2
        assert len(pool._idle) == 1


def test_without_retries_an_idle_connection_that_the_server_ended_costs_no_try(own_postgres):
    with opened(own_postgres.url, retry=NO_RETRIES) as queue:
        warm(queue, 3)
        with psycopg.connect(own_postgres.url, autocommit=True) as admin:
            admin.execute(OTHERS)
            count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            wait_until(lambda: admin.execute(count).fetchone() == (1,), "the others' backends to end")
        assert queue.offer_or_update("a", 1, 0).value == "created"


# --- M2: a server that says nothing


@pytest.mark.system
@pytest.mark.parametrize("call", ["offer", "poll", "ack", "tick", "stats"])
def test_a_frozen_backend_costs_a_call_one_try(own_postgres, call):
    retry = RetryConfig(Backoff(0.01, jitter=0), try_timeout=0.5, total_timeout=60, max_retries=None)
    with opened(own_postgres.url, retry=retry) as queue, opened(own_postgres.url) as other:
        queue.offer_or_update("a", 1, 0)
        envelope = queue.try_poll() if call == "ack" else None
        queue.cron.install_tick("hash", "prefix", [])
        calls = {
            "offer": lambda: queue.offer_or_update("b", 1, 0).value == "created",
            "poll": lambda: queue.try_poll().payload == 1,
            "ack": lambda: envelope.ack(),
            "tick": lambda: queue.cron.uninstall_tick("hash", "prefix") == 0,
            "stats": lambda: queue.stats().ready == 1,
        }
        with ThreadPoolExecutor(1) as pool:
            with frozen_backends(own_postgres, but=other):
                assert pool.submit(calls[call]).result(90)


@pytest.mark.system
def test_a_server_that_is_frozen_whole_is_given_up_on_after_the_total_timeout(own_postgres):
    retry = RetryConfig(Backoff(0.01, jitter=0), try_timeout=0.3, total_timeout=1.2)
    with opened(own_postgres.url) as queue:
        queue.offer_or_update("a", 1, 0)
        queue._session.retry = retry
        with ThreadPoolExecutor(1) as pool:
            with frozen_backends(own_postgres, postmaster=True), pytest.raises(QueueUnavailable) as unavailable:
                pool.submit(queue.try_poll).result(30)
        assert isinstance(unavailable.value.__cause__, psycopg.OperationalError)
        queue._session.retry = RetryConfig()  # a busy machine may need longer than the times above
        assert queue.try_poll().payload == 1


@contextmanager
def frozen_backends(server, *, but: DelayedQueue | None = None, postmaster: bool = False) -> Iterator[None]:
    """Stop the processes that serve connections (and take new ones) for the length of the block."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        rows = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        pids = [pid for (pid,) in rows]
    assert pids
    if but is not None:
        pids = [pid for pid in pids if pid not in [c.info.backend_pid for c in but._session.storage._pool._idle]]
    if postmaster:
        pids.append(int((server._data / "postmaster.pid").read_text().split()[0]))
    for pid in pids:
        freeze(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


# --- M3: a consumer outlives what passes


@pytest.mark.system
def test_consume_outlives_a_kill_of_all_connections_and_a_crash(own_postgres):
    with opened(own_postgres.url) as queue, Consuming(queue) as consuming:
        consuming.handles("before")
        with psycopg.connect(own_postgres.url, autocommit=True) as admin:
            admin.execute(OTHERS)
        consuming.handles("after the kill")
        own_postgres.stop("immediate")
        own_postgres.start()
        consuming.handles("after the crash")
        assert consuming.handled == ["before", "after the kill", "after the crash"]


@pytest.mark.system
def test_consume_outlives_a_demotion_and_leaves_the_read_only_server(own_postgres):
    """What a session was told at its start it keeps: so only a new connection notices that the server takes writes."""
    with opened(own_postgres.url) as queue, psycopg.connect(own_postgres.url, autocommit=True) as admin:
        with Consuming(queue) as consuming:
            consuming.handles("before")
            admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
            admin.execute(OTHERS)
            with pytest.raises(QueueUnavailable) as refused:
                queue.offer_or_update("x", "x", 0)
            assert refused.value.__cause__.sqlstate == "25006"
            admin.execute("SET default_transaction_read_only = off")
            admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
            consuming.handles("after")


@pytest.mark.system
def test_consume_and_offers_outlive_an_idle_session_timeout(own_postgres):
    # For one role: a setting for all would end the connections of the tests, too, and lingers until the server has read it.
    with psycopg.connect(own_postgres.url, autocommit=True) as admin:
        if admin.info.server_version < 140000:
            pytest.skip("idle_session_timeout came with PostgreSQL 14")
        admin.execute("CREATE ROLE hasty SUPERUSER LOGIN")
        with opened(own_postgres.url.replace("drainq@", "hasty@")) as queue:
            admin.execute("ALTER ROLE hasty SET idle_session_timeout = '20ms'")
            admin.execute(OTHERS)
            with Consuming(queue) as consuming:
                for number in range(20):
                    consuming.handles(number)


@pytest.mark.parametrize(
    "code", ["53100", "53200", "53300", "25006", "40001", "40003", "55P03", "57014", "57P04", "57P05", "58030", "XX000"]
)
def test_consume_outlives_each_error_that_passes(postgres, code, caplog):
    caplog.set_level(logging.WARNING, "drainq")
    queue = postgres.open(clock=None, retry=QUICK, time=TIME)
    queue.offer_if_not_exists("key of 0", 0, 0)
    with psycopg.connect(postgres.url, autocommit=True) as admin, raising(admin, postgres.table, code) as refused:
        with Consuming(queue) as consuming:
            wait_until(lambda: len(refused()) >= 3, "three refusals")
            assert consuming.handled == []
            admin.execute(f'ALTER TABLE "{postgres.table}" DISABLE TRIGGER ALL')
            consuming.handles(1)
            assert sorted(consuming.handled) == [0, 1]
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1, "more than one line within a minute"


@contextmanager
def raising(admin, table: str, code: str):
    """Have each update of the table raise; the block gets a function that tells of the updates so far."""
    name = f"{table}_refuse"
    admin.execute(f"CREATE SEQUENCE {name}")
    admin.execute(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                  f"PERFORM nextval('{name}'); RAISE EXCEPTION 'boo' USING ERRCODE = '{code}'; END $$")  # fmt: skip
    admin.execute(f'CREATE TRIGGER refuse BEFORE UPDATE ON "{table}" FOR EACH ROW EXECUTE FUNCTION {name}()')
    try:
        yield lambda: range(admin.execute(f"SELECT last_value FROM {name}").fetchone()[0])
    finally:
        admin.execute(f'DROP TRIGGER refuse ON "{table}"')
        admin.execute(f"DROP FUNCTION {name}")
        admin.execute(f"DROP SEQUENCE {name}")


@pytest.mark.parametrize("fault", ["a dropped table", "a lost right"])
def test_consume_raises_what_cannot_pass_as_an_error_of_ours(own_postgres, fault):
    with opened(own_postgres.url) as queue, psycopg.connect(own_postgres.url, autocommit=True) as admin:
        admin.execute(
            "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA public TO app; GRANT ALL ON ALL TABLES IN SCHEMA public TO app"
        )
        app = own_postgres.url.replace("drainq@", "app@")
        # The queue is closed before its thread is waited for: a test that fails here ends.
        with ThreadPoolExecutor(1) as pool, opened(app, migrate=False) as ours:
            running = pool.submit(ours.consume, lambda envelope: None)
            admin.execute(
                "DROP TABLE delayed_queue" if fault == "a dropped table" else "REVOKE ALL ON delayed_queue FROM app"
            )
            error = running.exception(60)
            assert isinstance(error, QueueBroken) and isinstance(error, DrainqError)
            assert error.__cause__.sqlstate == ("42P01" if fault == "a dropped table" else "42501")
        assert not queue.closed


def test_consume_outlives_a_full_sqlite_disk(sqlite, caplog):
    queue = sqlite.open(clock=None, retry=QUICK, time=TIME)
    storage, acquire, refused = queue._session.storage, queue._session.storage.acquire, []

    def full(*arguments, **more):
        """Make SQLite itself fail with "disk is full", by a limit of its pages."""
        if len(refused) < 3:
            refused.append(1)
            with storage._cursor() as cursor:
                pages = cursor.execute("PRAGMA page_count").fetchone()[0]
                cursor.execute(f"PRAGMA max_page_count = {pages}")
                try:
                    cursor.execute("CREATE TABLE filling (a)")
                finally:
                    cursor.execute("PRAGMA max_page_count = 1000000")
        return acquire(*arguments, **more)

    storage.acquire = full
    with Consuming(queue) as consuming:
        wait_until(lambda: len(refused) == 3, "three refusals")
        consuming.handles(1)
    assert "full" in caplog.text


def test_a_failing_offer_says_which_of_the_two_it_is(sqlite):
    queue = sqlite.open(retry=RetryConfig(Backoff(0), max_retries=1, try_timeout=0.01))
    other = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(QueueUnavailable) as unavailable:
            queue.offer_or_update("a", 1, 0)
        assert isinstance(unavailable.value.__cause__, sqlite3.OperationalError)
        assert len(unavailable.value.errors) == 2
        other.execute(f'DROP TABLE "{sqlite.table}"')
        other.execute("COMMIT")
        with pytest.raises(QueueBroken, match="no such table") as broken:
            queue.offer_or_update("a", 1, 0)
        assert isinstance(broken.value.__cause__, sqlite3.OperationalError)
    finally:
        other.close()


def test_a_thread_that_waits_for_another_threads_call_gives_up_in_time(sqlite):
    """One connection serves all threads of a process; a foreign lock must not add up their waits."""
    queue = sqlite.open(retry=RetryConfig(max_retries=0, try_timeout=0.2, total_timeout=0.3))
    other = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    def offer(n):
        started = time.monotonic()
        with pytest.raises(QueueUnavailable):
            queue.offer_or_update(f"{n}", n, 0)
        return time.monotonic() - started

    try:
        with ThreadPoolExecutor(150) as pool:
            waits = list(pool.map(offer, range(150)))
    finally:
        other.close()
    assert max(waits) < 150 * 0.2  # one after the other they would wait for longer than that


# --- opening


@pytest.mark.system
def test_open_waits_for_a_server_that_is_not_up_yet(own_postgres):
    own_postgres.stop("fast")
    retry = RetryConfig(Backoff(0.02, 0.1, jitter=0), max_retries=None, total_timeout=60)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(DelayedQueue.open, own_postgres.url, "mail", retry=retry)
        own_postgres.start()
        with opening.result(60) as queue:
            assert queue.offer_or_update("a", 1, 0).value == "created"


@pytest.mark.system
def test_open_gives_up_on_a_server_that_stays_away_and_at_once_on_a_database_that_does_not_exist(own_postgres):
    with pytest.raises(QueueBroken, match="does not exist") as broken:
        DelayedQueue.open(
            own_postgres.url.replace("/postgres?", "/nowhere?"), retry=RetryConfig(Backoff(60, 60, jitter=0))
        )
    assert isinstance(broken.value.__cause__, psycopg.OperationalError)
    own_postgres.stop("fast")
    with pytest.raises(QueueUnavailable) as unavailable:
        DelayedQueue.open(own_postgres.url, retry=RetryConfig(Backoff(0), max_retries=2))
    assert len(unavailable.value.errors) == 3


def test_open_waits_for_a_locked_sqlite_file(tmp_path):
    url = f"sqlite:///{tmp_path}/q.db"
    holder = sqlite3.connect(f"{tmp_path}/q.db", isolation_level=None, check_same_thread=False)
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    retry = RetryConfig(Backoff(0.01, 0.05, jitter=0), max_retries=None, try_timeout=0.05, total_timeout=60)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(DelayedQueue.open, url, "mail", retry=retry)
        while not opening.running():
            pass
        holder.execute("COMMIT")
        holder.close()
        with opening.result(60) as queue:
            assert queue.offer_or_update("a", 1, 0).value == "created"
