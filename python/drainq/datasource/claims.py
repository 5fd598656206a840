"""Claims: move due messages out of the queue for one consumer, and keep them until Spark has processed them.

Messages are moved and not leased, because a batch that Spark replays must have the same rows. A leased message can be
updated while Spark works on it, or go to another consumer when its lease ends.

# Invariants

1. A message is in the queue or in one claim, never in both: one transaction claims and acknowledges it.
2. The numbers of a consumer's claims only grow, also over restarts, and are larger than those in any checkpoint.
3. A claim is deleted only after Spark has committed the batches up to it.
4. One process claims for a consumer: the latest that started. An earlier one is refused from then on.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from drainq.datasource.columns import Message
from drainq.datasource.tables import Tables
from drainq.datasource.transactions import Transactions
from drainq.delayed.message import to_ms
from drainq.errors import DrainqError
from drainq.sql.database import Database

T = TypeVar("T")
AT_ONCE = 5_000
"""The most messages of one claim."""


class AnotherReader(DrainqError):
    """Raised if another streaming query reads with the same ``consumer``."""


class _Updated(Exception):
    """Raised if a message was updated, or taken over, between the poll and the claim."""


class Claims:
    """The claims of one consumer.

    Args:
        transactions: run in the queue's database.
        tables: the statements for that database.
        queue: distinguishes the queue from others in the table.
        consumer: the consumer's name.
    """

    def __init__(self, transactions: Transactions, tables: Tables, queue: str, consumer: str) -> None:
        self._run, self._whose = transactions.run, (queue, consumer)
        self._owner = uuid.uuid4().hex
        self._owns = False
        of = "queue = ? AND consumer = ?"
        fill = tables.fill
        self._own = fill(
            "INSERT INTO {readers} (queue, consumer, number, owner) VALUES (?, ?, 0, ?)"
            " ON CONFLICT (queue, consumer) DO UPDATE SET owner = excluded.owner"
        )
        self._number = fill(f"SELECT number FROM {{readers}} WHERE {of} AND owner = ?")
        self._next = fill(f"UPDATE {{readers}} SET number = ? WHERE {of} AND owner = ? RETURNING number")
        self._top = fill(f"SELECT max(number) FROM {{claims}} WHERE {of} AND number > ?")
        self._add = fill(
            "INSERT INTO {claims} (queue, consumer, number, place, message_key, payload, due_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        self._drop = fill(f"DELETE FROM {{claims}} WHERE {of} AND number <= ?")
        self._any = fill(f"SELECT EXISTS (SELECT 1 FROM {{claims}} WHERE {of} AND number <= ?)")
        within = f"{of} AND number > ? AND number <= ?"
        self._counts = fill(f"SELECT place % ?, count(*) FROM {{claims}} WHERE {within} GROUP BY 1 ORDER BY 1")
        self._rows = fill(
            f"SELECT message_key, payload, due_at FROM {{claims}} WHERE {within} AND place % ? = ?"
            " ORDER BY number, place"
        )

    def number(self) -> int:
        """Return the number of the last claim ever made; 0 if there is none.

        Raises:
            AnotherReader: another process claims for this consumer.
        """
        return self._as_owner(lambda database, number: number)

    def done(self, upto: int) -> int | None:
        """Delete the claims up to this one, because their messages were processed.

        Returns:
            The number of the last later claim, left by a crash; None if there is none.
        Raises:
            AnotherReader: another process claims for this consumer.
        """

        def work(database: Database, number: int) -> int | None:
            if database.execute(self._any, (*self._whose, upto))[0][0]:
                database.execute(self._drop, (*self._whose, upto))
            top: int | None = database.execute(self._top, (*self._whose, upto))[0][0]
            return top

        return self._as_owner(work)

    def claim(self, queue: Any, after: int, most: int | None) -> int | None:
        """Move due messages into new claims.

        Args:
            queue: the delayed queue.
            after: the new numbers are larger than this one.
            most: the largest number of messages; None: all that are due.
        Returns:
            The number of the last new claim; None if nothing is due.
        """
        last: int | None = None
        claimed = 0
        while most is None or claimed < most:
            wanted = AT_ONCE if most is None else min(AT_ONCE, most - claimed)
            envelope = queue.try_poll_many(wanted)
            count = len(envelope.payload)
            if not count:
                break
            try:
                last = self._as_owner(self._claiming(envelope, after))
            except BaseException as error:
                with contextlib.suppress(DrainqError):
                    envelope.nack()
                if isinstance(error, _Updated):
                    continue
                raise
            claimed += count
            if count < wanted:
                break
        return last

    def counts(self, after: int, upto: int, parts: int) -> list[tuple[int, int]]:
        """Count the messages of a range of claims by part, for ``parts`` parts. Empty parts are left out."""
        found = self._run(lambda database: database.execute(self._counts, (parts, *self._whose, after, upto)))
        return [(int(part), int(count)) for part, count in found]

    def messages(self, after: int, upto: int, part: int, parts: int) -> Iterator[Message]:
        """Yield the messages of one part."""
        values = (*self._whose, after, upto, parts, part)
        for key, payload, at in self._run(lambda database: database.execute(self._rows, values)):
            yield key, bytes(payload), at

    def _claiming(self, envelope: Any, after: int) -> Callable[[Database, int], int]:
        rows = list(zip(envelope.message_id, envelope.payload, envelope.schedule_at))

        def work(database: Database, before: int) -> int:
            number = max(before, after) + 1
            if not database.execute(self._next, (number, *self._whose, self._owner)):
                raise self._refused()
            claims = [(*self._whose, number, n, key, payload, to_ms(at)) for n, (key, payload, at) in enumerate(rows)]
            database.execute_many(self._add, claims)
            if not envelope.ack(connection=database.connection):
                raise _Updated
            return number

        return work

    def _as_owner(self, work: Callable[[Database, int], T]) -> T:
        """Run ``work(database, number of the last claim)`` in a transaction, if this process owns the consumer."""

        def checked(database: Database) -> T:
            if not self._owns:
                database.execute(self._own, (*self._whose, self._owner))
            found = database.execute(self._number, (*self._whose, self._owner))
            if not found:
                raise self._refused()
            return work(database, int(found[0][0]))

        answer = self._run(checked)
        self._owns = True
        return answer

    def _refused(self) -> AnotherReader:
        return AnotherReader(
            f"another streaming query has begun to read with consumer {self._whose[1]!r}: give each query a consumer "
            "of its own"
        )
