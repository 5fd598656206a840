"""The writers and the reader of batches without Spark: what tasks write is published, whole and once, and read back."""

from __future__ import annotations

import time
import types
from datetime import datetime, timezone

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType, TimestampType

from drainq.datasource import DrainqDataSource
from drainq.datasource.columns import _message, form_read
from drainq.datasource.payload_form import PayloadForm
from drainq.delayed import DelayedQueue
from drainq.sql.database import Database

KEY_AND_PAYLOAD = StructType().add("key", StringType()).add("payload", StringType())
SCHEMA = StructType([*KEY_AND_PAYLOAD.fields]).add("schedule_at", TimestampType())
AT = datetime(2001, 2, 3, 4, 5, 6, 789_999, timezone.utc)


@pytest.fixture
def options(tmp_path):
    return {"url": f"sqlite:///{tmp_path}/queue.db", "queue": "out", "table": "own"}


def rows(*keys, payload="new"):
    return iter([pa.RecordBatch.from_pydict({"payload": [*("old" for _ in keys[1:]), payload], "key": list(keys)})])


def read(options, schema=SCHEMA):
    reader = DrainqDataSource(options).reader(schema)
    return [batch.to_pydict() for part in reader.partitions() for batch in reader.read(part)]


def staged(options):
    with Database(options["url"]) as database:
        return database.execute("SELECT count(*) FROM own__spark_stage")[0][0]


def test_the_first_moment_of_1970_is_a_time_and_not_a_missing_one():
    assert _message(("k", "1", 0), PayloadForm.JSON)[2] == 0
    assert _message(("k", "1", None), PayloadForm.JSON)[2] >= (time.time() - 1000) * 1000


def test_rows_in_each_form_keep_their_times_and_are_cut_into_chunks(options, monkeypatch):
    monkeypatch.setattr("drainq.datasource.columns.MESSAGES_AT_ONCE", 2)
    times = pa.array([AT, None, AT], pa.timestamp("us", "UTC"))
    arrow = pa.RecordBatch.from_pydict({"schedule_at": times, "payload": ["1", "2", None], "key": ["a", "b", "c"]})
    local = AT.astimezone().replace(tzinfo=None)
    writer, before = DrainqDataSource(options).writer(SCHEMA, False), time.time() - 1
    by_row = [Row(key="d", payload="4", schedule_at=local), Row(key="e", payload="5")]
    told = [writer.write([arrow]), None, writer.write(by_row)]
    writer.commit(told)
    found = read(options)
    assert [message and message.rows for message in told] == [3, None, 2]
    assert [batch["key"] for batch in found] == [["a", "c"], ["d", "b"], ["e"]]
    assert [text for batch in found for text in batch["payload"]] == ["1", None, "4", "2", "5"]
    due = [at for batch in found for at in batch["schedule_at"]]
    assert due[:3] == [AT.replace(microsecond=789_000)] * 3
    assert all(before < at.timestamp() < time.time() + 1 for at in due[3:])
    raw = StructType().add("payload", BinaryType())
    assert form_read(raw, None) is PayloadForm.BINARY and staged(options) == 0
    keys = StructType().add("key", StringType())
    with DelayedQueue.open(options["url"], "out", table="own") as queue:
        queue.offer_or_update("a", {"no": "text"}, 0)
    assert read(options, keys)[0] == {"key": ["a", "c"]}


def test_an_option_says_whether_a_row_replaces_the_message_of_its_key(options):
    for if_exists, payload, left in (("ignore", "1", "old"), ("ignore", "2", "old"), ("update", "3", "3")):
        writer = DrainqDataSource({**options, "ifExists": if_exists}).writer(KEY_AND_PAYLOAD, False)
        writer.commit([writer.write(rows("a", "a", payload=payload))])
        assert [batch["payload"] for batch in read(options)] == [[left]]


@pytest.mark.parametrize("named", [{}, {"writeId": "the same"}])
def test_a_write_that_is_given_up_deletes_all_of_its_rows_and_no_others(options, named):
    options |= named
    first, second = (DrainqDataSource(options).writer(KEY_AND_PAYLOAD, False) for _ in range(2))
    first.write(rows("of a failed attempt"))
    told, kept = first.write(rows("a")), second.write(rows("b"))
    first.abort([told, None])
    assert staged(options) == 1
    second.commit([kept])
    options.pop("writeId", None)
    assert [batch["key"] for batch in read(options)] == [["b"]]


def test_batches_of_a_stream_are_published_once_each_and_one_that_is_given_up_loses_the_rows_it_names(
    options, monkeypatch
):
    named = {"sql.streaming.queryId": "q"}
    context = types.SimpleNamespace(getLocalProperty=named.get)
    monkeypatch.setattr("drainq.datasource.writer.TaskContext", types.SimpleNamespace(get=lambda: context))

    def write(batch, *keys):
        named["streaming.sql.batchId"] = str(batch)
        return DrainqDataSource(options).streamWriter(KEY_AND_PAYLOAD, False).write(rows(*keys))

    writer = DrainqDataSource(options).streamWriter(KEY_AND_PAYLOAD, False)
    later, given_up = write(2, "c"), write(3, "d")
    for messages, batch in (([write(1, "a"), None], 1), ([write(1, "not again")], 1), ([later], 2), ([], 3)):
        writer.commit(messages, batch)
    assert sorted(key for batch in read(options) for key in batch["key"]) == ["a", "c"] and staged(options) == 1
    writer.abort([given_up, None], 3)
    assert staged(options) == 0


@pytest.mark.parametrize(
    ("door", "more", "schema", "words"),
    [
        ("streamWriter", {"overwrite": True}, SCHEMA, "a queue is not overwritten: use .outputMode"),
        ("streamWriter", {"writeId": "w"}, SCHEMA, "writeId is for batch writes"),
        ("reader", {}, StructType(), "the columns to read are .*; got none"),
        ("reader", {}, StructType().add("key", IntegerType()), "got key INT"),
        ("reader", {"payload": "text"}, StructType().add("payload", BinaryType()), "got payload BINARY"),
        ("streamReader", {}, SCHEMA, "needs .option\\('consumer', NAME\\)"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused(options, door, more, schema, words):
    source = DrainqDataSource({**options, **{name: value for name, value in more.items() if name != "overwrite"}})
    overwrite = (more.get("overwrite", False),) if door.endswith("riter") else ()
    with pytest.raises(ValueError, match=words):
        getattr(source, door)(schema, *overwrite)


def test_a_row_that_is_no_message_is_refused(options):
    writer = DrainqDataSource(options).writer(SCHEMA, False)
    late = pa.array([10**18], pa.timestamp("us", "UTC"))
    for columns, words in (
        ({"key": [None]}, "a key is NULL"),
        ({"key": ["k"], "schedule_at": late}, "in the years 1 to"),
    ):
        with pytest.raises(ValueError, match=words):
            writer.write([pa.RecordBatch.from_pydict({"payload": ["x"], **columns})])
