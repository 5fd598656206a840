"""Metrics that are declared: the tables agree with a plain count of the same items."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal

import pytest

from drainq.sql import Database, DatabaseError, Upsert
from drainq.testing import ManualClock
from drainq.workers import DeclaredMetrics, Metric, Value
from drainq.workers.merged import Merged
from drainq.workers.metric_tables import _number
from tests.delivery.helpers import counts

DAY = 86_400


@dataclass
class Hit:
    path: str
    status: int
    at: float
    size: object
    ms: float
    client: str


@dataclass
class Login:
    user: str
    at: float


def hits(**more):
    values = {
        "requests": Value.count(),
        "bytes": Value.sum("size"),
        "quickest": Value.min("ms"),
        "slowest": Value.max("ms"),
        "mean": Value.average("ms"),
        "ms": Value.percentile("ms", 50, 99),
        "clients": Value.distinct(lambda hit: hit.client),
    }
    options = {"keys": {"path": "path", "status": "status"}, "integers": ("status",), "time": "at", "values": values}
    return Metric("hits", Hit, **{**options, "every": ("minute", "hour", "day"), **more})


LOGINS = Metric("logins", Login, keys={}, time="at", values={"n": Value.count()})


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    where = (
        f"sqlite:///{tmp_path}/declared.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    yield where
    with Database(where) as database:
        for metric in ("hits", "logins", "failures"):
            for period in ("minute", "hour", "day"):
                for column in ("", "_ms", "_clients"):
                    database.execute(f"DROP TABLE IF EXISTS {metric}_{period}{column}")


def declared(url, metrics, **more):
    return DeclaredMetrics(url=url, metrics=metrics, **{"flush_interval": None, **more})


def random_hits(rng, count):
    return [
        Hit(rng.choice("/ä'%"), rng.choice([200, 404]), rng.uniform(0, 3 * DAY), rng.choice([None, rng.randrange(99)]),
            rng.lognormvariate(3, 2), f"client {rng.randrange(40)}")
        for _ in range(count)
    ]  # fmt: skip


def model(items, seconds):
    groups = defaultdict(list)
    for hit in items:
        groups[hit.path, hit.status, int(hit.at // seconds) * seconds].append(hit)
    return groups


@pytest.mark.parametrize("seed", range(3))
def test_every_value_of_every_period_agrees_with_a_plain_count(url, seed):
    rng = random.Random(seed)
    items = random_hits(rng, 3_000)
    with declared(url, [hits()]) as one, declared(url, [hits()]) as other:
        for start in range(0, 3_000, 300):
            rng.choice([one, other]).produce_many(items[start : start + 300])
            rng.choice([one, other]).flush()
        assert one.flush() and other.flush()
        for every, seconds in (("minute", 60), ("hour", 3_600), ("day", DAY)):
            expected = model(items, seconds)
            rows = one.read("hits", every)
            assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
            assert {(row["path"], row["status"], row["time"]) for row in rows} == set(expected)
            for row in rows:
                check(row, expected[row["path"], row["status"], row["time"]])
        assert one.read("hits", "day", since=DAY, until=2 * DAY) == [
            row for row in one.read("hits", "day") if row["time"] == DAY
        ]
    assert counts(one)[0] + counts(other)[0] == 3_000


def check(row, group):
    times = sorted(hit.ms for hit in group)
    sizes = [hit.size for hit in group if hit.size is not None]
    assert row["requests"] == len(group)
    assert row["bytes"] == (sum(sizes) if sizes else None) and not isinstance(row["bytes"], float)
    assert row["quickest"] == times[0] and row["slowest"] == times[-1]
    assert math.isclose(row["mean"], sum(times) / len(times))
    assert row["clients"] == len({hit.client for hit in group})
    for percent in (50, 99):
        exact = times[math.floor(percent / 100 * (len(times) - 1))], times[math.ceil(percent / 100 * (len(times) - 1))]
        assert exact[0] * 0.985 <= row[f"ms_p{percent}"] <= exact[1] * 1.015


def test_items_of_several_classes_and_metrics_are_counted_once_each(url):
    failures = Metric("failures", Hit, keys={"status": "status"}, time="at", values={"n": Value.count()})
    with declared(url, [hits(), failures, LOGINS], max_rows=7) as metrics:
        assert metrics._max_rows == 7
        metrics.produce_many([Hit("/", 500, 1.0, 1, 1.0, "a"), Login("ann", 2.0), Login("bob", 61.0)])
        assert metrics.flush()
        assert metrics.read("failures") == [{"status": "500", "time": 0, "n": 1}]
        assert metrics.read("logins") == [{"time": 0, "n": 1}, {"time": 60, "n": 1}]
        assert counts(metrics) == (3, 0, 0, 0, 0) and metrics.stats().per_type == {Hit: 1, Login: 2}


@pytest.mark.parametrize(
    "bad", [Hit("/", 200, 1.0, 1, math.nan, "a"), Hit("/", 200, math.inf, 1, 1.0, "a"), Hit("/", "x", 1.0, 1, 1.0, "a"),
            Hit("/", 200, 1.0, "many", 1.0, "a"), Hit("/", 200, 1.0, 1, math.inf, "a"), Hit("/", 200, math.nan, 1, 1.0, "a"),
            Hit("/", 200, 1.0, "", 1.0, "a")],
    ids=["nan", "time", "key", "text", "infinite", "no time", "empty"]
)  # fmt: skip
def test_a_batch_with_an_item_that_cannot_be_read_is_refused_whole(tmp_path, bad):
    with declared(f"sqlite:///{tmp_path}/bad.db", [hits()]) as metrics:
        with pytest.raises(ValueError):
            metrics([Hit("/", 200, 1.0, 1, 1.0, "a"), bad])
        assert metrics.flush() is False and metrics.read("hits") == [] and counts(metrics) == (0, 2, 0, 0, 0)


@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_that_one_metric_cannot_read_is_in_the_table_of_none(tmp_path, order):
    failures = Metric("failures", Hit, keys={"status": "status"}, time="at", values={"n": Value.count()})
    good, bad = Hit("/", 500, 1.0, 1, 1.0, "a"), Hit("/", 500, 1.0, 1, math.nan, "a")
    with declared(f"sqlite:///{tmp_path}/bad.db", [failures, hits()][::order]) as metrics:
        with pytest.raises(ValueError):
            metrics([good, bad])
        assert metrics.flush() is False and counts(metrics) == (0, 2, 0, 0, 0)
        assert metrics.read("failures") == metrics.read("hits") == []
        metrics([good])
        assert metrics.flush() and [row["n"] for row in metrics.read("failures")] == [1]


def test_what_is_too_old_is_refused_or_deleted(url):
    clock = ManualClock(10 * DAY)
    metric = hits(keep={"minute": 3_600, "hour": DAY, "day": 5 * DAY})
    with declared(url, [metric], clock=clock) as metrics:
        at = [10 * DAY - 1, 9.5 * DAY, 6 * DAY, 2 * DAY]
        metrics([Hit("/", 200, time, 1, 1.0, "a") for time in at])
        assert metrics.flush() is False
        assert counts(metrics) == (3, 1, 0, 0, 0) and metrics.stats().expired == 1
        assert [len(metrics.read("hits", every)) for every in ("minute", "hour", "day")] == [1, 2, 2]
        clock.advance(2 * DAY)
        metrics([Hit("/", 200, clock.now(), 1, 1.0, "a")])
        assert metrics.flush()
        assert [row["time"] for row in metrics.read("hits", "minute")] == [12 * DAY]
        assert [row["time"] for row in metrics.read("hits", "day")] == [9 * DAY, 12 * DAY]
        with Database(url) as database:
            assert database.execute("SELECT COUNT(*) FROM hits_minute_clients") == [(1,)]


@pytest.mark.parametrize(("late", "rows"), [(0, 1), (1, 0)])
def test_a_row_is_kept_for_its_time_from_the_end_of_its_period(late, rows):
    metric = hits(keep={"minute": 3_600})
    merged = Merged(metric)
    merged.add([(merged.read(Hit("/", 200, 600.0, 1, 1.0, "a")), 1)])
    entries = merged.entries(660 + 3_600 - 1 + late)
    tables = [table for _, each in entries for table, _ in each]
    assert tables.count(metric.tables["minute"]) == rows and tables.count(metric.tables["day"]) == 1


def test_an_item_that_one_period_keeps_for_ever_is_never_too_old(tmp_path):
    metric = hits(keep={"minute": 3_600, "hour": DAY})
    assert (metric.oldest, hits(keep=dict.fromkeys(metric.periods, DAY)).oldest) == (None, DAY)
    with declared(f"sqlite:///{tmp_path}/old.db", [metric], clock=ManualClock(10 * DAY)) as metrics:
        metrics([Hit("/", 200, 2 * DAY, 1, 1.0, "a")])
        assert metrics.flush() and counts(metrics) == (1, 0, 0, 0, 0) and metrics.stats().expired == 0
        assert [len(metrics.read("hits", every)) for every in metric.periods] == [0, 0, 1]


@pytest.mark.parametrize(("late", "days"), [(0, [11, 12]), (1, [13])])
def test_a_row_that_was_written_is_deleted_when_a_flush_would_leave_it_out(url, late, days):
    clock = ManualClock(11.25 * DAY)
    with declared(url, [hits(keep={"day": DAY})], clock=clock) as metrics:
        for _ in range(2):
            metrics([Hit("/", 200, clock.now(), 1, 1.0, "a")])
            assert metrics.flush()
            clock.advance(1.75 * DAY - 1 + late)
        assert [row["time"] / DAY for row in metrics.read("hits", "day")] == days


def test_old_rows_are_deleted_out_of_the_tables_of_their_metric_alone(tmp_path):
    clock = ManualClock(10 * DAY)
    longer = Metric("hits_minute", Login, keys={}, time="at", values={"n": Value.count()})
    with declared(f"sqlite:///{tmp_path}/names.db", [hits(keep={"minute": 60}), longer], clock=clock) as metrics:
        for _ in range(2):
            metrics([Hit("/", 200, clock.now(), 1, 1.0, "a"), Login("ann", clock.now())])
            assert metrics.flush()
            clock.advance(DAY)
        assert [len(metrics.read(name)) for name in ("hits", "hits_minute")] == [1, 2]


def test_an_item_counts_once_however_many_periods_its_row_goes_into():
    merged = Merged(hits())
    merged.add([(merged.read(Hit("/", 200, at, 1, 1.0, "a")), 1) for at in (0.0, 1.0, 61.0)])
    assert [count for count, _ in merged.entries(100.0)] == [2, 1, 0, 0]


def test_items_of_no_metric_are_no_expired_ones(url, caplog):
    clock = ManualClock(10 * DAY)
    with declared(url, [hits(keep={"minute": 3_600, "hour": 3_600, "day": 3_600})], clock=clock) as metrics:
        metrics([Hit("/", 200, 10 * DAY, 1, 1.0, "a"), Hit("/", 200, 1.0, 1, 1.0, "a"), "no hit", Login("ann", 1.0)])
        assert counts(metrics) == (0, 3, 0, 0, 1) and metrics.stats().expired == 1
        assert "declared-metrics/hits: 2 items are of no metric, 1 are too old" in caplog.messages


def test_an_item_is_too_old_when_its_period_began_as_long_ago_as_the_metric_keeps_it(tmp_path):
    clock, kept = (
        ManualClock(600.0),
        Metric("hits", Login, keys={}, time="at", values=LOGINS.values, keep={"minute": 540}),
    )
    with declared(f"sqlite:///{tmp_path}/old.db", [kept], clock=clock) as metrics:
        metrics([Login("ann", 119.9), Login("ann", 120.0)])
        assert counts(metrics) == (0, 1, 0, 0, 1)


def test_old_rows_are_deleted_once_a_minute_and_a_metric_that_fails_keeps_none_from_it(tmp_path, caplog):
    clock, cleared = ManualClock(), []
    each = [
        Metric(name, Login, keys={}, time="at", values=LOGINS.values, keep={"minute": DAY}) for name in ("bad", "good")
    ]
    with declared(f"sqlite:///{tmp_path}/clear.db", [*each, LOGINS], clock=clock) as metrics:
        metrics._tables.clear = lambda metric, now: (
            cleared.append(metric.name) or (metric.name == "bad" and len("") / 0)
        )
        for seconds, times in ((0, 1), (59.9, 1), (0.1, 2)):
            clock.advance(seconds)
            metrics([Login("ann", clock.now())])
            assert metrics.flush() and cleared == ["bad", "good"] * times
    assert caplog.messages == ["bad: rows that are too old could not be deleted"] * 2


def test_values_that_are_missing_decimal_or_nothing_at_all(tmp_path):
    means = hits(values={"ms": Value.percentile("ms", 99.9), "size": Value.average("size"), "bytes": Value.sum("size"),
                         "clients": Value.distinct("client")}, keys={}, integers=())  # fmt: skip
    with declared(f"sqlite:///{tmp_path}/none.db", [means]) as metrics:
        metrics([Hit("/", 200, 1.0, None, 0.0, None), Hit("/", 200, 61.0, Decimal("1.5"), 1.0, "a")])
        assert metrics.flush()
        assert metrics.read("hits") == [
            {"time": 0, "ms_p99.9": 0.0, "size": None, "bytes": None, "clients": 0},
            {"time": 60, "ms_p99.9": pytest.approx(1.0, rel=0.02), "size": 1.5, "bytes": 1.5, "clients": 1},
        ]


def test_an_entry_whose_tables_are_not_all_there_writes_nothing_and_is_described_by_them(tmp_path):
    url = f"sqlite:///{tmp_path}/part.db"
    with declared(url, [hits(every=("minute",))]) as metrics, Database(url) as database:
        database.execute("DROP TABLE hits_minute_ms")
        metrics([Hit("/", 200, 1.0, 1, 1.0, "a")])
        assert metrics.flush() is False
        assert database.execute("SELECT COUNT(*) FROM hits_minute") == [(0,)] and counts(metrics) == (0, 0, 0, 0, 1)
        [entry] = metrics._to_send(metrics._take_out())
        found = "['hits_minute', 'hits_minute_clients', 'hits_minute_ms']"
        assert metrics._tables.described(entry) == f"rows for {found}"


def test_tables_are_written_in_the_order_of_their_names_so_that_two_writers_cannot_deadlock(tmp_path, monkeypatch):
    with declared(f"sqlite:///{tmp_path}/order.db", [LOGINS, hits()]) as metrics:
        metrics([Login("ann", 2.0), Hit("/", 200, 1.0, 1, 1.0, "a")])
        written = []
        monkeypatch.setattr(Upsert, "write", lambda upsert, database, rows: written.append(upsert.table))
        assert metrics.flush() and len(written) == 10 and written == sorted(written)
    numbers = [_number(value) for value in (Decimal(2), Decimal("2.5"), 3, None)]
    assert numbers == [2, 2.5, 3, None] and list(map(type, numbers)) == [int, float, int, type(None)]


def test_the_columns_of_a_mean_are_named_for_what_they_hold(tmp_path):
    with declared(url := f"sqlite:///{tmp_path}/mean.db", [hits()]) as metrics:
        metrics([Hit("/", 200, 1.0, 1, each, "a") for each in (2.0, 5.0)])
    with Database(url) as database:
        assert database.execute("SELECT mean_sum, mean_count FROM hits_minute") == [(7.0, 2)]


def test_a_period_before_the_epoch_begins_before_its_items():
    assert Merged(LOGINS).read(Login("ann", -1.0))[0] == (-60,)


def test_a_metric_is_removed_while_others_go_on(url):
    with declared(url, [hits(), LOGINS]) as metrics:
        metrics([Hit("/", 200, 1.0, 1, 1.0, "a"), Login("ann", 2.0)])
        flush, timeouts = metrics.flush, []
        metrics.flush = lambda timeout: timeouts.append(timeout) or flush(timeout)
        metrics._ready = [(1, [("logins_minute", (60, 1))])]  # a flush failed, and this is left of it
        metrics._held += 1
        metrics._books.arrive(1)
        assert metrics.remove("logins", 60) and timeouts == [60]
        metrics.flush = flush
        with pytest.raises(KeyError):
            metrics.read("logins")
        metrics([Hit("/", 200, 1.0, 1, 1.0, "b")])
        assert metrics.flush() and metrics.read("hits")[0]["requests"] == 2
        assert counts(metrics) == (4, 0, 0, 0, 0)
        with pytest.raises(ValueError, match="only metric"):
            metrics.remove("hits")
        with pytest.raises(KeyError, match="logins"):
            metrics.remove("logins")
    with declared(url, [LOGINS]) as again:
        assert again.read("logins") == [{"time": 0, "n": 1}, {"time": 60, "n": 1}]


class Words(dict):
    """A kind of dict."""


@pytest.mark.parametrize("kind", [dict, Words])
def test_dicts_are_read_by_key(tmp_path, kind):
    metric = Metric("words", kind, keys={"word": "w"}, time="t", values={"n": Value.count(), "letters": Value.sum("l")})
    with declared(f"sqlite:///{tmp_path}/dicts.db", [metric]) as metrics:
        metrics.produce_many([kind(w="a", t=1, l=1), kind(w="a", t=2, l=1)])
        assert metrics.flush() and metrics.read("words") == [{"word": "a", "time": 0, "n": 2, "letters": 2}]


def test_tables_that_are_missing_are_said_if_they_are_not_to_be_made(url):
    with pytest.raises(DatabaseError, match="logins_minute"):
        declared(url, [LOGINS], create=False)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"name": ""}, ValueError, "name"),
        ({"of": "Hit"}, TypeError, "'Hit'"),
        ({"values": {}}, ValueError, "values"),
        ({"values": {"n": "count"}}, TypeError, "Value.count"),
        ({"values": {"path": Value.count()}}, ValueError, "twice"),
        ({"values": {"time": Value.count()}}, ValueError, "'time'"),
        ({"every": ("week",)}, ValueError, "week"),
        ({"every": "minute"}, ValueError, "periods"),
        ({"keep": {"minute": 0}}, ValueError, "got 0"),
        ({"keep": {"week": 1}}, ValueError, "periods out of .*, got .'week'"),
        ({"integers": ("nope",)}, ValueError, "nope"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(changes, error, says):
    options = {"name": "hits", "of": Hit, "keys": {"path": "path"}, "time": "at", "values": {"n": Value.count()}}
    with pytest.raises(error, match=says):
        Metric(**{**options, **changes})


def test_percents_and_names_that_cannot_be_are_refused(tmp_path):
    assert Value.percentile("ms", 0, 100).percents == (0, 100)
    for percents in ((), (101,), (-1,), (100.5,), (50, -0.5)):
        with pytest.raises(ValueError, match="percents"):
            Value.percentile("ms", *percents)
    with pytest.raises(ValueError, match="name of its own"):
        declared(f"sqlite:///{tmp_path}/x.db", [LOGINS, LOGINS])
    with pytest.raises(TypeError, match="Metric"):
        declared(f"sqlite:///{tmp_path}/x.db", [])
