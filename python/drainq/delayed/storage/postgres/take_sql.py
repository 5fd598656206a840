"""PostgreSQL: the variants of the statement that takes messages. They are filled in and bound like ``messages_sql``.

``= ANY(ARRAY(SELECT ... LIMIT n FOR UPDATE SKIP LOCKED))`` runs the locking subquery once. Some plans would run ``IN
(SELECT ...)`` again and lock more than n. The limit is a literal, because the planner guesses a parameter's value.
"""

from drainq.delayed.storage.operator_sql import ATTEMPTS

_FREE = """
        AND (q."inGroup" IS NULL OR q."lockUuid" IS NOT NULL OR (
            q."inGroup" <> ALL(ARRAY(
                SELECT h."inGroup" FROM {table} AS h
                WHERE h."pKind" = %(kind)s AND h."inGroup" IS NOT NULL AND h."lockUuid" IS NOT NULL{but}))
            AND q."id" = (
                SELECT h."id" FROM {table} AS h
                WHERE h."pKind" = %(kind)s AND h."inGroup" = q."inGroup"{but}
                ORDER BY h."scheduledAtInitially", h."id" LIMIT 1)))"""
"""The message has no group, or is the first of a group without a leased message, or its own lease has ended. Only the
first of a group is ever taken, and its row stays until its acknowledgement is committed. So two consumers that each see
an older state still choose the same message, which only one can lock.

One case is left: while a consumer takes the first message, an offer puts another message before it, and a second
consumer takes that message before the first consumer commits. The second consumer then fails, because an index permits
at most one message with a lock in a group.

A statement finds the groups in flight once, so that skipping a message of such a group costs no search."""

_EARLIEST = """
    SELECT "id" FROM {table} AS q
    WHERE "pKind" = %(kind)s AND "scheduledAt" <= %(now)s AND "scheduledAt" >= %(start)s{but}{free}
        AND NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND ("paused" OR "ranked"))
    ORDER BY "scheduledAt", "id"
    LIMIT {limit}
    FOR UPDATE SKIP LOCKED"""
"""The earliest due messages that no other consumer is taking. ``start`` skips the dead rows before it."""

_WINDOW = "(50 + 4 * {limit})"
"""How many due messages a fetch from a queue with groups reads before it searches by another order."""

_NEAR = f"""
    SELECT ours."id" FROM (
        SELECT * FROM {{table}} WHERE "pKind" = %(kind)s AND "scheduledAt" <= %(now)s{{but}}
        ORDER BY "scheduledAt", "id"
        LIMIT {_WINDOW}) AS q
    JOIN {{table}} AS ours ON ours."id" = q."id" AND ours."scheduledAt" <= %(now)s
        AND ours."inGroup" IS NOT DISTINCT FROM q."inGroup"
    WHERE NOT EXISTS (SELECT 1 FROM {{queues}} WHERE "pKind" = %(kind)s AND ("paused" OR "ranked")){{free}}
    ORDER BY q."scheduledAt", q."id"
    LIMIT {{limit}}
    FOR UPDATE OF ours SKIP LOCKED"""
"""The earliest messages that may be taken among the first due ones. So the cost has a bound in a long backlog."""

_FIRST_OF_GROUPS = """
    WITH RECURSIVE walk(name, lap) AS (
        SELECT %(after)s::text COLLATE "C", -1
        WHERE NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND ("paused" OR "ranked"))
        UNION ALL
        SELECT COALESCE(next, ''), GREATEST(lap, 0) + (next IS NULL)::integer
        FROM walk CROSS JOIN LATERAL (
            SELECT (SELECT "inGroup" FROM {table} WHERE "pKind" = %(kind)s AND "inGroup" > name
                    ORDER BY "inGroup" LIMIT 1) AS next OFFSET 0) AS found
        WHERE lap < 1 OR (lap = 1 AND name < %(after)s::text COLLATE "C"))
    SELECT head."id" FROM walk CROSS JOIN LATERAL (
        SELECT "id" FROM {table}
        WHERE lap >= 0 AND "inGroup" = name AND "scheduledAt" <= %(now)s AND "id" = COALESCE(
            (SELECT "id" FROM {table}
            WHERE "pKind" = %(kind)s AND "inGroup" = name AND "lockUuid" IS NOT NULL{but}),
            (SELECT "id" FROM {table} WHERE "pKind" = %(kind)s AND "inGroup" = name{but}
            ORDER BY "scheduledAtInitially", "id" LIMIT 1))
        FOR UPDATE SKIP LOCKED) AS head
    LIMIT {limit}"""
"""The first messages of groups: one group after the other in the order of their names, found by index, until there are
enough. The walk begins behind the group ``after``, and again at the first name, so that each group has its turn."""

_WITHOUT_GROUP = _EARLIEST.replace("{free}", """ AND "inGroup" IS NULL""")
"""The earliest messages without a group."""

_BY_PRIORITY = """
    WITH RECURSIVE ranks(rank) AS (
        SELECT LEAST((SELECT "priority" FROM {table} WHERE "pKind" = %(kind)s AND "priority" <> 0
                      ORDER BY "priority" LIMIT 1), 0)
        UNION ALL
        SELECT CASE WHEN rank < 0 THEN LEAST(next, 0) ELSE next END
        FROM ranks CROSS JOIN LATERAL (
            SELECT (SELECT "priority" FROM {table} WHERE "pKind" = %(kind)s AND "priority" <> 0 AND "priority" > rank
                    ORDER BY "priority" LIMIT 1) AS next) AS found
        WHERE rank IS NOT NULL)
    SELECT due."id" FROM ranks CROSS JOIN LATERAL (
        SELECT "id" FROM (SELECT "id" FROM {table} AS q
        WHERE rank = 0 AND "priority" = 0
            AND "pKind" = %(kind)s AND "scheduledAt" <= %(now)s AND "scheduledAt" >= %(start)s{but}{free}
        ORDER BY "scheduledAt", "id"
        LIMIT {limit}
        FOR UPDATE SKIP LOCKED) AS plain
        UNION ALL
        SELECT "id" FROM (SELECT "id" FROM {table} AS q
        WHERE "priority" <> 0 AND "priority" = rank AND "pKind" = %(kind)s AND "scheduledAt" <= %(now)s{but}{free}
        ORDER BY "scheduledAt", "id"
        LIMIT {limit}
        FOR UPDATE SKIP LOCKED) AS ranked) AS due
    WHERE NOT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND "paused")
    LIMIT {limit}"""
"""The earliest due messages by priority: one priority after the other, found by index, until there are enough.

Messages of priority 0 are found by the index on due times, the others by an index of their own, which costs a queue
without priorities nothing. Before the first message of priority 0, ``start`` skips other messages and dead rows."""

_TAKE = (
    """
UPDATE {table} SET
    "lockUuid" = %(lock)s, "scheduledAt" = %(until)s, "holder" = %(holder)s,
    "attempts" = LEAST(2147483646, GREATEST("""
    + ATTEMPTS
    + """, ("scheduledAt" > "scheduledAtInitially")::integer)) + 1,
    "attemptsOf" = "createdAt"
WHERE "id" = ANY(ARRAY({which}))
RETURNING "id", "pKey", "payload", "scheduledAtInitially", "createdAt", "attempts", "priority", "maxAttempts", "inGroup"
"""
)

_ACK = """
acked AS (DELETE FROM {table} WHERE "id" = ANY(%(done)s::bigint[]) AND "lockUuid" = %(held)s RETURNING 1),"""

_BUT = """
        AND NOT ("lockUuid" IS NOT DISTINCT FROM %(held)s AND "id" = ANY(%(done)s::bigint[]))"""
"""The lock is compared first. It differs in nearly every row, and the ids are not searched for such a row."""

_FIRST_ACK = """
        AND (SELECT pg_catalog.count(*) FROM acked) IS NOT NULL"""
"""Acknowledge before taking: a deleted row does not count in the index that permits one lock of a group."""

_ANSWER = """
SELECT count.acked,
    CASE WHEN taken."id" IS NULL THEN {instead} END,
    CASE WHEN taken."id" IS NULL THEN {next} END,
    taken.*
FROM ({acked}) AS count LEFT JOIN taken ON true
"""
"""At least one row. Only if no message was taken, it also has the order in which the queue must be searched instead,
and the next due time up to ``soon``. A search beyond ``soon`` would read the dead rows at the ends of former
leases."""

_INSTEAD = """CASE
        WHEN EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND "ranked") THEN 'priority'{or_near} END"""

_DUE = f"""
due AS MATERIALIZED ({_EARLIEST.replace('"id" FROM', '"id", "inGroup" FROM', 1).replace("{free}", "")}),"""
_A_GROUP = 'EXISTS (SELECT 1 FROM due WHERE "inGroup" IS NOT NULL)'
"""The earliest messages, and whether one of them has a group, which costs a queue without groups next to nothing."""

_NEXT = """(
        SELECT pg_catalog.min("scheduledAt") FROM {table}
        WHERE "pKind" = %(kind)s AND "scheduledAt" > %(now)s AND "scheduledAt" <= %(soon)s{but})"""

_NEXT_AFTER_NEAR = f"""COALESCE((
        SELECT "scheduledAt" FROM {{table}} WHERE "pKind" = %(kind)s AND "scheduledAt" <= %(now)s
        ORDER BY "scheduledAt", "id"
        LIMIT 1 OFFSET {_WINDOW}), {_NEXT})"""
"""A due time in the past if not all due messages were read, else the next due time."""


def _statement(order: str, *, acknowledge: bool) -> str:
    by_due = order == "due"
    parts = {
        "ack": _ACK if acknowledge else "",
        "due": _DUE if by_due else "",
        "which": _ORDERS[order],
        "acked": "SELECT pg_catalog.count(*) AS acked FROM acked" if acknowledge else "SELECT 0::bigint AS acked",
        "instead": _INSTEAD,
        "or_near": f" WHEN {_A_GROUP} THEN 'near'" if by_due else "",
        "next": _NEXT_AFTER_NEAR if order == "near" else _NEXT,
        "free": (_FIRST_ACK if acknowledge else "") + _FREE,
        "but": _BUT if acknowledge else "",
    }
    statement = f"WITH {{ack}}{{due}} taken AS ({_TAKE}){_ANSWER}"
    for name, part in parts.items():
        statement = statement.replace(f"{{{name}}}", part)
    return statement


_ROOM = """
        AND NOT EXISTS (
            SELECT 1 FROM pg_catalog.unnest(%(full)s::text[]) AS f(prefix) WHERE pg_catalog.starts_with("pKey", prefix))
        AND "id" <> ALL(%(seen)s::bigint[])"""

CANDIDATES = {
    by_priority: 'SELECT "id", "pKey" FROM {table} WHERE "id" = ANY(ARRAY('
    + which.replace("{but}", _ROOM).replace("{free}", _FREE.replace("{but}", ""))
    + ')) ORDER BY "priority", "scheduledAt", "id"'
    for by_priority, which in ((False, _EARLIEST), (True, _BY_PRIORITY))
}
"""The next messages in the order of delivery, locked; without those ``seen`` and those of ``full`` prefixes."""

TAKE_THESE = _TAKE.replace("{which}", "SELECT pg_catalog.unnest(%(ids)s::bigint[])")
"""Take certain messages."""

IS_BY_PRIORITY = 'SELECT EXISTS (SELECT 1 FROM {queues} WHERE "pKind" = %(kind)s AND "ranked")'
"""Whether a queue is delivered by priority."""

_ORDERS: dict[str, str] = {
    "due": f'SELECT "id" FROM due WHERE NOT {_A_GROUP}',
    "priority": _BY_PRIORITY,
    "near": _NEAR,
    "groups": _FIRST_OF_GROUPS,
    "plain": _WITHOUT_GROUP,
}

TAKE = {
    (order, acknowledge): _statement(order, acknowledge=acknowledge)
    for order in _ORDERS
    for acknowledge in ((False,) if order in ("groups", "plain") else (False, True))
}
"""Take messages: by due time, by priority, or of a queue with groups; with an acknowledgement or not.

If the queue has priorities, the variants without them take nothing and return the order to use instead. So does the
variant by due time if one of the earliest messages has a group. An acknowledgement is part of the same round trip and
commit. No row is both acknowledged and taken, even if its lease has ended.
"""
