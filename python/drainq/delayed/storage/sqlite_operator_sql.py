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
