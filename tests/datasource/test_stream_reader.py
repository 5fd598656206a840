"""A stream reader without a start, which may ask only once (PySpark 4.0 and 4.1), and with one."""

from __future__ import annotations

import pickle
import types

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from pyspark.sql.types import StringType, StructType

from drainq.datasource import DrainqDataSource
from drainq.datasource.stream_reader import ClaimedPart, ReadMaxRows
from drainq.delayed import DelayedQueue, ScheduledMessage
from drainq.errors import DrainqError, ShutDown

MESSAGES = 10
SCHEMA = StructType().add("key", StringType()).add("payload", StringType())


@pytest.fixture(params=["sqlite", "postgres"])
def options(request, tmp_path):
    url = f"sqlite:///{tmp_path}/queue.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    table = f"reader{abs(hash(request.node.name)) % 10**8}"
    given = {"url": url, "queue": "in", "table": table, "consumer": "c", "maxRows": "3"}
    with DelayedQueue.open(url, "in", table=table) as queue:
        queue.offer_batch([ScheduledMessage(f"k{n}", f"of {n}", 1000 + n) for n in range(MESSAGES)])
    return given


class Process:
    """A reader as a driver's process has it."""

    def __init__(self, options):
        self.reader = DrainqDataSource(options).streamReader(SCHEMA)

    def keys(self, start, end):
        """Return what the batch in between has."""
        parts = self.reader.partitions({"number": start}, {"number": end})
        found = [batch for part in parts for batch in self.reader.read(part)]
        return [key for batch in found for key in batch.column("key").to_pylist()]

    def latest(self):
        return self.reader.latestOffset()["number"]


def names(first, after):
    return [f"k{n}" for n in range(first, after)]


def test_the_first_answer_claims_what_is_due_up_to_the_limit(options):
    process = Process(options)
    assert process.latest() == 1
    assert process.keys(0, 1) == names(0, 3)
    assert process.latest() == 2
    assert process.keys(1, 2) == names(3, 6)


def test_one_answer_a_run_has_each_message_in_one_batch(options):
    end, batches = 0, []
    for _ in range(5):
        process = Process(options)
        start, end = end, process.latest()
        if end != start:
            process.reader.commit({"number": start})
            batches.append(process.keys(start, end))
        process.reader.stop()
    assert batches == [names(0, 3), names(3, 6), names(6, 9), names(9, MESSAGES)]


def test_a_claim_that_no_batch_has_comes_with_new_messages_in_the_next_run(options):
    died = Process(options)
    assert died.latest() == 1
    died.reader.stop()
    process = Process(options)
    assert process.latest() == 2
    assert process.keys(0, 2) == names(0, 6)


def test_a_claim_without_a_batch_comes_although_nothing_is_due(options):
    died = Process({**options, "maxRows": str(MESSAGES)})
    assert died.latest() == 1
    died.reader.stop()
    process = Process(options)
    assert process.latest() == 1
    assert process.keys(0, 1) == names(0, MESSAGES)


def test_a_batch_that_is_repeated_after_a_claim_has_the_same_messages(options):
    died = Process(options)
    assert died.latest() == 1 and died.keys(0, 1) == names(0, 3)
    died.reader.stop()
    process = Process(options)
    assert process.latest() == 2
    assert process.keys(0, 1) == names(0, 3)
    process.reader.commit({"number": 1})
    assert process.keys(1, 2) == names(3, 6)


def test_without_a_due_message_the_answer_stays(options):
    with DelayedQueue.open(options["url"], "in", table=options["table"]) as queue:
        queue.try_poll_many(MESSAGES).ack()
    process = Process(options)
    assert process.reader.initialOffset()["number"] == process.latest() == process.latest() == 0


def test_after_a_start_a_claim_that_no_batch_has_comes_before_new_ones_and_committed_ones_go(options):
    process = Process(options)

    def latest(start, limit):
        return process.reader.latestOffset({"number": start}, limit)["number"]

    few = types.SimpleNamespace(max_rows=3)
    assert [latest(0, few), latest(0, few), latest(1, few)] == [1, 1, 2] and process.keys(0, 2) == names(3, 6)
    assert latest(2, object()) == 3 and process.keys(0, 3) == names(6, MESSAGES)
    with DelayedQueue.open(options["url"], "in", table=options["table"]) as queue:
        queue.offer_or_update("k3", "of 3", 1000)
    assert latest(2, few) == 3  # and not the new one
    process.reader.commit({"number": 3})
    assert process.keys(0, 3) == []
    assert ReadMaxRows is None or process.reader.getDefaultReadLimit().max_rows == 3


@pytest.mark.parametrize("start", [None, {"number": 1}])
def test_an_empty_queue_is_asked_once_in_the_interval_and_messages_of_later_are_not_of_this_run(
    options, start, monkeypatch
):
    now, polls = [1e6], []
    watch = types.SimpleNamespace(monotonic=lambda: now[0], time=lambda: 1e9 + now[0])
    monkeypatch.setattr("drainq.datasource.stream_reader.time", watch)
    reader = Process({**options, "maxRows": "99", "pollInterval": "5"}).reader
    assert reader.latestOffset()["number"] == 1
    queue, clock = reader._opened.queue, reader._opened.clock
    monkeypatch.setattr(queue, "try_poll_many", lambda n, poll=queue.try_poll_many: polls.append(n) or poll(n))
    for now[0], asked in ((2e6, 1), (2e6 + 4.9, 1), (2e6 + 5, 2), (2e6 + 9, 2)):
        assert reader.latestOffset(start)["number"] == 1 and len(polls) == asked
    reader.prepareForTriggerAvailableNow()
    now[0] += 60
    assert clock.now() == 1e9 + 2e6 + 9
    queue.offer_or_update("of a later time", b'"x"', 1e9 + 2e6 + 30)
    assert reader.latestOffset(start)["number"] == 1 and len(polls) == 3
    assert pickle.loads(pickle.dumps(reader)).latestOffset()["number"] == 1


def test_a_batch_has_as_many_parts_as_its_messages_justify_and_one_that_lacks_messages_fails(options, monkeypatch):
    monkeypatch.setattr("drainq.datasource.stream_reader._ROWS_OF_A_PARTITION", 3)
    for most, found in (("3", [4, 3, 3]), ("8", [3, 3, 2, 2])):
        process = Process({**options, "maxRows": "99", "partitions": most})
        assert process.latest() == 1
        assert [part.value[-1] for part in process.reader.partitions({"number": 0}, {"number": 1})] == found
        assert sorted(process.keys(0, 1)) == names(0, MESSAGES)
    for rows in (MESSAGES - 1, MESSAGES + 1):
        with pytest.raises(DrainqError, match=f"had {rows} messages in part 0, and have 10"):
            list(process.reader.read(ClaimedPart(0, 1, 0, 1, rows)))
    opened = process.reader._opened
    assert opened.queue._session.lease_end(0) == 60_000
    process.reader.stop()
    assert process.reader._opened is opened.transactions._database is None
    with pytest.raises(ShutDown):
        opened.queue.try_poll()
