"""SQLite: the statements of the delayed queue.

There is one writer at a time, so no statement locks rows. A transaction of several statements begins IMMEDIATE, which
takes the write lock before the first read. :mod:`sqlite3` binds ``:name``. A list is bound as one JSON text.
"""

from drainq.delayed.storage.operator_sql import ATTEMPTS, ROW

_OURS = 'WHERE "id" IN (SELECT value FROM json_each(:ids)) AND "lockUuid" = :lock'

# --- producers

INSERT = """
INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority",
    "maxAttempts", "inGroup")
VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, NULLIF(?7, 0), NULLIF(?8, ''))
"""
"""Insert one message; fails if its key is there. Its parts (key, kind, payload, due time, now, priority, most attempts
or 0, group or '') are numbered, which is a third faster than by name. :mod:`sqlite3` looks up an adapter for each None
and each bytes, but for no int, str or bytearray: without None and bytes an offer costs a tenth less."""

INSERT_NEW = INSERT + 'ON CONFLICT ("pKind", "pKey") DO NOTHING'
"""Insert one message unless its key is there."""

UPDATE = """
UPDATE {table} SET
    "payload" = ?3, "scheduledAt" = ?4, "scheduledAtInitially" = ?4, "createdAt" = ?5,
    "lockUuid" = NULL, "attempts" = 0, "lastError" = NULL, "priority" = ?6,
    "maxAttempts" = NULLIF(?7, 0), "inGroup" = NULLIF(?8, '')
WHERE "pKind" = ?2 AND "pKey" = ?1
    AND ("payload", "scheduledAtInitially", "priority", "maxAttempts", "inGroup")
        IS NOT (?3, ?4, ?6, NULLIF(?7, 0), NULLIF(?8, ''))
"""
"""Give a message a new payload and time, if they differ."""

# --- consumers

_FREE = """
    AND ("inGroup" IS NULL OR "lockUuid" IS NOT NULL OR (
        "inGroup" NOT IN (
            SELECT h."inGroup" FROM {table} AS h
            WHERE h."lockUuid" > '' AND +h."pKind" = :kind AND +h."inGroup" IS NOT NULL)
        AND q."id" = (
            SELECT h."id" FROM {table} AS h WHERE h."pKind" = :kind AND h."inGroup" = q."inGroup"
            ORDER BY h."scheduledAtInitially", h."id" LIMIT 1)))"""
"""The message has no group, or is the first of a group without a leased message, or its own lease has ended. The plus
signs leave only the index on locks for the inner search. By the index on groups it would read all messages."""

_TAKE = (
    """
UPDATE {table} SET
    "lockUuid" = :lock, "scheduledAt" = :until, "holder" = :holder,
    "attempts" = MIN(2147483646, MAX("""
    + ATTEMPTS
    + """, "scheduledAt" > "scheduledAtInitially")) + 1,
    "attemptsOf" = "createdAt"
WHERE "id" IN (
    {which})
"""
    + "RETURNING "
    + ROW
)

ACQUIRE = _TAKE.replace(
    "{which}",
    """SELECT "id" FROM {table} AS q WHERE "pKind" = :kind AND "scheduledAt" <= :now
        AND NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = :kind AND ("paused" OR "ranked"))"""
    + _FREE
    + """
    ORDER BY "scheduledAt", "id" LIMIT :limit""",
)
"""Take the earliest due messages of a queue without priorities."""

ACQUIRE_THESE = _TAKE.replace("{which}", "SELECT value FROM json_each(:ids)")
"""Take certain messages."""

STATE = 'SELECT "paused", "ranked" FROM {queues} WHERE "pKind" = :kind'
"""Whether a queue is paused, and whether it is delivered by priority; no row: neither."""

NEXT_PRIORITY = """
SELECT "priority" FROM {table} WHERE "pKind" = :kind AND "priority" > :after ORDER BY "priority" LIMIT 1
"""
"""The lowest priority of any message that is above ``after``."""

DUE_OF_PRIORITY = (
    """
SELECT "id", "pKey" FROM {table} AS q WHERE "pKind" = :kind AND "priority" = :priority AND "scheduledAt" <= :now"""
    + _FREE
    + """
ORDER BY "scheduledAt", "id"
"""
)
"""The due messages of a priority, the earliest first."""

ACK = "DELETE FROM {table} " + _OURS
"""Delete messages that are still leased."""

NACK = (
    """
UPDATE {table} SET "scheduledAt" = :due, "lockUuid" = NULL, "lastError" = COALESCE(:error, "lastError")
"""
    + _OURS
)
"""Release messages that are still leased, for later."""

_RELEASE = """
UPDATE {table} SET "scheduledAt" = COALESCE(:due, "scheduledAtInitially"),
    "scheduledAtInitially" = COALESCE(:due, "scheduledAtInitially"), "lockUuid" = NULL, "attempts" = "attempts" - 1
"""

RELEASE = _RELEASE + _OURS
"""Release messages that are still leased, as if they had not been fetched; ``due`` is a new due time, or NULL."""

RELEASE_TAKEN = _RELEASE + 'WHERE "lockUuid" = :lock'
"""The same for all messages of a lock."""

EXTEND = 'UPDATE {table} SET "scheduledAt" = :until ' + _OURS
"""Move the end of the lease of messages that are still leased."""

BURY = (
    """
INSERT INTO {dead} ("pKey", "pKind", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority",
    "maxAttempts", "inGroup")
SELECT "pKey", "pKind", "payload", "scheduledAtInitially", "attempts", :error, :now, "priority", "maxAttempts",
    "inGroup"
FROM {table}
"""
    + _OURS
)
"""Copy messages that are still leased to the dead letters. ACK then deletes them."""

DUE = (
    """
SELECT "id", "pKey" FROM {table} AS q WHERE "pKind" = :kind AND "scheduledAt" <= :now"""
    + _FREE
    + """
ORDER BY "scheduledAt", "id"
"""
)
"""The due messages of a queue without priorities, the earliest first."""

REMEMBER = """
INSERT INTO {history} ("pKind", "pKey", "scheduledAt", "attempts", "finishedAt", "startedAt", "outcome", "error",
    "holder")
SELECT "pKind", "pKey", "scheduledAtInitially", "attempts", :finished, :started, :outcome, :error, "holder" FROM {table}
WHERE "id" IN (SELECT value FROM json_each(:ids)) AND "lockUuid" = :lock ORDER BY "scheduledAtInitially", "id"
"""
"""Enter the attempts of messages that are still leased in the history."""

# --- looking and removing

DELETE_UNCHANGED = """
DELETE FROM {table}
WHERE "id" = :id AND "createdAt" = :created AND "scheduledAtInitially" = :at AND "payload" = :payload
    AND "pKind" = :kind AND "pKey" = :key
"""
"""Delete a message if it is unchanged since it was read."""

# --- dead letters

REDRIVABLE = """
SELECT max("id") FROM {dead} AS d
WHERE "pKind" = :kind AND (:keys IS NULL OR "pKey" IN (SELECT value FROM json_each(:keys)))
    AND NOT EXISTS (SELECT 1 FROM {table} AS q WHERE q."pKind" = d."pKind" AND q."pKey" = d."pKey")
GROUP BY "pKey"
"""
"""The dead letters that can be redriven: of two with one key the later, unless a live message has that key."""

REDRIVE = """
INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority",
    "maxAttempts", "inGroup")
SELECT "pKey", "pKind", "payload", :now, :now, :now, "priority", "maxAttempts", "inGroup" FROM {dead}
WHERE "id" IN (SELECT value FROM json_each(:ids)) ORDER BY "id"
"""
"""Redrive dead letters."""

DELETE_DEAD = 'DELETE FROM {dead} WHERE "id" IN (SELECT value FROM json_each(:ids))'
"""Delete redriven dead letters."""

DROP_DEAD = """
DELETE FROM {dead} WHERE "pKind" = :kind AND (:keys IS NULL OR "pKey" IN (SELECT value FROM json_each(:keys)))
"""
"""Delete dead letters for good."""

# --- queues

NAME_QUEUE = """
INSERT INTO {queues} ("pKind", "name", "typeName") VALUES (:kind, :name, :type) ON CONFLICT ("pKind") DO NOTHING
"""
"""Record the name and codec of a kind."""

SET_PAUSED = """
INSERT INTO {queues} ("pKind", "name", "typeName", "paused", "pausedBy") VALUES (:kind, :name, :type, :paused, :by)
ON CONFLICT ("pKind") DO UPDATE SET "paused" = excluded."paused", "pausedBy" = excluded."pausedBy"
    WHERE "paused" <> excluded."paused"
"""
"""Pause or resume a queue."""

MARK_RANKED = """
INSERT INTO {queues} ("pKind", "name", "typeName", "ranked") VALUES (:kind, :name, :type, 1)
ON CONFLICT ("pKind") DO UPDATE SET "ranked" = 1 WHERE NOT "ranked"
"""
"""Deliver a queue by priority from now on."""
