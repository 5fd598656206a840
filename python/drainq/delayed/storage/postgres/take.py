"""PostgreSQL: takes messages and deletes handled ones, in one round trip and one transaction.

# Invariant

Due times that a poll skips for speed (see :mod:`drainq.delayed.storage.postgres.scan_floor`) are searched within a poll
period.
"""

from __future__ import annotations

import operator
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from psycopg.errors import UniqueViolation

from drainq.delayed.storage.in_flight_limits import Room
from drainq.delayed.storage.postgres import take_sql as sql
from drainq.delayed.storage.postgres.direct_libpq import Statement
from drainq.delayed.storage.postgres.scan_floor import LOWEST
from drainq.delayed.storage.postgres.statements import PostgresStatements
from drainq.delayed.storage.postgres.together import Together
from drainq.delayed.storage.records import Fetched, Held, Row

_long, _integer = struct.Struct("!q").unpack, struct.Struct("!i").unpack
_numbers = struct.Struct("!qqqii").unpack  # id, due time, creation, attempts, priority
_new = tuple.__new__  # a named tuple without the call of its Python constructor
_ORDER = operator.attrgetter("priority", "scheduled_at", "id")
_FEW = 4
"""The largest ``limit`` for which the statement that takes messages also acknowledges the handled ones.

For more, an earlier statement of the same round trip and transaction acknowledges. A statement sees the database as it
was when the statement began. If one statement first deleted a hundred messages, other consumers would meanwhile take
the messages that it searches next: it would lock these, find them taken, and make the others wait for its commit.
"""

_MOST_TOGETHER = 64
"""The most consumers with limits that share a turn."""


class _Taker(NamedTuple):
    """The arguments of one :meth:`PostgresLimits.acquire_within`."""

    done: Held
    limit: int
    now: int
    until: int
    lock: str


class PostgresTakes(PostgresStatements):
    """The methods of a storage that take messages for consumers."""

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str, *, done: Held | None = None) -> Fetched:
        values = {"kind": kind, "now": now, "until": until, "lock": lock, "holder": self.holder}
        values["soon"] = now + self._poll_period_ms  # a consumer sleeps no longer than that
        if done is None:
            return self._acquire(self._pool.ask, kind, limit, values)
        if limit <= _FEW:
            values["done"], values["held"] = self._ids(done.ids), done.lock
            return self._acquire(self._pool.ask, kind, limit, values)
        acked: list[int] = []

        def ask(take: Statement, values: dict[str, Any]) -> Any:
            ack, taken = self._pool.ask_both(self._direct["ACK"], self._held(done), take, values)
            acked.append(ack.command_tuples or 0)
            return taken

        return self._acquire(ask, kind, limit, values)._replace(acked=acked[0])

    def _acquire(self, ask: Callable[..., Any], kind: str, limit: int, values: dict[str, Any]) -> Fetched:
        """Take messages by the statement that ``ask`` runs."""
        if kind in self._by_priority:
            return self._acquire_by(ask, "priority", kind, limit, values)
        if kind not in self._latest_group:
            return self._acquire_by(ask, "due", kind, limit, values)
        near = fetched = self._acquire_by(ask, "near", kind, limit, values)
        if near.rows or near.next_due is None or near.next_due > values["now"]:
            return near
        values = {name: value for name, value in values.items() if name not in ("done", "held")}
        for order in ("plain", "groups") if next(self._turns) == 0 else ("groups", "plain"):
            fetched = self._acquire_by(self._pool.ask, order, kind, limit, values)
            if fetched.rows:
                break
        return fetched._replace(acked=near.acked)

    def _acquire_by(
        self, ask: Callable[..., Any], order: str, kind: str, limit: int, values: dict[str, Any]
    ) -> Fetched:
        """Take messages in an order of :data:`~drainq.delayed.storage.postgres.take_sql.TAKE`."""
        mark, latest = self._mark(kind), self._latest_group.get(kind)
        marks = order in ("due", "plain") or (order == "priority" and latest is None)
        start = mark.start() if marks else LOWEST  # messages that wait for their group lie before the mark
        values |= {"start": start, "after": latest or ""}
        started = time.monotonic()
        while True:
            try:
                answer = ask(self._statement(order, "done" in values, limit), values)
                break
            except UniqueViolation:  # another consumer has just taken an earlier or later message of the same group
                continue
        took = time.monotonic() - started
        fetched = _fetched(answer, values)
        instead = None if fetched.rows or order == "priority" else answer.get_value(0, 1)
        if instead is not None:  # the queue needs another order, so the statement took nothing
            if instead == b"priority":
                self._by_priority.add(kind)
            else:
                self._latest_group[kind] = ""
            return self._acquire(ask, kind, limit, values)._replace(acked=fetched.acked)
        groups = [row.group for row in fetched.rows if row.group is not None]
        if groups:
            self._latest_group[kind] = groups[-1]
            mark.pass_over_groups()
        plain = [row for row in fetched.rows if row.priority == 0] if order == "priority" else fetched.rows
        searched = len(fetched.rows) < limit or fetched.rows[-1].priority >= 0  # else urgent messages filled the limit
        if searched and marks and not groups:
            mark.polled(start, took, plain, values["now"])
        if fetched.rows or start == LOWEST or mark.is_empty():
            return fetched
        mark.heard()
        return self._acquire_by(ask, order, kind, limit, values)._replace(acked=fetched.acked)

    def _statement(self, order: str, acknowledge: bool, limit: int) -> Statement:
        which = order, acknowledge, limit
        statement = self._takes.get(which)
        if statement is None:
            statement = self._takes[which] = Statement(self._fill(sql.TAKE[order, acknowledge], limit))
        return statement


def _fetched(answer: Any, values: dict[str, Any]) -> Fetched:
    value, until = answer.get_value, values["until"]
    (acked,) = _long(value(0, 0))
    if value(0, 3) is None:
        due = value(0, 2)
        return Fetched(acked, [], None if due is None else _long(due)[0])
    rows = []
    for n in range(answer.ntuples):
        numbers = b"".join((value(n, 3), value(n, 6), value(n, 7), value(n, 8), value(n, 9)))
        number, at, created, attempts, priority = _numbers(numbers)
        most = value(n, 10) and _integer(value(n, 10))[0]
        group = value(n, 11) and value(n, 11).decode()
        columns = number, value(n, 4).decode(), value(n, 5), at, created, attempts, until, True, priority, most, group
        rows.append(_new(Row, columns))
    if len(rows) > 1:
        rows.sort(key=_ORDER)
    return Fetched(acked, rows)


class PostgresLimits(PostgresTakes):
    """The methods of a storage that take messages within limits.

    Consumers with limits take turns, by a lock on the queue's row that ends with the transaction. Each counts the
    messages in flight, then takes due messages while there is room. Those of one process whose turns come together
    share a turn: see :mod:`drainq.delayed.storage.postgres.together`.
    """

    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        which = kind, *sorted(limits.items())
        together: Together[_Taker, Fetched] | None = self._takers.get(which)
        if together is None:
            take = partial(self._acquire_within, kind, limits)
            together = self._takers.setdefault(which, Together(take, most=_MOST_TOGETHER))
        while True:
            try:
                return together(_Taker(done, limit, now, until, lock))
            except UniqueViolation:  # a consumer without limits was faster: see _acquire_by
                continue

    def _acquire_within(self, kind: str, limits: Mapping[str, int], takers: Sequence[_Taker]) -> list[Fetched]:
        """Take messages for some consumers in one transaction, the first messages for the first consumer."""
        answers, now = [], min(taker.now for taker in takers)
        with self._pool.transaction() as cursor:
            if not cursor.execute(self._sql["LOCK_FLIGHT"], {"kind": kind}).rowcount:
                raise LookupError("limits need the queue's name in its table of names, where open() enters it")
            acked = [cursor.execute(self._sql["ACK"], self._held(taker.done)).rowcount for taker in takers]
            flying = cursor.execute(self._sql["IN_FLIGHT"], {"kind": kind, "now": now}).fetchall()
            room = Room(limits, [key for (key,) in flying])
            ids = self._pick(cursor, kind, sum(taker.limit for taker in takers), now, room)
            for (_, limit, _, until, lock), count in zip(takers, acked):
                found, values = [], {"ids": ids[:limit], "until": until, "lock": lock, "holder": self.holder}
                if values["ids"]:
                    found = cursor.execute(self._fill(sql.TAKE_THESE), values).fetchall()
                del ids[:limit]
                rows = self._in_order((*columns[:6], until, True, *columns[6:]) for columns in found)
                answers.append(Fetched(count, rows))
        return answers

    def _pick(self, cursor: Any, kind: str, limit: int, now: int, room: Room) -> list[int]:
        """Return the ids of the messages to take while there is room. Each loop round but the last fills a prefix."""
        (by_priority,) = cursor.execute(self._fill(sql.IS_BY_PRIORITY), {"kind": kind}).fetchone()
        picked: list[int] = []
        seen: list[int] = []
        while "" not in room.full() and len(picked) < limit:
            wanted = limit - len(picked)
            values = {"kind": kind, "now": now, "start": LOWEST, "full": room.full(), "seen": seen}
            found = cursor.execute(self._fill(sql.CANDIDATES[by_priority], wanted), values).fetchall()
            seen += [number for number, _ in found]
            picked += [number for number, key in found if room.take(key)]
            if len(found) < wanted:
                break
        return picked
