"""The data source on a real Spark: each row is published once, and each message is in one batch, whatever fails."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from tests.spark_session import by_value, once_python_is_there

from drainq.datasource import DrainqDataSource
from drainq.datasource.stream_reader import ReadMaxRows, StreamReader
from drainq.datasource.writer import FrameWriter, StreamWriter
from drainq.delayed import BytesCodec, DelayedQueue
from drainq.spark import register
from drainq.sql.database import Database

by_value(__name__)
ROWS = 600
ASKS_ONCE = ReadMaxRows is None  # PySpark before 4.2: one batch a run, and its claims stay until the next is planned
LEFT = 100  # rows of the last batch: 250, 250, 100


class Faults:
    """A writer with faults: ``fault`` says where, ``mark`` names a file for "done it"."""

    fault = mark = ""

    def write(self, iterator):
        from pyspark import TaskContext

        message = super().write(iterator)
        context = TaskContext.get()
        if context.partitionId() == 1 and (context.attemptNumber() == 0 or self.fault == "always"):
            if self.fault in ("raise", "always"):
                self.done_it()
                raise RuntimeError("a fault in a task")
            if self.fault == "kill":
                self.done_it()
                os.kill(os.getpid(), signal.SIGKILL)
        return message

    def commit(self, messages, *batch):
        first = not os.path.exists(self.mark)
        if first and self.fault == "before commit":
            self.done_it()
            raise RuntimeError("a fault before the commit")
        super().commit(messages, *batch)
        if first and self.fault == "after commit":
            self.done_it()
            raise RuntimeError("a fault after the commit")

    def done_it(self):
        with open(self.mark, "w"):
            pass


class FaultyBatchWriter(Faults, FrameWriter):
    pass


class FaultyStreamWriter(Faults, StreamWriter):
    pass


class Faulty(DrainqDataSource):
    """The data source with faults."""

    @classmethod
    def name(cls):
        return "drainq_faulty"

    def writer(self, schema, overwrite):
        return self.with_faults(super().writer(schema, overwrite), FaultyBatchWriter)

    def streamWriter(self, schema, overwrite):
        return self.with_faults(super().streamWriter(schema, overwrite), FaultyStreamWriter)

    def with_faults(self, writer, kind):
        writer.__class__ = kind
        writer.fault, writer.mark = self.options["fault"], self.options["mark"]
        return writer


@pytest.fixture
def session(spark):
    register(spark)
    spark.dataSource.register(Faulty)
    return spark


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/queue.db"


@pytest.fixture
def rows(session):
    return session.range(0, ROWS, 1, 3).selectExpr(
        "concat('k', id) AS key", "concat('of ', id) AS payload", "timestamp_millis(1000 + id) AS schedule_at"
    )


def taken(url, queue="out", **more):
    """Return all due messages, which are gone then; their payloads by key, and how often each key came."""
    with DelayedQueue.open(url, queue, **more) as opened:
        envelope = opened.try_poll_many(100_000)
        envelope.ack()
        return dict(zip(envelope.message_id, envelope.payload)), Counter(envelope.message_id)


def lines(url, table):
    with Database(url) as database:
        return database.execute(f'SELECT count(*) FROM "delayed_queue__spark_{table}"')[0][0]


def write(rows, url, *, format="drainq", queue="out", **options):
    rows.write.format(format).mode("append").options(url=url, queue=queue, **options).save()


def run(session, url, folder, *, format="drainq", **options):
    """Run the query once, from queue ``in`` to queue ``out``."""
    once_python_is_there(lambda: run_once(session, url, folder, format=format, **options))


def run_once(session, url, folder, *, format, **options):
    reader = session.readStream.format("drainq").options(url=url, queue="in", consumer="c", maxRows="250").load()
    writer = reader.writeStream.format(format).options(url=url, queue="out", **options)
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()


def stream(session, url, folder, **options):
    """Run the query until all messages are done: once, or as often as PySpark before 4.2 takes."""
    with DelayedQueue.open(url, "in") as queue:
        for _ in range(3 if ASKS_ONCE else 1):
            run(session, url, folder, **options)
        assert queue.stats().ready == queue.stats().in_flight == 0


EXPECTED = {f"k{n}": f"of {n}" for n in range(ROWS)}


@pytest.mark.system
@pytest.mark.parametrize("fault", ["none", "raise", "kill"])
def test_each_row_is_published_once_whatever_becomes_of_an_attempt(rows, url, tmp_path, fault):
    mark = tmp_path / "mark"
    write(rows, url, format="drainq_faulty", fault=fault, mark=str(mark))
    assert mark.exists() == (fault != "none")
    payloads, counts = taken(url)
    assert payloads == EXPECTED and set(counts.values()) == {1}
    assert lines(url, "stage") == 0


def test_a_write_that_fails_publishes_nothing_and_leaves_nothing(rows, url, tmp_path):
    with pytest.raises(Exception, match="a fault in a task"):
        write(rows, url, format="drainq_faulty", fault="always", mark=str(tmp_path / "mark"))
    assert taken(url) == ({}, {}) and lines(url, "stage") == 0


def test_a_write_with_an_id_is_published_once(rows, url, tmp_path):
    with pytest.raises(Exception, match="a fault after the commit"):
        write(rows, url, format="drainq_faulty", writeId="day 1", fault="after commit", mark=str(tmp_path / "mark"))
    assert taken(url)[0] == EXPECTED
    write(rows, url, writeId="day 1")
    assert taken(url)[0] == {}
    write(rows, url, writeId="day 2")
    assert taken(url)[0] == EXPECTED


@pytest.mark.system
@pytest.mark.parametrize("fault", ["before commit", "after commit"])
def test_a_stream_that_stops_at_its_commit_goes_on_exactly_there(session, rows, url, tmp_path, fault):
    write(rows, url, queue="in")
    faulty = {"format": "drainq_faulty", "fault": fault, "mark": str(tmp_path / "mark")}
    with pytest.raises(Exception, match=f"a fault {fault.split()[0]} the commit"):
        stream(session, url, tmp_path / "checkpoint", **faulty)
    first, counts = taken(url)
    assert len(first) == (250 if fault == "after commit" else 0)
    stream(session, url, tmp_path / "checkpoint", **faulty)
    second, more = taken(url)
    assert {**first, **second} == EXPECTED and set((counts + more).values()) == {1}
    assert lines(url, "stage") == 0 and lines(url, "claims") == (LEFT if ASKS_ONCE else 0)


def test_a_batch_whose_commit_spark_has_not_noted_is_not_published_again(session, rows, url, tmp_path):
    write(rows, url, queue="in")
    stream(session, url, tmp_path / "checkpoint")
    assert taken(url)[0] == EXPECTED
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    assert lines(url, "claims") == (LEFT if ASKS_ONCE else 0)
    if not ASKS_ONCE:  # nor were the claims of that batch acknowledged
        with Database(url) as database:
            number = database.execute('SELECT number FROM "delayed_queue__spark_readers"')[0][0]
            database.execute_many(
                "INSERT INTO delayed_queue__spark_claims SELECT queue, consumer, ?, ?, ?, ?, 0 FROM delayed_queue__spark_readers",
                [(number, n, f"k{n}", b'"again"') for n in range(LEFT)],
            )
    stream(session, url, tmp_path / "checkpoint")
    assert taken(url)[0] == {}
    shutil.rmtree(tmp_path / "checkpoint")


def test_claims_that_no_batch_has_come_first(session, rows, url, tmp_path):
    write(rows, url, queue="in")
    schema = rows.schema
    reader = DrainqDataSource({"url": url, "queue": "in", "consumer": "c"}).streamReader(schema)
    assert isinstance(reader, StreamReader)
    assert reader.latestOffset(reader.initialOffset(), type("Limit", (), {"max_rows": 70})()) == {"number": 1}
    reader.stop()  # as if the driver died before it noted the offset
    assert lines(url, "claims") == 70
    stream(session, url, tmp_path / "checkpoint")
    payloads, counts = taken(url)
    assert payloads == EXPECTED and set(counts.values()) == {1}


def test_reading_shows_the_queue_and_takes_nothing(session, rows, url):
    write(rows, url)
    for _ in range(2):
        found = session.read.format("drainq").options(url=url, queue="out").load()
        assert found.schema.simpleString() == "struct<key:string,payload:string,schedule_at:timestamp>"
        seen = found.selectExpr("key", "payload", "unix_millis(schedule_at) AS at").collect()
        assert {row.key: row.payload for row in seen} == EXPECTED
        assert [row.at for row in seen] == [1000 + n for n in range(ROWS)]
    few = session.read.format("drainq").options(url=url, queue="out", maxRows="5").schema("payload string").load()
    assert [row.payload for row in few.collect()] == [f"of {n}" for n in range(5)]


def test_payloads_have_types(session, url):
    session.sql("SELECT 'a' AS key, X'00FF' AS payload").write.format("drainq").mode("append").options(
        url=url, queue="raw"
    ).save()
    read = session.read.format("drainq").options(url=url, queue="raw", payload="binary").load()
    assert [bytes(row.payload) for row in read.collect()] == [b"\0\xff"]
    assert taken(url, "raw", codec=BytesCodec())[0] == {"a": b"\0\xff"}
    session.sql("""SELECT 'a' AS key, '{"n": [1, null]}' AS payload""").write.format("drainq").mode("append").options(
        url=url, queue="typed", payload="json"
    ).save()
    with pytest.raises(Exception, match="is a dict, not a text: read with .option"):
        session.read.format("drainq").options(url=url, queue="typed").load().collect()
    assert taken(url, "typed")[0] == {"a": {"n": [1, None]}}


@pytest.mark.parametrize(
    ("sql", "options", "words"),
    [
        ("SELECT 'a' AS key", {}, "the columns to write are key STRING, payload"),
        ("SELECT 'a' AS key, 'b' AS payload, 1 AS prio", {}, "got key STRING, payload STRING, prio INT"),
        ("SELECT 'a' AS key, 'b' AS payload", {"payload": "binary"}, "needs a column payload BINARY, got STRING"),
        ("SELECT 'a' AS key, 'b' AS payload", {"mode": "overwrite"}, "a queue is not overwritten"),
        ("SELECT 'a' AS key, 'b' AS payload", {"maxrow": "1"}, "did you mean 'maxRows'"),
        ("SELECT '' AS key, 'b' AS payload", {}, "a key must have 1 to 200 characters, got 0"),
        ("SELECT 'a' AS key, '{' AS payload", {"payload": "json"}, "a payload is no JSON document"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_value(session, url, sql, options, words):
    mode = options.pop("mode", "append")
    with pytest.raises(Exception, match=words):
        session.sql(sql).write.format("drainq").mode(mode).options(url=url, queue="out", **options).save()


def test_a_stream_needs_a_consumer(session, url):
    def without():
        session.readStream.format("drainq").options(url=url, queue="in").load().writeStream.format("noop").option(
            "checkpointLocation", "/nowhere"
        ).start().awaitTermination()

    with pytest.raises(Exception, match="needs .option\\('consumer', NAME\\)"):
        once_python_is_there(without)


def test_on_postgresql_a_stream_is_exact_and_no_plan_log_or_error_shows_the_password(
    session, rows, postgres_url, tmp_path, capfd
):
    url = postgres_url.replace("postgresql://drainq@", "postgresql://drainq:hunter2@")
    assert "hunter2" in url
    more = {"table": "spark_source"}
    write(rows, url, queue="in", **more)
    options = {"url": url, "queue": "in", "consumer": "c", **more}
    frame = session.readStream.format("drainq").options(**options).load()
    writer = frame.writeStream.format("drainq").options(url=url, queue="out", **more)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)

    def ended():
        query = writer.start()
        assert query.awaitTermination(300)
        return query

    query = once_python_is_there(ended)
    session.read.format("drainq").options(url=url, queue="out", **more).load().explain("extended")
    frame.explain("extended")
    query.explain(True)
    with pytest.raises(Exception) as refused:
        write(rows.select("key"), url, queue="in", **more)
    said = capfd.readouterr()
    progress = "".join(str(each) for each in query.recentProgress)
    files = [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    logs = [path.read_text(errors="replace") for path in tmp_path.parent.rglob("spark.log")]
    for text in (said.out, said.err, progress, str(refused.value), *files, *logs):
        assert "hunter2" not in text
    payloads, counts = taken(url, table="spark_source")
    assert payloads == EXPECTED and set(counts.values()) == {1}
