"""PostgreSQL: the statements for what an operator asks; filled in and bound as those of ``postgres_sql``."""

# --- schedules

NAME_SCHEDULE = """
INSERT INTO {schedules} AS s ("pKind", "keyPrefix", "configHash", "description", "installedAt")
VALUES (%(kind)s, %(prefix)s, %(hash)s, %(description)s, %(now)s)
ON CONFLICT ("pKind", "keyPrefix") DO UPDATE SET
    "configHash" = EXCLUDED."configHash", "description" = EXCLUDED."description", "installedAt" = EXCLUDED."installedAt"
WHERE (s."configHash", s."description") IS DISTINCT FROM (EXCLUDED."configHash", EXCLUDED."description")
"""
"""Write down which configuration a prefix has."""

SCHEDULES = """
SELECT "keyPrefix", "configHash", "description", "installedAt", (
    SELECT max("nominalAt") FROM {cron} AS c
    WHERE c."pKind" = s."pKind" AND c."keyPrefix" = s."keyPrefix" AND c."configHash" = s."configHash")
FROM {schedules} AS s WHERE "pKind" = %(kind)s ORDER BY "keyPrefix"
"""
"""The schedules of a queue."""

SCHEDULE_STATE = """
SELECT
    (SELECT "configHash" FROM {schedules} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s),
    (SELECT max("nominalAt") FROM {cron}
     WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s AND "isFloor")
"""
"""The configuration that a prefix has, and the floor of one."""

FORGET_SCHEDULE = 'DELETE FROM {cron} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s'
"""Empty the ledger of a prefix."""

UNNAME_SCHEDULE = 'DELETE FROM {schedules} WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s'
"""Take a prefix off the list of schedules."""

BACKFILL_TICKS = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
SELECT %(kind)s::text, k, %(prefix)s::text, %(hash)s::text, n, %(now)s::bigint
FROM unnest(%(keys)b::text[], %(nominals)b::bigint[]) AS u(k, n)
ON CONFLICT ("pKind", "pKey") DO NOTHING
RETURNING "pKey"
"""
"""Enter ticks into the ledger, below the floor too; the keys that were not there come back."""

# --- queues

NAME_QUEUE = """
INSERT INTO {queues} ("pKind", "name", "typeName") VALUES (%(kind)s, %(name)s, %(type)s) ON CONFLICT DO NOTHING
"""
"""Write down what a kind stands for."""

QUEUES = 'SELECT "pKind", "name", "typeName", "paused" FROM {queues} ORDER BY "name", "typeName"'
"""The queues of the table."""

SET_PAUSED = """
INSERT INTO {queues} AS q ("pKind", "name", "typeName", "paused")
VALUES (%(kind)s, %(name)s, %(type)s, %(paused)s)
ON CONFLICT ("pKind") DO UPDATE SET "paused" = EXCLUDED."paused" WHERE q."paused" <> EXCLUDED."paused"
RETURNING xmax = 0
"""
"""Pause or resume a queue. A row: true if the queue was not known before, false if it changed; none: it was so."""

PAUSED = 'SELECT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND "paused")'
"""Whether a queue is paused."""

MARK_RANKED = """
INSERT INTO {queues} AS q ("pKind", "name", "typeName", "ranked") VALUES (%(kind)s, %(name)s, %(type)s, true)
ON CONFLICT ("pKind") DO UPDATE SET "ranked" = true WHERE NOT q."ranked"
"""
"""Have a queue delivered by priority from now on."""

DATABASE_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
"""Seconds since the epoch by the server's clock."""

# --- consumers

LOCK_FLIGHT = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"
"""Consumers with a limit take turns, from here to the commit."""

IN_FLIGHT = """
SELECT count(*) FROM {table} WHERE "lockUuid" IS NOT NULL AND "pKind" = %(kind)s AND "scheduledAt" > %(now)s
"""
"""How many messages of a queue are in flight."""

ACK_AND_REMEMBER = """
WITH gone AS (DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s RETURNING *)
INSERT INTO {history} ("pKind", "pKey", "scheduledAt", "attempts", "finishedAt")
SELECT "pKind", "pKey", "scheduledAtInitially", "attempts", %(now)s FROM gone ORDER BY "scheduledAtInitially", "id"
"""
"""Move what is still ours to the history."""

TRIM_HISTORY = """
DELETE FROM {history} WHERE "pKind" = %(kind)s AND "id" <= (
    SELECT "id" FROM {history} WHERE "pKind" = %(kind)s ORDER BY "id" DESC LIMIT 1 OFFSET %(keep)s)
"""
"""Drop the oldest entries of the history."""

HISTORY = """
SELECT "pKey", "scheduledAt", "attempts", "finishedAt" FROM {history}
WHERE "pKind" = %(kind)s ORDER BY "id" DESC LIMIT %(limit)s
"""
"""The messages that were acknowledged, the latest first."""

# --- dead letters

DEAD_OF = """
SELECT "id", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority"
FROM {dead} WHERE "pKind" = %(kind)s AND starts_with("pKey", %(prefix)s) ORDER BY "id" DESC LIMIT %(limit)s
"""
"""The dead letters of a prefix, the latest first."""

DEAD_KEYS = """
SELECT DISTINCT "pKey" FROM {dead} WHERE "pKind" = %(kind)s AND starts_with("pKey", %(prefix)s) ORDER BY 1
"""
"""The keys of dead letters that begin with a prefix."""

PURGE_DEAD = 'DELETE FROM {dead} WHERE "pKind" = %(kind)s AND "diedAt" < %(before)s'
"""Delete the dead letters that died before a time."""
