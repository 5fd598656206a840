"""Aggregation and sink without a session: the tasks run in this process, on record batches."""

from __future__ import annotations

import contextlib
import json
import os
from decimal import Decimal
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyspark
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import drainq.spark.queue_of_task
import drainq.spark.sink_task
from drainq import Backoff, BatchQueueConfig
from drainq.spark import (
    PartitionReport,
    SinkReport,
    TaskInfo,
    UnroutedItems,
    aggregate,
    partition_fn,
    sink,
    task_info,
    worker_resource,
)  # fmt: skip
from drainq.spark.aggregate import merged
from drainq.spark.queue_of_task import default_config, task_queue
from drainq.spark.row_task import chunks
from drainq.spark.rows import Rows
from drainq.spark.sink_settings import OnError, Settings
from drainq.spark.version_check import VersionMismatch

INFO = TaskInfo(stage=2, partition=3, attempt=4, task_attempt_id=5, cpus=6, query_id="q", batch_id=7)
PROPERTIES = {"streaming.sql.batchId": "7", "sql.streaming.queryId": "q"}
SCHEMA = StructType([StructField("key", StringType(), False, {"of": "the key"}), StructField("n", IntegerType())])


class Frame:
    """A DataFrame of partitions, each a list of record batches."""

    sparkSession = SimpleNamespace(createDataFrame=lambda rows, schema: SimpleNamespace(schema=schema))

    def __init__(self, *partitions, schema=None):
        self.partitions, self.schema = partitions, schema

    def select(self, *columns):
        return Frame(*([batch.select(list(columns)) for batch in part] for part in self.partitions))

    def mapInArrow(self, run, schema):
        return Frame(*(list(run(iter(part))) for part in self.partitions), schema=schema)

    @property
    def columns(self):
        return self.schema.names

    def collect(self):
        return [
            SimpleNamespace(asDict=lambda row=row: row)
            for part in self.partitions for batch in part for row in batch.to_pylist()
        ]  # fmt: skip

    def rows(self):
        return [row.asDict() for row in self.collect()]


@pytest.fixture(autouse=True)
def context(monkeypatch):
    """Makes this thread that of a task."""
    names = {"stageId": 2, "partitionId": 3, "attemptNumber": 4, "taskAttemptId": 5, "cpus": 6}
    context = SimpleNamespace(**{name: lambda value=value: value for name, value in names.items()})
    context.getLocalProperty = PROPERTIES.get
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
    return context


@pytest.fixture
def frame():
    return Frame(
        [pa.RecordBatch.from_pydict({"n": [1, 2], "key": ["a", "b"]})],
        [pa.RecordBatch.from_pydict({"n": [3], "key": ["a"]})],
    )


class Sum:
    """Adds n up by key. Gives the sums that are above 2 at once, the others at the end."""

    def __init__(self, *forms):
        self.sums, self.forms = {}, forms

    def consume(self, batch):
        for row in batch:
            key, n = (row["key"], row["n"]) if isinstance(row, dict) else row
            self.sums[key] = self.sums.get(key, 0) + n

    def result(self):
        of = (lambda key, n: {"n": n, "key": key}) if dict in self.forms else lambda key, n: (key, n)
        return [of(key, n) for key, n in sorted(self.sums.items())]


def test_a_task_knows_itself(context, monkeypatch):
    assert task_info() == INFO
    context.getLocalProperty = {}.get
    assert (task_info().query_id, task_info().batch_id) == (None, None)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: None)
    with pytest.raises(RuntimeError, match="inside a Spark task, in the task's own thread"):
        task_info()


# -- aggregation ------------------------------------------------------------------------------


def test_each_partition_is_added_up_and_a_column_of_counts_may_be_added(frame):
    for rows, kind in (("tuples", tuple), ("records", dict)):
        infos = []
        made = lambda info: infos.append(info) or {kind: Sum(kind)}  # noqa: B023, E731
        found = aggregate(frame, made, schema=SCHEMA, rows=rows, columns=["key", "n"])
        assert found.rows() == [{"key": "a", "n": 1}, {"key": "b", "n": 2}, {"key": "a", "n": 3}]
        assert infos == [INFO, INFO] and found.partitions[0][0].schema.types == [pa.string(), pa.int32()]
        counted = aggregate(frame, made, schema=SCHEMA, rows=rows, columns=["key", "n"], stats=True)
        assert [(row["key"], row["n"], row["queue_stats"] is None) for row in counted.rows()] == [
            ("a", 1, True), ("b", 2, True), (None, None, False), ("a", 3, True), (None, None, False)
        ]  # fmt: skip
        counts = json.loads(counted.rows()[2]["queue_stats"])
        assert (counts["accepted"], counts["handled"], counts["unrouted"]) == (2, 2, 0)
        assert {type(count) for count in counts.values()} == {int}
        assert counted.schema.fields == [
            StructField("key", StringType(), True, {"of": "the key"}), StructField("n", IntegerType()),
            StructField("queue_stats", StringType()),
        ]  # fmt: skip
    with pytest.raises(ValueError, match="adds a column 'queue_stats', and the schema has one"):
        aggregate(frame, made, schema=counted.schema, stats=True)
    for more in ({"merge": {"n": "sum"}}, {"rows": "arrow"}):
        with pytest.raises(ValueError, match="stats=True adds a column and rows of its own"):
            aggregate(frame, made, schema=SCHEMA, stats=True, **more)


def test_rows_may_be_given_early_and_those_of_statistics_come_last(frame):
    class Early(Sum):
        def ready(self):
            yield ("early", 0)

    def stats(queue_stats, handlers):
        return [(f"{queue_stats.handled} by {[type(handler).__name__ for handler in handlers.values()]}", None)]

    made = lambda info: {tuple: Early()}  # noqa: E731
    both = partition_fn(lambda info: {tuple: Early(), list: Early()}, info=INFO)
    assert list(both([("a", 1)])) == [("early", 0), ("early", 0), ("a", 1)]
    found = aggregate(frame, made, schema=SCHEMA, columns=["key", "n"], stats=stats).rows()
    assert [row["key"] for row in found] == ["early", "a", "b", "2 by ['Early']", "early", "a", "1 by ['Early']"]
    counted = aggregate(frame, made, schema=SCHEMA, columns=["key", "n"], stats=True).rows()
    assert [row["key"] for row in counted] == ["early", "a", "b", None, "early", "a", None]


def test_every_option_reaches_the_queue_of_the_task(frame, monkeypatch):
    opened, names = [], aggregate.__globals__
    monkeypatch.setitem(
        names, "task_queue", lambda config, **how: opened.append((config, how)) or task_queue(config, **how)
    )
    chosen = {"threads": 2, "capacity": 50, "dispatch_key": lambda item: item[0], "len_of": lambda item: 3}
    info = TaskInfo(0, 0, 0, 9, 1)
    items = lambda: lambda batch: [("n", 1)] * len(batch)  # noqa: E731
    run = partition_fn(lambda info: {"n": Sum()}, items=items, stats=lambda *of: [len(of)], info=info, **chosen)
    assert list(run(iter("abc"))) == [("n", 3), 2]
    assert repr(opened[0][0]) == repr(default_config(**chosen)) and opened[0][1]["info"] is info
    assert {config.len_of for config, _ in opened} == {default_config(**chosen).len_of} == {chosen["len_of"]}
    expected = BatchQueueConfig(
        threads=2, partitions=2, buffer_size=50, strategy="blocking", dispatch_key=chosen["dispatch_key"],
        len_of=chosen["len_of"],
    )  # fmt: skip
    assert repr(default_config(**chosen)) == repr(expected)
    handlers = lambda info: {"n": Sum()}  # noqa: E731
    aggregate(frame, handlers, schema=SCHEMA, columns=["key", "n"], items=items, **chosen)
    sizes = []
    each = SimpleNamespace(consume=lambda batch: sizes.append(len(batch)), result=list)
    aggregate(frame, lambda info: {tuple: each}, schema=SCHEMA, columns=["key", "n"], capacity=1)
    assert sizes == [1, 1, 1]
    by_key = aggregate(
        frame, lambda info: {"a": Sum(), "b": Sum()}, schema=SCHEMA, columns=["key", "n"],
        dispatch_key=lambda row: row[0],
    )  # fmt: skip
    aggregate(frame, lambda info: {tuple: each}, schema=SCHEMA, columns=["key", "n"], len_of=chosen["len_of"])
    assert opened.pop()[0].len_of is chosen["len_of"]
    assert by_key.rows() == [{"key": "a", "n": 1}, {"key": "b", "n": 2}, {"key": "a", "n": 3}]
    assert list(chunks(range(5), 2)) == [[0, 1], [2, 3], [4]] and [len(part) for part in chunks(range(5000))] == [
        4096,
        904,
    ]
    assert repr(opened[1][0]) == repr(default_config(**chosen))
    assert (str(opened[3][0].threads), opened[3][0].buffer_size, opened[3][1]["info"]) == (
        "ThreadPolicy.fixed(6)",
        1,
        INFO,
    )
    assert list(partition_fn(lambda info: {int: each}, info=INFO)(range(3))) == []
    assert [config.buffer_size for config, _ in opened[-2:]] == [10_000] * 2
    assert worker_resource.__wrapped__.__kwdefaults__ == {"idle_close": 30.0, "check": None}
    monkeypatch.setattr("drainq.spark.version_check.installed", "0")
    with pytest.raises(VersionMismatch):
        list(run(iter("abc")))


def test_items_without_a_handler_fail_the_task_or_are_counted_and_an_error_ends_it(frame):
    none = lambda info: {str: Sum()}  # noqa: E731
    with pytest.raises(UnroutedItems, match="2 of tuple. There are handlers for str. "):
        aggregate(frame, none, schema=SCHEMA, columns=["key", "n"])
    assert aggregate(frame, none, schema=SCHEMA, columns=["key", "n"], unrouted="count").rows() == []
    with pytest.raises(UnroutedItems, match="3 of int"):
        list(partition_fn(none, info=INFO)([1, 2, 3]))
    assert list(partition_fn(none, info=INFO, unrouted="count")([1, 2, 3])) == []
    with pytest.raises(TypeError):
        list(partition_fn(lambda info: {int: Sum()}, info=INFO)([1]))
    with pytest.raises(ValueError, match=r"a record with \['key', 'n'\], and the schema has \['key'\]"):
        aggregate(frame, lambda info: {dict: Sum(dict)}, schema=StructType(SCHEMA.fields[:1]), rows="records")
    batches = [batch for part in frame.partitions for batch in part]
    with pytest.raises(UnroutedItems, match="2 of .*RecordBatch"):
        list(partition_fn(none, info=INFO, rows="arrow")(batches))
    taken = SimpleNamespace(consume=lambda got: got_all.extend(got), result=list)
    got_all = []
    assert list(partition_fn(lambda info: {pa.RecordBatch: taken}, info=INFO, rows="arrow")(batches)) == []
    assert got_all == batches


class Gives:
    """Returns the rows that it was made with."""

    def __init__(self, *rows):
        self.rows = rows

    def consume(self, batch):
        pass

    def result(self):
        return self.rows


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("a", 1), ("secret", 7.25)],
            "a value that does not fit the column 'n' of type int32: a float that is no who",
        ),
        ([("a", Decimal("7.25"))], "a value that does not fit the column 'n' of type int32: a Decimal;"),
        ([("a", 1), ("b", "secret")], "a value that does not fit the column 'n' of type int32: a str; return what"),
        ([("a", 2**31)], "a value that does not fit the column 'n' of type int32: an int;"),
        ([(5, 1)], "a value that does not fit the column 'key' of type string: an int;"),
        ([("a", 1), ("secret", 1, 2)], r"a row of 3 columns, and the schema has 2: \['key', 'n'\]"),
        ([("secret",)], "a row of 1 columns, and the schema has 2"),
        ([5], "an int instead of a row; it returns an iterable of rows"),
        ([{"key": "secret", "m": 1}], r"a record with \['key', 'm'\], and the schema has \['key', 'n'\]"),
        ([("secret", 1)], "a tuple instead of a row"),
        (None, "a value that does not fit the column 'n' of type int32: a str"),
    ],
)
def test_a_row_that_does_not_fit_the_schema_names_its_handler_and_column_but_no_value(frame, rows, said):
    records = "record" in said or "tuple" in said
    kind = dict if records else tuple
    who, stats = r"result\(\) of Gives, the handler of int,", None
    if rows is None:
        who, stats, rows = "stats", lambda queue_stats, handlers: [("a", "secret")], [("a", 1.0), ("b", None)]
    made = lambda info: {kind: Gives(), int: Gives(*rows)}  # noqa: E731
    with pytest.raises((TypeError, ValueError), match=f"^{who} returned {said}") as refused:
        aggregate(
            frame, made, schema=SCHEMA, rows="records" if records else "tuples", stats=stats, columns=["n", "key"]
        )
    assert "secret" not in str(refused.value)


def test_spark_merges_partial_results_by_the_other_columns(monkeypatch):
    def function(name):
        return lambda column: SimpleNamespace(alias=lambda alias: (name, column, alias))

    class Partial:
        columns = ("day", "n", "key", "low", "top")

        def groupBy(self, *keys):
            asked.append(keys)
            return self

        agg = select = groupBy

    asked, functions = [], SimpleNamespace(**{name: function(name) for name in ("sum", "max", "min")}, col=str.upper)
    monkeypatch.setattr(pyspark.sql, "functions", functions)
    assert merged(Partial(), {"top": "max", "n": "sum", "low": "min"}).columns == Partial.columns
    assert asked == [
        ("DAY", "KEY"), (("sum", "n", "n"), ("min", "low", "low"), ("max", "top", "top")), Partial.columns
    ]  # fmt: skip
    for wrong in ({"nope": "sum"}, {"n": "mean"}):
        with pytest.raises(ValueError, match="use a column of .* and one of"):
            merged(Partial(), wrong)
    frame = Frame(schema=StructType(SCHEMA.fields))
    with pytest.raises(ValueError, match=r"use a column of \['key', 'n'\]"):
        aggregate(frame, lambda info: {}, schema=SCHEMA, merge={"nope": "sum"})


def test_an_error_of_a_handler_ends_the_reading(frame):
    def batches():
        for _ in range(20_000):
            yield frame.partitions[0][0]
            os.sched_yield()
        raise AssertionError("it reads on")

    def fails(batch):
        raise OSError("disk is full")

    with pytest.raises(OSError, match="disk is full"):
        list(partition_fn(lambda info: {pa.RecordBatch: SimpleNamespace(consume=fails)}, rows="arrow")(batches()))
    with pytest.raises(TypeError, match="coroutine"):
        later = SimpleNamespace(consume=lambda batch: task(), result=list)
        aggregate(frame, lambda info: {tuple: later}, schema=SCHEMA, stats=True)


async def task(): ...


def test_a_queue_of_ones_own_says_what_has_no_handler():
    for unrouted, missing in (("count", None), ("fail", UnroutedItems)):
        with contextlib.nullcontext() if missing is None else pytest.raises(missing, match="1 of str"):
            with task_queue(unrouted=unrouted) as queue:
                queue.produce("x")


@pytest.mark.parametrize(
    ("drained", "failed", "block", "says", "timeouts"),
    [
        (True, [], None, None, [None]),
        (True, [], GeneratorExit(), "GeneratorExit", [0.0]),
        (False, [], None, "DrainqError: the queue of task attempt 5 was not drained in time", [None]),
        (True, [KeyError("1st"), KeyError("2nd")], None, "KeyError: '1st'", [None]),
        (True, [KeyError("1st")], OSError("block"), "OSError: block", [0.0]),
    ],
)
def test_a_task_drains_its_queue_or_drops_it_and_raises_the_first_error(
    monkeypatch, drained, failed, block, says, timeouts
):
    class Queue:
        def __init__(self, name, config):
            assert (name, repr(config.replace(on_error=None))) == ("drainq-task-5", repr(default_config(threads=6)))
            for error in failed:
                config.on_error([1, 2], error)

        def shutdown(self, timeout=None):
            waited.append(timeout)
            return drained

        def stats(self):
            return SimpleNamespace(unrouted=0)

    waited, told = [], None
    monkeypatch.setattr(drainq.spark.queue_of_task, "BatchQueue", Queue)
    try:
        with task_queue():
            if block:
                raise block
    except BaseException as error:
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    assert waited == timeouts and (told or "").startswith(says or "") and bool(told) == bool(says)
    if drained:
        theirs = []
        with task_queue(default_config(threads=6).replace(on_error=lambda batch, error: theirs.append(error))):
            pass
        assert theirs == failed
    for error in failed:
        assert getattr(error, "__notes__", ["raised on a batch of 2 int items"]) == ["raised on a batch of 2 int items"]


# -- the sink ---------------------------------------------------------------------------------


def test_every_option_reaches_the_tasks_of_a_sink_and_their_counts_the_report(frame, monkeypatch):
    class Task:
        def __init__(self, settings, info):
            asked.append((settings, info))

        def run(self, batches):
            columns.append([batch.schema.names for batch in batches])
            counts = zip(("partition", "rows", "batches", "retries", "errors", "dropped", "parked"), range(7))
            return {name: (-1) ** len(asked) + 10 * value for name, value in counts} | {"seconds": 0.5}

    asked, columns = [], []
    monkeypatch.setattr(drainq.spark.sink_task, "SinkTask", Task)
    make, decide, delayed = lambda info: None, lambda row, error: "skip", lambda: None
    report = sink(frame, make)
    assert report == SinkReport(
        20, 40, 60, 80, 100, 120, 1.0,
        (PartitionReport(-1, 9, 19, 29, 39, 49, 59, 0.5), PartitionReport(1, 11, 21, 31, 41, 51, 61, 0.5)),
    )  # fmt: skip
    defaults = Settings(
        make_writer=make, threads=4, rows=Rows.TUPLES, max_in_flight=12, max_batch_rows=1000, max_batch_bytes=None,
        linger=0.05, retries=3, backoff=Backoff(0.1, 5.0), on_error=OnError.FAIL, delayed=None, close_timeout=5.0,
    )  # fmt: skip
    assert [settings for settings, _ in asked] == [defaults] * 2
    ids = {info.write_id for _, info in asked}
    assert len(ids) == 1 and None not in ids and columns == [[["n", "key"]]] * 2
    chosen = {
        "threads": 2, "max_in_flight": 3, "max_batch_rows": 4, "max_batch_bytes": 5, "linger": 6.0, "retries": 0,
        "backoff": Backoff(7.0, 8.0), "on_error": decide, "delayed": delayed, "close_timeout": 9.0,
    }  # fmt: skip
    sink(frame, make, rows="records", columns=["key"], **chosen)
    assert asked[2][0] == Settings(make_writer=make, rows=Rows.RECORDS, **chosen) and columns[2] == [["key"]]
    assert asked[2][1].write_id not in ids
    sink(frame, make, delayed=delayed, threads=2)
    assert (asked[4][0].on_error, asked[4][0].max_in_flight) == (OnError.PARK, 6)
    assert sink.__globals__["_SCHEMA"] == (
        "attempt long, partition long, rows long, batches long, retries long, errors long, dropped long, parked long, "
        "seconds double"
    )
