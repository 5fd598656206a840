"""The other side falls silent, as a frozen server does: no thread of the process is held up, ``flush`` and ``close``
return by their deadline, and everything is kept in the delayed queue."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import datetime, timezone
from urllib.parse import unquote

import psycopg
import pytest

from drainq.delayed import CronMessage, DelayedQueue, RetryConfig
from drainq.export import KafkaExporter, MetricPoint, OtlpMetricsExporter, RemoteClient, RemoteServer
from drainq.sources import ItemState, ItemTracker
from drainq.sql import Database
from drainq.workers import BatchWriter, MetricsPersister
from tests.delivery.helpers import agree
from tests.export.gatherer import Gatherer
from tests.export.kafka_mock import mock_cluster
from tests.export.otlp_server import OtlpServer
from tests.export.tcp import Proxy
from tests.patience import PATIENCE, Call, eventually

pytestmark = pytest.mark.system

LATE = 0.1  # seconds that a ticking thread may be late
CLOSE = 4.0  # seconds that ``close`` gets
SLACK = 1.0  # seconds for a busy machine

TICK = """
import time
last = time.monotonic()
while True:
    time.sleep(0.01)
    now = time.monotonic()
    if now - last > 0.05:
        print(last, now, flush=True)
    last = now
"""


class Ticks:
    """A thread of this process that ticks, and a process that does nothing else, to tell a late thread from a busy
    machine."""

    def __enter__(self):
        self._gaps, self._over = [], threading.Event()
        self._control = subprocess.Popen([sys.executable, "-I", "-c", TICK], stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()
        return self

    def _tick(self):
        last = time.monotonic()
        while not self._over.is_set():
            time.sleep(0.01)
            now = time.monotonic()
            if now - last > LATE:
                self._gaps.append((last, now))
            last = now

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._control.kill()
        machine = [tuple(map(float, line.split())) for line in self._control.communicate()[0].splitlines()]
        self.late = max(
            (end - begin - sum(max(0.0, min(end, e) - max(begin, b)) for b, e in machine) for begin, end in self._gaps),
            default=0.0,
        )


class Postgres:
    """A table on a server behind a proxy. What a moment returns tells when it has come; by default the proxy does."""

    def __init__(self, server, worker):
        self.server, self._worker = server, worker
        self.address = unquote(server.url.partition("?host=")[2]) + "/.s.PGSQL.5432"

    def worker(self, delayed):
        with Database(self.server.url) as database:
            database.execute("DROP TABLE IF EXISTS t")
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
        url = f"postgresql://drainq@{self.proxy.address}/postgres"
        return self._worker(url=url, table="t", columns=["id", "v"], key=["id"], delayed=delayed)

    def item(self, n):
        return n, 0

    def at_connect(self, stack):
        self.proxy.silent_to_new = True
        self.proxy.drop()

    def in_a_statement(self, stack):
        self.proxy.silent_at = b"INSERT"

    def at_commit(self, stack):
        self.proxy.silent_at = b"COMMIT"

    def at_cancel(self, stack):
        """Let the statement wait for a lock, on a server that takes no request to cancel it."""
        other = stack.enter_context(Database(self.server.url))
        stack.enter_context(other.transaction())
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        self.proxy.silent_to_new = True
        return lambda: other.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

    moments = (at_connect, in_a_statement, at_commit, at_cancel)


class Sqlite:
    """A file that another connection keeps locked."""

    address = "/nowhere"

    def __init__(self, folder):
        self.url = f"sqlite:///{folder}/silent.db"

    def worker(self, delayed):
        with Database(self.url) as database:
            database.execute("DROP TABLE IF EXISTS t")
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
        self._worker = BatchWriter(url=self.url, table="t", columns=["id", "v"], key=["id"], delayed=delayed)
        return self._worker

    def item(self, n):
        return n, 0

    def in_a_statement(self, stack):
        stack.enter_context(stack.enter_context(Database(self.url)).transaction())
        return lambda: self._worker.stats().retried

    def at_commit(self, stack):
        reader = stack.enter_context(Database(self.url))
        reader.execute("BEGIN")
        assert reader.execute("SELECT * FROM t")  # it holds a lock until its transaction ends
        return lambda: self._worker.stats().retried

    def at_connect(self, stack):
        stack.enter_context(Database(self.url)).execute("BEGIN EXCLUSIVE")
        self._worker.sink.close()  # so that the next batch needs a connection
        return lambda: "drainq-connect" in [thread.name for thread in threading.enumerate()]

    moments = (at_connect, in_a_statement, at_commit)


class Otlp:
    def __init__(self, server):
        self.address = server.endpoint.replace("localhost", "127.0.0.1")

    def worker(self, delayed):
        return OtlpMetricsExporter(endpoint=self.proxy.address, insecure=True, delayed=delayed)

    def item(self, n):
        return MetricPoint("m", n)

    def at_connect(self, stack):
        self.proxy.silent_to_new = True
        self.proxy.drop()

    def in_a_call(self, stack):
        self.proxy.silent = True

    moments = (at_connect, in_a_call)


class Remote(Otlp):
    def __init__(self, server):
        self.address = server.address

    def worker(self, delayed):
        return RemoteClient(address=[self.proxy.address], delayed=delayed)

    def item(self, n):
        return n


class Kafka(Otlp):
    """A broker in this process. It tells clients its own address, so that the proxy stands before the first connection
    alone."""

    address = "/nowhere"

    def __init__(self, cluster):
        self._cluster = cluster

    def worker(self, delayed):
        servers = {"bootstrap.servers": self._cluster.address, "linger.ms": 1}
        self._worker = KafkaExporter(config=servers, topic="t", delayed=delayed)
        return self._worker

    def item(self, n):
        return str(n)

    def in_a_call(self, stack):
        self._cluster.round_trip(600_000)
        stack.callback(self._cluster.round_trip, 0)
        return lambda: self._worker.sink._sending

    moments = (in_a_call,)


def faults(counterpart, moment):
    """Return what is wrong with a worker whose other side falls silent at a moment; empty if nothing is."""
    wrong = []
    with Proxy(counterpart.address) as proxy, DelayedQueue.open("memory:", "kept") as delayed:
        counterpart.proxy = proxy
        worker = counterpart.worker(delayed)
        worker.produce(counterpart.item(0))
        assert worker.flush(PATIENCE)
        with Ticks() as ticks, ExitStack() as stack:
            is_silent = moment(counterpart, stack) or proxy.fell_silent.is_set
            worker.produce_many(map(counterpart.item, range(1, 11)))
            flushing = Call(worker.flush)
            eventually(is_silent)
            worker.produce_many(map(counterpart.item, range(11, 101)))
            for name, call, seconds in (("flush", worker.flush, 0.1), ("close", worker.close, CLOSE)):
                begun = time.monotonic()
                call(seconds)
                if (took := time.monotonic() - begun) > seconds + SLACK:
                    wrong.append(f"{name}({seconds}) took {took:.1f} s")
        if flushing.exception() is not None:
            wrong.append(f"flush() raised {flushing.exception()!r}")
    stats = agree(worker)
    if ticks.late > LATE:
        wrong.append(f"a thread was {ticks.late:.2f} s late")
    if (stats.sent, stats.dead_lettered) != (1, 100):
        wrong.append(f"sent={stats.sent} dead_lettered={stats.dead_lettered} lost={stats.lost} pending={stats.pending}")
    return wrong


def repeated(check, *arguments):
    """Return what is wrong each time. A thread that the code holds up is always late; on a busy machine sometimes."""
    for _ in range(3):
        wrong = check(*arguments)
        if not any(" late" in each for each in wrong):
            break
    return wrong


def assert_right(*counterparts):
    found = {
        (type(counterpart).__name__, moment.__name__): wrong
        for counterpart in counterparts
        for moment in counterpart.moments
        if (wrong := repeated(faults, counterpart, moment))
    }
    assert found == {}


@pytest.mark.parametrize("libpq", [15, 17])
def test_a_silent_postgresql_holds_up_nothing(libpq, own_postgres, monkeypatch, gives_up_early):
    if libpq < 17:
        monkeypatch.setattr(psycopg.capabilities, "has_cancel_safe", lambda: False)
    assert_right(Postgres(own_postgres, BatchWriter), Postgres(own_postgres, persister))


def persister(**more):
    return MetricsPersister(**more, merge={"v": "sum"}, flush_interval=None)


def test_a_locked_file_holds_up_nothing(tmp_path, gives_up_early):
    assert_right(Sqlite(tmp_path))


def test_a_silent_service_holds_up_nothing(gives_up_early):
    with (
        OtlpServer() as otlp,
        RemoteServer(address="127.0.0.1:0", handler=Gatherer()) as remote,
        mock_cluster() as kafka,
    ):
        assert_right(Otlp(otlp), Remote(remote), Kafka(kafka))


def test_a_call_of_a_silent_server_holds_up_nothing_and_ends_in_time(own_postgres):
    calls = {
        "offer": lambda queue, tracker: queue.offer_or_update("k", 1, 0.0),
        "try_poll": lambda queue, tracker: queue.try_poll(),
        "cron": lambda queue, tracker: queue.cron.install_tick(
            "hash", "p", [CronMessage(1, datetime.now(timezone.utc))]
        ),
        "tracker": lambda queue, tracker: tracker.mark("source", ["item"], ItemState.SENT),
    }
    found = {
        (name, is_new): wrong
        for name, call in calls.items()
        for is_new in (False, True)
        if (wrong := repeated(faults_of_a_call, own_postgres, name, call, is_new))
    }
    assert found == {}


def faults_of_a_call(server, name, call, is_new):
    with Proxy(Postgres(server, None).address) as proxy:
        url = f"postgresql://drainq@{proxy.address}/postgres?connect_timeout=2"
        queue = DelayedQueue.open(url, retry=RetryConfig(max_retries=0, try_timeout=0.3))
        tracker = ItemTracker.open(url)
        call(queue, tracker)
        with Ticks() as ticks:
            proxy.silent, proxy.silent_to_new = not is_new, is_new
            if is_new:
                proxy.drop()
            called = Call(lambda: call(queue, tracker))
            assert proxy.fell_silent.wait(PATIENCE)
            if name == "tracker" and not is_new:  # it waits until the connection ends
                proxy.drop()
            wrong = [] if called.exception() else ["it did not fail"]
        queue.close()
        tracker.close()
    return [*wrong, f"a thread was {ticks.late:.2f} s late"] if ticks.late > LATE else wrong
