"""Rows into a table, batch by batch; one bad row does not take its batch with it.

1. A batch is one transaction. If the database refuses it for what is in it, it is halved until the rows that it refuses
   stand alone: those are the poison, all others are written.
2. If the database takes nothing at all (it cannot be reached, is full, the table is gone), the batch is tried again on
   a new connection, a few times, and then given up on whole.
3. What is given up on goes to the delayed queue, if there is one, and is sent again from there by
   :meth:`BatchWriter.flush` and when idle.
4. Each drain thread has a connection of its own. Rows of one key go through one thread, so the last one wins.

Source: ``JDBCBatchDAO`` and ``BatchSQLExecutor`` in SkyWalking, where a failing group is logged and gone.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from drainq._native import (
    BatchQueue,
    BatchQueueConfig,
    BufferStrategy,
    PartitionPolicy,
    PartitionSelector,
    ThreadPolicy,
)
from drainq.clock import Clock
from drainq.fork import leave_to_parent
from drainq.sql import Database, DatabaseError, DatabaseUrl, Upsert
from drainq.sql.errors import Failure, failure_of, one_line
from drainq.workers.worker import Worker, log

TRIES = 3  # of a batch, when the database cannot be reached
PAUSE = 0.2  # seconds before the second try; twice as long before each further one
RESEND_INTERVAL = 5.0  # seconds between looks into the delayed queue when idle
RESEND_DELAY = 60.0  # seconds until what was given up on is tried again


class _DelayedQueue(Protocol):
    """What is needed of a :class:`drainq.delayed.DelayedQueue`."""

    def offer_if_not_exists(self, key: str, payload: Any, schedule_at: Any, /) -> Any: ...
    def try_poll(self) -> Any: ...


class BatchWriter(Worker):
    """Write tuples into a table.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
        table: the table; it exists.
        columns: the names of an item's values; an item is a tuple in this order.
        key: the columns that identify a row: an existing one is replaced, the last one wins. None: every row is
            inserted.
        threads: drain threads, each with a connection of its own.
        delayed: a :class:`drainq.delayed.DelayedQueue` of its own for what is given up on, as messages
            ``{"rows": [...], "error": "..."}``; its codec must encode the values. None: poison rows are logged and
            ``refused``, and a batch that finds no database counts as ``failed`` in the queue and ``lost`` here.
        queue, clock: as for every :class:`~drainq.workers.worker.Worker`.
    Raises:
        ValueError: the URL or a column is not known, or ``threads`` is below 1.
        DatabaseError: the database cannot be opened, or has no such table or columns.

    Example:
        >>> from drainq.sql import Database
        >>> with Database("sqlite:///example.db") as database:
        ...     _ = database.execute("CREATE TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY, what TEXT)")
        >>> with BatchWriter(url="sqlite:///example.db", table="seen", columns=["id", "what"], key=["id"]) as writer:
        ...     writer.produce((1, "a"))
        True
    """

    def __init__(
        self,
        *,
        url: str | DatabaseUrl,
        table: str,
        columns: Sequence[str],
        key: Sequence[str] | None = None,
        threads: int = 1,
        delayed: _DelayedQueue | None = None,
        queue: BatchQueue | None = None,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(threads, bool) or not isinstance(threads, int):
            raise TypeError(f"threads must be a number of drain threads, got {threads!r}")
        if threads < 1:
            raise ValueError(f"threads must be >= 1, got {threads}")
        if not (delayed is None or callable(getattr(delayed, "offer_if_not_exists", None))):
            raise TypeError(f"delayed must be a drainq.delayed.DelayedQueue or None, got {delayed!r}")
        super().__init__(queue=queue, flush_interval=RESEND_INTERVAL, clock=clock)
        self._upsert = Upsert(table, columns, key=key or ())
        self._threads, self._delayed = threads, delayed
        self._connections: dict[int, Database] = {}  # thread -> its connection
        self._opening_connection = threading.Lock()
        self._url = url if isinstance(url, DatabaseUrl) else DatabaseUrl.parse(url)
        self._check()

    def consume(self, batch: list[Any]) -> None:
        """Write a batch; several threads may be in here at once."""
        parts = [batch]
        while parts:
            rows = parts.pop()
            error = self._refusal(rows)
            if isinstance(error, DatabaseError):
                left = [row for part in (rows, *reversed(parts)) for row in part]
                if self._delayed is None:
                    with self._lock:
                        self._lost += len(left)
                    raise error
                self._give_up(left, error)
                return
            if error is None:
                with self._lock:
                    self._sent += len(rows)
            elif len(rows) == 1:
                self._give_up(rows, error)
            else:
                half = len(rows) // 2
                parts += [rows[half:], rows[:half]]

    __call__ = consume

    def on_idle(self) -> None:
        """Look into the delayed queue now and then."""
        with self._lock:
            due = self._delayed is not None and self._clock.now() - self._flushed_at >= RESEND_INTERVAL
            if due:
                self._flushed_at = self._clock.now()
        if due:
            self._resend()

    def flush(self, timeout: float | None = None) -> bool:
        """Write everything accepted so far, and what is due in the delayed queue.

        Returns:
            False if time ran out.
        """
        flushed = self._queue is None or self._queue.flush(timeout)
        self._resend()
        return flushed

    # -- inside -----------------------------------------------------------------------------------

    def _refusal(self, rows: list[Any]) -> Exception | None:
        """Write rows in one transaction. A DatabaseError: it takes no rows at all; another error: it refuses these."""
        for attempt in range(1, TRIES + 1):
            try:
                database = self._connection()
                try:
                    with database.transaction():
                        self._upsert.write(database, rows)
                    return None
                except database.errors as error:
                    if failure_of(error) is Failure.DATA:
                        return error
                    self._disconnect()
                    failure = DatabaseError(
                        f"{self._url} did not take {len(rows)} rows for {self._upsert.table!r}: {one_line(error)}"
                    )
            except DatabaseError as error:
                failure = error
            except (TypeError, ValueError, OverflowError, IndexError) as error:  # a value that the driver cannot bind
                return error
            if attempt < TRIES:
                with self._lock:
                    self._retried += len(rows)
                threading.Event().wait(PAUSE * 2 ** (attempt - 1))
        return failure

    def _give_up(self, rows: list[Any], error: Exception) -> None:
        """Put rows into the delayed queue; without one, or if it refuses, they are logged and counted as refused."""
        if self._delayed is not None:
            message = {"rows": [list(row) for row in rows], "error": one_line(error)}
            try:
                self._delayed.offer_if_not_exists(
                    f"batch-writer/{uuid.uuid4()}", message, self._clock.now() + RESEND_DELAY
                )
            except Exception:
                log.exception("the delayed queue did not take %d rows for %r", len(rows), self._upsert.table)
            else:
                with self._lock:
                    self._dead_lettered += len(rows)
                return
        log.error("%s refused %d row(s) for %r: %s", self._url, len(rows), self._upsert.table, one_line(error))
        with self._lock:
            self._refused += len(rows)

    def _resend(self) -> None:
        """Try what is due in the delayed queue; what is refused again goes back, with its error."""
        while self._delayed is not None:
            envelope = self._delayed.try_poll()
            if envelope is None:
                return
            rows = [tuple(row) for row in envelope.payload["rows"]]
            error = self._refusal(rows)
            if error is not None:
                envelope.nack(RESEND_DELAY, error=one_line(error))
            elif envelope.ack():
                with self._lock:
                    self._dead_lettered -= len(rows)
                    self._sent += len(rows)

    def _connection(self) -> Database:
        thread = threading.get_ident()
        with self._opening_connection:
            found = self._connections.get(thread)
        if found is None:
            found = Database(self._url)
            with self._opening_connection:
                self._connections[thread] = found
        return found

    def _disconnect(self) -> None:
        with self._opening_connection:
            broken = self._connections.pop(threading.get_ident(), None)
        if broken is not None:
            broken.close()

    def _check(self) -> None:
        """Look once whether the table and its columns are there, instead of taking every row for poison."""
        database = self._connection()
        quote = database.dialect.quote
        names = ", ".join(f"{quote(self._upsert.table)}.{quote(name)}" for name in self._upsert.columns)
        try:
            database.execute(f"SELECT {names} FROM {quote(self._upsert.table)} LIMIT 0")
        except database.errors as error:
            raise DatabaseError(f"cannot write to {self._upsert.table!r} in {self._url}: {one_line(error)}") from error
        finally:
            self._disconnect()

    def _forget(self) -> None:
        leave_to_parent(*self._connections.values())
        self._connections = {}
        self._opening_connection = threading.Lock()

    def _config(self) -> BatchQueueConfig:
        places = [self._upsert.columns.index(column) for column in self._upsert.key]
        by_key = PartitionSelector.by(lambda row: tuple([row[place] for place in places]))
        return BatchQueueConfig(
            threads=ThreadPolicy.fixed(self._threads),
            partitions=PartitionPolicy.fixed(self._threads),
            partition_selector=by_key if places else PartitionSelector.round_robin(),
            strategy=BufferStrategy.BLOCKING,
            consumer=self,
        )

    def _take(self, batch: list[Any]) -> None:
        """Nothing is held: ``consume`` writes at once."""

    def _emit(self) -> None:
        """Nothing is held."""

    def _release(self) -> None:
        with self._opening_connection:
            connections, self._connections = self._connections, {}
        for database in connections.values():
            database.close()
