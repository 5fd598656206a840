"""Migrations: the tables that they create, adopt and list."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from drainq.delayed import DelayedQueue, OfferOutcome, QueueBroken, ScheduledMessage, StrCodec
from drainq.delayed.config import RetryConfig, TimeConfig
from drainq.delayed.queue import partition_kind
from drainq.delayed.storage.open import open_storage

SOURCES_POSTGRES = """
CREATE TABLE "{t}" (
    "id" BIGSERIAL PRIMARY KEY, "pKey" VARCHAR(200) NOT NULL, "pKind" VARCHAR(100) NOT NULL, "payload" BYTEA NOT NULL,
    "scheduledAt" BIGINT NOT NULL, "scheduledAtInitially" BIGINT NOT NULL, "lockUuid" VARCHAR(36) NULL, "createdAt" BIGINT NOT NULL);
CREATE UNIQUE INDEX "{t}__PKeyPlusKindUniqueIndex" ON "{t}"("pKey", "pKind");
CREATE INDEX "{t}__KindPlusScheduledAtIndex" ON "{t}"("pKind", "scheduledAt");
CREATE INDEX "{t}__LockUuidPlusIdIndex" ON "{t}"("lockUuid", "id")
"""
SOURCES_SQLITE = """
CREATE TABLE {t} (
    id INTEGER PRIMARY KEY AUTOINCREMENT, pKey TEXT NOT NULL, pKind TEXT NOT NULL, payload BLOB NOT NULL,
    scheduledAt INTEGER NOT NULL, scheduledAtInitially INTEGER NOT NULL, lockUuid TEXT NULL, createdAt INTEGER NOT NULL);
CREATE UNIQUE INDEX {t}__PKindPKeyUniqueIndex ON {t} (pKind, pKey);
CREATE INDEX {t}__KindPlusScheduledAtIndex ON {t} (pKind, scheduledAt);
CREATE INDEX {t}__LockUuidPlusIdIndex ON {t} (lockUuid, id)
"""


@pytest.fixture
def run(database):
    """Run statements of our own on the database, as another program does."""
    if database.backend == "sqlite":
        connection = sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None)
        mark = "?"
    else:
        import psycopg

        connection = psycopg.connect(database.url, autocommit=True)
        mark = "%s"

    def run(script, *values):
        rows = []
        for statement in script.format(t=database.table).split(";"):
            cursor = connection.execute(statement.replace("?", mark), values)
            rows = cursor.fetchall() if cursor.description else []
        return rows

    yield run
    connection.close()


def storage_of(database):
    return open_storage(database.url, table=database.table, time=TimeConfig(), retry=RetryConfig())[0]


def test_the_first_migration_creates_everything_and_the_second_nothing(database):
    storage = storage_of(database)
    try:
        assert storage.migrate() == [
            "the source's table",
            "attempts and the last error",
            "dead letters",
            "the tick ledger of schedules",
            "whose deliveries are counted",
            "an index for the source library's acknowledgements",
            *(["an index for key ranges"] if database.backend == "postgresql" else []),
            "when a tick was recorded, and the schedules by name",
            "the queues by name, and what they have finished",
            "priorities",
            *(["an index for delivery by priority"] if database.backend == "postgresql" else []),
            "who holds a message",
            *(["a function that offers messages"] if database.backend == "postgresql" else []),
            "how often a message is tried",
            "the group of a message",
            *(
                [
                    "an index for the first message of a group",
                    "an index that permits one message of a group in flight",
                ]
                if database.backend == "postgresql"
                else []
            ),
            "the attempts in the history",
            "who paused a queue",
        ]
        assert storage.migrate() == []
        assert storage.migration_sql() == ""
    finally:
        storage.close()


SCHEMA = {
    "sqlite": ["SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name LIKE '{t}%' ORDER BY name"],
    "postgresql": [
        """SELECT c.relname, string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
            || COALESCE((SELECT ' C' FROM pg_collation WHERE oid = a.attcollation AND collname = 'C'), '')
            || CASE WHEN a.attnotnull THEN '!' ELSE '' END
            || COALESCE(' = ' || pg_get_expr(d.adbin, d.adrelid), ''), ', ' ORDER BY a.attnum), c.reloptions::text
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relkind = 'r' AND (c.relname = '{t}' OR starts_with(c.relname, '{t}__')) GROUP BY 1, 3 ORDER BY 1""",
        """SELECT indexdef FROM pg_indexes WHERE tablename = '{t}' OR starts_with(tablename, '{t}__')
        ORDER BY indexname COLLATE "C" """,
    ],
}


def test_the_tables_and_indexes_are_these(database, run):
    """With priorities, which have an index of their own; ``schema.txt`` calls the table t."""
    storage, before = storage_of(database), int(time.time() * 1000)
    try:
        assert not storage.is_ready()
        storage.migrate()
        storage.mark_ranked("k", name="n", type_name="t")
        database.lose_the_priority_index()
        assert storage.is_ready(), "an index that only makes a queue faster may be missing"
        shown = storage.migration_sql()
        assert shown.count("CREATE INDEX ") == 1 and shown.count("11. " if database.backend == "postgresql" else "10. ")
        assert ("CREATE INDEX CONCURRENTLY" in shown) is (database.backend == "postgresql")
        assert storage.migrate() == ["an index for delivery by priority"]
    finally:
        storage.close()
    rows = [row for query in SCHEMA[database.backend] for row in run(query)]
    found = [" ".join(" ".join(filter(None, row)).split()).replace(database.table, "t") for row in rows]
    schema = Path(__file__).with_name("schema.txt").read_text().splitlines()
    assert found == [line.partition(": ")[2] for line in schema if line.startswith(database.backend)]
    applied = [at for (at,) in run('SELECT "appliedAt" FROM "{t}__migrations"')]
    assert before <= min(applied) <= max(applied) <= time.time() * 1000


def test_a_percent_sign_in_the_name_of_a_table_is_shown_once(database):
    storage = open_storage(database.url, table="50%", time=TimeConfig(), retry=RetryConfig())[0]
    try:
        script = storage.migration_sql()
    finally:
        storage.close()
    assert '"50%__history"' in script and "%%" not in script


@pytest.mark.parametrize(
    ("fails", "valid", "broken", "built", "said"),
    [
        (None, True, False, True, ""),
        (None, True, True, True, ""),
        (None, False, False, False, ""),  # another process builds it
        ("LockNotAvailable", True, False, False, "could not be built now (LockNotAvailable [55P03]); the next open()"),
        ("InsufficientPrivilege", True, False, False, "could not be built now (InsufficientPrivilege [42501]"),
        ("UndefinedColumn", True, False, None, ""),
        ("a pooler", True, False, False, "is not built through a pooler; run 'drainq delayed migrate' without"),
    ],
)
def test_an_index_is_built_beside_running_programs(fails, valid, broken, built, said, monkeypatch, caplog):
    psycopg = pytest.importorskip("psycopg")
    from drainq.delayed.storage.migrate import Index, Migration

    storage, told = open_storage("postgresql://nowhere/db", table="t", time=TimeConfig(), retry=RetryConfig())[0], []

    def execute(statement, values=None, *, prepare=None):
        told.append(next((name for name, text in storage._sql.items() if text == statement), statement))
        if told[-1] == "build" and fails:
            raise getattr(psycopg.errors, fails)("no")
        return SimpleNamespace(fetchone=lambda: [broken if told[-1] == "BROKEN_INDEX" else valid])

    def alone(**settings):
        told.append(settings)
        return contextlib.nullcontext(None if fails == "a pooler" else SimpleNamespace(execute=execute))

    monkeypatch.setattr(storage._pool, "alone", alone)
    index = Index("rank_index", "build")
    with contextlib.nullcontext() if built is not None else pytest.raises(psycopg.errors.UndefinedColumn):
        with caplog.at_level(logging.WARNING, "drainq"):
            assert storage._build(Migration(11, "name", ["build"], index, True), index) is built
    drop = ['DROP INDEX CONCURRENTLY IF EXISTS "t__KindPlusPriorityIndex"'] * broken
    steps = ["BROKEN_INDEX", *drop, "build", "INDEX_IS_VALID", "RECORD"]
    done = len(steps) if built else 0 if fails == "a pooler" else len(steps) - (2 if fails else 1)
    assert told == [{"lock_timeout": 5000, "statement_timeout": 0}, *steps[:done]]
    assert said in caplog.text and bool(caplog.text) is bool(said)


def test_the_shown_script_does_what_the_migration_does(database, run):
    storage, before = storage_of(database), int(time.time()) * 1000  # SQLite's script tells whole seconds
    try:
        script = storage.migration_sql()
        assert script.startswith("BEGIN;") and script.endswith("COMMIT;\n")
        assert f'"{database.table}__dead"' in script
        for _ in range(1 if database.backend == "sqlite" else 2):  # SQLite has no ADD COLUMN IF NOT EXISTS
            _run_script(database, script)
        assert storage.migration_sql() == ""
        assert storage.migrate() == []
        assert all(before <= at <= time.time() * 1000 for (at,) in run('SELECT "appliedAt" FROM "{t}__migrations"'))
    finally:
        storage.close()
    queue = database.open(migrate=False)
    assert queue.offer_or_update("a", 1, database.now) is OfferOutcome.CREATED
    assert queue.try_poll().ack()


def test_a_shown_script_changes_nothing(database):
    storage = storage_of(database)
    try:
        assert storage.migration_sql() == storage.migration_sql() != ""
    finally:
        storage.close()


def test_a_table_of_the_sources_library_is_adopted_and_shared(database, run):
    """A JVM producer writes eight columns. drainq reads its rows, and it can read drainq's rows."""
    run(SOURCES_POSTGRES if database.backend == "postgresql" else SOURCES_SQLITE)
    kind, now = partition_kind("mail", "java.lang.String"), int(database.now * 1000)
    insert = (
        'INSERT INTO "{t}" ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "lockUuid", "createdAt")'
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    run(insert, "waiting", kind, b"from the JVM", now, now, None, now)
    run(insert, "expired", kind, b"polled by the JVM", now, now - 1000, "a-lock", now)

    queue = database.open("mail", codec=StrCodec())
    batch = queue.try_poll_many(10)
    assert dict(zip(batch.message_id, batch.payload)) == {"waiting": "from the JVM", "expired": "polled by the JVM"}
    assert dict(zip(batch.message_id, batch.attempt)) == {"waiting": 1, "expired": 2}
    assert batch.ack()

    queue.offer_batch(
        [ScheduledMessage("ours", "für die JVM", database.now), ScheduledMessage("later", "x", database.now + 9)]
    )
    run(insert, "after", kind, b"written after adoption", now, now, None, now)
    columns = '"pKey", "payload", "scheduledAt", "scheduledAtInitially", "lockUuid"'
    rows = run(f'SELECT {columns} FROM "{{t}}" WHERE "pKind" = ? ORDER BY "pKey"', kind)
    assert [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows] == [
        ("after", b"written after adoption", now, now, None),
        ("later", b"x", now + 9000, now + 9000, None),
        ("ours", "für die JVM".encode(), now, now, None),
    ]
    assert queue.try_poll_many(10).payload == ["für die JVM", "written after adoption"]


def test_schedules_work_on_an_adopted_table(database, run):
    from drainq.delayed.cron.tick_key import tick_key
    from drainq.delayed.storage.records import Tick

    run(SOURCES_POSTGRES if database.backend == "postgresql" else SOURCES_SQLITE)
    queue = database.open("mail")
    storage, nominal = queue._session.storage, int(database.now + 60) * 1_000_000
    for config_hash in ("old", "new"):
        tick = Tick(tick_key("daily", config_hash, nominal), b"1", nominal, nominal // 1000)
        created = storage.install_ticks(
            queue._session.kind, prefix="daily", config_hash=config_hash, ticks=[tick], now=int(database.now * 1000)
        )
        assert created == 1
    assert [row.key for row in queue.peek()] == [tick_key("daily", "new", nominal)]


def test_without_migration_a_missing_table_is_an_error_and_not_retried(database):
    queue = DelayedQueue.open(database.url, "mail", table=database.table, migrate=False)
    with queue, pytest.raises(Exception, match="no such table|does not exist"):
        queue.offer_or_update("a", 1, database.now)


def test_an_url_that_names_no_back_end_is_refused_without_its_password():
    for url in ("mysql://ann:secret@db/x", "sqlite://relative.db", "", "memory", "memory://ann:secret@db", "postgres"):
        with pytest.raises(ValueError, match="url must (name a database|be 'memory:')") as refusal:
            DelayedQueue.open(url, "mail")
        assert "secret" not in str(refusal.value)


def test_a_file_in_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(QueueBroken, match="nowhere") as refused:
        DelayedQueue.open(f"sqlite:///{tmp_path}/nowhere/q.db", "mail")
    assert isinstance(refused.value.__cause__, sqlite3.OperationalError)


def test_a_queue_shows_no_address(database):
    assert database.url not in repr(database.open())


def _run_script(database, script):
    if database.backend == "sqlite":
        connection = sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None)
        connection.executescript(script)
        connection.close()
    else:
        import psycopg

        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(script)
