"""A sink: every row is written, skipped or parked, and the report says which."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark_session import by_value

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.backoff import Backoff
from drainq.delayed import DelayedQueue
from drainq.delivery.payload import unpack
from drainq.spark import PartitionReport, SinkReport, sink

by_value(__name__)
ROWS = 5_000
AT_ONCE = Backoff(0.001, 0.001)


@pytest.fixture
def numbers(spark):
    return spark.range(0, ROWS, 1, 4).selectExpr("id as n", "cast(id as string) as name")


class Files:
    """A writer that appends each batch to a file of its own; the files of all attempts stay."""

    def __init__(self, folder, info):
        self.file = (Path(folder) / f"{info.partition}-{info.attempt}-{threading.get_ident()}").open("a")
        self.thread = threading.get_ident()

    def write(self, batch):
        assert threading.get_ident() == self.thread
        self.file.write("".join(f"{row[0]}\n" for row in batch))

    def close(self):
        assert threading.get_ident() == self.thread
        self.file.close()


def written(folder):
    return sorted(int(line) for path in Path(folder).iterdir() for line in path.read_text().split())


def test_every_row_is_written_once_and_the_report_adds_up(numbers, tmp_path):
    report = sink(numbers, lambda info: Files(tmp_path, info), threads=3, max_batch_rows=100)
    assert written(tmp_path) == list(range(ROWS))
    assert (report.rows, report.retries, report.errors, report.dropped, report.parked) == (ROWS, 0, 0, 0, 0)
    assert report.batches >= ROWS / 100
    assert [part.partition for part in report.partitions] == [0, 1, 2, 3]
    assert [part.rows for part in report.partitions] == [ROWS // 4] * 4
    assert report.seconds == pytest.approx(sum(part.seconds for part in report.partitions))


class Poison:
    """Refuses each hundredth row."""

    def write(self, batch):
        for n, _ in batch:
            if n % 100 == 7:
                raise ValueError(f"poison {n}")


def test_poison_rows_are_parked_in_a_delayed_queue_once_however_often_the_task_runs(numbers, tmp_path):
    url = f"sqlite:///{tmp_path}/parked.db"

    def open_queue():
        return DelayedQueue.open(url, "rows")

    for _ in range(2):
        report = sink(numbers, lambda info: Poison(), delayed=open_queue, retries=0, max_batch_rows=500)
        assert (report.rows, report.errors, report.dropped, report.parked) == (ROWS - 50, 50, 0, 50)
    with DelayedQueue.open(url, "rows") as queue:
        parked = [queue.try_poll().payload for _ in range(50)]
        assert queue.try_poll() is None
    assert sorted(unpack(row["row"]) for row in parked) == [(n, str(n)) for n in range(7, ROWS, 100)]
    assert parked[0]["error"].startswith("ValueError: poison ")


def test_a_call_has_one_write_id_in_all_its_tasks_and_attempts_and_the_next_call_another(numbers, tmp_path):
    class Named:
        def __init__(self, info):
            self.info = info
            (tmp_path / f"{info.write_id} {info.partition} {info.attempt}").touch()

        def write(self, batch):
            if self.info.partition == 2 and self.info.attempt == 0:
                raise RuntimeError("the first attempt")

    for _ in range(2):
        sink(numbers, Named, threads=1, retries=0)
    seen = {}
    for path in tmp_path.iterdir():
        write_id, partition, attempt = path.name.split()
        seen.setdefault(write_id, set()).add((int(partition), int(attempt)))
    assert list(seen.values()) == [{(0, 0), (1, 0), (2, 0), (2, 1), (3, 0)}] * 2


class Broken:
    def write(self, batch):
        return len(batch) / 0


def test_the_drivers_error_shows_the_writers_exception_and_its_line(numbers):
    with pytest.raises(Exception) as raised:
        sink(numbers.coalesce(1), lambda info: Broken(), retries=1, backoff=AT_ONCE)
    said = str(raised.value)
    assert "ZeroDivisionError" in said and "tried 2 times" in said
    assert "test_sink.py" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"threads": 0}, "threads must be .* of at least 1, got 0"),
        ({"threads": "4"}, "threads must be a whole number .*, got '4'"),
        ({"max_in_flight": 0}, "max_in_flight must be .* of at least 1, got 0"),
        ({"max_batch_rows": 1.5}, "max_batch_rows must be a whole number .*, got 1.5"),
        ({"max_batch_bytes": -1}, "max_batch_bytes must be .* of at least 1, got -1"),
        ({"linger": -1}, "linger must be at least 0 seconds and finite, got -1"),
        ({"retries": -1}, "retries must be .* of at least 0, got -1"),
        ({"close_timeout": "5"}, "close_timeout must be a number of seconds, or a datetime.timedelta, got '5'"),
        ({"rows": "rows"}, "rows must be 'tuples' .*got 'rows'"),
        ({"on_error": "ignore"}, "on_error must be 'fail', 'skip', 'park' or a function .*got 'ignore'"),
        ({"on_error": "park"}, "on_error='park' needs delayed="),
        ({"on_error": lambda row: "skip"}, "on_error is called with 2 positional arguments"),
        ({"delayed": "sqlite:///x"}, "delayed must be a callable"),
        ({"backoff": 0.5}, "backoff must be a drainq.backoff.Backoff, got 0.5"),
        ({"columns": "name"}, "columns must be a list of column names, .* got 'name'"),
        ({"columns": []}, r"columns must be a list of column names, at least one, .* got \[\]"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_value_before_anything_runs(numbers, more, words):
    with pytest.raises((TypeError, ValueError), match=words):
        sink(numbers, lambda info: Poison(), **more)


def test_a_live_object_that_a_writer_would_take_along_is_refused_with_what_to_send(numbers):
    with DelayedQueue.open("memory:", "rows") as queue:
        with pytest.raises(Exception, match="'DelayedQueue' object cannot be pickled or copied.*its URL and name"):
            sink(numbers, lambda info: Poison(), delayed=lambda: queue)
    with BatchQueue("live", BatchQueueConfig(threads=ThreadPolicy.fixed(1))) as queue:
        with pytest.raises(Exception, match="'BatchQueue' object cannot be pickled or copied"):
            sink(numbers, lambda info: queue)


def test_reports_add_up():
    parts = [PartitionReport(1, 5, 2, 1, 2, 1, 1, 0.5), PartitionReport(0, 7, 1, 0, 0, 0, 0, 0.25)]
    report = SinkReport.of(parts)
    assert report == SinkReport(12, 3, 1, 2, 1, 1, 0.75, (parts[1], parts[0]))
