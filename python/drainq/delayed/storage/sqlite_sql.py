"""SQLite: the statements of the delayed queue.

One writer at a time, so no statement locks rows: a transaction of several statements begins IMMEDIATE, which takes the
write lock before the first read. ``:name`` are bound by :mod:`sqlite3`; lists go in as one JSON text.
"""

_ATTEMPTS = 'CASE WHEN "attemptsOf" <> "createdAt" THEN 0 ELSE "attempts" END'
"""Deliveries so far: those of the message that stands there now, not of one that the source's library replaced."""

ROW = (
    '"id", "pKey", "payload", "scheduledAtInitially", "createdAt", '
    + _ATTEMPTS
    + ', "scheduledAt", "lockUuid" IS NOT NULL, "priority"'
)

_OURS = 'WHERE "id" IN (SELECT value FROM json_each(:ids)) AND "lockUuid" = :lock'

# --- producers

INSERT = """
INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority")
VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
"""
"""Insert one message; fails if its key is there. Its parts (key, kind, payload, due time, now, priority) are numbered,
which is a third quicker than by name."""

INSERT_NEW = INSERT + 'ON CONFLICT ("pKind", "pKey") DO NOTHING'
"""Insert one message unless its key is there."""

UPDATE = """
UPDATE {table} SET
    "payload" = ?3, "scheduledAt" = ?4, "scheduledAtInitially" = ?4, "createdAt" = ?5,
    "lockUuid" = NULL, "attempts" = 0, "lastError" = NULL, "priority" = ?6
WHERE "pKind" = ?2 AND "pKey" = ?1 AND ("payload", "scheduledAtInitially", "priority") IS NOT (?3, ?4, ?6)
"""
"""Give a message a new payload and time, if they differ."""

# --- consumers

_TAKE = (
    """
UPDATE {table} SET
    "lockUuid" = :lock, "scheduledAt" = :until,
    "attempts" = MAX("""
    + _ATTEMPTS
    + """, "scheduledAt" > "scheduledAtInitially") + 1,
    "attemptsOf" = "createdAt"
WHERE "id" IN (
    SELECT "id" FROM (
        SELECT "id" FROM {table} WHERE "pKind" = :kind AND "scheduledAt" <= :now
            AND NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = :kind AND ("paused" OR "ranked"))
        ORDER BY "scheduledAt", "id" LIMIT :limit)
    UNION ALL
    SELECT "id" FROM (
        SELECT "id" FROM {table} WHERE "pKind" = :kind AND "scheduledAt" <= :now
            AND EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = :kind AND NOT "paused" AND "ranked")
        ORDER BY "priority", "scheduledAt", "id" LIMIT :limit))
"""
)

ACQUIRE = _TAKE + "RETURNING " + ROW
"""Take the earliest due messages."""

ACK = "DELETE FROM {table} " + _OURS
"""Delete what is still ours."""

NACK = (
    """
UPDATE {table} SET "scheduledAt" = :due, "lockUuid" = NULL, "lastError" = COALESCE(:error, "lastError")
"""
    + _OURS
)
"""Give back what is still ours, for later."""

RELEASE = (
    """
UPDATE {table} SET "scheduledAt" = "scheduledAtInitially", "lockUuid" = NULL, "attempts" = "attempts" - 1
"""
    + _OURS
)
"""Give back what is still ours, as if it had not been fetched."""

EXTEND = 'UPDATE {table} SET "scheduledAt" = :until ' + _OURS
"""Move the end of the lease of what is still ours."""

BURY = (
    """
INSERT INTO {dead} ("pKey", "pKind", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority")
SELECT "pKey", "pKind", "payload", "scheduledAtInitially", "attempts", :error, :now, "priority" FROM {table}
"""
    + _OURS
)
"""Copy what is still ours to the dead letters; ACK then deletes it."""

NEXT_DUE = 'SELECT min("scheduledAt") FROM {table} WHERE "pKind" = :kind AND "scheduledAt" > :after'
"""When the next message becomes due."""

# --- looking and removing

READ = "SELECT " + ROW + ' FROM {table} WHERE "pKind" = :kind AND "pKey" = :key'
"""The message of a key, without taking it."""

CONTAINS = 'SELECT EXISTS (SELECT 1 FROM {table} WHERE "pKind" = :kind AND "pKey" = :key)'
"""Whether there is a message of a key; its payload is not read."""

DELETE_UNCHANGED = """
DELETE FROM {table}
WHERE "id" = :id AND "createdAt" = :created AND "scheduledAtInitially" = :at AND "payload" = :payload
    AND "pKind" = :kind AND "pKey" = :key
"""
"""Delete a message that was read, if it is still what was read."""

DROP = 'DELETE FROM {table} WHERE "pKind" = :kind AND "pKey" = :key'
"""Delete the message of a key."""

DROP_ALL = 'DELETE FROM {table} WHERE "pKind" = :kind'
"""Delete every message of a queue."""

PEEK = "SELECT " + ROW + ' FROM {table} WHERE "pKind" = :kind ORDER BY "scheduledAt", "id" LIMIT :limit'
"""The first messages, without taking them."""

COUNTS = """
SELECT
    count(*) FILTER (WHERE "scheduledAt" <= :now),
    count(*) FILTER (WHERE "scheduledAt" > :now AND "lockUuid" IS NULL),
    count(*) FILTER (WHERE "scheduledAt" > :now AND "lockUuid" IS NOT NULL),
    min("scheduledAt") FILTER (WHERE "scheduledAt" <= :now),
    count(*) FILTER (WHERE "attempts" > 1 AND ("attemptsOf" = "createdAt") IS NOT FALSE),
    (SELECT count(*) FROM {dead} WHERE "pKind" = :kind)
FROM {table} WHERE "pKind" = :kind
"""
"""How many messages are in each state: ready, scheduled, in flight, oldest ready, redelivered, dead."""

# --- dead letters

DEAD = """
SELECT "id", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority"
FROM {dead} WHERE "pKind" = :kind ORDER BY "id" DESC LIMIT :limit
"""
"""The dead letters, the latest first."""

REDRIVABLE = """
SELECT max("id") FROM {dead} AS d
WHERE "pKind" = :kind AND (:keys IS NULL OR "pKey" IN (SELECT value FROM json_each(:keys)))
    AND NOT EXISTS (SELECT 1 FROM {table} AS q WHERE q."pKind" = d."pKind" AND q."pKey" = d."pKey")
GROUP BY "pKey"
"""
"""The dead letters that can go back: of two with one key the later, and none whose key a live message has taken."""

REDRIVE = """
INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority")
SELECT "pKey", "pKind", "payload", :now, :now, :now, "priority" FROM {dead}
WHERE "id" IN (SELECT value FROM json_each(:ids)) ORDER BY "id"
"""
"""Put dead letters back."""

DELETE_DEAD = 'DELETE FROM {dead} WHERE "id" IN (SELECT value FROM json_each(:ids))'
"""Delete dead letters that went back."""

DROP_DEAD = """
DELETE FROM {dead} WHERE "pKind" = :kind AND (:keys IS NULL OR "pKey" IN (SELECT value FROM json_each(:keys)))
"""
"""Delete dead letters for good."""

# --- schedules

UNDELIVERED_TICKS = """
SELECT "id", "pKey" FROM {table}
WHERE "pKind" = :kind AND "pKey" >= :low AND "pKey" < :high AND NOT ("pKey" >= :but_low AND "pKey" < :but_high)
    AND "scheduledAt" > :after AND "lockUuid" IS NULL AND "attempts" = 0 AND "scheduledAt" = "scheduledAtInitially"
"""
"""The messages of a key range, but for a part of it, that become due later and that nobody has ever fetched; a range,
for LIKE knows wildcards and no case."""

DELETE_TICKS = 'DELETE FROM {table} WHERE "id" IN (SELECT value FROM json_each(:ids))'
"""Delete ticks that were found just before."""

FORGET_TICKS = (
    'DELETE FROM {cron} WHERE "pKind" = :kind AND "pKey" IN (SELECT value FROM json_each(:keys)) AND NOT "isFloor"'
)
"""Take deleted ticks out of the ledger, so that they may be created again."""

RECORD_TICK = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
SELECT :kind, :key, :prefix, :hash, :nominal, :now
WHERE :nominal > COALESCE((
    SELECT max("nominalAt") FROM {cron}
    WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "isFloor"), :nominal - 1)
ON CONFLICT ("pKind", "pKey") DO NOTHING
"""
"""Enter a tick into the ledger, unless it was ever there."""

UPDATE_TICK = """
UPDATE {table}
SET "payload" = ?3, "scheduledAt" = ?4, "scheduledAtInitially" = ?4, "createdAt" = ?5, "priority" = ?6
WHERE "pKind" = ?2 AND "pKey" = ?1 AND "lockUuid" IS NULL AND "attempts" = 0
    AND "scheduledAt" = "scheduledAtInitially" AND ("payload", "scheduledAtInitially") IS NOT (?3, ?4)
"""
"""Give a tick that nobody has fetched a new payload and time."""

MARK_FLOOR = """
UPDATE {cron} SET "isFloor" = true
WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "nominalAt" = (
    SELECT max("nominalAt") FROM {cron} AS c
    WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "nominalAt" < :until * 1000
        AND ("isFloor" OR (COALESCE("recordedAt", :until - 1) < :until AND NOT EXISTS (
            SELECT 1 FROM {table} AS q
            WHERE q."pKind" = c."pKind" AND q."pKey" = c."pKey" AND q."lockUuid" IS NULL AND q."attempts" = 0
                AND q."scheduledAt" = q."scheduledAtInitially"))))
"""
"""Let the latest tick that is old, was recorded long ago and was delivered stand for all before it."""

DELETE_BELOW_FLOOR = """
DELETE FROM {cron}
WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "nominalAt" < (
    SELECT max("nominalAt") FROM {cron}
    WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "isFloor")
    AND COALESCE("recordedAt", :until - 1) < :until
"""
"""Drop the ticks that the floor stands for and that were recorded long ago."""

LAST_TICK = """
SELECT max("nominalAt") FROM {cron}
WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "nominalAt" <= :until
"""
"""The latest tick ever created that lies not after a time."""

# --- schema

CREATE_LEDGER = """
CREATE TABLE IF NOT EXISTS {migrations} (
    "number" INTEGER PRIMARY KEY, "name" TEXT NOT NULL, "appliedAt" INTEGER NOT NULL)
"""
"""Where the migrations that were applied are written down."""

HAS_LEDGER = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :table"
"""Whether the table of applied migrations exists."""

APPLIED = 'SELECT "number" FROM {migrations}'
"""The migrations that were applied."""

RECORD = "INSERT INTO {migrations} VALUES (:number, :name, :now)"
"""Write a migration down as applied."""

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
)
"""Each a name and its statements, numbered from 1. A table that the source's own library made is taken as it is.
``attemptsOf`` is the creation time whose deliveries ``attempts`` counts: the source's library
replaces a message without counting anew."""
