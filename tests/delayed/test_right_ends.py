"""Corners: lost answers, large batches, years, a caller's commit, large payloads, files that may only be read."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from tempfile import TemporaryDirectory

import pytest

from drainq import Backoff
from drainq.delayed import DelayedQueue, OfferOutcome, QueueBroken, RetryConfig, ScheduledMessage, TimeConfig
from drainq.testing import ManualClock

# --- an answer that was lost


def lose_the_answer_of_the_next_offer(queue) -> None:
    """Let the database store it, and lose the connection on the way back."""
    import psycopg

    storage = queue._session.storage
    offer = storage.offer

    def losing(*arguments, **more):
        del storage.offer
        offer(*arguments, **more)
        raise psycopg.OperationalError("the connection is lost")

    storage.offer = losing


@pytest.mark.parametrize("can_update", [False, True])
@pytest.mark.parametrize("there", [None, "older", "the same"])
@pytest.mark.parametrize("others", [0, 3])
def test_an_offer_whose_answer_was_lost_says_what_became_of_it(postgres, can_update, there, others):
    queue = postgres.open(retry=RetryConfig(Backoff(0)))
    if there:
        queue.offer_or_update("a", "new" if there == "the same" else "old", postgres.now)
    postgres.clock.advance(1)
    at = postgres.now - 1 if there == "the same" else postgres.now
    batch = [ScheduledMessage("a", "new", at, can_update), *(ScheduledMessage(f"{n}", n, at) for n in range(others))]
    lose_the_answer_of_the_next_offer(queue)
    outcomes = queue.offer_batch(batch)
    replaces = there == "older" and can_update
    expected = OfferOutcome.CREATED if there is None else OfferOutcome.UPDATED if replaces else OfferOutcome.IGNORED
    assert outcomes == [expected] + [OfferOutcome.CREATED] * others


def test_an_offer_that_was_made_once_and_finds_its_like_is_still_ignored(postgres):
    queue = postgres.open()
    assert queue.offer_or_update("a", 1, postgres.now) is OfferOutcome.CREATED
    assert queue.offer_or_update("a", 1, postgres.now) is OfferOutcome.IGNORED  # at the same moment, by the clock


# --- batches


def test_two_large_batches_of_the_same_keys_in_any_order_never_deadlock(postgres):
    import psycopg

    queue, keys = postgres.open(), [f"k{n:05}" for n in range(2500)]
    queue.offer_batch([ScheduledMessage(key, 0, 0) for key in keys])

    def offer(seed: int) -> None:
        rng = random.Random(seed)
        for turn in range(3):
            order = keys[:: -1 if seed % 2 else 1] if turn else rng.sample(keys, len(keys))
            queue.offer_batch([ScheduledMessage(key, (seed, turn), 0, rng.random() < 0.8) for key in order])

    with psycopg.connect(postgres.url, autocommit=True) as admin:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        before = admin.execute(deadlocks).fetchone()
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(offer, range(3)))
        queue.close()  # a session reports its statistics when it ends, at the latest
        admin.execute("SELECT pg_stat_clear_snapshot()")
        assert admin.execute(deadlocks).fetchone() == before


@pytest.mark.parametrize("seed", range(3))
def test_a_large_mixed_batch_does_as_if_offered_one_by_one(world, seed):
    rng = random.Random(seed)
    queue, model = world.open("batch"), {}
    for _ in range(2):
        batch = [
            ScheduledMessage(
                f"{rng.randrange(900)}", rng.randrange(3), world.now + rng.randrange(2), rng.random() < 0.5
            )
            for _ in range(2300)
        ]
        expected = []
        for message in batch:
            new = (message.payload, message.schedule_at)
            there = model.get(message.key)
            if there is None or (message.can_update and there != new):
                model[message.key] = new
                expected.append(OfferOutcome.CREATED if there is None else OfferOutcome.UPDATED)
            else:
                expected.append(OfferOutcome.IGNORED)
        assert queue.offer_batch(batch) == expected
    world.clock.advance(10)
    taken = queue.try_poll_many(5000)
    assert dict(zip(taken.message_id, taken.payload)) == {key: new[0] for key, new in model.items()}


# --- years


@pytest.mark.parametrize("at", [-62_135_596_801, -62_135_596_800.5, -1e15, 253_402_300_800])
def test_a_time_outside_the_years_of_the_calendar_is_refused(queue, at):
    with pytest.raises(ValueError, match="years 1 to 9999"):
        queue.offer_or_update("a", 1, at)


@pytest.mark.parametrize("at", [-62_135_596_800, datetime(1, 1, 1, tzinfo=timezone.utc), -1e10, 253_402_300_799])
def test_a_time_at_the_edge_of_the_calendar_comes_back(queue, at):
    queue.offer_or_update("a", 1, at)
    expected = at.timestamp() if isinstance(at, datetime) else at
    assert queue.read("a").schedule_at.timestamp() == expected


# --- the caller's transaction


@pytest.mark.parametrize("isolation", ["by hand", "the driver's"])
def test_an_offer_in_a_callers_transaction_wakes_a_consumer_at_the_commit(database, isolation):
    queue = database.open(clock=None, time=TimeConfig(acquire_timeout=30, poll_period=60))
    if database.backend == "sqlite":
        path = database.url.removeprefix("sqlite:///")
        caller = sqlite3.connect(path, isolation_level=None if isolation == "by hand" else "DEFERRED")
    else:
        import psycopg

        caller = psycopg.connect(database.url, autocommit=isolation == "by hand")
    if isolation == "by hand":
        caller.execute("BEGIN")
    waiting, woken = threading.Event(), threading.Event()
    wait = queue._session.wakeup.wait

    def noted_wait(*arguments):
        waiting.set()
        return wait(*arguments)

    queue._session.wakeup.wait = noted_wait
    queue._session.wakeup.add_listener(woken.set)
    with ThreadPoolExecutor(1) as threads:
        polling = threads.submit(queue.poll, 30)
        assert waiting.wait(30)
        queue.offer_or_update("a", 1, 0, connection=caller)
        assert not woken.wait(0.05)
        assert not polling.done()
        caller.execute("COMMIT") if isolation == "by hand" else caller.commit()
        assert polling.result(20).message_id == "a"
    caller.close()


# --- large payloads


def test_whether_there_is_a_message_is_said_without_reading_its_payload(world):
    queue = world.open()
    read = queue._session.storage.read
    queue.offer_or_update("a", "x" * 100_000, world.now)
    queue._session.storage.read = None
    assert queue.contains_message("a") and not queue.contains_message("b")
    queue._session.storage.read = read


# --- files that may only be read


@pytest.fixture
def folder():
    """A folder that other users reach; pytest makes its own private, at each start of another run as well."""
    with TemporaryDirectory() as folder:
        yield folder


@pytest.mark.skipif(os.geteuid() != 0 or not hasattr(os, "fork"), reason="needs root, to become a user without rights")
@pytest.mark.parametrize("writable", ["the directory", "nothing"])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_file_that_may_only_be_read_can_be_looked_at(folder, writable, journal):
    clock = ManualClock()
    file = f"{folder}/queue.db"
    url = f"sqlite:///{file}"
    with DelayedQueue.open(url, "mail", clock=clock) as queue:
        queue.offer_or_update("a", 1, clock.now())
    connection = sqlite3.connect(file)
    assert connection.execute(f"PRAGMA journal_mode = {journal}").fetchone() == (journal,)
    connection.close()
    os.chmod(file, 0o444)
    os.chmod(folder, 0o777 if writable == "the directory" else 0o555)
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            looking = DelayedQueue.open(url, "mail", migrate=False, clock=clock)
            code = 2
            assert (looking.stats().ready, looking.peek(1)[0].key, looking.read("a").payload) == (1, "a", 1)
            code = 3
            with pytest.raises(QueueBroken):
                looking.offer_or_update("b", 1, 0)
            code = 4
            os.write(to_parent, b".")
            os.read(from_parent, 1)
            assert looking.stats().ready == (2 if journal == "delete" else 1), "it is read, not remembered"
            code = 0
        finally:
            os._exit(code)
    os.close(to_parent)
    if os.read(from_child, 1) and journal == "delete":
        columns = '"pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt"'
        writer = sqlite3.connect(file)
        writer.execute(f"INSERT INTO delayed_queue (\"pKey\", {columns}) SELECT 'z', {columns} FROM delayed_queue")
        writer.commit()
        writer.close()
    os.write(to_child, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for end in (from_child, from_parent, to_child):
        os.close(end)
