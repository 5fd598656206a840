"""The SQL statements that are the same in every back end, most of them for administration.

They are written as SQLite reads them. :func:`for_postgres` translates the parameters, the names of functions and the
collation by bytes.
"""

import re

ATTEMPTS = 'CASE WHEN "attemptsOf" <> "createdAt" THEN 0 ELSE "attempts" END'
"""The deliveries of the present message. Those of a message that the source's library replaced do not count."""

ROW = (
    '"id", "pKey", "payload", "scheduledAtInitially", "createdAt", '
    + ATTEMPTS
    + ', "scheduledAt", "lockUuid" IS NOT NULL, "priority", "maxAttempts", "inGroup"'
)


def for_postgres(statement: str) -> str:
    """Return a statement as PostgreSQL reads it."""
    # Without || PostgreSQL would choose the index of due times for an empty table, and keep that plan for a full one.
    statement = statement.replace('"pKind" = :kind AND "pKey" =', """"pKind" || '' = :kind AND "pKey" =""")
    statement = statement.replace("instr(", "strpos(").replace("COLLATE BINARY", 'COLLATE "C"')
    statement = re.sub(r"\b(count|length|min|strpos|substr)\(", r"pg_catalog.\1(", statement)
    return re.sub(r":(\w+)", r"%(\1)s", statement)


READ = "SELECT " + ROW + ' FROM {table} WHERE "pKind" = :kind AND "pKey" = :key'
"""The message of a key, without taking it."""

NEXT_DUE = 'SELECT min("scheduledAt") FROM {table} WHERE "pKind" = :kind AND "scheduledAt" > :after'
"""The time when the next message becomes due."""

IN_FLIGHT = """
SELECT "pKey" FROM {table} WHERE "lockUuid" IS NOT NULL AND "pKind" = :kind AND "scheduledAt" > :now
"""
"""The keys of a queue's messages in flight."""

TRIM_HISTORY = """
DELETE FROM {history} WHERE "pKind" = :kind AND "id" <= (
    SELECT "id" FROM {history} WHERE "pKind" = :kind ORDER BY "id" DESC LIMIT 1 OFFSET :keep)
"""
"""Drop the oldest entries of the history."""

HISTORY = """
SELECT "pKey", "scheduledAt", "attempts", "finishedAt", "outcome", "startedAt", "error", "holder" FROM {history}
WHERE "pKind" = :kind AND (CAST(:key AS text) IS NULL OR "pKey" = :key) ORDER BY "id" DESC LIMIT :limit
"""
"""The attempts that have ended, of one message or of all, the latest first."""

CONTAINS = 'SELECT EXISTS (SELECT 1 FROM {table} WHERE "pKind" = :kind AND "pKey" = :key)'
"""Whether there is a message of a key; its payload is not read."""

DROP = 'DELETE FROM {table} WHERE "pKind" = :kind AND "pKey" = :key'
"""Delete the message of a key."""

_LEASED = """"lockUuid" IS NOT NULL AND substr("lockUuid", 13, 1) = '-'"""
"""Leased by a consumer whose name is stored, and whose lock begins with the lease's time."""

_CHOSEN = f"""
WHERE "pKind" = :kind AND (NOT CAST(:exact AS boolean) OR "pKey" = :low) AND (CAST(:low AS text) = '' OR (
        "pKey" COLLATE BINARY >= CAST(:low AS text) AND substr("pKey", 1, length(CAST(:low AS text))) = :low))
    AND (CAST(:holder AS text) IS NULL
        OR ({_LEASED} AND instr('/' || "holder" || '/', '/' || CAST(:holder AS text) || '/') > 0))
    AND (CAST(:before AS text) IS NULL OR ({_LEASED} AND "lockUuid" COLLATE BINARY < CAST(:before AS text)))
"""
"""The messages that an operator means. The values are known when the statement is planned, so a key is searched by
index."""

DROP_ALL = "DELETE FROM {table}" + _CHOSEN
"""Delete messages of a queue."""

FREE = 'UPDATE {table} SET "scheduledAt" = :now, "lockUuid" = NULL' + _CHOSEN + 'AND "lockUuid" IS NOT NULL'
"""Take leased messages from their consumers."""

RESCHEDULE = (
    'UPDATE {table} SET "scheduledAt" = :at, "scheduledAtInitially" = :at, "lockUuid" = NULL'
    + _CHOSEN
    + 'AND CASE WHEN "scheduledAt" <= :now THEN CAST(:at AS bigint) > :now ELSE "lockUuid" IS NULL END'
)
"""Give messages that no consumer holds another due time."""

PEEK = (
    'SELECT "pKey", "payload", "scheduledAtInitially", "scheduledAt", "createdAt", '
    + ATTEMPTS
    + ', "priority", "lastError", "holder", "lockUuid", "maxAttempts", "inGroup" FROM {table}'
    + _CHOSEN
    + 'ORDER BY "scheduledAt", "id" LIMIT :limit'
)
"""The first messages, without taking them."""

_WAITS_SINCE = 'min(CASE WHEN "scheduledAt" < "createdAt" THEN "createdAt" ELSE "scheduledAt" END)'

COUNTS = f"""
SELECT
    count(*) FILTER (WHERE "scheduledAt" <= :now),
    count(*) FILTER (WHERE "scheduledAt" > :now AND "lockUuid" IS NULL),
    count(*) FILTER (WHERE "scheduledAt" > :now AND "lockUuid" IS NOT NULL),
    {_WAITS_SINCE} FILTER (WHERE "scheduledAt" <= :now),
    count(*) FILTER (WHERE "attempts" > 1 AND ("attemptsOf" = "createdAt") IS NOT FALSE),
    (SELECT count(*) FROM {{dead}} WHERE "pKind" = :kind),
    EXISTS (SELECT 1 FROM {{queues}} WHERE "pKind" = :kind AND "paused"),
    (SELECT count(*) FROM {{table}} WHERE "pKind" IN (
        SELECT others."pKind" FROM {{queues}} AS ours JOIN {{queues}} AS others ON others."name" = ours."name"
        WHERE ours."pKind" = :kind AND others."pKind" <> :kind)),
    count(*) FILTER (WHERE "scheduledAt" <= :now AND "lockUuid" IS NOT NULL),
    min("lockUuid") FILTER (WHERE "scheduledAt" > :now AND {_LEASED})
FROM {{table}} WHERE "pKind" = :kind
"""
"""The numbers of ready, scheduled and in-flight messages; the due time of the oldest ready one; the numbers of
redelivered and dead ones; whether the queue is paused; the numbers of messages of queues with the same name and another
codec, and of those whose lease has expired; the earliest lock in flight, which begins with its time."""

DEAD = """
SELECT "id", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority", "maxAttempts", "inGroup"
FROM {dead} WHERE "pKind" = :kind ORDER BY "id" DESC LIMIT :limit
"""
"""The dead letters, the latest first."""

DEAD_OF = """
SELECT "id", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority", "maxAttempts", "inGroup"
FROM {dead} WHERE "pKind" = :kind AND substr("pKey", 1, length(CAST(:prefix AS text))) = :prefix
ORDER BY "id" DESC LIMIT :limit
"""
"""The dead letters of a prefix, the latest first."""

DEAD_KEYS = """
SELECT DISTINCT "pKey" FROM {dead} WHERE "pKind" = :kind AND substr("pKey", 1, length(CAST(:prefix AS text))) = :prefix
ORDER BY 1
"""
"""The keys of dead letters that begin with a prefix."""

PURGE_DEAD = 'DELETE FROM {dead} WHERE "pKind" = :kind AND "diedAt" < :before'
"""Delete the dead letters that died before a time."""

QUEUES = 'SELECT "pKind", "name", "typeName", "paused" FROM {queues} ORDER BY "name", "typeName"'
"""The queues of the table."""

OVERVIEW = f"""
SELECT q."name", q."typeName", q."paused", q."pausedBy", COALESCE(due.ready, 0),
    COALESCE(due.stored - due.ready, 0) - COALESCE(flying.n, 0), COALESCE(flying.n, 0),
    (SELECT {_WAITS_SINCE} FROM {{table}} WHERE "pKind" = q."pKind" AND "scheduledAt" <= :now), COALESCE(dead.n, 0)
FROM {{queues}} AS q
LEFT JOIN (
    SELECT "pKind", count(*) AS stored, count(*) FILTER (WHERE "scheduledAt" <= :now) AS ready
    FROM {{table}} GROUP BY "pKind") AS due ON due."pKind" = q."pKind"
LEFT JOIN (
    SELECT "pKind", count(*) AS n FROM {{table}}
    WHERE "lockUuid" IS NOT NULL AND "scheduledAt" > :now GROUP BY "pKind") AS flying ON flying."pKind" = q."pKind"
LEFT JOIN (SELECT "pKind", count(*) AS n FROM {{dead}} GROUP BY "pKind") AS dead ON dead."pKind" = q."pKind"
ORDER BY q."name", q."typeName"
"""
"""The queues of the table, each with its messages by state. Waiting messages are counted by the index of due times,
those in flight by the index of locks; only the rows of ready messages are read."""

PAUSED = 'SELECT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = :kind AND "paused")'
"""Whether a queue is paused."""
