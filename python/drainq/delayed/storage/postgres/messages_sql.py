"""PostgreSQL: the statements of the delayed queue.

They are written for READ COMMITTED and autocommit: a transaction is one statement if possible, which saves two round
trips. The names in braces are filled in by :class:`~drainq.delayed.storage.table_names.TableNames`; ``%(name)s`` are
parameters. The statement that takes messages is in :mod:`drainq.delayed.storage.postgres.take_sql`.
"""

# --- producers

OFFER_NEW = """
INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority",
    "maxAttempts", "inGroup")
VALUES (%(key)s, %(kind)s, %(payload)b, %(at)s, %(at)s, %(now)s, %(priority)s, %(tries)s, %(group)s)
ON CONFLICT ("pKey", "pKind") DO NOTHING
RETURNING true
"""
"""Insert one message unless its key exists. Returns a row if created, none if ignored."""

TAKE_OVER = """
ON CONFLICT ("pKey", "pKind") DO UPDATE SET
    "payload" = EXCLUDED."payload", "scheduledAt" = EXCLUDED."scheduledAt",
    "scheduledAtInitially" = EXCLUDED."scheduledAtInitially", "createdAt" = EXCLUDED."createdAt",
    "lockUuid" = NULL, "attempts" = 0, "lastError" = NULL, "priority" = EXCLUDED."priority",
    "maxAttempts" = EXCLUDED."maxAttempts", "inGroup" = EXCLUDED."inGroup"
WHERE (q."payload", q."scheduledAtInitially", q."priority", q."maxAttempts", q."inGroup") IS DISTINCT FROM (
    EXCLUDED."payload", EXCLUDED."scheduledAtInitially", EXCLUDED."priority", EXCLUDED."maxAttempts",
    EXCLUDED."inGroup")
"""

OFFER = (
    """
INSERT INTO {table} AS q ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority",
    "maxAttempts", "inGroup")
VALUES (%(key)s, %(kind)s, %(payload)b, %(at)s, %(at)s, %(now)s, %(priority)s, %(tries)s, %(group)s)
"""
    + TAKE_OVER
    + "RETURNING q.xmax = 0"
)
"""Insert or update one message. True: created; false: updated; no row: unchanged."""

_NEXT_ID = """pg_catalog.nextval((SELECT COALESCE(pg_catalog.pg_get_serial_sequence({literal}, 'id')::regclass, (
    SELECT uses.refobjid FROM pg_attrdef AS def
    JOIN pg_attribute AS col ON (col.attrelid, col.attnum, col.attname) = (def.adrelid, def.adnum, 'id')
    JOIN pg_depend AS uses ON (uses.classid, uses.objid) = ('pg_attrdef'::regclass, def.oid)
    JOIN pg_class AS seq ON seq.oid = uses.refobjid AND seq.relkind = 'S'
    WHERE def.adrelid = pg_catalog.to_regclass({literal})))::regclass))"""
"""The next id, from the sequence that the column owns, or else the one in its default. The sequence is found once."""

_UNNEST = (
    """
WITH sent AS MATERIALIZED (
    SELECT COALESCE(i, """
    + _NEXT_ID
    + """) AS id, k, p, s, r, t, g{may}
    FROM unnest(
        %(keys)b::text[], %(payloads)b::bytea[], %(times)b::bigint[], %(ids)b::bigint[], %(ranks)b::integer[],
        %(tries)b::integer[], %(groups)b::text[]{may_values}
    ) AS u(k, p, s, i, r, t, g{may})
)
INSERT INTO {table} AS q (
    "id", "pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority",
    "maxAttempts", "inGroup")
OVERRIDING SYSTEM VALUE
SELECT id, k, %(kind)s, p, s, s, %(now)s, r, t, g FROM sent ORDER BY k COLLATE "C"
"""
)
_UNMIXED = _UNNEST.replace("{may_values}", "").replace("{may}", "")

RESERVE = "SELECT " + _NEXT_ID + " FROM pg_catalog.generate_series(1, %(n)s)"
"""Ids for a batch that takes several statements, so that they still follow the input."""

OFFER_MANY_NEW = _UNMIXED + 'ON CONFLICT ("pKey", "pKind") DO NOTHING RETURNING "pKey", true'
"""Insert many messages with distinct keys unless they exist. Ids follow the input, so messages of one due time keep its
order. Rows are locked in key order, so that two batches do not deadlock. Returns one row per created message.
OVERRIDING permits ids for a column that is GENERATED ALWAYS."""

OFFER_MANY = _UNMIXED + TAKE_OVER + 'RETURNING q."pKey", q.xmax = 0'
"""Insert or update many messages with distinct keys. One row per message created (true) or updated (false)."""

OFFER_MANY_MIXED = (
    _UNNEST.replace("{may_values}", ", %(may)b::boolean[]").replace("{may}", ", m")
    + TAKE_OVER
    + ' AND EXCLUDED."pKey" IN (SELECT k FROM sent WHERE m) RETURNING q."pKey", q.xmax = 0'
)
"""The same for a batch in which only some messages may update: one statement, so that there is one order of locks."""

STORED = """
SELECT "pKey", "payload", "scheduledAtInitially", xmax = 0
FROM {table} WHERE "pKind" || '' = %(kind)s AND "pKey" = ANY(%(keys)b::text[]) AND "createdAt" = %(now)s
"""
"""The messages of these keys that were stored by a call at this time; true: created, not updated.
``operator_sql.for_postgres`` explains the ``||``."""

ANNOUNCE = "SELECT pg_catalog.pg_notify(%(channel)s, %(news)s)"
"""Notify waiting consumers that a message is due soon."""

OFFER_NEW_ANNOUNCED = (
    "WITH q AS (" + OFFER_NEW + ") SELECT (SELECT true FROM q), pg_catalog.pg_notify(%(channel)s, %(news)s)"
)
"""Insert one message unless its key is there, and announce it. True: created; null: ignored."""

OFFER_ANNOUNCED = (
    "WITH o AS (" + OFFER + " AS created) SELECT (SELECT created FROM o), pg_catalog.pg_notify(%(channel)s, %(news)s)"
)
"""Insert or update one message, and announce it. True: created; false: updated; null: the same was there."""

# --- consumers

ACK = 'DELETE FROM {table} WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s'
"""Delete messages that are still leased."""

NACK = """
UPDATE {table} SET "scheduledAt" = %(due)s, "lockUuid" = NULL, "lastError" = COALESCE(%(error)s, "lastError")
WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s
"""
"""Release messages that are still leased, for later."""

_RELEASE = """
UPDATE {table} SET "scheduledAt" = COALESCE(%(due)s::bigint, "scheduledAtInitially"),
    "scheduledAtInitially" = COALESCE(%(due)s::bigint, "scheduledAtInitially"),
    "lockUuid" = NULL, "attempts" = "attempts" - 1
WHERE "lockUuid" = %(lock)s
"""

RELEASE = _RELEASE + ' AND "id" = ANY(%(ids)s::bigint[])'
"""Release messages that are still leased, as if they had not been fetched; ``due`` is a new due time, or NULL."""

RELEASE_TAKEN = _RELEASE
"""The same for all messages of a lock."""

EXTEND = 'UPDATE {table} SET "scheduledAt" = %(until)s WHERE "id" = ANY(%(ids)s::bigint[]) AND "lockUuid" = %(lock)s'
"""Move the end of the lease of messages that are still leased."""

_INTO_DEAD = """
INSERT INTO {dead} ("pKey", "pKind", "payload", "scheduledAt", "attempts", "error", "diedAt", "priority",
    "maxAttempts", "inGroup")
SELECT "pKey", "pKind", "payload", "scheduledAtInitially", "attempts", %(error)s, %(now)s, "priority", "maxAttempts",
    "inGroup"
FROM ended
"""

BURY = f"WITH ended AS ({ACK} RETURNING *) {_INTO_DEAD}"
"""Make messages that are still leased dead letters."""

LOCK_FLIGHT = 'SELECT FROM {queues} WHERE "pKind" = %(kind)s FOR NO KEY UPDATE'
"""Take a turn among consumers with a limit, until the commit. Only a role with rights can hold the row."""

_REMEMBER = """
INSERT INTO {history} ("pKind", "pKey", "scheduledAt", "attempts", "finishedAt", "startedAt", "outcome", "error",
    "holder")
SELECT "pKind", "pKey", "scheduledAtInitially", "attempts", %(finished)s, %(started)s, %(outcome)s, %(error)s, "holder"
FROM ended ORDER BY "scheduledAtInitially", "id"
"""

ACK_AND_REMEMBER = f"WITH ended AS ({ACK} RETURNING *) {_REMEMBER}"
NACK_AND_REMEMBER = f"WITH ended AS ({NACK} RETURNING *) {_REMEMBER}"
BURY_AND_REMEMBER = f"WITH ended AS ({ACK} RETURNING *), buried AS ({_INTO_DEAD}) {_REMEMBER}"
"""The same, and enter the attempts in the history."""

# --- looking and removing

DELETE_UNCHANGED = """
DELETE FROM {table}
WHERE "id" = %(id)s AND "createdAt" = %(created)s AND "scheduledAtInitially" = %(at)s AND "payload" = %(payload)b
"""
"""Delete a message if it is unchanged since it was read."""

# --- dead letters

REDRIVE = """
WITH latest AS (
    SELECT DISTINCT ON ("pKey") "id", "pKey", "pKind", "payload", "priority", "maxAttempts", "inGroup" FROM {dead}
    WHERE "pKind" = %(kind)s AND (%(keys)s::text[] IS NULL OR "pKey" = ANY(%(keys)s::text[]))
    ORDER BY "pKey", "id" DESC
), back AS (
    INSERT INTO {table} ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority",
        "maxAttempts", "inGroup")
    SELECT "pKey", "pKind", "payload", %(now)s, %(now)s, %(now)s, "priority", "maxAttempts", "inGroup" FROM latest
    ORDER BY "id"
    ON CONFLICT ("pKey", "pKind") DO NOTHING
    RETURNING "pKey"
)
DELETE FROM {dead} USING latest, back WHERE {dead}."id" = latest."id" AND latest."pKey" = back."pKey"
"""
"""Redrive dead letters, the oldest first. Of two with one key, redrive the later. Skip keys of live messages."""

DROP_DEAD = (
    'DELETE FROM {dead} WHERE "pKind" = %(kind)s AND (%(keys)s::text[] IS NULL OR "pKey" = ANY(%(keys)s::text[]))'
)
"""Delete dead letters for good."""

# --- queues

NAME_QUEUE = """
INSERT INTO {queues} ("pKind", "name", "typeName") VALUES (%(kind)s, %(name)s, %(type)s) ON CONFLICT DO NOTHING
"""
"""Record the name and codec of a kind."""

SET_PAUSED = """
INSERT INTO {queues} AS q ("pKind", "name", "typeName", "paused", "pausedBy")
VALUES (%(kind)s, %(name)s, %(type)s, %(paused)s, %(by)s)
ON CONFLICT ("pKind") DO UPDATE SET "paused" = EXCLUDED."paused", "pausedBy" = EXCLUDED."pausedBy"
    WHERE q."paused" <> EXCLUDED."paused"
RETURNING xmax = 0
"""
"""Pause or resume a queue. Returns true for a new queue, false if its state changed, else no row."""

MARK_RANKED = """
INSERT INTO {queues} ("pKind", "name", "typeName", "ranked") SELECT %(kind)s::text, %(name)s::text, %(type)s::text, true
WHERE NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s::text AND "ranked")
ON CONFLICT ("pKind") DO UPDATE SET "ranked" = true
"""
"""Deliver a queue by priority from now on. If it already is, the row is only read."""

DATABASE_TIME = "SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8"
"""Seconds since the epoch by the server's clock."""
