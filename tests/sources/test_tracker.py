"""ItemTracker: one contract, three back ends."""

from __future__ import annotations

import itertools
import sqlite3
import sys
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drainq.sources import ItemState, ItemTracker
from drainq.sources.tracker.store import MemoryStore
from drainq.testing import ManualClock
from tests.sources.by_hand import Raises

_tables = (f"items_{n}" for n in itertools.count())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'items.db'}"


@pytest.fixture
def open_tracker(url, clock):
    opened = []

    def open_tracker(**options):
        opened.append(ItemTracker.open(url, **{"table": next(_tables), "clock": clock, **options}))
        return opened[-1]

    yield open_tracker
    for tracker in opened:
        tracker.close()


@pytest.fixture
def tracker(open_tracker):
    return open_tracker()


def test_an_item_goes_from_scheduled_to_sent_to_done(tracker):
    assert tracker.state("x", "1") is None and tracker.attempts("x", "1") == 0
    for state in (ItemState.SCHEDULED, ItemState.SENT, ItemState.DONE):
        tracker.mark("x", ["1"], state)
        assert tracker.state("x", "1") is state
    assert tracker.attempts("x", "1") == 1


@pytest.mark.parametrize("final", [ItemState.DONE, ItemState.FAILED])
def test_sent_comes_too_late_for_what_is_finished(tracker, final):
    tracker.mark("x", ["1"], ItemState.SCHEDULED)
    tracker.mark("x", ["1"], final)
    tracker.mark("x", ["1"], ItemState.SENT)
    assert tracker.state("x", "1") is final


def test_scheduling_again_begins_a_new_life(tracker):
    for _ in range(3):
        tracker.mark("x", ["1"], ItemState.SCHEDULED)
        tracker.mark("x", ["1"], ItemState.FAILED)
    tracker.mark("x", ["1"], ItemState.SCHEDULED)
    assert (tracker.state("x", "1"), tracker.attempts("x", "1")) == (ItemState.SCHEDULED, 4)


def test_sources_are_apart_and_every_state_is_counted(tracker):
    tracker.mark("x", ["1", "2", "3"], ItemState.SENT)
    tracker.mark("x", ["2"], ItemState.DONE)
    tracker.mark("y", ["1"], ItemState.SCHEDULED)
    nothing = dict.fromkeys(ItemState, 0)
    assert tracker.counts() == {
        "x": {**nothing, ItemState.SENT: 2, ItemState.DONE: 1},
        "y": {**nothing, ItemState.SCHEDULED: 1},
    }
    assert tracker.in_flight() == 3


def test_names_and_keys_may_hold_any_character(open_tracker):
    tracker = open_tracker(table='items"; DROP TABLE "x')
    tracker.mark('it\'s "x"', ["k'1", "ключ", "a" * 500], ItemState.SENT)
    assert tracker.state('it\'s "x"', "ключ") is ItemState.SENT
    assert tracker.in_flight() == 3


def test_a_key_twice_in_one_call_is_one_item(tracker):
    tracker.mark("x", ["1", "1"], ItemState.SENT)
    assert tracker.in_flight() == 1


def test_purge_forgets_what_has_been_finished_for_long_enough(tracker, clock):
    tracker.mark("x", ["done", "failed", "sent"], ItemState.SENT)
    clock.advance(60)
    tracker.mark("x", ["done"], ItemState.DONE)
    tracker.mark("x", ["failed"], ItemState.FAILED)
    clock.advance(60)
    tracker.mark("x", ["new"], ItemState.DONE)
    assert tracker.purge(older_than=60) == 0, "not for more than that"
    assert tracker.purge(older_than=30) == 2
    assert [tracker.state("x", key) for key in ("done", "failed")] == [None, None]
    assert tracker.counts()["x"] == {
        ItemState.SCHEDULED: 0,
        ItemState.SENT: 1,
        ItemState.DONE: 1,
        ItemState.FAILED: 0,
    }
    tracker.mark("x", ["sent"], ItemState.FAILED)
    clock.advance(1)
    assert (tracker.purge(older_than=0), tracker.counts()) == (2, {})


def test_keys_reach_the_store_once_and_in_order_with_the_time(clock):
    class Store(MemoryStore):
        def mark(self, *of):
            marked.append(of)

    marked = []
    for keys in ("cab", "bac"):
        ItemTracker(Store(), clock=clock).mark("x", [*keys, "a"], "done")
    assert marked == [("x", ["a", "b", "c"], ItemState.DONE, clock.now())] * 2


def test_a_child_connects_anew_and_a_closed_database_is_asked_nothing(tmp_path):
    tracker = ItemTracker.open(f"sqlite:///{tmp_path / 'items.db'}")
    tracker._store._renew_in_child()
    assert tracker.counts() == {}
    tracker.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        tracker.in_flight()


def test_nothing_to_mark_is_fine_and_an_unknown_state_is_not(tracker):
    tracker.mark("x", [], ItemState.DONE)
    assert tracker.in_flight() == 0
    with pytest.raises(ValueError, match="lost"):
        tracker.mark("x", ["1"], "lost")


def test_threads_mark_the_same_items_and_the_counts_add_up(tracker):
    ready, keys = threading.Barrier(4), [str(n) for n in range(50)]

    def mark(order):
        ready.wait()
        for state in (ItemState.SCHEDULED, ItemState.SENT, ItemState.DONE):
            tracker.mark("x", order, state)

    threads = [threading.Thread(target=mark, args=(keys[:: (-1) ** n],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    counts = tracker.counts()["x"]
    assert sum(counts.values()) == 50
    assert all(tracker.attempts("x", key) == 4 for key in keys[:5])


def test_what_is_on_disk_outlasts_the_tracker(url, open_tracker):
    if url == "memory:":
        pytest.skip("memory does not last")
    table = next(_tables)
    open_tracker(table=table).mark("x", ["1"], ItemState.DONE)
    assert open_tracker(table=table).state("x", "1") is ItemState.DONE


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("abc"), st.sampled_from(ItemState)), max_size=30))
def test_agrees_with_a_dict(tmp_path, marks):
    trackers = [
        ItemTracker.open("memory:", clock=ManualClock()),
        ItemTracker.open(f"sqlite:///{tmp_path / 'model.db'}", table=next(_tables), clock=ManualClock()),
    ]
    model = {}
    for source, key, state in marks:
        for tracker in trackers:
            tracker.mark(source, [key], state)
        if state is not ItemState.SENT or model.get((source, key)) in (None, ItemState.SCHEDULED):
            model[source, key] = state
    expected = Counter((source, state) for (source, _), state in model.items())
    for tracker in trackers:
        counts = {(source, state): n for source, states in tracker.counts().items() for state, n in states.items() if n}
        assert counts == expected
        tracker.close()


# -- opening --------------------------------------------------------------------------------


def test_a_url_that_is_none_is_refused_without_its_password():
    with pytest.raises(ValueError, match="mysql") as refused:
        ItemTracker.open("mysql://user:s3cret@host/db")
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ValueError, match="sqlite:///relative"):
        ItemTracker.open("sqlite:///")


def test_a_table_without_a_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="''"):
        ItemTracker.open(f"sqlite:///{tmp_path / 'items.db'}", table="")


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install 'drainq\[postgres\]'"):
        ItemTracker.open("postgresql://host/db")


def test_a_failed_write_leaves_the_connection_usable(tmp_path):
    url = f"sqlite:///{tmp_path / 'items.db'}"
    tracker = ItemTracker.open(url, table="items")
    with sqlite3.connect(tmp_path / "items.db") as database:
        database.execute("""CREATE TRIGGER no BEFORE INSERT ON items BEGIN SELECT RAISE(ABORT, 'no'); END""")
    with pytest.raises(sqlite3.Error):
        tracker.mark("x", ["1"], ItemState.SENT)
    with sqlite3.connect(tmp_path / "items.db") as database:
        database.execute("DROP TRIGGER no")
    tracker.mark("x", ["1"], ItemState.SENT)
    assert tracker.in_flight() == 1
    tracker.close()


@pytest.mark.parametrize(
    ("source", "key", "error", "says"),
    [
        ("x", 17, TypeError, r"a key must be a str, got a int; str\(item\) makes one"),
        ("x", None, TypeError, "got a NoneType"),
        (17, "1", TypeError, "source must be a str, got a int"),
        ("x", "a\0b", ValueError, "NUL"),
        ("x", "\ud800", ValueError, "UTF-8"),
        ("x", "\udfff", ValueError, "UTF-8"),
    ],
)
def test_every_store_refuses_the_same_keys_and_marks_none_of_the_call(tracker, source, key, error, says):
    with pytest.raises(error, match=says):
        tracker.mark(source, ["1", key], ItemState.DONE)
    for read in (tracker.state, tracker.attempts):
        with pytest.raises(error):
            read(source, key)
    assert tracker.counts() == {}


def test_a_lost_connection_is_closed_and_the_work_done_on_a_new_one(tmp_path, monkeypatch):
    tracker, closed = ItemTracker.open(f"sqlite:///{tmp_path / 'items.db'}", table="items"), []
    store = tracker._store
    store._connection.close()
    monkeypatch.setattr(type(store._url.dialect), "is_lost", lambda self, error: str(error) == "gone")
    store._connection = SimpleNamespace(
        execute=Raises(OSError("gone"), 1), executemany=None, close=lambda: closed.append(True)
    )
    tracker.mark("x", ["1"], ItemState.SCHEDULED)
    assert (tracker.attempts("x", "1"), closed) == (1, [True])
    connection = store._connection
    store._renew_in_child()
    tracker.close()  # which a child may do before it has opened its own
    connection.close()


def test_counting_what_is_in_flight_does_not_read_what_is_finished(tmp_path):
    tracker = ItemTracker.open(f"sqlite:///{tmp_path / 'items.db'}", table="items")
    with sqlite3.connect(tmp_path / "items.db") as database:
        plan = database.execute(
            """EXPLAIN QUERY PLAN SELECT count(*) FROM "items" WHERE "state" IN ('scheduled', 'sent')"""
        ).fetchall()
    assert "items_unfinished" in plan[0][3]
    tracker.close()
