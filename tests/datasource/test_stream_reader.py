"""A stream reader without a start, which may ask only once: PySpark 4.0 and 4.1."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from pyspark.sql.types import StringType, StructType

from drainq.datasource import DrainqDataSource
from drainq.delayed import DelayedQueue, ScheduledMessage

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
        """What the batch in between has."""
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
