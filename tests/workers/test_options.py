"""The options that all workers, exporters and the remote client share, and what each of them does."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace

import msgspec
import pytest

from drainq import BatchQueue, WouldDeadlock
from drainq.delivery import DeliveryError, Undelivered
from drainq.delivery.item_bytes import bytes_of
from drainq.delivery.options import SendingSettings, WorkerSettings
from drainq.export import KafkaExporter, OtlpMetricsExporter, RemoteClient, SkyWalkingMetricsExporter
from drainq.monitoring import prometheus_text
from drainq.testing import ManualClock
from drainq.workers import (
    BatchWriter,
    DeclaredMetrics,
    MetricsAggregator,
    MetricsPersister,
    Refused,
    SendingWorker,
    TopN,
    Unavailable,
    Value,
    WorkerOptions,
)
from drainq.workers import Metric as Declared
from tests.delivery.helpers import Hanging, Table, agree, counts

PATIENCE = 60.0


@dataclass
class Hit:
    path: str
    at: float


HITS = Declared("hits", Hit, keys={"path": "path"}, time="at", values={"n": Value.count()})
AT = {"endpoint": "127.0.0.1:1", "insecure": True}
SETTINGS = {"table": "t", "columns": ["k", "n"], "key": ["k"]}
WORKERS = {
    "batch-writer/t": lambda url, **more: BatchWriter(url=url, **SETTINGS, **more),
    "metrics-persister/t": lambda url, **more: MetricsPersister(url=url, **SETTINGS, merge={"n": "sum"}, **more),
    "declared-metrics/hits": lambda url, **more: DeclaredMetrics(url=url, metrics=[HITS], **more),
    "metrics-aggregator": lambda url, **more: MetricsAggregator(key=hash, merge=max, sink=len, **more),
    "top-n": lambda url, **more: TopN(3, score=hash, sink=len, **more),
    "sending-worker/Table": lambda url, **more: SendingWorker(Table(), **more),
    "kafka/t": lambda url, **more: KafkaExporter(config={"bootstrap.servers": "127.0.0.1:1"}, topic="t", **more),
    "otlp-metrics/127.0.0.1:1": lambda url, **more: OtlpMetricsExporter(**AT, **more),
    "skywalking-metrics/127.0.0.1:1": lambda url, **more: SkyWalkingMetricsExporter(**AT, **more),
    "remote/127.0.0.1:1": lambda url, **more: RemoteClient(address="127.0.0.1:1", **more),
}


@pytest.mark.parametrize("default", WORKERS)
def test_every_worker_takes_the_options_as_an_object_and_as_keywords_and_has_a_name_from_the_start(default, table):
    make, url = WORKERS[default], table("k TEXT PRIMARY KEY, n INTEGER")
    common = WorkerOptions(name="orders", buffer_size=7, strategy="if_possible", max_batch=3, clock=ManualClock())
    for settings, name, size in (
        ({}, default, 4096 if default.startswith("kafka") else 10_000),
        ({"options": common}, "orders", 7),
        ({"options": common, "name": "refunds", "buffer_size": 9}, "refunds", 9),
    ):
        with make(url, **settings) as worker:
            assert (worker.name, worker.stats().queue.total_capacity) == (name, size)
            assert f'{{queue="{name}"' in prometheus_text()  # nothing was produced yet
            assert repr(worker) == f"<{type(worker).__name__} {name!r}>"
            assert not settings or worker._clock is common.clock
    wrong_options = {
        "bufer_size": 3,
        "options": {},
        "name": "",
        "max_batch_bytes": "1",
        "on_error": len,
        "log_values": 1,
    }
    for wrong in ({name: value} for name, value in wrong_options.items()):
        with pytest.raises(TypeError):
            make(url, **wrong)
    with BatchQueue("shared", threads=1) as queue, pytest.raises(ValueError, match="settings of its own.*buffer_size"):
        make(url, queue=queue, buffer_size=9)


def test_the_keywords_are_the_fields():
    fields = {field.name for field in dataclasses.fields(WorkerOptions)}
    assert SendingSettings.__annotations__.keys() == fields | {"queue", "weight", "options"}
    sending = SendingSettings.__annotations__.keys() - WorkerSettings.__annotations__.keys()
    assert sending == {"retry_for", "delayed"}
    of_queue = {"buffer_size": 7, "strategy": "blocking", "linger": 0.5, "max_batch": 3}
    assert WorkerOptions(name="a", retry_for=1, log_values=True, **of_queue).of_queue() == of_queue
    assert WorkerOptions(retry_for=timedelta(minutes=1)).retry_for == 60.0
    for wrong, error in (
        ({"retry_for": -1}, ValueError),
        ({"name": "a\0b"}, TypeError),
        ({"max_batch": 0}, ValueError),
    ):
        with pytest.raises(error, match=f"^{next(iter(wrong))} must be "):
            WorkerOptions(**wrong)
    assert bytes_of({"k" * 1000: 1}) > 1000 < bytes_of({1: "v" * 1000})
    slotted = type("Slotted", (), {"__slots__": ("unset", "a")})()
    for item in (slotted, SimpleNamespace(), msgspec.defstruct("Struct", [("a", str)])("")):
        item.a = "a" * 1000
        assert bytes_of(item) > 1000 > bytes_of([[[[item]]]]), "no deeper than four values inside values"
    for default in ("metrics-aggregator", "top-n"):  # they give nothing up before they are closed
        for wrong in ({"retry_for": 3.0}, {"delayed": SimpleNamespace(offer_if_not_exists=len)}):
            with pytest.raises(ValueError, match="leave out retry_for and delayed"):
                WORKERS[default]("", **wrong)


def test_a_full_worker_refuses_or_waits_until_a_deadline_as_its_strategy_says():
    gate = Hanging(heeds=False)
    with SendingWorker(gate, buffer_size=2, strategy="if_possible", max_batch=1) as worker:
        assert worker.produce(0) and gate.entered.wait(PATIENCE)
        assert worker.produce_many(range(1, 9)) in (2, 3)  # a batch may be in hand beside the full queue
        assert worker.produce(9) is worker.offer(9, timeout=0) is worker.offer(9, timeout=0.001) is False
        accepted = agree(worker).accepted
        gate.go.set()
        assert worker.offer(10, timeout=PATIENCE) and worker.flush(PATIENCE)
        assert gate.batches == [[n] for n in (*range(accepted), 10)]


@pytest.mark.parametrize("shared", [False, True])
def test_a_bound_of_bytes_is_one_of_what_is_queued_and_of_a_batch_and_the_books_count_items(shared):
    gate, row, refused = Hanging(heeds=False), "a" * 1_000_000, 0
    with BatchQueue("shared", threads=1) as queue:
        own = {"queue": queue} if shared else {"strategy": "if_possible"}
        worker = SendingWorker(gate, max_batch_bytes=5_000_000, **own)
        worker.produce(row)
        assert gate.entered.wait(PATIENCE)
        for _ in range(40):
            refused += not worker.produce(row)
        assert refused == (0 if shared else 36)  # a shared queue has a bound of its own, if any
        assert worker.offer(3, timeout=0) and agree(worker).pending == 42 - refused
        assert worker.stats().per_type == {str: 41 - refused, int: 1}
        if not shared:
            assert worker.produce_many([row, row]) == asyncio.run(worker.produce_many_async([row, row])) == 0
        gate.go.set()
        assert worker.close(PATIENCE) and counts(worker) == (42 - refused, 0, 0, 0, 0)
    assert all(sum(map(bytes_of, batch)) <= 5_000_000 for batch in gate.batches) and len(gate.batches) > 1


def test_a_bound_of_bytes_is_that_of_all_partitions_together():
    gate, rows = Hanging(heeds=False), [kind(b"a" * 1_000_000) for kind in (bytes, bytearray, str, lambda row: [row])]
    with SendingWorker(gate, max_batch_bytes=5_000_000, max_batch=1, threads=4, strategy="if_possible") as worker:
        taken = sum(worker.produce(row) for row in rows * 20)
        gate.go.set()
    assert taken <= 5 + 4, "more than the bound, beside one in each hand"


def test_a_worker_that_is_closed_with_a_bound_of_bytes_counts_what_it_never_got_as_lost():
    gate = Hanging(heeds=False)
    worker = SendingWorker(gate, max_batch_bytes=1_000_000, max_batch=1, retry_for=0)
    assert worker.produce_many(["a"] * 5) == 5 and gate.entered.wait(PATIENCE)
    assert worker.close(0) is False and counts(worker) == (0, 0, 0, 5, 0)
    gate.go.set()


@pytest.mark.parametrize("kind", ["aggregator", "persister"])
def test_a_worker_that_holds_items_flushes_when_they_take_more_than_the_bound(kind, table, rows):
    url, taken = table("k TEXT PRIMARY KEY, n INTEGER"), []
    common = {"flush_interval": None, "max_batch_bytes": 2_000_000}
    if kind == "aggregator":
        worker = MetricsAggregator(key=lambda row: row[0], merge=max, sink=taken.extend, **common)
    else:
        worker = MetricsPersister(url=url, **SETTINGS, merge={"n": "sum"}, **common)
    for number in range(5):
        worker([(str(number) * 900_000, 1)])
    assert len(taken or rows(url)) == 3 and agree(worker).pending == 2
    assert worker.close(PATIENCE) and len(taken or rows(url)) == 5
    best = TopN(9, score=len, sink=taken.append, **common)  # it holds few items, and a flush would end their comparison
    for number in range(5):
        best([str(number) * 900_000])
    assert best.stats().sent == 0 and best.close(PATIENCE) and best.stats().sent == 5


@pytest.mark.parametrize("kind", ["aggregator", "top-n", "persister", "declared"])
def test_what_a_forked_child_renews_holds_nothing_and_has_connections_of_its_own(kind, table, rows):
    url, taken = table("k TEXT PRIMARY KEY, n INTEGER"), []
    worker = {
        "aggregator": lambda: MetricsAggregator(key=hash, merge=max, sink=taken.extend, flush_interval=None),
        "top-n": lambda: TopN(9, score=hash, sink=taken.extend),
        "persister": lambda: WORKERS["metrics-persister/t"](url, flush_interval=None),
        "declared": lambda: WORKERS["declared-metrics/hits"](url, flush_interval=None),
    }[kind]()
    first, second, third = ([Hit("/", 60.0 * n)] if kind == "declared" else [(f"k{n}", n)] for n in range(3))
    worker(first)
    assert worker.flush()
    worker(second)
    taken.clear()
    worker._renew_in_child()
    assert counts(worker) == (0, 0, 0, 0, 0)
    if kind in ("persister", "declared"):
        sink = worker._tables if kind == "declared" else worker._table_sink
        assert (sink._idle, sink._busy) == ([], [])
    worker(third)
    assert worker.flush() and counts(worker)[0] == 1
    if kind == "declared":
        assert [row["time"] for row in worker.read("hits")] == [0, 120]
    else:
        assert (taken or rows(url)[1:]) == third
    worker.close()


def test_on_error_gets_what_is_refused_or_lost_and_nothing_of_it_is_logged_twice(caplog):
    told = []
    table = Table(poison={3})
    worker = SendingWorker(table, retry_for=0, on_error=lambda items, error: told.append((items, type(error))))
    with worker:
        worker.produce_many(range(5))
        worker.flush(PATIENCE)
        assert told == [([3], Refused)] and counts(worker) == (4, 1, 0, 0, 0)
        table.down = Unavailable("away")
        worker.produce(7)
        worker.flush(PATIENCE)
        assert told[1:] == [([7], Unavailable)] and counts(worker) == (4, 1, 0, 1, 0)
    sums = MetricsAggregator(
        key=lambda item: 1 / item, merge=max, sink=len, on_error=lambda items, error: told.append((items, type(error)))
    )
    with sums:
        sums.produce(0)
        sums.flush(PATIENCE)
        assert told[2:] == [([0], ZeroDivisionError)] and sums.stats().refused == 1
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_on_error_gets_the_items_of_an_error_of_drainqs_too(caplog):
    def key(item):
        raise WouldDeadlock("the key waits for its own queue")

    told = []
    options = {"sink": len, "on_error": lambda items, error: told.append((items, type(error)))}
    with MetricsAggregator(key=key, merge=max, **options) as sums:
        sums.produce(0)
        sums.flush(PATIENCE)
        assert told == [([0], WouldDeadlock)] and sums.stats().refused == 1


@pytest.mark.parametrize("late", [None, Unavailable("too late")])
def test_on_error_is_told_once_what_close_gives_up(late, caplog):
    told = []

    class Late(Hanging):
        def send(self, items):
            super().send(items)
            if late is not None:
                raise late

    def tell(items, error):
        told.append((items, type(error), str(error).partition(": ")[2], getattr(error, "unknown", None)))

    sink = Late(heeds=False)
    worker = SendingWorker(sink, on_error=tell)
    assert worker.produce(0) and sink.entered.wait(PATIENCE)
    worker.produce_many(range(5))
    assert worker.close(0.01) is False and worker.stats().lost == 6
    sink.go.set()
    assert sink.closed.wait(PATIENCE) and worker.stats().lost == (5 if late is None else 6)
    told.sort(key=str)
    assert told == [
        ([0], Undelivered, "1 items are lost: the time of close() ran out while they were sent", True),
        ([], DeliveryError, "close() gives up 5 items that were not sent", None),
    ]
    sums = MetricsAggregator(key=len, merge=max, sink=lambda rows: 1 / 0, on_error=tell)
    assert sums.produce("a") and sums.flush(PATIENCE) is False and sums.close(0.01) is False
    assert told[2:] == [([], DeliveryError, "close() gives up 1 items that were not sent", None)]
    assert [record.message for record in caplog.records if "lost" in record.message] == []


def test_an_on_error_that_fails_is_logged_and_the_books_stay_right(caplog):
    with SendingWorker(Table(poison={1}), on_error=lambda items, error: 1 / 0) as worker:
        worker.produce_many([1, 2])
        worker.flush(PATIENCE)
        assert counts(worker) == (1, 1, 0, 0, 0)
    assert "on_error failed" in caplog.text


def test_a_sink_that_loses_its_connection_is_waited_for_by_default():
    assert [Table().failure_of(error).value for error in (TimeoutError(), ConnectionResetError(), KeyError())] == [
        "passes", "passes", "data",
    ]  # fmt: skip
