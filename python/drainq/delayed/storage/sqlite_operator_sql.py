"""SQLite: the statements for what an operator asks; filled in and bound as those of ``sqlite_sql``."""

# --- schedules

NAME_SCHEDULE = """
INSERT INTO {schedules} ("pKind", "keyPrefix", "configHash", "description", "installedAt")
VALUES (:kind, :prefix, :hash, :description, :now)
ON CONFLICT ("pKind", "keyPrefix") DO UPDATE SET
    "configHash" = excluded."configHash", "description" = excluded."description", "installedAt" = excluded."installedAt"
WHERE ("configHash", "description") IS NOT (excluded."configHash", excluded."description")
"""
"""Write down which configuration a prefix has."""

SCHEDULES = """
SELECT "keyPrefix", "configHash", "description", "installedAt", (
    SELECT max("nominalAt") FROM {cron} AS c
    WHERE c."pKind" = s."pKind" AND c."keyPrefix" = s."keyPrefix" AND c."configHash" = s."configHash")
FROM {schedules} AS s WHERE "pKind" = :kind ORDER BY "keyPrefix"
"""
"""The schedules of a queue."""

SCHEDULE_STATE = """
SELECT
    (SELECT "configHash" FROM {schedules} WHERE "pKind" = :kind AND "keyPrefix" = :prefix),
    (SELECT max("nominalAt") FROM {cron}
     WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "isFloor")
"""
"""The configuration that a prefix has, and the floor of one."""

FORGET_SCHEDULE = 'DELETE FROM {cron} WHERE "pKind" = :kind AND "keyPrefix" = :prefix'
"""Empty the ledger of a prefix."""

UNNAME_SCHEDULE = 'DELETE FROM {schedules} WHERE "pKind" = :kind AND "keyPrefix" = :prefix'
"""Take a prefix off the list of schedules."""

BACKFILL_TICK = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
VALUES (:kind, :key, :prefix, :hash, :nominal, :now) ON CONFLICT ("pKind", "pKey") DO NOTHING
"""
"""Enter a tick into the ledger, below the floor too, unless it is there."""

# --- queues

NAME_QUEUE = """
INSERT INTO {queues} ("pKind", "name", "typeName") VALUES (:kind, :name, :type) ON CONFLICT ("pKind") DO NOTHING
"""
"""Write down what a kind stands for."""

QUEUES = 'SELECT "pKind", "name", "typeName", "paused" FROM {queues} ORDER BY "name", "typeName"'
"""The queues of the table."""

SET_PAUSED = """
INSERT INTO {queues} ("pKind", "name", "typeName", "paused") VALUES (:kind, :name, :type, :paused)
ON CONFLICT ("pKind") DO UPDATE SET "paused" = excluded."paused" WHERE "paused" <> excluded."paused"
"""
"""Pause or resume a queue."""

PAUSED = 'SELECT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = :kind AND "paused")'
"""Whether a queue is paused."""

MARK_RANKED = """
INSERT INTO {queues} ("pKind", "name", "typeName", "ranked") VALUES (:kind, :name, :type, 1)
ON CONFLICT ("pKind") DO UPDATE SET "ranked" = 1 WHERE NOT "ranked"
"""
"""Have a queue delivered by priority from now on."""

# --- consumers

IN_FLIGHT = """
SELECT count(*) FROM {table} WHERE "lockUuid" IS NOT NULL AND "pKind" = :kind AND "scheduledAt" > :now
"""
"""How many messages of a queue are in flight."""

REMEMBER = """
INSERT INTO {history} ("pKind", "pKey", "scheduledAt", "attempts", "finishedAt")
SELECT "pKind", "pKey", "scheduledAtInitially", "attempts", :now FROM {table}
WHERE "id" IN (SELECT value FROM json_each(:ids)) AND "lockUuid" = :lock ORDER BY "scheduledAtInitially", "id"
"""
"""Enter what is still ours into the history; ACK then deletes it."""

TRIM_HISTORY = """
DELETE FROM {history} WHERE "pKind" = :kind AND "id" <= (
    SELECT "id" FROM {history} WHERE "pKind" = :kind ORDER BY "id" DESC LIMIT 1 OFFSET :keep)
"""
"""Drop the oldest entries of the history."""

HISTORY = """
SELECT "pKey", "scheduledAt", "attempts", "finishedAt" FROM {history}
WHERE "pKind" = :kind ORDER BY "id" DESC LIMIT :limit
"""
"""The messages that were acknowledged, the latest first."""

# --- dead letters

DEAD_OF = """
SELECT "id", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority"
FROM {dead} WHERE "pKind" = :kind AND substr("pKey", 1, length(:prefix)) = :prefix ORDER BY "id" DESC LIMIT :limit
"""
"""The dead letters of a prefix, the latest first."""

DEAD_KEYS = """
SELECT DISTINCT "pKey" FROM {dead} WHERE "pKind" = :kind AND substr("pKey", 1, length(:prefix)) = :prefix ORDER BY 1
"""
"""The keys of dead letters that begin with a prefix."""

PURGE_DEAD = 'DELETE FROM {dead} WHERE "pKind" = :kind AND "diedAt" < :before'
"""Delete the dead letters that died before a time."""
