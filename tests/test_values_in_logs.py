"""A secret goes through every refusal of a worker, an exporter and a queue. No text of drainq shows it."""

from __future__ import annotations

import enum
import logging
import pickle
import traceback
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from drainq import BatchQueue, BatchQueueConfig, BufferStrategy, MultiQueue, PartitionPolicy, SetQueue, ThreadPolicy
from drainq.delayed import DelayedQueue
from drainq.monitoring import MetricsServer
from drainq.spark.task_attempt import TaskInfo
from drainq.sql import Database
from drainq.workers import BatchWriter, DeclaredMetrics, Metric, MetricsAggregator, MetricsPersister, TopN, Value
from tests.time_limit import SECONDS, each_test_within

time_limit = each_test_within(4 * SECONDS)  # it starts servers

SECRET = "s3cr3t"
TABLE = {"table": "values_in_logs", "columns": ["id", "who"]}
INFO = TaskInfo(stage=0, partition=3, attempt=0, task_attempt_id=0, cpus=1)
LONG = 3000  # rows of a batch that goes into PostgreSQL by COPY


@dataclass
class Person:
    name: str
    age: Any
    at: Any = 0.0

    def __reduce__(self) -> Any:
        raise TypeError(f"{self.name} stays here")


class Colour(enum.Enum):
    RED = "red"


class Says:
    """Collects all texts of drainq in one case: log lines as a formatter writes them, errors and reprs."""

    def __init__(self, folder: Path, postgres: str, log_values: bool) -> None:
        self.folder, self.postgres, self.more = folder, postgres, {"log_values": True} if log_values else {}
        self.texts: list[str] = []

    def tell(self, *things: object) -> None:
        for thing in things:
            self.texts += [repr(thing), str(thing)]
            if isinstance(thing, BaseException):
                self.texts += traceback.format_exception(type(thing), thing, None)

    def url(self, database: str) -> str:
        """Make the test's table, with integer ids and names shorter than 8 characters. Return the database's URL."""
        url = f"sqlite:///{self.folder}/values.db" if database == "sqlite" else self.postgres
        with Database(url) as opened:
            opened.execute("DROP TABLE IF EXISTS values_in_logs")
            opened.execute("CREATE TABLE values_in_logs (id INTEGER PRIMARY KEY, who TEXT CHECK (length(who) < 8))")
            opened.execute("INSERT INTO values_in_logs VALUES (1, 'a')")
        return url

    def feed(self, worker: Any, *items: Any) -> None:
        """Hand items to a worker through its queue, and close it."""
        for item in items:
            try:
                worker.produce(item)
                worker.flush(30)
            except Exception as error:
                self.tell(error)
        self.tell(worker, worker.stats())
        worker.close(30)


ROWS: list[Any] = [(1, SECRET), (2, SECRET + "long"), (SECRET, "a"), (3, Person(SECRET, 1)), (4, f"{SECRET}\0"),
                   (5, "\udcff" + SECRET), (6, SECRET, SECRET), SECRET, {"id": SECRET}]  # fmt: skip


def writer(database: str, **more: Any) -> Callable[[Says], None]:
    def case(says: Says) -> None:
        says.feed(BatchWriter(url=says.url(database), **TABLE, **more, **says.more), *ROWS)
        together = BatchWriter(url=says.url(database), **TABLE, **says.more)
        together.produce_many([(n, "a") for n in range(2, LONG)] + ROWS)
        says.feed(together)

    return case


def persister(database: str) -> Callable[[Says], None]:
    def case(says: Says) -> None:
        rules = {"key": ["id"], "merge": {"who": "max"}}
        says.feed(MetricsPersister(url=says.url(database), **TABLE, **rules, **says.more), *ROWS)

    return case


def dead_letters(says: Says) -> None:
    """Write the rows with a delayed queue that is open, or closed before. One message in it cannot be read."""
    for is_open in (True, False):
        with DelayedQueue.open("memory:", f"letters{is_open}") as letters:
            worker = BatchWriter(url=says.url("sqlite"), **TABLE, delayed=letters, **says.more)
            odd = {"sink": "batch-writer/values_in_logs", "items": [{"$int": SECRET}]}
            letters.offer_if_not_exists("odd", odd, 0)
            if is_open:
                says.feed(worker, *ROWS, (7, object()))
        if not is_open:
            says.feed(worker, *ROWS)


def merging(says: Says) -> None:
    def fail(*items: Any) -> None:
        raise KeyError(items)

    for make in (
        lambda: MetricsAggregator(key=int, merge=max, sink=print, **says.more),
        lambda: MetricsAggregator(key=len, merge=fail, sink=print, **says.more),
        lambda: MetricsAggregator(key=len, merge=max, sink=fail, **says.more),
        lambda: TopN(1, score=float, sink=print, **says.more),
        lambda: TopN(1, score=len, sink=fail, **says.more),
    ):
        says.feed(make(), SECRET, SECRET)


def declared(says: Says) -> None:
    values = {"age": Value.sum("age")}
    metric = Metric("people", Person, keys={"name": "name"}, time="at", values=values, every=("minute",))
    worker = DeclaredMetrics(url=f"sqlite:///{says.folder}/declared.db", metrics=[metric], **says.more)
    nobody = Person(SECRET, 1)
    del nobody.age
    says.feed(worker, Person(SECRET, SECRET), Person(SECRET, float("nan")), Person("a", 1, SECRET), nobody, SECRET)


def kafka(says: Says) -> None:
    pytest.importorskip("confluent_kafka")
    from drainq.export import KafkaExporter
    from tests.export.kafka_mock import INVALID_RECORD, mock_cluster

    def value(item: Any) -> Any:
        if isinstance(item, str):
            raise ValueError(item)
        return item

    with mock_cluster() as cluster, DelayedQueue.open("memory:", "kafka") as letters:
        for more in ({}, {"delayed": letters}):
            config = {"bootstrap.servers": cluster.address}
            exporter = KafkaExporter(config=config, topic="t", value=value, retry_for=5, **more, **says.more)
            cluster.fail(INVALID_RECORD)
            says.feed(exporter, SECRET.encode(), SECRET, [SECRET])


def otlp(says: Says) -> None:
    grpc = pytest.importorskip("grpc")
    from drainq.export import MetricPoint, OtlpMetricsExporter
    from tests.export.otlp_server import OtlpServer, partial

    def refuse(request: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no page {SECRET}")

    with OtlpServer() as server:
        exporter = OtlpMetricsExporter(endpoint=server.endpoint, insecure=True, **says.more)
        server.script.extend([refuse, partial(1, f"no {SECRET}"), partial(0, f"odd {SECRET}")])
        page = MetricPoint("hits", 1, {"page": SECRET})
        says.feed(exporter, page, page, page, MetricPoint("hits", 1, {"page": Person(SECRET, 1)}), SECRET)
    for wrong in ({"value": SECRET}, {"value": SECRET, "kind": "histogram"}):
        try:
            MetricPoint("hits", **wrong)
        except TypeError as error:
            says.tell(error)


def remote(says: Says) -> None:
    pytest.importorskip("grpc")
    from drainq.export import RemoteClient, RemoteServer

    def fail(items: list[Any]) -> None:
        raise ValueError(items)

    for more in ({"handler": fail}, {"handler": print, "type": Colour}):
        with RemoteServer(address="127.0.0.1:0", **more, **says.more) as server:
            says.feed(RemoteClient(address=server.address, **says.more), SECRET, Person(SECRET, 1), {SECRET: object()})
            says.tell(server)


def spark(says: Says) -> None:
    pytest.importorskip("pyarrow")
    from drainq.datasource.payload_form import PayloadForm
    from drainq.spark.sink_settings import OnError
    from drainq.spark.sink_task import SinkTask
    from tests.spark.test_sink_task import SETTINGS, Writer, record_batches

    def fail(batch: Any) -> None:
        raise ValueError(SECRET)

    settings = replace(SETTINGS, make_writer=lambda info: Writer(fail), on_error=OnError.SKIP)
    says.tell(SinkTask(settings, INFO).run(record_batches(3)))
    text, utf8, json = PayloadForm.TEXT, PayloadForm.UTF8, PayloadForm.JSON
    for call in (
        lambda: json.encode(SECRET),
        lambda: utf8.encode(None),
        lambda: text.decode(f'["{SECRET}"]'.encode()),
        lambda: text.decode(f'"{SECRET}'.encode()),
        lambda: utf8.decode(SECRET.encode() + b"\xff"),
    ):
        try:
            call()
        except ValueError as error:
            says.tell(error)


def queues(says: Says) -> None:
    """Fill queues without a handler or without room, and read their metrics."""
    config = BatchQueueConfig(
        threads=ThreadPolicy.fixed(1), partitions=PartitionPolicy.fixed(1), strategy=BufferStrategy.IF_POSSIBLE,
        buffer_size=2,
    )  # fmt: skip
    with BatchQueue("values", config) as queue, MetricsServer(port=0) as server:
        queue.produce_many([SECRET] * 100)
        queue.flush(30)
        queue.add_handler(str, lambda batch: None)
        some, keys = MultiQueue(), SetQueue()
        part = some.add_sub_queue("a", capacity=1)
        part.put(SECRET)
        keys.put(SECRET)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as page:
            says.tell(page.read().decode())
        for thing in (queue, some, part, keys):
            says.tell(thing, thing.stats())
            try:
                pickle.dumps(thing)
            except TypeError as error:
                says.tell(error)


CASES = {
    "writer, sqlite": writer("sqlite"),
    "writer, sqlite, by key": writer("sqlite", key=["id"]),
    "writer, postgresql": writer("postgresql"),
    "writer, postgresql, by key": writer("postgresql", key=["id"]),
    "persister, sqlite": persister("sqlite"),
    "persister, postgresql": persister("postgresql"),
    "dead letters": dead_letters,
    "aggregator and ranking": merging,
    "declared metrics": declared,
    "kafka": kafka,
    "otlp": otlp,
    "remote": remote,
    "spark and data source": spark,
    "queues": queues,
}
SILENT = {"spark and data source", "queues", "declared metrics"}
"""Cases without the setting ``log_values``, or whose texts hold no values even with it."""


@pytest.fixture
def said(tmp_path, postgres_url, caplog, monkeypatch):
    """Yield a function that runs cases and returns the texts of each case."""
    monkeypatch.setattr("drainq.spark.queue_of_task.task_info", lambda: INFO)
    caplog.set_level(logging.DEBUG, "drainq")
    formatter = logging.Formatter("%(levelname)s %(message)s")

    def run(names: Any, log_values: bool) -> dict[str, str]:
        found = {}
        for name in names:
            caplog.clear()
            says = Says(tmp_path, postgres_url, log_values)
            CASES[name](says)
            for record in caplog.records:
                says.texts += [formatter.format(record), repr(record.args)]
            found[name] = "\n".join(says.texts)
        return found

    yield run
    with Database(postgres_url) as database:
        database.execute("DROP TABLE IF EXISTS values_in_logs")


def test_no_value_of_an_item_is_in_a_log_line_an_error_a_repr_or_a_metric(said):
    found = said(CASES, log_values=False)
    shown = {name: [line for line in text.splitlines() if SECRET in line][:5] for name, text in found.items()}
    assert {name: lines for name, lines in shown.items() if lines} == {}
    for code in ("SQLITE_CONSTRAINT_PRIMARYKEY", "a tuple for the columns ['id', 'who']", "UNIQUE constraint failed"):
        assert code in found["writer, sqlite"]
    for code in ("UniqueViolation [23505]", "values_in_logs_pkey", "CheckViolation [23514]", "[22P02]"):
        assert code in found["writer, postgresql"]
    assert "'age' must be of a finite number, got a str in a Person" in found["declared metrics"]
    assert "ValueError at " in found["aggregator and ranking"] and "INVALID_RECORD" in found["kafka"]
    assert "answered INVALID_ARGUMENT" in found["otlp"]


def test_with_log_values_they_are_shown(said):
    found = said(CASES.keys() - SILENT, log_values=True)
    assert [name for name, text in found.items() if SECRET not in text] == []
