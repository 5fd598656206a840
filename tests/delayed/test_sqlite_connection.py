"""The connection of a queue in an SQLite file: its settings, and how long it waits for others."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

import drainq.delayed.deadline
import drainq.delayed.storage.open
import drainq.delayed.storage.sqlite.statements
from drainq.delayed import DelayedQueue, TimeConfig
from drainq.delayed.config import RetryConfig
from drainq.delayed.database_retry import RareWarning
from drainq.delayed.deadline import set_deadline
from drainq.delayed.storage.open import open_empty, open_storage, reach
from drainq.delayed.storage.sqlite.storage import MemoryStorage, SQLiteStorage


@pytest.fixture
def storage(tmp_path):
    storage = SQLiteStorage(f"{tmp_path}/x.db", table="t", busy_timeout=None)
    yield storage
    storage.close()


def settings_of(storage):
    storage.connect()
    found = [storage._opened.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "busy_timeout")]
    (cache,) = storage._opened.execute("PRAGMA cache_size").fetchone()
    storage.close()
    return (*found, cache, storage.worth_prefetching, storage.is_shared, storage.most_calls)


def test_a_connection_has_the_settings_of_its_queue(tmp_path):
    of_file = {"time": TimeConfig(), "retry": RetryConfig(try_timeout=1.5), "table": "t"}
    storages = [
        open_storage(f"sqlite:///{tmp_path}/as_it_is.db", as_it_is=True, **of_file)[0],
        open_storage(f"sqlite:///{tmp_path}/a.db", **of_file)[0],
        open_empty(table="t"),
        MemoryStorage(),
    ]
    assert list(map(settings_of, storages)) == [
        ("delete", 1500, -65536, False, True, 10),
        ("wal", 1500, -65536, False, True, 10),
        ("memory", 30_000, -65536, False, True, 10),
        ("memory", 30_000, -65536, False, False, 10),
    ]
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        open_and_close(tmp_path).connect()


def test_a_look_at_the_queues_of_a_file_leaves_its_journal_as_it_is(tmp_path):
    storage = SQLiteStorage(f"{tmp_path}/plain.db", table="t", busy_timeout=1.0, write_ahead=False)
    storage.migrate()
    storage.close()
    assert DelayedQueue.queues(f"sqlite:///{tmp_path}/plain.db", table="t") == []
    with sqlite3.connect(f"{tmp_path}/plain.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


@pytest.mark.parametrize(
    ("retry", "most"),
    [
        (RetryConfig(), None),  # a try gives up a lock after a second
        (RetryConfig(max_retries=0), 0),
        (RetryConfig(max_retries=3, total_timeout=None), 3),
    ],
)
def test_a_migration_is_tried_as_long_as_the_time_lasts_and_its_failures_are_said_rarely(retry, most, monkeypatch):
    told = []

    def with_retries(call, config, is_transient, **more):
        told.append((call, config, is_transient, more.pop("of"), *map(type, more.values())))
        return call

    monkeypatch.setattr(drainq.delayed.storage.open, "with_retries", with_retries)
    storage = SimpleNamespace(connect="connect", migrate="migrate", is_transient="passes")
    assert reach(storage, retry, migrate=False) == []
    assert reach(storage, retry, migrate=True) == "migrate"
    connect = ("connect", retry, "passes", "the queue")
    assert told == [connect, connect, ("migrate", replace(retry, max_retries=most), "passes", "the queue", RareWarning)]


def open_and_close(tmp_path):
    storage = SQLiteStorage(f"{tmp_path}/closed.db", table="t", busy_timeout=1.0)
    storage.close()
    return storage


def test_a_wait_for_a_lock_ends_with_the_try_and_the_common_wait_is_set_once(storage, monkeypatch):
    told, left = [], []
    connection = SimpleNamespace(execute=told.append)
    monkeypatch.setattr(drainq.delayed.storage.sqlite.statements, "seconds_left", lambda most: left[-1])
    for seconds in (30.0, 29.96, 29.9, 29.9, 1.0005, 0.0, 29.96, 30.0):
        left.append(seconds)
        storage._wait_for_locks_until_the_deadline(connection)
    assert told == [f"PRAGMA busy_timeout = {ms}" for ms in (29_900, 1000, 1, 30_000)]


def test_a_wait_for_another_thread_ends_with_the_try(storage, monkeypatch):
    asked = []
    storage._lock = SimpleNamespace(acquire=lambda timeout: asked.append(timeout))
    monkeypatch.setattr(drainq.delayed.deadline, "time", SimpleNamespace(monotonic=lambda: 100.0))
    try:
        for until in (None, 102.5, 99.0):
            set_deadline(until)
            with pytest.raises(sqlite3.OperationalError, match="locked by another thread of this process") as refused:
                storage._do("DROP_ALL", {"kind": "k"})
            assert storage.is_transient(refused.value)
    finally:
        set_deadline(None)
        storage._lock = threading.RLock()
    assert asked == [threading.TIMEOUT_MAX, 2.5, 0.0]


def test_a_warning_is_told_once_a_minute_and_how_often_it_was_left_out(caplog):
    now = [0.0]
    warn = RareWarning(lambda: now[0])
    for now[0] in (0.0, 1.0, 59.9, 60.0, 119.0, 121.0, 200.0):
        warn("away at %g", now[0])
    assert caplog.messages == [
        "away at 0",
        "away at 60 (and 2 times in the minute before)",
        "away at 121 (and 1 times in the minute before)",
        "away at 200",
    ]
