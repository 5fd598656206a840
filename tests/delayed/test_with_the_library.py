"""The source's own library on the same table: a stand-in runs its statements next to a queue of drainq.

The library itself runs on a JVM and is not here. What the stand-in says, and in which transactions, is what the library
says: insert or compare-and-swap, lock and mark, delete by the mark, delete by LIKE.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest

from drainq.delayed import CronMessage, OfferOutcome, ScheduledMessage, StrCodec
from drainq.delayed.queue import partition_kind
from tests.delayed.cron.ticks import key_of
from tests.delayed.test_migrate import SOURCES_POSTGRES, SOURCES_SQLITE

KIND = partition_kind("mail", "java.lang.String")
COLUMNS = '"pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt"'
EACH = 120
"""Messages of each producer."""


class Library:
    """One connection of a program that uses the library.

    Args:
        database: the world of the test.
    """

    def __init__(self, database) -> None:
        self._table = database.table
        self._clock = database.clock
        self.on_postgres = database.backend == "postgresql"
        if self.on_postgres:
            import psycopg

            self._connection = psycopg.connect(database.url, autocommit=True)
        else:
            file = database.url.removeprefix("sqlite:///")
            self._connection = sqlite3.connect(file, isolation_level=None, timeout=30, check_same_thread=False)

    def migrate(self) -> None:
        """Create the table unless there is one."""
        catalog = "pg_tables WHERE tablename" if self.on_postgres else "sqlite_master WHERE name"
        if self._run(f"SELECT 1 FROM {catalog} = ?", self._table).fetchone() is None:
            for statement in (SOURCES_POSTGRES if self.on_postgres else SOURCES_SQLITE).split(";"):
                self._run(statement)

    def offer(self, key: str, payload: str, at: int, *, can_update: bool = True) -> str:
        insert = (
            f'INSERT INTO "{{t}}" ({COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL, ?) ON CONFLICT ("pKey", "pKind") DO NOTHING'
        )
        with self._transaction():
            if self._run(insert, key, KIND, payload.encode(), at, at, self._now()).rowcount > 0:
                return "created"
        if not can_update:
            return "ignored"
        lock = " FOR UPDATE" if self.on_postgres else ""
        with self._transaction():
            select = f'SELECT {COLUMNS} FROM "{{t}}" WHERE "pKey" = ? AND "pKind" = ? LIMIT 1{lock}'
            row = self._run(select, key, KIND).fetchone()
            if row is None or (bytes(row[2]) == payload.encode() and row[4] == at):
                return "ignored"
            update = (
                'UPDATE "{t}" SET "payload" = ?, "scheduledAt" = ?, "scheduledAtInitially" = ?, "lockUuid" = NULL,'
                ' "createdAt" = ? WHERE "pKey" = ? AND "pKind" = ? AND "scheduledAtInitially" = ? AND "createdAt" = ?'
            )
            self._run(update, payload.encode(), at, at, self._now(), key, KIND, row[4], row[6])
            return "updated"

    def poll(self, lease: int = 30_000) -> tuple[str, str, str] | None:
        """Return key, payload and lock of a message that is due."""
        lock, skip = str(uuid.uuid4()), " FOR UPDATE SKIP LOCKED" if self.on_postgres else ""
        with self._transaction():
            select = (
                f'SELECT {COLUMNS} FROM "{{t}}" WHERE "pKind" = ? AND "scheduledAt" <= ? ORDER BY "scheduledAt" LIMIT 1'
            )
            row = self._run(select + skip, KIND, self._now()).fetchone()
            if row is None:
                return None
            take = 'UPDATE "{t}" SET "scheduledAt" = ?, "lockUuid" = ? WHERE "pKey" = ? AND "pKind" = ? AND "scheduledAt" = ?'
            self._run(take, self._now() + lease, lock, row[0], KIND, row[3])
        return row[0], bytes(row[2]).decode(), lock

    def poll_many(self, limit: int, lease: int = 30_000) -> tuple[list[str], str]:
        """Return keys and lock of messages that are due."""
        lock, skip = str(uuid.uuid4()), " FOR UPDATE SKIP LOCKED" if self.on_postgres else ""
        take = (
            'UPDATE "{t}" SET "lockUuid" = ?, "scheduledAt" = ? WHERE "id" IN (SELECT "id" FROM "{t}" WHERE "pKind" = ?'
            f' AND "scheduledAt" <= ? ORDER BY "scheduledAt" LIMIT {limit}{skip})'
        )
        with self._transaction():
            self._run(take, lock, self._now() + lease, KIND, self._now())
            rows = self._run('SELECT "pKey" FROM "{t}" WHERE "lockUuid" = ? ORDER BY "id"', lock).fetchall()
        return [key for (key,) in rows], lock

    def ack(self, lock: str) -> int:
        return self._run('DELETE FROM "{t}" WHERE "lockUuid" = ?', lock).rowcount

    def install_tick(self, config_hash: str, prefix: str, ticks: dict[str, int]) -> int:
        """Drop what other configurations have planned, then insert; return how many were dropped."""
        drop = 'DELETE FROM "{t}" WHERE "pKind" = ? AND "pKey" LIKE ? AND "pKey" NOT LIKE ?'
        dropped = self._run(drop, KIND, f"{prefix}/%", f"{prefix}/{config_hash}%").rowcount
        for key, at in ticks.items():
            self.offer(key, "tick", at, can_update=False)
        return dropped

    def count(self) -> int:
        return self._run('SELECT count(*) FROM "{t}"').fetchone()[0]

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: str, *values: object):
        statement = statement.replace("{t}", self._table)
        return self._connection.execute(statement.replace("?", "%s") if self.on_postgres else statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN" if self.on_postgres else "BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


@pytest.fixture(params=["we", "the library"])
def both(request, database):
    """Yield a queue of ours and the library, on a table that one of the two made and both have migrated."""
    library = Library(database)
    if request.param == "the library":
        library.migrate()
    queue = database.open(codec=StrCodec())
    library.migrate()
    yield queue, library
    library.close()


def test_each_side_takes_and_acknowledges_what_the_other_offered(both, database):
    queue, library = both
    now = int(database.now * 1000)
    assert queue.offer_or_update("ours", "von uns ☕", database.now) is OfferOutcome.CREATED
    key, payload, lock = library.poll()
    assert (key, payload) == ("ours", "von uns ☕")
    assert queue.try_poll() is None
    assert library.ack(lock) == 1
    assert library.offer("theirs", "from the JVM", now) == "created"
    with queue.try_poll() as envelope:
        assert (envelope.message_id, envelope.payload, envelope.attempt) == ("theirs", "from the JVM", 1)
        assert library.poll() is None
    assert library.count() == 0


def test_each_side_updates_what_the_other_offered(both, database):
    queue, library = both
    now = int(database.now * 1000)
    queue.offer_or_update("a", "v1", database.now)
    assert library.offer("a", "v1", now) == "ignored"
    assert library.offer("a", "v2", now) == "updated"
    assert queue.offer_or_update("a", "v2", database.now) is OfferOutcome.IGNORED
    assert queue.offer_or_update("a", "v3", database.now) is OfferOutcome.UPDATED
    stale = library.poll()
    assert stale[1] == "v3"
    queue.offer_or_update("a", "v4", database.now)
    assert library.ack(stale[2]) == 0  # another message stands there now
    held = queue.try_poll()
    assert library.offer("a", "v5", now) == "updated"
    assert not held.ack()
    assert queue.try_poll().payload == "v5"


def test_an_unacknowledged_message_goes_from_one_side_to_the_other(both, database):
    queue, library = both
    queue.offer_batch([ScheduledMessage(f"{n}", "x", database.now) for n in range(4)])
    keys, lock = library.poll_many(2)
    assert keys == ["0", "1"]
    ours = queue.try_poll_many(10)
    assert ours.message_id == ["2", "3"]
    database.clock.advance(31)
    again = queue.try_poll_many(2)
    assert sorted(again.message_id + library.poll_many(10)[0]) == ["0", "1", "2", "3"]
    assert library.ack(lock) == 0 or not {"0", "1"} & set(again.message_id)
    assert again.ack()


def test_both_consume_and_both_produce_at_once_with_an_exact_account(both, database):
    queue, library = both
    handled: Counter[str] = Counter()
    lock, stop = threading.Lock(), threading.Event()

    def note(key: str) -> None:
        with lock:
            handled[key] += 1
            if sum(handled.values()) >= 2 * EACH:
                stop.set()

    def theirs() -> int:
        other, count, idle = Library(database), 0, threading.Event()
        while not stop.is_set():
            if (found := other.poll()) is None:
                idle.wait(0.01)
                continue
            note(found[0])
            count += other.ack(found[2])
        other.close()
        return count

    def produce() -> None:
        for number in range(EACH):
            assert library.offer(f"theirs/{number}", "x", int(database.now * 1000)) == "created"

    with ThreadPoolExecutor(4) as pool:
        consumers = [pool.submit(theirs), pool.submit(queue.consume, lambda e: note(e.message_id), stop=stop)]
        producer = pool.submit(produce)
        for number in range(EACH):
            assert queue.offer_or_update(f"ours/{number}", "x", database.now) is OfferOutcome.CREATED
        producer.result(120)
        assert stop.wait(120), f"{sum(handled.values())} of {2 * EACH} messages were handled"
        assert sum(consumer.result(60) for consumer in consumers) == 2 * EACH
    assert set(handled.values()) == {1}
    assert handled.keys() == {f"{side}/{number}" for side in ("ours", "theirs") for number in range(EACH)}
    assert library.count() == 0


def test_both_schedule_the_same_ticks_as_one_message_each(both, database):
    queue, library = both
    times = [datetime.fromtimestamp(int(database.now) + 60 * n, timezone.utc) for n in (1, 2)]
    keys = {key_of("hash", "report", at): int(at.timestamp() * 1000) for at in times}
    assert queue.cron.install_tick("hash", "report", [CronMessage("tick", at) for at in times]) == 2
    assert library.install_tick("hash", "report", keys) == 0
    assert library.count() == 2
    assert (
        library.install_tick("other", "report", {}) == 2
    )  # a new configuration drops the old one's ticks, whoever made them
    assert library.install_tick("other", "report", {key.replace("hash", "other"): at for key, at in keys.items()}) == 0
    queue.cron.install_tick("third", "report", [CronMessage("tick", times[0])])
    assert library.count() == 1
    database.clock.advance(61)
    assert library.poll()[0] == key_of("third", "report", times[0])
