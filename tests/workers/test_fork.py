"""A forked worker starts empty and works. The parent's worker passes its items on once, in the parent."""

from __future__ import annotations

import pytest

from drainq.sql import Database
from tests.forked import needs_fork, output_of

pytestmark = needs_fork

WORKERS = "from drainq.workers import BatchWriter, MetricsAggregator, MetricsPersister, TopN\n"


def run(program: str, *arguments: str) -> None:
    output_of(WORKERS + program, *arguments)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_forked_persister_writes_its_own_rows_through_a_connection_of_its_own(kind, request, tmp_path):
    url = f"sqlite:///{tmp_path}/fork.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with Database(url) as database:
        database.execute("DROP TABLE IF EXISTS fork_persister")
        database.execute("CREATE TABLE fork_persister (k TEXT PRIMARY KEY, n BIGINT)")
    columns = 'table="fork_persister", columns=["k", "n"], key=["k"], merge={"n": "sum"}'
    run(
        f"worker = MetricsPersister(url=sys.argv[1], {columns}, flush_interval=None)"
        """
assert worker.produce(("parent", 1)) and worker.flush()
worker.consume([("parent", 10)])

def child():
    assert worker.produce(("child", 100)) and worker.close()

fork(child)
assert worker.close() and worker.stats().retried == 0
""",
        url,
    )
    with Database(url) as database:
        assert sorted(database.execute("SELECT k, n FROM fork_persister")) == [("child", 100), ("parent", 11)]


def test_a_forked_writer_writes_through_a_connection_of_its_own(table, rows):
    url = table("k TEXT, n INTEGER")
    run(
        """
worker = BatchWriter(url=sys.argv[1], table="t", columns=["k", "n"])
assert worker.produce(("parent", 1)) and worker.flush()
worker.consume([("parent", 2)])      # through the parent's connection, on this thread

def child():
    assert worker.stats().sent == 0
    worker.consume([("child", 3)])
    assert worker.close()

fork(child)
worker.consume([("parent", 4)])
assert worker.close()
""",
        url,
    )
    assert rows(url) == [("child", 3), ("parent", 1), ("parent", 2), ("parent", 4)]


def test_forked_declared_metrics_write_what_they_took_themselves(tmp_path):
    run(
        """
from drainq.workers import DeclaredMetrics, Metric, Value
words = Metric("words", tuple, keys={"word": lambda item: item[0]}, time=lambda item: 0, values={"n": Value.count()})
worker = DeclaredMetrics(url=sys.argv[1], metrics=[words], flush_interval=None)
worker.consume([("parent",)])

def child():
    assert worker.stats().pending == 0 and worker.flush()
    worker.consume([("child",)])
    assert worker.close() and worker.stats().sent == 1

fork(child)
assert worker.close() and worker.stats().sent == 1
""",
        f"sqlite:///{tmp_path}/words.db",
    )
    with Database(f"sqlite:///{tmp_path}/words.db") as database:
        assert sorted(database.execute("SELECT word, n FROM words_minute")) == [("child", 1), ("parent", 1)]


def test_a_forked_writer_sends_the_letters_that_are_kept_and_counts_them_apart(table, rows, tmp_path):
    url = table("k TEXT, n INTEGER NOT NULL")
    run(
        """
import logging
logging.disable()
from drainq.delayed import DelayedQueue
from drainq.sql import Database
from drainq.testing import ManualClock
clock = ManualClock()
worker = BatchWriter(url=sys.argv[1], table="t", columns=["k", "n"],
                     delayed=DelayedQueue.open(sys.argv[2], "letters", clock=clock))
worker.consume([("parent", None), ("parent", 1)])
assert worker.stats().dead_lettered == 1

def child():
    with Database(sys.argv[1]) as database:
        database.execute("DROP TABLE t")
        database.execute("CREATE TABLE t (k TEXT, n INTEGER)")
    clock.advance(3600)
    assert worker.flush()
    assert (worker.stats().resent, worker.stats().dead_lettered, worker.stats().sent) == (1, 0, 0)
    assert worker.close()

fork(child)
assert worker.stats().dead_lettered == 1 and worker.close()
""",
        url,
        f"sqlite:///{tmp_path}/letters.db",
    )
    assert rows(url) == [("parent", None)]
