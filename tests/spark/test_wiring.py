"""What ``sink``, ``aggregate`` and ``partition_fn`` are told reaches the tasks; what they are not told is documented."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from drainq import Backoff
from drainq.errors import DrainqError
from drainq.spark import (
    OnError,
    Rows,
    TaskInfo,
    Unrouted,
    UnroutedItems,
    aggregate,
    partition_fn,
    queue_of_task,
    sink,
    sink_task,
    task_queue,
    worker_resource,
)  # fmt: skip
from drainq.spark.row_task import Spec
from drainq.spark.sink_settings import Settings

pa = pytest.importorskip("pyarrow")
INFO = TaskInfo(stage=1, partition=2, attempt=3, task_attempt_id=4, cpus=5)
COUNTS = {"rows": 3, "batches": 4, "retries": 5, "errors": 6, "dropped": 7, "parked": 8, "seconds": 0.5}


def make(*_):
    """Stands for every function that is only handed on."""


class Frame:
    """Stands for a DataFrame: notes what it is asked for, and runs one task of its own in the same process."""

    columns = "all"

    def select(self, *columns):
        self.columns = columns
        return self

    def mapInArrow(self, function, schema):
        self.schema, self.answer = schema, list(function([]))
        return self

    def collect(self):
        return [SimpleNamespace(asDict=lambda row=row: row) for row in self.answer[0].to_pylist()]


OF_SINK = {  # what is given, what the task gets for it, what it gets without it
    "threads": (2, 2, 4), "rows": ("records", Rows.RECORDS, Rows.TUPLES), "max_in_flight": (7, 7, 12),
    "max_batch_rows": (8, 8, 1000), "max_batch_bytes": (9, 9, None), "linger": (1, 1, 0.05), "retries": (0, 0, 3),
    "backoff": (Backoff(1.0, 2.0), Backoff(1.0, 2.0), Backoff(0.1, 5.0)), "on_error": ("skip", OnError.SKIP, OnError.FAIL),
    "delayed": (make, make, None), "close_timeout": (6, 6, 5.0),
}  # fmt: skip


@pytest.mark.parametrize("place", [1, 2])
def test_a_sink_hands_on_what_it_was_told_and_reports_each_count(place, monkeypatch):
    seen = []

    class Task:
        def __init__(self, *of):
            seen.extend(of)

        def run(self, batches):
            return {**COUNTS, "partition": seen[1].partition}

    monkeypatch.setattr(sink_task, "SinkTask", Task)
    monkeypatch.setattr(sys.modules["drainq.spark.sink"], "task_info", lambda: INFO)
    given = {name: row[0] for name, row in OF_SINK.items()} if place == 1 else {}
    frame = Frame()
    report = sink(frame, make, **given, columns=["a", "b"] if given else None)
    settings, info = seen
    assert settings == Settings(make_writer=make, **{name: row[place] for name, row in OF_SINK.items()})
    assert replace(info, write_id=None) == INFO and len(info.write_id) == 36
    assert frame.columns == (("a", "b") if given else "all")
    assert asdict(report) == {**COUNTS, "partitions": ({**COUNTS, "partition": 2},)}
    assert frame.schema == (
        "partition long, rows long, batches long, retries long, errors long, dropped long, parked long, seconds double"
    )
    if not given:
        sink(frame, make, delayed=make)
        assert seen[2].on_error is OnError.PARK and seen[2].max_in_flight == 12
        sink(frame, make, threads=2)
        assert seen[4].max_in_flight == 6


OF_TASK = {"items": (make, None), "dispatch_key": (make, None), "threads": (3, None), "capacity": (7, 10_000),
           "len_of": (len, None), "stats": (make, None), "unrouted": ("count", Unrouted.FAIL)}  # fmt: skip


def test_an_aggregation_hands_on_what_it_was_told(monkeypatch):
    seen = []
    monkeypatch.setattr(sys.modules["drainq.spark.aggregate"], "_run", lambda *of: seen.append(of) or [])
    given = {name: row[0] for name, row in OF_TASK.items()}
    wanted = Spec(make, **{**given, "unrouted": Unrouted.COUNT})
    bare = Spec(make, **{name: row[1] for name, row in OF_TASK.items()})
    frame = Frame()
    for settings, spec in ((given, wanted), ({}, bare)):
        aggregate(frame, make, schema="n long", rows="arrow", **settings)
        partition_fn(make, rows="arrow", info=INFO, **settings)(["a batch"])
        in_tuples = partition_fn(make, **settings)(iter(range(5000)))
        assert in_tuples == [] and [of[0] for of in seen] == [spec] * 3
        assert [of[1:] for of in seen[:2]] == [([],), (["a batch"], INFO)]
        assert list(map(len, seen[2][1])) == [4096, 904] and seen[2][2] is None
        seen.clear()
    assert (frame.schema, frame.columns) == ("n long", "all")
    assert worker_resource.__wrapped__.__kwdefaults__ == {"idle_close": 30.0, "check": None}
    aggregate(frame, make, schema="n long", rows="arrow", columns=["a"])
    assert frame.columns == ("a",)


class Counting:
    """Counts what it gets, and has an early row for each batch that is read."""

    def __init__(self):
        self.seen, self.early = [], 0

    def consume(self, batch):
        self.seen += batch

    def ready(self):
        self.early += 1
        yield "early", self.early

    def result(self):
        yield "result", sorted(self.seen)


def test_a_task_gives_its_early_rows_then_those_of_its_handlers_then_its_counts(monkeypatch):
    made, configured = [], []
    module = sys.modules["drainq.spark.aggregate"]
    configure = module.default_config
    monkeypatch.setattr(module, "default_config", lambda **named: configured.append(named) or configure(**named))

    def handlers(info):
        made.append((info, Counting()))
        return {int: made[-1][1]}

    def stats(queue, handlers):
        yield queue.handled, queue.buffer_size, list(handlers)

    queue = {"capacity": 9, "dispatch_key": type, "len_of": lambda item: 1}
    task = partition_fn(handlers, stats=stats, info=INFO, items=lambda: lambda batch: [len(batch), 3], **queue)
    assert list(task(iter("x" * 5000))) == [("early", 1), ("early", 2), ("result", [3, 3, 904, 4096]), (4, 9, [int])]
    assert made[0][0] == INFO and len(made) == 1
    assert list(partition_fn(handlers, threads=2, info=INFO)([1])) == [("early", 1), ("result", [1])]
    assert configured == [
        {"threads": 5, **queue}, {"threads": 2, "capacity": 10_000, "dispatch_key": None, "len_of": None}
    ]  # fmt: skip


def test_a_task_stops_reading_when_a_handler_has_failed_and_names_the_handlers_that_there_are():
    def rows():
        yield from range(1_000_000)
        raise AssertionError("it read on to the end")

    def fails(batch):
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        list(partition_fn(lambda info: {int: fails}, capacity=10, info=INFO)(rows()))
    with pytest.raises(UnroutedItems, match=r"1 of str\. There are handlers for int\. Only the exact type counts"):
        list(partition_fn(lambda info: {int: Counting()}, info=INFO)(["text"]))


def test_the_queue_of_a_task_ends_as_its_block_and_its_handlers_did(monkeypatch):
    ends, made, drained, unrouted = [], [], [True], SimpleNamespace(unrouted=0, per_type={})
    queue = SimpleNamespace(shutdown=lambda timeout=None: ends.append(timeout) or drained[0], stats=lambda: unrouted)
    monkeypatch.setattr(queue_of_task, "BatchQueue", lambda *of: made.append(of) or queue)

    def end(*errors, **how):
        with task_queue(info=INFO, **how) as opened:
            assert opened is queue
            for error in errors:
                made[-1][1].on_error([1, 2], error)

    end()
    name, config = made[0]
    wanted = queue_of_task.default_config(threads=5)
    assert name == "drainq-task-4" and repr(config) == repr(wanted) and wanted.buffer_size == 10_000
    assert repr(wanted.partitions) == "PartitionPolicy.fixed(5)" and repr(wanted.threads) == "ThreadPolicy.fixed(5)"
    end(ValueError("their own"), config=wanted.replace(on_error=make))
    assert made[1][1].on_error is make
    with pytest.raises(ValueError, match="first") as first:
        end(ValueError("first"), KeyError("second"))
    assert getattr(first.value, "__notes__", [note := "raised on a batch of 2 int items"]) == [note]
    assert ends == [None] * 3
    with pytest.raises(ZeroDivisionError), task_queue(info=INFO):
        1 / 0  # noqa: B018
    assert ends == [None, None, None, 0.0]
    unrouted.unrouted, unrouted.per_type = 1, {str: SimpleNamespace(unrouted=1)}
    end(unrouted="count")
    with pytest.raises(UnroutedItems, match="1 items have no handler: 1 of str. Only"):
        end()
    drained[0] = False
    with pytest.raises(DrainqError, match="the queue of task attempt 4 was not drained in time"):
        end()
