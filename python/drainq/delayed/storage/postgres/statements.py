"""PostgreSQL: the connections of a delayed queue, and the methods that run its statements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import cycle
from typing import Any

from drainq.delayed.storage import operator_sql
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.postgres import messages_sql, schema_sql, ticks_sql
from drainq.delayed.storage.postgres.connections import PostgresConnections
from drainq.delayed.storage.postgres.direct_libpq import Statement
from drainq.delayed.storage.postgres.pool import in_transaction_of
from drainq.delayed.storage.postgres.scan_floor import ScanFloor
from drainq.delayed.storage.table_names import TableNames, statements_of

LOCK_TIMEOUT_MS = 1000
"""Milliseconds to wait for a lock that others may hold for long. A statement that waits for a table's lock holds up
every later one, so the wait is short, and repeated after a pause."""

_TURNS = 8
"""Of this many searches that a long backlog of groups requires, one begins with the messages without a group."""


@cache
def _statements(table: str) -> tuple[dict[str, str], dict[str, Statement], dict[tuple[str, bool, int], Statement]]:
    """Return the statements for a table, which a connection then prepares once for all queues.

    The last dict gets the statements that take messages, one for each order, acknowledgement and limit.
    """

    fill = partial(TableNames(table).fill, percent="%%")
    texts = statements_of((messages_sql, ticks_sql, schema_sql), fill)
    texts |= statements_of((operator_sql,), lambda text: fill(operator_sql.for_postgres(text)))
    return texts, {name: Statement(text) for name, text in texts.items()}, {}


class PostgresStatements(Storage):
    """The connections; see :class:`~drainq.delayed.storage.postgres.storage.PostgresStorage` for the arguments."""

    def __init__(
        self,
        connections: PostgresConnections,
        *,
        table: str,
        poll_period: float = 3.0,
        shared: bool = False,
    ) -> None:
        self._connections, self._shared = connections, shared
        self.most_calls = connections.most
        self._pool, self._schedules = connections.pool, connections.schedules
        self._names = TableNames(table)
        self._poll_period, self._poll_period_ms = poll_period, 1 + round(min(poll_period, 1e9) * 1000)
        self._sql, self._direct, self._takes = _statements(table)
        self._by_priority: set[str] = set()  # kinds known to be delivered by priority, which is for ever
        self._latest_group: dict[str, str] = {}  # for each kind with groups: the group of the latest taken message
        self._turns = cycle(range(_TURNS))  # 0: messages without a group come first
        self._marks: dict[str, ScanFloor] = {}
        self._installs: dict[str, Any] = {}  # for each kind: joins the calls that create ticks
        self._takers: dict[tuple[Any, ...], Any] = {}  # for each kind and its limits: joins the consumers' calls

    def _fill(self, text: str, limit: int = 0) -> str:
        return self._names.fill(text, percent="%%", limit=limit)

    def connect(self) -> None:
        with self._pool.cursor():
            pass

    def close(self) -> None:
        if not self._shared:
            self._connections.close()

    def _mark(self, kind: str) -> ScanFloor:
        mark = self._marks.get(kind)
        return mark or self._marks.setdefault(kind, ScanFloor(self._poll_period))

    def _execute(self, cursor: Any, name: str, values: dict[str, Any]) -> None:
        cursor.execute(self._sql[name], values)

    def _ask(self, name: str, values: dict[str, Any]) -> list[Any]:
        return list(self._pool.run(self._sql[name], values, binary=True).fetchall())

    def _do(self, name: str, values: dict[str, Any]) -> int:
        """Run a statement whose values are numbers, texts and bytes."""
        return self._pool.ask(self._direct[name], values).command_tuples or 0

    def _ask_patiently(self, name: str, values: dict[str, Any]) -> list[Any]:
        with self._pool.patient() as cursor:
            return list(cursor.execute(self._sql[name], values).fetchall())

    def _do_patiently(self, name: str, values: dict[str, Any]) -> int:
        with self._pool.patient() as cursor:
            return int(cursor.execute(self._sql[name], values).rowcount)

    def _ask_for_schedules(self, name: str, values: dict[str, Any]) -> list[Any]:
        return list(self._schedules.run(self._sql[name], values, binary=True).fetchall())

    def _do_for_schedules(self, name: str, values: dict[str, Any]) -> int:
        return int(self._schedules.run(self._sql[name], values).rowcount)

    def _in_transaction_of(self, connection: Any) -> AbstractContextManager[Any]:
        return in_transaction_of(connection)

    def _ids(self, ids: Sequence[int]) -> str:
        """Return a bigint[] as text, so that one prepared statement serves numbers of any size."""
        return f"{{{','.join(map(str, ids))}}}"

    def _keys(self, keys: Sequence[str]) -> list[str]:
        return list(keys)
