"""PostgreSQL: the statements for schedules and their ticks. They are filled in and bound like ``messages_sql``."""

# --- ticks

LOCK_SCHEDULE = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(%(name)s, 0))"
"""Take a turn among the schedulers of one queue, until the commit."""

UNDELIVERED_TICKS = """
SELECT "id", "pKey" FROM {table}
WHERE "pKind" = %(kind)s AND "pKey" COLLATE "C" >= %(low)s AND "pKey" COLLATE "C" < %(high)s
    AND NOT ("pKey" COLLATE "C" >= %(but_low)s AND "pKey" COLLATE "C" < %(but_high)s)
    AND "scheduledAt" > %(after)s AND "lockUuid" IS NULL AND "attempts" = 0 AND "scheduledAt" = "scheduledAtInitially"
FOR UPDATE
"""
"""The messages of a key range, except a part of it, that are not yet due and were never fetched. LIKE is not
used: it has wildcards and no index. Due messages are not locked, because consumers would skip them."""

DELETE_TICKS = 'DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[])'
"""Delete ticks that were found, and locked, just before."""

FORGET_TICKS = 'DELETE FROM {cron} WHERE "pKind" = %(kind)s AND "pKey" = ANY(%(keys)s) AND NOT "isFloor"'
"""Take deleted ticks out of the ledger, so that they may be created again."""

RECORD_TICKS = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
SELECT %(kind)s::text, k, %(prefix)s::text, %(hash)s::text, n, %(now)s::bigint
FROM unnest(%(keys)b::text[], %(nominals)b::bigint[]) AS u(k, n)
WHERE n > COALESCE((
    SELECT pg_catalog.max("nominalAt") FROM {cron}
    WHERE "pKind" = %(kind)s::text AND "keyPrefix" = %(prefix)s::text AND "configHash" = %(hash)s::text
        AND "isFloor"), n - 1)
ON CONFLICT ("pKind", "pKey") DO NOTHING
RETURNING "pKey"
"""
"""Enter ticks into the ledger. Returns the keys of the new ones."""

UPDATE_TICK = """
UPDATE {table}
SET "payload" = %(payload)b, "scheduledAt" = %(at)s, "scheduledAtInitially" = %(at)s, "createdAt" = %(now)s
WHERE "pKind" = %(kind)s AND "pKey" = %(key)s AND "lockUuid" IS NULL AND "attempts" = 0
    AND "scheduledAt" = "scheduledAtInitially"
    AND ("payload", "scheduledAtInitially") IS DISTINCT FROM (%(payload)b, %(at)s)
"""
"""Give a tick that was never fetched a new payload and time."""

RAISE_FLOOR = """
WITH latest AS (
    SELECT pg_catalog.max("nominalAt") AS at FROM {cron} AS c
    WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s
        AND "nominalAt" < %(until)s * 1000
        AND ("isFloor" OR (COALESCE("recordedAt", %(until)s - 1) < %(until)s AND NOT EXISTS (
            SELECT 1 FROM {table} AS q
            WHERE q."pKind" = c."pKind" AND q."pKey" = c."pKey" AND q."lockUuid" IS NULL AND q."attempts" = 0
                AND q."scheduledAt" = q."scheduledAtInitially")))
), dropped AS (
    DELETE FROM {cron}
    WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s
        AND "nominalAt" < (SELECT at FROM latest) AND COALESCE("recordedAt", %(until)s - 1) < %(until)s
)
UPDATE {cron} SET "isFloor" = true
WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s
    AND "nominalAt" = (SELECT at FROM latest) AND NOT "isFloor"
"""
"""Raise the floor to the latest delivered tick that is old and was recorded long ago."""

LAST_TICK = """
SELECT pg_catalog.max("nominalAt") FROM {cron}
WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s AND "nominalAt" <= %(until)s
"""
"""The latest tick ever created up to a time."""

# --- schedules by name

NAME_SCHEDULE = """
INSERT INTO {schedules} AS s ("pKind", "keyPrefix", "configHash", "description", "installedAt")
VALUES (%(kind)s, %(prefix)s, %(hash)s, %(description)s, %(now)s)
ON CONFLICT ("pKind", "keyPrefix") DO UPDATE SET
    "configHash" = EXCLUDED."configHash", "description" = EXCLUDED."description", "installedAt" = EXCLUDED."installedAt"
WHERE (s."configHash", s."description") IS DISTINCT FROM (EXCLUDED."configHash", EXCLUDED."description")
"""
"""Record the configuration of a prefix."""

SCHEDULES = """
SELECT "keyPrefix", "configHash", "description", "installedAt", (
    SELECT pg_catalog.max("nominalAt") FROM {cron} AS c
    WHERE c."pKind" = s."pKind" AND c."keyPrefix" = s."keyPrefix" AND c."configHash" = s."configHash")
FROM {schedules} AS s WHERE "pKind" = %(kind)s ORDER BY "keyPrefix"
"""
"""The schedules of a queue."""

SCHEDULE_STATE = """
SELECT
    (SELECT "configHash" FROM {schedules} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s),
    (SELECT pg_catalog.max("nominalAt") FROM {cron}
     WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s AND "isFloor"),
    (SELECT pg_catalog.count(*) FROM {cron} WHERE "pKind" = %(kind)s AND "pKey" = ANY(%(keys)s::text[]))
"""
"""The present configuration of a prefix, the floor of a given configuration, and how many of some ticks are made."""

FORGET_SCHEDULE = 'DELETE FROM {cron} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s'
"""Delete the ledger entries of a prefix."""

UNNAME_SCHEDULE = 'DELETE FROM {schedules} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s'
"""Take a prefix off the list of schedules."""

BACKFILL_TICKS = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
SELECT %(kind)s::text, k, %(prefix)s::text, %(hash)s::text, n, %(now)s::bigint
FROM unnest(%(keys)b::text[], %(nominals)b::bigint[]) AS u(k, n)
ON CONFLICT ("pKind", "pKey") DO NOTHING
RETURNING "pKey"
"""
"""Enter ticks into the ledger, also below the floor. Returns the keys of the new ones."""
