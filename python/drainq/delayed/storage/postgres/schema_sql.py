"""PostgreSQL: the tables of the delayed queue as numbered migrations, and the queries about them."""

from drainq.delayed.storage.migrate import Index
from drainq.delayed.storage.postgres.offer_function import DROP_OLD, OF_BYTES, OF_TEXT

CREATE_LEDGER = """
CREATE TABLE IF NOT EXISTS {migrations} (
    "number" INTEGER PRIMARY KEY, "name" TEXT NOT NULL, "appliedAt" BIGINT NOT NULL)
"""
"""The table that records the applied migrations."""

LOCK_MIGRATION = """
SELECT pg_catalog.set_config('lock_timeout', %(ms)s, true),
    pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%(name)s, 0::bigint))
"""
"""Take a turn among the programs that create the tables, until the commit."""

HAS_LEDGER = "SELECT pg_catalog.to_regclass(%(table)s) IS NOT NULL"
"""Whether the table of applied migrations exists."""

APPLIED = 'SELECT "number" FROM {migrations}'
"""The migrations that were applied."""

RECORD = "INSERT INTO {migrations} VALUES (%(number)s, %(name)s, %(now)s) ON CONFLICT DO NOTHING"
"""Record a migration as applied. Another program may have done so, because an index is built without a lock."""

MIGRATIONS = (
    (
        "the source's table",
        """
        CREATE TABLE IF NOT EXISTS {table} (
            "id" BIGSERIAL PRIMARY KEY,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "payload" BYTEA NOT NULL,
            "scheduledAt" BIGINT NOT NULL,
            "scheduledAtInitially" BIGINT NOT NULL,
            "lockUuid" VARCHAR(36) NULL,
            "createdAt" BIGINT NOT NULL
        ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 5000)
        """,
        'CREATE UNIQUE INDEX IF NOT EXISTS {key_index} ON {table} ("pKey", "pKind")',
        'CREATE INDEX IF NOT EXISTS {due_index} ON {table} ("pKind", "scheduledAt", "id")',
    ),
    (
        "attempts and the last error",
        """
        ALTER TABLE {table}
            ADD COLUMN IF NOT EXISTS "attempts" INTEGER NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS "lastError" TEXT NULL
        """,
    ),
    (
        "dead letters",
        """
        CREATE TABLE IF NOT EXISTS {dead} (
            "id" BIGSERIAL PRIMARY KEY,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "payload" BYTEA NOT NULL,
            "scheduledAt" BIGINT NOT NULL,
            "attempts" INTEGER NOT NULL,
            "error" TEXT NOT NULL,
            "diedAt" BIGINT NOT NULL
        )
        """,
        'CREATE INDEX IF NOT EXISTS {dead_index} ON {dead} ("pKind", "id")',
    ),
    (
        "the tick ledger of schedules",
        """
        CREATE TABLE IF NOT EXISTS {cron} (
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "keyPrefix" TEXT COLLATE "C" NOT NULL,
            "configHash" TEXT COLLATE "C" NOT NULL,
            "nominalAt" BIGINT NOT NULL,
            "isFloor" BOOLEAN NOT NULL DEFAULT false,
            PRIMARY KEY ("pKind", "pKey")
        )
        """,
        'CREATE INDEX IF NOT EXISTS {cron_index} ON {cron} ("pKind", "keyPrefix", "configHash", "nominalAt")',
    ),
    (
        "whose deliveries are counted",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "attemptsOf" BIGINT NULL',
    ),
    (
        "an index for the source library's acknowledgements",
        Index(
            "lease_index",
            'CREATE INDEX IF NOT EXISTS {lease_index} ON {table} ("lockUuid", "id") WHERE "lockUuid" IS NOT NULL',
        ),
    ),
    (
        "an index for key ranges",
        Index(
            "range_index",
            'CREATE INDEX IF NOT EXISTS {range_index} ON {table} ("pKind", "pKey" COLLATE "C")',
            """
            SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = pg_catalog.to_regclass({literal})
                AND attname = 'pKey' AND attcollation <> (SELECT oid FROM pg_collation WHERE collname = 'C' LIMIT 1))
            """,
        ),
    ),
    (
        "when a tick was recorded, and the schedules by name",
        'ALTER TABLE {cron} ADD COLUMN IF NOT EXISTS "recordedAt" BIGINT NULL',
        """
        CREATE TABLE IF NOT EXISTS {schedules} (
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "keyPrefix" TEXT COLLATE "C" NOT NULL,
            "configHash" TEXT COLLATE "C" NOT NULL,
            "description" TEXT NOT NULL,
            "installedAt" BIGINT NOT NULL,
            PRIMARY KEY ("pKind", "keyPrefix")
        )
        """,
    ),
    (
        "the queues by name, and what they have finished",
        """
        CREATE TABLE IF NOT EXISTS {queues} (
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
            "name" TEXT COLLATE "C" NOT NULL,
            "typeName" TEXT COLLATE "C" NOT NULL,
            "paused" BOOLEAN NOT NULL DEFAULT false
        )
        """,
        """
        CREATE TABLE IF NOT EXISTS {history} (
            "id" BIGSERIAL PRIMARY KEY,
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "scheduledAt" BIGINT NOT NULL,
            "attempts" INTEGER NOT NULL,
            "finishedAt" BIGINT NOT NULL
        )
        """,
        'CREATE INDEX IF NOT EXISTS {history_index} ON {history} ("pKind", "id")',
    ),
    (
        "priorities",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "priority" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {dead} ADD COLUMN IF NOT EXISTS "priority" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {queues} ADD COLUMN IF NOT EXISTS "ranked" BOOLEAN NOT NULL DEFAULT false',
    ),
    (
        "an index for delivery by priority",
        Index(
            "rank_index",
            'CREATE INDEX IF NOT EXISTS {rank_index} ON {table} ("pKind", "priority", "scheduledAt", "id")'
            ' WHERE "priority" <> 0',
        ),
    ),
    (
        "who holds a message",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "holder" TEXT NULL',
    ),
    ("a function that offers messages", OF_BYTES, OF_TEXT),
    (
        "how often a message is tried",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "maxAttempts" INTEGER NULL',
        'ALTER TABLE {dead} ADD COLUMN IF NOT EXISTS "maxAttempts" INTEGER NULL',
    ),
    (
        "the group of a message",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "inGroup" TEXT COLLATE "C" NULL',
        'ALTER TABLE {dead} ADD COLUMN IF NOT EXISTS "inGroup" TEXT COLLATE "C" NULL',
        *DROP_OLD,
        OF_BYTES,
        OF_TEXT,
    ),
    (
        "an index for the first message of a group",
        Index(
            "group_index",
            'CREATE INDEX IF NOT EXISTS {group_index} ON {table} ("pKind", "inGroup", "scheduledAtInitially", "id")'
            ' WHERE "inGroup" IS NOT NULL',
        ),
    ),
    (
        "an index that permits one message of a group in flight",
        Index(
            "leased_group_index",
            'CREATE UNIQUE INDEX IF NOT EXISTS {leased_group_index} ON {table} ("pKind", "inGroup")'
            ' WHERE "inGroup" IS NOT NULL AND "lockUuid" IS NOT NULL',
        ),
    ),
    (
        "the attempts in the history",
        """
        ALTER TABLE {history}
            ADD COLUMN IF NOT EXISTS "startedAt" BIGINT NULL,
            ADD COLUMN IF NOT EXISTS "outcome" TEXT NOT NULL DEFAULT 'acknowledged',
            ADD COLUMN IF NOT EXISTS "error" TEXT NULL,
            ADD COLUMN IF NOT EXISTS "holder" TEXT NULL
        """,
    ),
    (
        "who paused a queue",
        'ALTER TABLE {queues} ADD COLUMN IF NOT EXISTS "pausedBy" TEXT NULL',
    ),
)
"""The migrations, numbered from 1: each a name and its statements. The first keeps a table of the source library. In
such a table keys sort by locale, so a key range needs an index of its own. ``attemptsOf`` is the creation time of the
message that ``attempts`` counts for: the source's library replaces a message and keeps the old number."""

TABLE_EXISTS = "SELECT pg_catalog.to_regclass({literal}) IS NOT NULL"
"""Whether the table exists."""

BROKEN_INDEX = """
SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = pg_catalog.to_regclass(%(index)s) AND NOT indisvalid)
    AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index WHERE index_relid = pg_catalog.to_regclass(%(index)s))
"""
"""Whether a build that no longer runs has left an unfinished index."""


def drop_index(quoted: str) -> str:
    """Return the statement that drops the rest of an unfinished index without locking out writers."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {quoted}"


INDEX_IS_VALID = (
    "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = pg_catalog.to_regclass(%(index)s) AND indisvalid)"
)
"""Whether an index exists and is complete."""
