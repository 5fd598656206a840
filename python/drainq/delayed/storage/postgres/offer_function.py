"""PostgreSQL: the function ``<table>_offer``, by which triggers and programs in other languages offer messages.

A migration creates it. A change here needs a migration of its own, because a database keeps the function that it has.
"""

from drainq.delayed.storage.postgres.messages_sql import TAKE_OVER

_ARGUMENTS = """
    at TIMESTAMPTZ DEFAULT NULL, priority INTEGER DEFAULT 0, replace BOOLEAN DEFAULT true, codec TEXT DEFAULT NULL,
    max_attempts INTEGER DEFAULT NULL, in_group TEXT DEFAULT NULL)
RETURNS TEXT SET search_path FROM CURRENT"""

OF_BYTES = (
    """
CREATE OR REPLACE FUNCTION {offer}(queue TEXT, key TEXT, payload BYTEA,"""
    + _ARGUMENTS
    + """ LANGUAGE plpgsql AS {body}
DECLARE
    kinds TEXT[] := ARRAY(SELECT known."pKind" FROM {queues} AS known
                          WHERE known."name" = queue AND (codec IS NULL OR known."typeName" = codec));
    present BIGINT := pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000);
    due BIGINT := COALESCE(pg_catalog.floor(extract(epoch FROM at) * 1000), present);
    created BOOLEAN;
BEGIN
    IF pg_catalog.cardinality(kinds) = 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = 'no delayed queue has this name and codec',
            HINT = 'DelayedQueue.open makes a queue; "drainq delayed queues" lists names and codecs.';
    ELSIF pg_catalog.cardinality(kinds) > 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'ambiguous_parameter',
            MESSAGE = 'delayed queues with several codecs have this name',
            HINT = 'Pass codec => one that "drainq delayed queues" lists.';
    ELSIF key = '' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'key must have 1 to 200 characters';
    ELSIF max_attempts < 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'max_attempts must be at least 1';
    ELSIF pg_catalog.length(in_group) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'in_group must have 1 to 200 characters';
    END IF;
    IF priority <> 0 THEN
        UPDATE {queues} AS known SET "ranked" = true WHERE known."pKind" = kinds[1] AND NOT known."ranked";
    END IF;
    IF replace THEN
        INSERT INTO {table} AS q
            ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority", "maxAttempts",
             "inGroup")
        VALUES (key, kinds[1], payload, due, due, present, priority, max_attempts, in_group)
"""
    + TAKE_OVER
    + """
        RETURNING q.xmax = 0 INTO created;
    ELSE
        INSERT INTO {table}
            ("pKey", "pKind", "payload", "scheduledAt", "scheduledAtInitially", "createdAt", "priority", "maxAttempts",
             "inGroup")
        VALUES (key, kinds[1], payload, due, due, present, priority, max_attempts, in_group)
        ON CONFLICT ("pKey", "pKind") DO NOTHING RETURNING true INTO created;
    END IF;
    IF created IS NULL THEN
        RETURN 'ignored';
    END IF;
    PERFORM pg_catalog.pg_notify('drainq_' || kinds[1], '@' || due);
    RETURN CASE WHEN created THEN 'created' ELSE 'updated' END;
END
{body}
"""
)
"""Offer a message, as ``DelayedQueue.offer`` does. Due now unless ``at`` is given. Consumers are notified at commit."""

OF_TEXT = (
    """
CREATE OR REPLACE FUNCTION {offer}(queue TEXT, key TEXT, payload TEXT,"""
    + _ARGUMENTS
    + """ LANGUAGE sql AS {body}
    SELECT {offer}(queue, key, pg_catalog.convert_to(payload, 'UTF8'), at, priority, replace, codec, max_attempts,
        in_group)
{body}
"""
)
"""The same for a payload that is text, such as JSON."""

DROP_OLD = tuple(
    f"DROP FUNCTION IF EXISTS {{offer}}(TEXT, TEXT, {payload}, TIMESTAMPTZ, INTEGER, BOOLEAN, TEXT{more})"
    for payload in ("BYTEA", "TEXT")
    for more in ("", ", INTEGER")
)
"""Drop the functions with fewer arguments, which would make a call ambiguous."""
