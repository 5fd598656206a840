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
