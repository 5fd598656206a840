"""SQLite: the statements for schedules and their ticks. They are filled in and bound like ``messages_sql``."""

# --- ticks

UNDELIVERED_TICKS = """
SELECT "id", "pKey" FROM {table}
WHERE "pKind" = :kind AND "pKey" >= :low AND "pKey" < :high AND NOT ("pKey" >= :but_low AND "pKey" < :but_high)
    AND "scheduledAt" > :after AND "lockUuid" IS NULL AND "attempts" = 0 AND "scheduledAt" = "scheduledAtInitially"
"""
"""The messages of a key range, except a part of it, that are not yet due and were never fetched. LIKE is not
used: it has wildcards and ignores case."""

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
"""Enter a tick into the ledger, unless it is there, or lies at or below the floor."""

UPDATE_TICK = """
UPDATE {table}
SET "payload" = ?3, "scheduledAt" = ?4, "scheduledAtInitially" = ?4, "createdAt" = ?5, "priority" = ?6,
    "maxAttempts" = NULLIF(?7, 0), "inGroup" = NULLIF(?8, '')
WHERE "pKind" = ?2 AND "pKey" = ?1 AND "lockUuid" IS NULL AND "attempts" = 0
    AND "scheduledAt" = "scheduledAtInitially" AND ("payload", "scheduledAtInitially") IS NOT (?3, ?4)
"""
"""Give a tick that was never fetched a new payload and time."""

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
"""Raise the floor to the latest delivered tick that is old and was recorded long ago."""

DELETE_BELOW_FLOOR = """
DELETE FROM {cron}
WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "nominalAt" < (
    SELECT max("nominalAt") FROM {cron}
    WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "isFloor")
    AND COALESCE("recordedAt", :until - 1) < :until
"""
"""Drop the ticks below the floor that were recorded long ago."""

LAST_TICK = """
SELECT max("nominalAt") FROM {cron}
WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "nominalAt" <= :until
"""
"""The latest tick ever created up to a time."""

# --- schedules by name

NAME_SCHEDULE = """
INSERT INTO {schedules} ("pKind", "keyPrefix", "configHash", "description", "installedAt")
VALUES (:kind, :prefix, :hash, :description, :now)
ON CONFLICT ("pKind", "keyPrefix") DO UPDATE SET
    "configHash" = excluded."configHash", "description" = excluded."description", "installedAt" = excluded."installedAt"
WHERE ("configHash", "description") IS NOT (excluded."configHash", excluded."description")
"""
"""Record the configuration of a prefix."""

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
    (SELECT "description" FROM {schedules} WHERE "pKind" = :kind AND "keyPrefix" = :prefix),
    (SELECT max("nominalAt") FROM {cron}
     WHERE "pKind" = :kind AND "keyPrefix" = :prefix AND "configHash" = :hash AND "isFloor"),
    (SELECT count(*) FROM {cron} WHERE "pKind" = :kind AND "pKey" IN (SELECT value FROM json_each(:keys)))
"""
"""The present configuration of a prefix, the floor of a given configuration, and how many of some ticks are made."""

MADE_TICKS = 'SELECT "pKey" FROM {cron} WHERE "pKind" = :kind AND "pKey" IN (SELECT value FROM json_each(:keys))'
"""Which of some ticks are in the ledger."""

FORGET_SCHEDULE = 'DELETE FROM {cron} WHERE "pKind" = :kind AND "keyPrefix" = :prefix'
"""Delete the ledger entries of a prefix."""

UNNAME_SCHEDULE = 'DELETE FROM {schedules} WHERE "pKind" = :kind AND "keyPrefix" = :prefix'
"""Take a prefix off the list of schedules."""

BACKFILL_TICK = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
VALUES (:kind, :key, :prefix, :hash, :nominal, :now) ON CONFLICT ("pKind", "pKey") DO NOTHING
"""
"""Enter a tick into the ledger, below the floor too, unless it is there."""
