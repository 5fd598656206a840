"""SQLite: the tables of the delayed queue as numbered migrations, and the queries about them."""

from drainq.delayed.storage.migrate import Index

CREATE_LEDGER = """
CREATE TABLE IF NOT EXISTS {migrations} (
    "number" INTEGER PRIMARY KEY, "name" TEXT NOT NULL, "appliedAt" INTEGER NOT NULL)
"""
"""The table that records the applied migrations."""

HAS_LEDGER = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :table"
"""Whether the table of applied migrations exists."""

APPLIED = 'SELECT "number" FROM {migrations}'
"""The migrations that were applied."""

RECORD = "INSERT INTO {migrations} VALUES (:number, :name, :now)"
"""Record a migration as applied."""

MIGRATIONS = (
    (
        "the source's table",
        """
        CREATE TABLE IF NOT EXISTS {table} (
            "id" INTEGER PRIMARY KEY,
            "pKey" TEXT NOT NULL,
            "pKind" TEXT NOT NULL,
            "payload" BLOB NOT NULL,
            "scheduledAt" INTEGER NOT NULL,
            "scheduledAtInitially" INTEGER NOT NULL,
            "lockUuid" TEXT NULL,
            "createdAt" INTEGER NOT NULL
        )
        """,
        'CREATE UNIQUE INDEX IF NOT EXISTS {kind_key_index} ON {table} ("pKind", "pKey")',
        'CREATE INDEX IF NOT EXISTS {due_index} ON {table} ("pKind", "scheduledAt")',
    ),
    (
        "attempts and the last error",
        'ALTER TABLE {table} ADD COLUMN "attempts" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {table} ADD COLUMN "lastError" TEXT NULL',
    ),
    (
        "dead letters",
        """
        CREATE TABLE IF NOT EXISTS {dead} (
            "id" INTEGER PRIMARY KEY,
            "pKey" TEXT NOT NULL,
            "pKind" TEXT NOT NULL,
            "payload" BLOB NOT NULL,
            "scheduledAt" INTEGER NOT NULL,
            "attempts" INTEGER NOT NULL,
            "error" TEXT NOT NULL,
            "diedAt" INTEGER NOT NULL
        )
        """,
        'CREATE INDEX IF NOT EXISTS {dead_index} ON {dead} ("pKind", "id")',
    ),
    (
        "the tick ledger of schedules",
        """
        CREATE TABLE IF NOT EXISTS {cron} (
            "pKind" TEXT NOT NULL,
            "pKey" TEXT NOT NULL,
            "keyPrefix" TEXT NOT NULL,
            "configHash" TEXT NOT NULL,
            "nominalAt" INTEGER NOT NULL,
            "isFloor" INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY ("pKind", "pKey")
        ) WITHOUT ROWID
        """,
        'CREATE INDEX IF NOT EXISTS {cron_index} ON {cron} ("pKind", "keyPrefix", "configHash", "nominalAt")',
    ),
    (
        "whose deliveries are counted",
        'ALTER TABLE {table} ADD COLUMN "attemptsOf" INTEGER NULL',
    ),
    (
        "an index for the source library's acknowledgements",
        'CREATE INDEX IF NOT EXISTS {lease_index} ON {table} ("lockUuid", "id") WHERE "lockUuid" IS NOT NULL',
    ),
    (
        "when a tick was recorded, and the schedules by name",
        'ALTER TABLE {cron} ADD COLUMN "recordedAt" INTEGER NULL',
        """
        CREATE TABLE IF NOT EXISTS {schedules} (
            "pKind" TEXT NOT NULL,
            "keyPrefix" TEXT NOT NULL,
            "configHash" TEXT NOT NULL,
            "description" TEXT NOT NULL,
            "installedAt" INTEGER NOT NULL,
            PRIMARY KEY ("pKind", "keyPrefix")
        ) WITHOUT ROWID
        """,
    ),
    (
        "the queues by name, and what they have finished",
        """
        CREATE TABLE IF NOT EXISTS {queues} (
            "pKind" TEXT NOT NULL PRIMARY KEY,
            "name" TEXT NOT NULL,
            "typeName" TEXT NOT NULL,
            "paused" INTEGER NOT NULL DEFAULT 0
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE IF NOT EXISTS {history} (
            "id" INTEGER PRIMARY KEY AUTOINCREMENT,
            "pKind" TEXT NOT NULL,
            "pKey" TEXT NOT NULL,
            "scheduledAt" INTEGER NOT NULL,
            "attempts" INTEGER NOT NULL,
            "finishedAt" INTEGER NOT NULL
        )
        """,
        'CREATE INDEX IF NOT EXISTS {history_index} ON {history} ("pKind", "id")',
    ),
    (
        "priorities",
        'ALTER TABLE {table} ADD COLUMN "priority" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {dead} ADD COLUMN "priority" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {queues} ADD COLUMN "ranked" INTEGER NOT NULL DEFAULT 0',
    ),
    (
        "an index for delivery by priority",
        Index(
            "rank_index",
            'CREATE INDEX IF NOT EXISTS {rank_index} ON {table} ("pKind", "priority", "scheduledAt")',
            'SELECT EXISTS (SELECT 1 FROM {queues} WHERE "ranked")',
            later=True,
        ),
    ),
    (
        "who holds a message",
        'ALTER TABLE {table} ADD COLUMN "holder" TEXT NULL',
    ),
    (
        "how often a message is tried",
        'ALTER TABLE {table} ADD COLUMN "maxAttempts" INTEGER NULL',
        'ALTER TABLE {dead} ADD COLUMN "maxAttempts" INTEGER NULL',
    ),
    (
        "the group of a message",
        'ALTER TABLE {table} ADD COLUMN "inGroup" TEXT NULL',
        'ALTER TABLE {dead} ADD COLUMN "inGroup" TEXT NULL',
        'CREATE INDEX IF NOT EXISTS {group_index} ON {table} ("pKind", "inGroup", "scheduledAtInitially")'
        ' WHERE "inGroup" IS NOT NULL',
    ),
    (
        "the attempts in the history",
        'ALTER TABLE {history} ADD COLUMN "startedAt" INTEGER NULL',
        """ALTER TABLE {history} ADD COLUMN "outcome" TEXT NOT NULL DEFAULT 'acknowledged'""",
        'ALTER TABLE {history} ADD COLUMN "error" TEXT NULL',
        'ALTER TABLE {history} ADD COLUMN "holder" TEXT NULL',
    ),
    (
        "who paused a queue",
        'ALTER TABLE {queues} ADD COLUMN "pausedBy" TEXT NULL',
    ),
)
"""The migrations, numbered from 1: each a name and its statements. The first keeps a table of the source library.
``attemptsOf`` is the creation time of the message that ``attempts`` counts for: the source's library replaces a message
and keeps the old number."""
