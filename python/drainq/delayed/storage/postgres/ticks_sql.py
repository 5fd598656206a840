"""PostgreSQL: the statements for schedules and their ticks. They are filled in and bound like ``messages_sql``."""

# --- ticks

LOCK_SCHEDULES = """
SELECT pg_catalog.set_config('lock_timeout', %(ms)s, true), (
    SELECT pg_catalog.count(*) FROM unnest(%(prefixes)s::text[]) AS u(prefix) CROSS JOIN LATERAL (
        SELECT 1 FROM {schedules} WHERE "pKind" = %(kind)s AND "keyPrefix" = u.prefix
        LIMIT 1 FOR NO KEY UPDATE) AS locked)
"""
"""Take a turn among the schedulers of some prefixes, one after the other, until the commit."""

UNDELIVERED_TICKS = """
SELECT q."id", q."pKey", r.prefix
FROM unnest(
    %(prefixes)s::text[], %(lows)s::text[], %(highs)s::text[], %(but_lows)s::text[], %(but_highs)s::text[]
) AS r(prefix, low, high, but_low, but_high)
JOIN {table} AS q ON q."pKey" COLLATE "C" >= r.low AND q."pKey" COLLATE "C" < r.high
    AND NOT (q."pKey" COLLATE "C" >= r.but_low AND q."pKey" COLLATE "C" < r.but_high)
    AND q."pKind" || '' = %(kind)s::text AND q."scheduledAt" + 0 > %(after)s
    AND q."lockUuid" IS NULL AND q."attempts" = 0 AND q."scheduledAt" = q."scheduledAtInitially"
FOR UPDATE OF q
"""
"""The messages of some key ranges, except a part of each, that are not yet due and were never fetched. LIKE is not
used: it has wildcards and no index. Due messages are not locked, because consumers would skip them. The expressions of
kind and time leave the planner only the index on keys. By another index it would read a queue's whole backlog."""

DELETE_TICKS = 'DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[])'
"""Delete ticks that were found, and locked, just before."""

FORGET_TICKS = 'DELETE FROM {cron} WHERE "pKind" = %(kind)s AND "pKey" = ANY(%(keys)s) AND NOT "isFloor"'
"""Take deleted ticks out of the ledger, so that they may be created again."""

RECORD_TICKS = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
SELECT %(kind)s::text, k, p, h, n, %(now)s::bigint
FROM unnest(
    %(keys)b::text[], %(prefixes)b::text[], %(hashes)b::text[], %(nominals)b::bigint[]
) AS u(k, p, h, n)
WHERE n > COALESCE((
    SELECT pg_catalog.max("nominalAt") FROM {cron}
    WHERE "pKind" = %(kind)s::text AND "keyPrefix" = p AND "configHash" = h AND "isFloor"), n - 1)
ON CONFLICT ("pKind", "pKey") DO NOTHING
RETURNING "pKey"
"""
"""Enter ticks into the ledger. Returns the keys of the new ones."""

UPDATE_TICK = """
UPDATE {table}
SET "payload" = %(payload)b, "scheduledAt" = %(at)s, "scheduledAtInitially" = %(at)s, "createdAt" = %(now)s
WHERE "pKind" || '' = %(kind)s AND "pKey" = %(key)s AND "lockUuid" IS NULL AND "attempts" = 0
    AND "scheduledAt" = "scheduledAtInitially"
    AND ("payload", "scheduledAtInitially") IS DISTINCT FROM (%(payload)b, %(at)s)
"""
"""Give a tick that was never fetched a new payload and time. ``operator_sql.for_postgres`` explains the ``||``."""

FLOORS = """
SELECT u.prefix, u.hash, (
    SELECT pg_catalog.max("nominalAt") FROM {cron} AS c
    WHERE "pKind" = %(kind)s::text AND "keyPrefix" = u.prefix AND "configHash" = u.hash
        AND "nominalAt" < %(until)s::bigint * 1000
        AND ("isFloor" OR (COALESCE("recordedAt", %(until)s::bigint - 1) < %(until)s::bigint AND NOT EXISTS (
            SELECT 1 FROM {table} AS q
            WHERE q."pKind" = c."pKind" AND q."pKey" = c."pKey" AND q."lockUuid" IS NULL AND q."attempts" = 0
                AND q."scheduledAt" = q."scheduledAtInitially"))))
FROM unnest(%(prefixes)s::text[], %(hashes)s::text[]) AS u(prefix, hash)
"""
"""For each schedule the latest delivered tick that is old and was recorded long ago; null if there is none."""

RAISE_FLOOR = """
WITH dropped AS (
    DELETE FROM {cron}
    WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s
        AND "nominalAt" < %(at)s AND COALESCE("recordedAt", %(until)s - 1) < %(until)s
)
UPDATE {cron} SET "isFloor" = true
WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s
    AND "nominalAt" = %(at)s AND NOT "isFloor"
"""
"""Raise the floor of a schedule to a tick."""

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

_MADE = """FROM unnest(%(keys)s::text[]) AS u(k) WHERE (
        SELECT "pKey" FROM {cron} WHERE "pKind" = %(kind)s AND "pKey" >= u.k ORDER BY "pKey" LIMIT 1) = u.k"""
# With "pKey" = u.k PostgreSQL chooses another index for an empty table, keeps the plan and reads all ticks for each.

SCHEDULE_STATE = f"""
SELECT
    (SELECT "configHash" FROM {{schedules}} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s),
    (SELECT "description" FROM {{schedules}} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s),
    (SELECT pg_catalog.max("nominalAt") FROM {{cron}}
     WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s AND "isFloor"),
    (SELECT pg_catalog.count(*) {_MADE})
"""
"""The present configuration of a prefix, the floor of a given configuration, and how many of some ticks are made."""

MADE_TICKS = "SELECT k " + _MADE
"""Which of some ticks are in the ledger."""

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
