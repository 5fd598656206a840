"""Partial results merge to the result of a single pass, in order, slice by slice."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pyarrow as pa
import pytest

from drainq.columns import percentiles
from drainq.metrics.handlers import MOST_BAD, AddUp, KeepBadLines, MakeHandlers, SpoolFile
from drainq.metrics.load import _as_rows, _with_stored
from drainq.metrics.metric_types import (
    METRICS,
    RELATIVE_ERROR,
    BadLines,
    EndpointMinute,
    ServiceMinute,
    StatusMinute,
)  # fmt: skip
from drainq.metrics.partials import batches, in_order, iso, slices
from drainq.metrics.reader import Reader, metrics_of, with_keys
from drainq.metrics.tables import METRIC_TABLES
from drainq.sketch import DDSketch
from drainq.spark.task_attempt import TaskInfo
from drainq.sql import Dialect

PATHS = ["/a", "/b", "/\u00e4", "/a/b"]


def records(count: int, seed: int) -> pa.RecordBatch:
    """Return parsed lines."""
    dice = random.Random(seed)
    return pa.record_batch(
        {
            "client": pa.array([b"::1"] * count, pa.binary()),
            "second": pa.array([dice.randrange(600) for _ in range(count)], pa.int64()),
            "endpoint": pa.array([dice.choice(PATHS).encode() for _ in range(count)], pa.binary()),
            "status": pa.array([dice.choice((200, 404)) for _ in range(count)], pa.int64()),
            "size": pa.array([dice.randrange(2**40) for _ in range(count)], pa.int64()),
            "referrer": pa.array([None] * count, pa.binary()),
            "agent": pa.array([None] * count, pa.binary()),
            "milliseconds": pa.array([dice.choice((None, 0.0, dice.expovariate(0.01))) for _ in range(count)]),
        }
    )


def add_up(metric, batches, directory, *, most_groups=1000):
    """Return the files of one task for each batch."""
    found = []
    for number, batch in enumerate(batches):
        handler = AddUp(metric, SpoolFile(metric.table, directory / f"{number}"), most_groups=most_groups)
        handler.consume([metric(with_keys(batch))])
        found += handler.result()
    return found


@pytest.mark.parametrize("metric", [ServiceMinute, EndpointMinute, StatusMinute])
@pytest.mark.parametrize("most", [1, 7, 1_000_000])
def test_slices_are_the_whole_in_order(metric, most, tmp_path):
    batches = [records(300, seed) for seed in range(5)]
    files = add_up(metric, batches, tmp_path)
    whole = metric.groups()
    for batch in batches:
        whole.add(with_keys(batch))
    found = list(slices(metric, files, most=most))
    assert (len(found) > 1) == (most < 1_000_000 and bool(metric.names))
    rows = pa.concat_tables(found)
    keys = list(zip(*(rows[key].to_pylist() for key in metric.keys())))
    assert keys == sorted(set(keys)) and len(keys) == len(whole)
    assert sum(rows["requests"].to_pylist()) == 1500
    if "latency" in metric.aggregates:
        expected = pa.record_batch(percentiles(pa.record_batch(whole.result())["latency"], [0, 50, 100])).to_pylist()
        got = pa.record_batch(percentiles(rows["latency"], [0, 50, 100])).to_pylist()
        assert sorted(map(repr, got)) == sorted(map(repr, expected))


@pytest.mark.parametrize("metric", METRICS)
def test_periods_become_texts_in_order(metric):
    names = {name: ["x", "x"] for name in metric.names}
    rows = in_order(metric, pa.record_batch({**names, metric.period: [86400, 0]}))
    assert rows[metric.period].to_pylist() == [iso(0, metric.period), iso(86400, metric.period)]


def test_a_slice_has_as_many_rows_as_are_held_at_once_or_fewer(tmp_path):
    groups = {"endpoint": [f"/{n:03}" for n in range(100)], "minute": [0] * 100, "requests": [1] * 100}
    file = SpoolFile("endpoint_minute", tmp_path / "0")
    file.write(pa.record_batch(groups))
    names = type("Names", (EndpointMinute,), {"aggregates": ("requests",)})
    assert [len(part) for part in slices(names, list(file.closed()), most=33)] == [25] * 4


def test_a_task_hands_groups_out_at_its_bound(tmp_path):
    handler = AddUp(EndpointMinute, SpoolFile("endpoint_minute", tmp_path / "0"), most_groups=30)
    for seed in range(6):
        handler.consume([EndpointMinute(with_keys(records(25, seed)))])
    (file,) = handler.result()
    assert file.rows > 30 and len(list(batches([file]))) == 3
    (rows,) = slices(EndpointMinute, [file])
    assert sum(rows["requests"].to_pylist()) == 150 and 30 < len(rows) < file.rows


class Stored:
    """A database that has these rows."""

    dialect = Dialect.SQLITE

    def __init__(self, rows):
        self.rows = rows

    def stream(self, statement, parameters):
        return iter(self.rows)


def test_groups_stay_in_their_places_when_their_stored_sketches_are_added():
    def sketch(value):
        made = DDSketch(RELATIVE_ERROR)
        made.add(value)
        return made.to_bytes()

    rows = [(f"/{place * 7919 % 20_000}", "m", sketch(place)) for place in range(20_000)]
    groups = pa.table(dict(zip(("endpoint", "minute", "latency"), map(list, zip(*rows)))))
    found = _with_stored(Stored([("/other", "m", sketch(1)), *reversed(rows)]), EndpointMinute, groups)
    merged = [DDSketch.from_bytes(latency) for latency in found["latency"].to_pylist()]
    assert found.select(["endpoint", "minute"]).equals(groups.select(["endpoint", "minute"]))
    assert [(each.min, each.max, each.count) for each in merged] == [(place, place, 2) for place in range(20_000)]


def test_a_sketch_without_a_time_is_stored_as_null_beside_one_with_times():
    sketch, nothing = DDSketch(RELATIVE_ERROR), DDSketch(RELATIVE_ERROR).to_bytes()
    sketch.add(5.0)
    table = METRIC_TABLES[ServiceMinute]
    groups = {name: [0, 0, 0] for name in table.names} | {"latency": [nothing, sketch.to_bytes(), nothing]}
    rows = _as_rows(table, pa.table(groups))
    assert rows["latency"].to_pylist() == [None, sketch.to_bytes(), None]
    assert [value is None for value in rows["p99_ms"].to_pylist()] == [True, False, True]


def test_names_that_are_one_as_texts_are_one_group(tmp_path):
    batch = with_keys(records(2, 1))
    columns = dict(zip(batch.schema.names, batch.columns))
    columns["endpoint"] = pa.array([b"/\xff", rb"/\xff"], pa.binary())
    columns["minute"] = pa.array([0, 0])
    handler = AddUp(EndpointMinute, SpoolFile("endpoint_minute", tmp_path / "0"))
    handler.consume([EndpointMinute(pa.record_batch(columns))])
    (file,) = handler.result()
    assert file.rows == 1  # already in the task
    (rows,) = slices(EndpointMinute, [file])
    assert rows.select(["endpoint", "requests"]).to_pylist() == [{"endpoint": r"/\xff", "requests": 2}]


def test_records_without_names_have_no_agent_and_no_referrer():
    assert [type(metric) for metric in metrics_of(with_keys(records(3, 1)))] == list(METRICS[:4])


@pytest.mark.parametrize("missing", METRICS[3:])
def test_records_without_one_name_are_counted_by_the_others(missing):
    names = {name: pa.array([b"a"] * 3) for name in ("client", "referrer", "agent")}
    batch = with_keys(pa.record_batch({**dict(zip(records(3, 1).schema.names, records(3, 1).columns)), **names}))
    columns = dict(zip(batch.schema.names, batch.columns))
    without = pa.record_batch({**columns, missing.names[0]: pa.array([None, b"a", None])})
    assert {type(each): len(each) for each in metrics_of(without)} == dict.fromkeys(METRICS, 3) | {missing: 1}


def test_a_reader_checks_before_each_piece_whether_it_is_to_end():
    checks, part = (
        iter((None, None)),
        SimpleNamespace(source=3, begin=5, format="", pieces=lambda: iter([b"odd\nodd\n"] * 9)),
    )
    read, found = Reader(lambda: next(checks))((part,)), []
    with pytest.raises(RuntimeError):
        found.extend(read)
    bad, lines = found[0::2], found[1::2]
    assert [(each.source, each.block, each.before, len(each)) for each in bad] == [(3, 5, 0, 2), (3, 5, 2, 2)]
    assert [(each.source, each.block, each.lines, each.parsed) for each in lines] == [(3, 5, 2, 0)] * 2


def test_two_attempts_of_a_task_write_different_files(tmp_path):
    for attempt in range(2):
        info = TaskInfo(stage=0, partition=0, attempt=attempt, task_attempt_id=attempt, cpus=1)
        handler = MakeHandlers(str(tmp_path))(info)[ServiceMinute]
        handler.consume([ServiceMinute(with_keys(records(3, attempt)))])
        list(handler.result())
    assert len(list(tmp_path.iterdir())) == 2


def test_of_the_bad_lines_of_all_batches_the_first_are_kept_and_all_are_counted():
    kept = []
    keep = KeepBadLines(SimpleNamespace(write=lambda batch: kept.append(batch.num_rows), closed=lambda: []))
    for number in range(3):
        keep.consume([BadLines(7, 0, number * 600, [(place, b"x", "wrong") for place in range(600)])])
    assert kept == [600, MOST_BAD - 600]
    assert [(counts.source, counts.reasons) for counts in keep.result()] == [(7, {"wrong": 1800})]
