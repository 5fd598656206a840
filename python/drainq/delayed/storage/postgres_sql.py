"""PostgreSQL: the statements of the delayed queue.

Written for READ COMMITTED and autocommit: what can be one statement is one, for it saves two round trips. TableNames in
braces are filled in by :class:`~drainq.delayed.storage.table_names.TableNames`; ``%(name)s`` are bound by psycopg.

``= ANY(ARRAY(SELECT ... LIMIT n FOR UPDATE SKIP LOCKED))`` runs the locking subquery once; ``IN (SELECT ...)`` may be
run again by some plans and lock more than n. The limit is a literal: with a parameter the planner guesses.
"""

from drainq.delayed.storage.migrate import Index

_ATTEMPTS = 'CASE WHEN "attemptsOf" <> "createdAt" THEN 0 ELSE "attempts" END'
"""Deliveries so far: those of the message that stands there now, not of one that the source's library replaced."""

ROW = (
    '"id", "pKey", "payload", "scheduledAtInitially", "createdAt", '
    + _ATTEMPTS
    + ', "scheduledAt", "lockUuid" IS NOT NULL, "priority"'
)

# --- producers

OFFER_NEW = """
INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority")
VALUES (%(key)s, %(kind)s, %(payload)b, %(at)s, %(at)s, %(now)s, %(priority)s)
ON CONFLICT ("pKey", "pKind") DO NOTHING
RETURNING true
"""
"""Insert one message unless its key is there. A row: created; none: ignored."""

_TAKE_OVER = """
ON CONFLICT ("pKey", "pKind") DO UPDATE SET
    "payload" = EXCLUDED."payload", "scheduledAt" = EXCLUDED."scheduledAt",
    "scheduledAtInitially" = EXCLUDED."scheduledAtInitially", "createdAt" = EXCLUDED."createdAt",
    "lockUuid" = NULL, "attempts" = 0, "lastError" = NULL, "priority" = EXCLUDED."priority"
WHERE (q."payload", q."scheduledAtInitially", q."priority")
    IS DISTINCT FROM (EXCLUDED."payload", EXCLUDED."scheduledAtInitially", EXCLUDED."priority")
"""

OFFER = (
    """
INSERT INTO {table} AS q ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority")
VALUES (%(key)s, %(kind)s, %(payload)b, %(at)s, %(at)s, %(now)s, %(priority)s)
"""
    + _TAKE_OVER
    + "RETURNING q.xmax = 0"
)
"""Insert or update one message. True: created; false: updated; no row: the same was there."""

_NEXT_ID = """nextval(COALESCE(pg_get_serial_sequence({literal}, 'id')::regclass, (
    SELECT uses.refobjid FROM pg_attrdef AS def
    JOIN pg_attribute AS col ON (col.attrelid, col.attnum, col.attname) = (def.adrelid, def.adnum, 'id')
    JOIN pg_depend AS uses ON (uses.classid, uses.objid) = ('pg_attrdef'::regclass, def.oid)
    JOIN pg_class AS seq ON seq.oid = uses.refobjid AND seq.relkind = 'S'
    WHERE def.adrelid = to_regclass({literal})))::regclass)"""
"""The next id: of the sequence that the column owns, or else of the one that its default uses."""

_UNNEST = (
    """
WITH sent AS MATERIALIZED (
    SELECT COALESCE(i, """
    + _NEXT_ID
    + """) AS id, k, p, s, r{may}
    FROM unnest(
        %(keys)b::text[], %(payloads)b::bytea[], %(times)b::bigint[], %(ids)b::bigint[], %(ranks)b::integer[]
        {may_values}
    ) AS u(k, p, s, i, r{may})
)
INSERT INTO {table} AS q (
    "id", "pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority")
OVERRIDING SYSTEM VALUE
SELECT id, k, %(kind)s, p, s, s, %(now)s, r FROM sent ORDER BY k COLLATE "C"
"""
)
_UNMIXED = _UNNEST.replace("{may_values}", "").replace("{may}", "")

RESERVE = "SELECT " + _NEXT_ID + " FROM generate_series(1, %(n)s)"
"""Ids for a batch that takes several statements, so that they follow the input all the same."""

OFFER_MANY_NEW = _UNMIXED + 'ON CONFLICT ("pKey", "pKind") DO NOTHING RETURNING "pKey", true'
"""Insert many messages with distinct keys unless they are there. Ids follow the input (so do ties in due time); rows
are locked in key order, so that two batches do not deadlock. One row per message created. An id is given although the
column may be GENERATED ALWAYS: hence OVERRIDING, which other columns ignore."""

OFFER_MANY = _UNMIXED + _TAKE_OVER + 'RETURNING q."pKey", q.xmax = 0'
"""Insert or update many messages with distinct keys. One row per message created (true) or updated (false)."""

OFFER_MANY_MIXED = (
    _UNNEST.replace("{may_values}", ", %(may)b::boolean[]").replace("{may}", ", m")
    + _TAKE_OVER
    + ' AND EXCLUDED."pKey" IN (SELECT k FROM sent WHERE m) RETURNING q."pKey", q.xmax = 0'
)
"""The same for a batch in which only some messages may update: one statement, so that there is one order of locks."""

STORED = """
SELECT "pKey", "payload", "scheduledAtInitially", xmax = 0
FROM {table} WHERE "pKind" = %(kind)s AND "pKey" = ANY(%(keys)b::text[]) AND "createdAt" = %(now)s
"""
"""The messages of these keys that were stored by a call at this time; true: created, not updated."""

ANNOUNCE = "SELECT pg_notify(%(channel)s, '')"
"""Tell waiting consumers that something is due soon."""

OFFER_NEW_ANNOUNCED = "WITH q AS (" + OFFER_NEW + ") SELECT (SELECT true FROM q), pg_notify(%(channel)s, '')"
"""Insert one message unless its key is there, and announce it. True: created; null: ignored."""

OFFER_ANNOUNCED = "WITH o AS (" + OFFER + " AS created) SELECT (SELECT created FROM o), pg_notify(%(channel)s, '')"
"""Insert or update one message, and announce it. True: created; false: updated; null: the same was there."""

# --- consumers

_TAKE = (
    """
UPDATE {table} SET
    "lockUuid" = %(lock)s, "scheduledAt" = %(until)s,
    "attempts" = GREATEST("""
    + _ATTEMPTS
    + """, ("scheduledAt" > "scheduledAtInitially")::integer) + 1,
    "attemptsOf" = "createdAt"
WHERE "id" = ANY(ARRAY(
    SELECT "id" FROM {table}
    WHERE "pKind" = %(kind)s AND "scheduledAt" <= %(now)s AND "scheduledAt" >= %(start)s{but}
        AND NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND ("paused" OR "ranked"))
    ORDER BY "scheduledAt", "id"
    LIMIT {limit}
    FOR UPDATE SKIP LOCKED) || ARRAY(
    SELECT "id" FROM {table}
    WHERE "pKind" = %(kind)s AND "scheduledAt" <= %(now)s{but}
        AND EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND NOT "paused" AND "ranked")
    ORDER BY "priority", "scheduledAt", "id"
    LIMIT {limit}
    FOR UPDATE SKIP LOCKED))
"""
)

ACQUIRE = _TAKE.replace("{but}", "") + "RETURNING " + ROW
"""Take the earliest due messages that nobody is taking right now. ``start`` skips the dead rows before it."""

ACK_AND_ACQUIRE = (
    """
WITH acked AS (DELETE FROM {table} WHERE "id" = ANY(%(done)s::bigint[]) AND "lockUuid" = %(held)s RETURNING 1),
taken AS ("""
    + _TAKE.replace("{but}", ' AND NOT ("id" = ANY(%(done)s::bigint[]) AND "lockUuid" IS NOT DISTINCT FROM %(held)s)')
    + "RETURNING "
    + ROW
    + """)
SELECT count.acked, taken.* FROM (SELECT count(*) AS acked FROM acked) AS count LEFT JOIN taken ON true
"""
)
"""Acknowledge and fetch in one round trip and one commit. The two halves touch different rows: ``but`` sees to it even
if our lease on the first ones has run out."""

ACK = 'DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s'
"""Delete what is still ours."""

NACK = """
UPDATE {table} SET "scheduledAt" = %(due)s, "lockUuid" = NULL, "lastError" = COALESCE(%(error)s, "lastError")
WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s
"""
"""Give back what is still ours, for later."""

RELEASE = """
UPDATE {table} SET "scheduledAt" = "scheduledAtInitially", "lockUuid" = NULL, "attempts" = "attempts" - 1
WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s
"""
"""Give back what is still ours, as if it had not been fetched."""

EXTEND = 'UPDATE {table} SET "scheduledAt" = %(until)s WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s'
"""Move the end of the lease of what is still ours."""

BURY = """
WITH died AS (DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s RETURNING *)
INSERT INTO {dead} ("pKey", "pKind", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority")
SELECT "pKey", "pKind", "payload", "scheduledAtInitially", "attempts", %(error)s, %(now)s, "priority" FROM died
"""
"""Move what is still ours to the dead letters."""

NEXT_DUE = 'SELECT min("scheduledAt") FROM {table} WHERE "pKind" = %(kind)s AND "scheduledAt" > %(after)s'
"""When the next message becomes due."""

# --- looking and removing

READ = "SELECT " + ROW + ' FROM {table} WHERE "pKind" = %(kind)s AND "pKey" = %(key)s'
"""The message of a key, without taking it."""

CONTAINS = 'SELECT EXISTS (SELECT 1 FROM {table} WHERE "pKind" = %(kind)s AND "pKey" = %(key)s)'
"""Whether there is a message of a key; its payload is not read."""

DELETE_UNCHANGED = """
DELETE FROM {table}
WHERE "id" = %(id)s AND "createdAt" = %(created)s AND "scheduledAtInitially" = %(at)s AND "payload" = %(payload)b
"""
"""Delete a message that was read, if it is still what was read."""

DROP = 'DELETE FROM {table} WHERE "pKind" = %(kind)s AND "pKey" = %(key)s'
"""Delete the message of a key."""

DROP_ALL = 'DELETE FROM {table} WHERE "pKind" = %(kind)s'
"""Delete every message of a queue."""

PEEK = "SELECT " + ROW + ' FROM {table} WHERE "pKind" = %(kind)s ORDER BY "scheduledAt", "id" LIMIT %(limit)s'
"""The first messages, without taking them."""

COUNTS = """
SELECT
    count(*) FILTER (WHERE "scheduledAt" <= %(now)s),
    count(*) FILTER (WHERE "scheduledAt" > %(now)s AND "lockUuid" IS NULL),
    count(*) FILTER (WHERE "scheduledAt" > %(now)s AND "lockUuid" IS NOT NULL),
    min("scheduledAt") FILTER (WHERE "scheduledAt" <= %(now)s),
    count(*) FILTER (WHERE "attempts" > 1 AND ("attemptsOf" = "createdAt") IS NOT FALSE),
    (SELECT count(*) FROM {dead} WHERE "pKind" = %(kind)s)
FROM {table} WHERE "pKind" = %(kind)s
"""
"""How many messages are in each state: ready, scheduled, in flight, oldest ready, redelivered, dead."""

# --- dead letters

DEAD = """
SELECT "id", "pKey", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority"
FROM {dead} WHERE "pKind" = %(kind)s ORDER BY "id" DESC LIMIT %(limit)s
"""
"""The dead letters, the latest first."""

REDRIVE = """
WITH latest AS (
    SELECT DISTINCT ON ("pKey") "id", "pKey", "pKind", "payload", "priority" FROM {dead}
    WHERE "pKind" = %(kind)s AND (%(keys)s::text[] IS NULL OR "pKey" = ANY(%(keys)s::text[]))
    ORDER BY "pKey", "id" DESC
), back AS (
    INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority")
    SELECT "pKey", "pKind", "payload", %(now)s, %(now)s, %(now)s, "priority" FROM latest ORDER BY "id"
    ON CONFLICT ("pKey", "pKind") DO NOTHING
    RETURNING "pKey"
)
DELETE FROM {dead} USING latest, back WHERE {dead}."id" = latest."id" AND latest."pKey" = back."pKey"
"""
"""Put dead letters back, the oldest first; of two with one key the later, and none whose key a live message took."""

DROP_DEAD = (
    'DELETE FROM {dead} WHERE "pKind" = %(kind)s AND (%(keys)s::text[] IS NULL OR "pKey" = ANY(%(keys)s::text[]))'
)
"""Delete dead letters for good."""

# --- schedules

LOCK_SCHEDULE = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"
"""Schedulers of one queue take turns, from here to the commit."""

UNDELIVERED_TICKS = """
SELECT "id", "pKey" FROM {table}
WHERE "pKind" = %(kind)s AND "pKey" COLLATE "C" >= %(low)s AND "pKey" COLLATE "C" < %(high)s
    AND NOT ("pKey" COLLATE "C" >= %(but_low)s AND "pKey" COLLATE "C" < %(but_high)s)
    AND "scheduledAt" > %(after)s AND "lockUuid" IS NULL AND "attempts" = 0 AND "scheduledAt" = "scheduledAtInitially"
FOR UPDATE
"""
"""The messages of a key range, but for a part of it, that become due later and that nobody has ever fetched. A range,
for LIKE knows wildcards and no index. What is due is not locked, or consumers would step over it."""

DELETE_TICKS = 'DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[])'
"""Delete ticks that were found, and locked, just before."""

FORGET_TICKS = 'DELETE FROM {cron} WHERE "pKind" = %(kind)s AND "pKey" = ANY(%(keys)s) AND NOT "isFloor"'
"""Take deleted ticks out of the ledger, so that they may be created again."""

RECORD_TICKS = """
INSERT INTO {cron} ("pKind", "pKey", "keyPrefix", "configHash", "nominalAt", "recordedAt")
SELECT %(kind)s::text, k, %(prefix)s::text, %(hash)s::text, n, %(now)s::bigint
FROM unnest(%(keys)b::text[], %(nominals)b::bigint[]) AS u(k, n)
WHERE n > COALESCE((
    SELECT max("nominalAt") FROM {cron}
    WHERE "pKind" = %(kind)s::text AND "keyPrefix" = %(prefix)s::text AND "configHash" = %(hash)s::text
        AND "isFloor"), n - 1)
ON CONFLICT ("pKind", "pKey") DO NOTHING
RETURNING "pKey"
"""
"""Enter ticks into the ledger; the keys that were never there before come back."""

UPDATE_TICK = """
UPDATE {table}
SET "payload" = %(payload)b, "scheduledAt" = %(at)s, "scheduledAtInitially" = %(at)s, "createdAt" = %(now)s
WHERE "pKind" = %(kind)s AND "pKey" = %(key)s AND "lockUuid" IS NULL AND "attempts" = 0
    AND "scheduledAt" = "scheduledAtInitially"
    AND ("payload", "scheduledAtInitially") IS DISTINCT FROM (%(payload)b, %(at)s)
"""
"""Give a tick that nobody has fetched a new payload and time."""

RAISE_FLOOR = """
WITH latest AS (
    SELECT max("nominalAt") AS at FROM {cron} AS c
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
"""Let the latest tick that is old, was recorded long ago and was delivered stand for all before it."""

LAST_TICK = """
SELECT max("nominalAt") FROM {cron}
WHERE "pKind" = %(kind)s AND "keyPrefix" = %(prefix)s AND "configHash" = %(hash)s AND "nominalAt" <= %(until)s
"""
"""The latest tick ever created that lies not after a time."""

# --- schema

CREATE_LEDGER = """
CREATE TABLE IF NOT EXISTS {migrations} (
    "number" INTEGER PRIMARY KEY, "name" TEXT NOT NULL, "appliedAt" BIGINT NOT NULL)
"""
"""Where the migrations that were applied are written down."""

HAS_LEDGER = "SELECT to_regclass(%(table)s) IS NOT NULL"
"""Whether the table of applied migrations exists."""

APPLIED = 'SELECT "number" FROM {migrations}'
"""The migrations that were applied."""

RECORD = "INSERT INTO {migrations} VALUES (%(number)s, %(name)s, %(now)s)"
"""Write a migration down as applied."""

MIGRATIONS = (
    (
        "the source's table",
        """
        CREATE TABLE IF NOT EXISTS {table} (
            "id" BIGSERIAL PRIMARY KEY,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "payload" BYTEA NOT NULL,
            "scheduledAt" BIGINT NOT NULL,
            "scheduledAtInitially" BIGINT NOT NULL,
            "lockUuid" VARCHAR(36) NULL,
            "createdAt" BIGINT NOT NULL
        ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 5000)
        """,
        'CREATE UNIQUE INDEX IF NOT EXISTS {key_index} ON {table} ("pKey", "pKind")',
        'CREATE INDEX IF NOT EXISTS {due_index} ON {table} ("pKind", "scheduledAt", "id")',
    ),
    (
        "attempts and the last error",
        """
        ALTER TABLE {table}
            ADD COLUMN IF NOT EXISTS "attempts" INTEGER NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS "lastError" TEXT NULL
        """,
    ),
    (
        "dead letters",
        """
        CREATE TABLE IF NOT EXISTS {dead} (
            "id" BIGSERIAL PRIMARY KEY,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "payload" BYTEA NOT NULL,
            "scheduledAt" BIGINT NOT NULL,
            "attempts" INTEGER NOT NULL,
            "error" TEXT NOT NULL,
            "diedAt" BIGINT NOT NULL
        )
        """,
        'CREATE INDEX IF NOT EXISTS {dead_index} ON {dead} ("pKind", "id")',
    ),
    (
        "the tick ledger of schedules",
        """
        CREATE TABLE IF NOT EXISTS {cron} (
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "keyPrefix" TEXT COLLATE "C" NOT NULL,
            "configHash" TEXT COLLATE "C" NOT NULL,
            "nominalAt" BIGINT NOT NULL,
            "isFloor" BOOLEAN NOT NULL DEFAULT false,
            PRIMARY KEY ("pKind", "pKey")
        )
        """,
        'CREATE INDEX IF NOT EXISTS {cron_index} ON {cron} ("pKind", "keyPrefix", "configHash", "nominalAt")',
    ),
    (
        "whose deliveries are counted",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "attemptsOf" BIGINT NULL',
    ),
    (
        "an index for the source library's acknowledgements",
        Index(
            "lease_index",
            'CREATE INDEX IF NOT EXISTS {lease_index} ON {table} ("lockUuid", "id") WHERE "lockUuid" IS NOT NULL',
        ),
    ),
    (
        "an index for key ranges",
        Index(
            "range_index",
            'CREATE INDEX IF NOT EXISTS {range_index} ON {table} ("pKind", "pKey" COLLATE "C")',
            """
            SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass({literal}) AND attname = 'pKey'
                AND attcollation <> (SELECT oid FROM pg_collation WHERE collname = 'C' LIMIT 1))
            """,
        ),
    ),
    (
        "when a tick was recorded, and the schedules by name",
        'ALTER TABLE {cron} ADD COLUMN IF NOT EXISTS "recordedAt" BIGINT NULL',
        """
        CREATE TABLE IF NOT EXISTS {schedules} (
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "keyPrefix" TEXT COLLATE "C" NOT NULL,
            "configHash" TEXT COLLATE "C" NOT NULL,
            "description" TEXT NOT NULL,
            "installedAt" BIGINT NOT NULL,
            PRIMARY KEY ("pKind", "keyPrefix")
        )
        """,
    ),
    (
        "the queues by name, and what they have finished",
        """
        CREATE TABLE IF NOT EXISTS {queues} (
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
            "name" TEXT COLLATE "C" NOT NULL,
            "typeName" TEXT COLLATE "C" NOT NULL,
            "paused" BOOLEAN NOT NULL DEFAULT false
        )
        """,
        """
        CREATE TABLE IF NOT EXISTS {history} (
            "id" BIGSERIAL PRIMARY KEY,
            "pKind" VARCHAR(100) COLLATE "C" NOT NULL,
            "pKey" VARCHAR(200) COLLATE "C" NOT NULL,
            "scheduledAt" BIGINT NOT NULL,
            "attempts" INTEGER NOT NULL,
            "finishedAt" BIGINT NOT NULL
        )
        """,
        'CREATE INDEX IF NOT EXISTS {history_index} ON {history} ("pKind", "id")',
    ),
    (
        "priorities",
        'ALTER TABLE {table} ADD COLUMN IF NOT EXISTS "priority" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {dead} ADD COLUMN IF NOT EXISTS "priority" INTEGER NOT NULL DEFAULT 0',
        'ALTER TABLE {queues} ADD COLUMN IF NOT EXISTS "ranked" BOOLEAN NOT NULL DEFAULT false',
    ),
)
"""Each a name and its statements, numbered from 1. A table that the source's own library made is taken as it is; its
keys sort by locale, so a key range there needs an index. ``attemptsOf`` is the creation time
whose deliveries ``attempts`` counts: the source's library replaces a message without counting anew."""

TABLE_EXISTS = "SELECT to_regclass({literal}) IS NOT NULL"
"""Whether the table is there."""

BROKEN_INDEX = """
SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%(index)s) AND NOT indisvalid)
    AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index WHERE index_relid = to_regclass(%(index)s))
"""
"""Whether an index is left over from a build that was given up on."""


def drop_index(quoted: str) -> str:
    """Drop what is left over of an index, without locking out writers."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {quoted}"


INDEX_IS_VALID = "SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%(index)s) AND indisvalid)"
"""Whether an index is there and complete."""
