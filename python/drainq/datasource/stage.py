"""Stage: keeps the rows of tasks until the driver publishes them, all of them and only once.

# Invariants

1. A task attempt stages rows under a unique token. Its message to the driver names the token and the number of rows.
2. Publishing is one transaction: it records the write as published, offers the rows of the named tokens to the queue,
   and deletes all staged rows of the write. A recorded write is not published again.
3. A publication is complete: if a token has another number of rows than its message names, no row is published.
4. Rows that no message names are never published: rows of failed attempts, of tasks that wrote after Spark killed them,
   and of drivers that died. The next publication of their write, or any after :data:`KEPT` seconds, deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from drainq.datasource.columns import MESSAGES_AT_ONCE, Message
from drainq.datasource.tables import Tables
from drainq.delayed.message import ScheduledMessage, from_ms
from drainq.errors import DrainqError
from drainq.sql.database import Database

KEPT = 7 * 24 * 3600
"""Seconds after which staged rows that were not published are deleted."""

_COMMITS_KEPT = 1000
"""Batches of a streaming query that are remembered as published; Spark replays the last one."""


class StagedRows:
    """The stage of one table. Each method runs in the caller's transaction.

    Args:
        tables: the statements.
    """

    def __init__(self, tables: Tables) -> None:
        fill = tables.fill
        self._add = fill(
            "INSERT INTO {stage} (token, place, write_id, batch, message_key, payload, due_at, staged_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        self._enter = fill(
            "INSERT INTO {commits} (write_id, batch, published_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"
        )
        self._rows = fill(
            "SELECT message_key, payload, due_at FROM {stage}"
            " WHERE token = ? AND place >= ? AND place < ? ORDER BY place"
        )
        self._forget = fill("DELETE FROM {stage} WHERE write_id = ? AND batch <= ?")
        self._forget_token = fill("DELETE FROM {stage} WHERE token = ?")
        self._sweep = fill("DELETE FROM {stage} WHERE staged_at < ?")
        self._trim = fill("DELETE FROM {commits} WHERE write_id = ? AND batch < ?")

    def add(
        self, database: Database, token: str, first: int, messages: Sequence[Message], *, write_id: str, batch: int
    ) -> None:
        """Stage messages of a task attempt, from index ``first`` on. A repeated call changes nothing."""
        now = _now()
        rows = [(token, first + n, write_id, batch, *message, now) for n, message in enumerate(messages)]
        database.execute_many(self._add, rows)

    def publish(
        self,
        database: Database,
        queue: Any,
        tokens: Sequence[tuple[str, int]],
        *,
        published_as: tuple[str, int],
        staged_as: str,
        update: bool,
    ) -> bool:
        """Offer the rows that are staged under these tokens.

        Args:
            database: in a transaction.
            queue: the delayed queue.
            tokens: each with its number of rows, in the order of the partitions.
            published_as: the name of the write and its batch, which are published once.
            staged_as: the name under which the rows of the write are staged.
            update: whether a message replaces the stored message of the same key.
        Returns:
            False if the write was published before.
        Raises:
            DrainqError: staged rows are missing.
        """
        name, batch = published_as
        is_new = bool(database.execute(self._enter, (name, batch, _now())))
        if is_new:
            for token, rows in tokens:
                self._offer(database, queue, token, rows, update)
        database.execute(self._forget, (staged_as, batch))
        database.execute(self._sweep, (_now() - KEPT * 1000,))
        database.execute(self._trim, (name, batch - _COMMITS_KEPT))
        return is_new

    def forget(self, database: Database, tokens: Sequence[str], staged_as: str | None) -> None:
        """Delete the rows that are staged under these tokens, and under a write's name. Published messages stay."""
        for token in tokens:
            database.execute(self._forget_token, (token,))
        if staged_as is not None:
            database.execute(self._forget, (staged_as, 0))

    def _offer(self, database: Database, queue: Any, token: str, rows: int, update: bool) -> None:
        found = 0
        for first in range(0, rows + 1, MESSAGES_AT_ONCE):  # + 1: rows beyond the named number are found too
            staged = database.execute(self._rows, (token, first, first + MESSAGES_AT_ONCE))
            found += len(staged)
            offers = [ScheduledMessage(key, payload, from_ms(at), update) for key, payload, at in staged]
            queue.offer_batch(offers, connection=database.connection)
        if found != rows:
            raise DrainqError(
                f"a task staged {rows} rows and {found} are there: nothing is published. Staged rows are kept for "
                f"{KEPT // 86400} days; write them again"
            )


def _now() -> int:
    return int(time.time() * 1000)
