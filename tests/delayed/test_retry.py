"""Retries: their number, their duration, and the errors that are not retried."""

from __future__ import annotations

import sqlite3

import pytest

from drainq import Backoff
from drainq.delayed import NO_RETRIES, QueueUnavailable, RetryConfig, TimeConfig
from drainq.delayed.database_retry import with_retries
from drainq.delayed.deadline import deadline, seconds_left, set_deadline
from drainq.testing import ManualClock


class Passing(Exception):
    """A failure that may pass."""


def is_passing(error):
    return isinstance(error, Passing)


class Failing:
    """Fails so many times, then answers."""

    def __init__(self, failures, error=Passing):
        self.calls = 0
        self.failures = failures
        self.error = error

    def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(f"failure {self.calls}")
        return "answer"


def test_three_retries_are_four_tries_and_every_error_is_kept():
    call, waits = Failing(10), []
    with pytest.raises(QueueUnavailable, match="Giving up after 3 retries: Passing at test_retry") as given_up:
        with_retries(call, RetryConfig(max_retries=3), is_passing, wait=waits.append)
    assert call.calls == 4
    assert str(given_up.value.__cause__) == "failure 4"
    assert [str(error) for error in given_up.value.errors] == ["failure 1", "failure 2", "failure 3", "failure 4"]


def test_the_delay_doubles_up_to_its_maximum():
    waits = []
    config = RetryConfig(Backoff(0.05, 0.2, jitter=0))
    assert with_retries(Failing(4), config, is_passing, wait=waits.append) == "answer"
    assert waits == [0.05, 0.1, 0.2, 0.2]


def test_an_error_that_will_not_pass_comes_out_at_once():
    call = Failing(1, ValueError)
    with pytest.raises(ValueError, match="failure 1"):
        with_retries(call, RetryConfig(), is_passing, wait=pytest.fail)
    assert call.calls == 1


def test_a_call_within_a_try_leaves_the_outer_ones_deadline():
    before = set_deadline(5.0)
    try:
        with_retries(lambda: None, RetryConfig(), lambda error: True)
        assert deadline() == 5.0
    finally:
        set_deadline(before)


def test_no_try_begins_after_the_total_timeout():
    clock = ManualClock(0.0)
    call = Failing(100)
    config = RetryConfig(Backoff(1, 1, jitter=0), max_retries=None, total_timeout=5)
    with pytest.raises(QueueUnavailable, match="Giving up after 5 retries"):
        with_retries(call, config, is_passing, wait=clock.advance, clock=clock)
    assert clock.now() == 5.0


def test_the_pauses_are_part_of_the_total_timeout_that_is_left_to_a_try():
    clock, left = ManualClock(0.0), []

    def call():
        left.append(seconds_left(1000.0))
        if len(left) < 3:
            raise Passing

    config = RetryConfig(Backoff(30, 30, jitter=0), try_timeout=None, total_timeout=100)
    with_retries(call, config, is_passing, wait=clock.advance, clock=clock)
    assert all(0 < seconds <= after for after, seconds in zip((100, 70, 40), left)), left


def test_a_deadline_holds_for_the_try_and_not_for_what_comes_after_it():
    left = []

    def call():
        left.append(seconds_left(1000.0))
        if len(left) == 1:
            raise ConnectionError("gone")

    config = RetryConfig(Backoff(0), try_timeout=50.0, total_timeout=None)
    with_retries(call, config, lambda error: True, wait=lambda seconds: left.append(seconds_left(1000.0)))
    first, between, second = left
    assert between == 1000.0 == seconds_left(1000.0)
    assert 0 < first <= 50.0 and 0 < second <= 50.0


def test_no_retries_is_one_try():
    call = Failing(1)
    with pytest.raises(QueueUnavailable, match="Giving up after 0 retries"):
        with_retries(call, NO_RETRIES, is_passing)
    assert call.calls == 1


def test_the_defaults():
    assert TimeConfig() == TimeConfig(acquire_timeout=300.0, poll_period=3.0)
    assert RetryConfig() == RetryConfig(
        Backoff(0.1, 10.0, 2.0, 0.1), max_retries=5, total_timeout=30.0, try_timeout=10.0
    )
    assert NO_RETRIES.max_retries == 0


def test_a_busy_or_locked_sqlite_file_passes_and_a_missing_table_does_not(tmp_path):
    from drainq.delayed.storage.sqlite.storage import SQLiteStorage

    storage = SQLiteStorage(f"{tmp_path}/x.db", table="t", busy_timeout=0.01)
    holder = sqlite3.connect(f"{tmp_path}/x.db", isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as busy:
            storage.migrate()
        assert storage.is_transient(busy.value)
        holder.execute("ROLLBACK")
        with pytest.raises(sqlite3.OperationalError) as missing:
            storage.drop("kind", "key")
        assert not storage.is_transient(missing.value)
        storage.migrate()
        with pytest.raises(sqlite3.IntegrityError) as violation:
            storage._do("RECORD", {"number": 1, "name": "again", "now": 0})
        assert not storage.is_transient(violation.value)
    finally:
        holder.close()
        storage.close()


def test_an_offer_waits_for_a_busy_file_and_then_goes_through(sqlite):
    waits = []
    queue = sqlite.open(retry=RetryConfig(Backoff(0), try_timeout=0.01))
    holder = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    offer = queue._session.storage.offer

    def offer_once_more(*arguments, **options):
        try:
            return offer(*arguments, **options)
        except sqlite3.OperationalError:
            waits.append(1)
            holder.execute("ROLLBACK")
            raise

    queue._session.storage.offer = offer_once_more
    try:
        assert queue.offer_or_update("a", 1, sqlite.now).value == "created"
        assert waits == [1]
    finally:
        holder.close()


def test_postgres_failures_are_told_apart(postgres):
    import psycopg

    queue = postgres.open()
    transient = queue._session.storage.is_transient
    for state in ("40001", "40P01", "55P03", "57014", "57P01", "08006"):
        assert transient(psycopg.errors.lookup(state)("x")), state
    for state in ("23505", "23514", "42P01", "28P01", "22001"):
        assert not transient(psycopg.errors.lookup(state)("x")), state
    assert transient(psycopg.OperationalError("the connection is lost"))
    assert not transient(ValueError("x"))


def test_one_try_that_takes_too_long_is_cut_off_and_given_up_on(postgres):
    import psycopg

    postgres.open().offer_or_update("a", 1, postgres.now)
    queue = postgres.open(retry=RetryConfig(Backoff(0), max_retries=1, try_timeout=0.5))
    with psycopg.connect(postgres.url) as holder:
        holder.execute(f'SELECT * FROM "{postgres.table}" FOR UPDATE')
        with pytest.raises(QueueUnavailable, match="Giving up after 1 retries.*(timeout|not answer in time)"):
            queue.offer_or_update("a", 2, postgres.now)
