"""TableSink: writes each batch of rows into a table, in one transaction.

1. A batch is written without the rows that the database refuses. Those are returned. A transaction that fails writes
   nothing.
2. Each call uses a connection that no other call uses. A connection that failed is closed.
3. Nothing is written twice if the answer to COMMIT is lost: the next try asks the database whether the transaction was
   committed. PostgreSQL knows, unless a replica has taken over since.
4. The constructor plans the statement without running it, to find a missing table, column, right or unique index.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from drainq.backoff import Backoff
from drainq.delivery.sink_contract import Attempt, Failure, Sink, Unavailable
from drainq.fork import leave_to_parent
from drainq.sql import Database, DatabaseError, DatabaseUrl, Upsert
from drainq.sql.driver_errors import LOCKED, failure_of, key_is_not_unique, sqlstate_of, table_is_missing
from drainq.sql.error_text import error_text
from drainq.sql.row_by_row import write_each
from drainq.threads import start_thread

CANCELLED_WITHIN = 0.1  # seconds that the database gets to end statements that are cancelled


class TableSink(Sink):
    """Writes rows into a table.

    Args:
        url: the database.
        upsert: the statement: the table, and how its rows merge.
        may_be_missing: whether the table may be created later; :attr:`unchecked` is True until :meth:`check` finds it.
    Raises:
        DatabaseError: the database cannot be opened, or does not take such rows at all.
    """

    def __init__(self, url: str | DatabaseUrl, upsert: Upsert, *, may_be_missing: bool = False) -> None:
        self.url = url if isinstance(url, DatabaseUrl) else DatabaseUrl.parse(url)
        self.upsert = upsert
        self._begin()
        self.unchecked = True
        try:
            self.check()
        except DatabaseError as error:
            if not (may_be_missing and table_is_missing(error.__cause__)):
                raise

    backoff = Backoff(0.05, 1.0)  # a lock is free soon, and a server that starts takes connections at once

    def _begin(self) -> None:
        self._lock = threading.Condition()  # notified when a connection is no longer busy, or all is cancelled
        self._idle: list[Database] = []
        self._busy: list[Database] = []
        self._is_cancelled = False

    def check(self) -> None:
        """Plan the statement that every batch runs.

        Raises:
            DatabaseError: the statement cannot run.
        """
        with self._connection() as database:
            self._check(database, [self.upsert])
        self.unchecked = False

    def _check(self, database: Database, upserts: Iterable[Upsert]) -> None:
        for upsert in upserts:
            try:
                upsert.check(database)
            except database.errors as error:
                if failure_of(error) is Failure.DATA or sqlstate_of(error) == LOCKED:
                    continue  # a domain refuses the NULLs of the check, or the table is locked
                why = error_text(error)
                if key_is_not_unique(error):
                    why = f"no unique index has exactly the columns {list(upsert.key)!r}; make one: {upsert.index()}"
                raise DatabaseError(f"cannot write to {upsert.table!r} in {self.url}: {why}") from error

    def send(self, items: list[Any]) -> list[tuple[int | None, object]]:
        """Write rows. Return the index and the reason of each refused row."""
        return self.send_within(items, Attempt())

    def send_within(
        self, items: list[Any], attempt: Attempt, upsert: Upsert | None = None
    ) -> list[tuple[int | None, object]]:
        """Write rows by ``upsert``, or by the sink's own statement if it is None. Return what :meth:`send` returns."""
        with self._connection(attempt.seconds) as database:
            if attempt.doubt is not None:
                was_committed = database.dialect.was_committed(database.connection, attempt.doubt)
                attempt.is_unsure |= was_committed is None
                attempt.doubt = None
                if was_committed:
                    return attempt.refused
            return self._send(database, items, attempt, upsert)

    def _send(
        self, database: Database, items: list[Any], attempt: Attempt, upsert: Upsert | None
    ) -> list[tuple[int | None, object]]:
        upsert = upsert or self.upsert
        refused: list[tuple[int | None, object]] = []
        rows = items
        if not self.upsert.are_rows(items):
            refused = [(place, why) for place, item in enumerate(items) if (why := no_row(item, self.upsert))]
            unfit = {place for place, _ in refused}
            rows = [item for place, item in enumerate(items) if place not in unfit]
            places = [place for place in range(len(items)) if place not in unfit]
        if not rows:
            return refused
        try:
            with self._transaction(database, attempt, refused):
                upsert.write(database, rows)
            return refused
        except Exception as error:
            if self.failure_of(error) is not Failure.DATA or len(rows) == 1:
                raise
        with self._transaction(database, attempt, refused):
            found = write_each(database, upsert, rows)
            refused += found if rows is items else [(places[place], why) for place, why in found]
        return refused

    @contextlib.contextmanager
    def _transaction(
        self, database: Database, attempt: Attempt, refused: list[tuple[int | None, object]]
    ) -> Iterator[None]:
        """Commit what the block writes. Until COMMIT is answered, ``attempt.doubt`` holds the transaction's mark."""
        with database.marked_transaction() as mark:
            yield
            if self._is_cancelled:  # while the block waited for a lock: its rows are kept elsewhere by now
                raise Unavailable("the time of close() ran out before they were written")
            attempt.doubt, attempt.refused = mark, refused
        attempt.doubt = None

    def failure_of(self, error: Exception) -> Failure:
        """Classify an error by SQLSTATE or SQLite's code. Other errors, such as in binding a value, are ``DATA``."""
        if isinstance(error, DatabaseError):
            cause = error.__cause__
            return (failure_of(cause) if cause is not None else None) or Failure.CANNOT_PASS
        return getattr(error, "failure", None) or failure_of(error) or Failure.DATA

    def described(self, item: Any) -> str:
        """Return the item's type, and the columns of its values."""
        return f"a {type(item).__name__} for the columns {list(self.upsert.columns)!r}"

    def cancel(self) -> None:
        """End the running statements, and drop the connections whose statement does not end at once."""
        with self._lock:
            self._is_cancelled = True
            self._lock.notify_all()
            busy = list(self._busy)
        until = time.monotonic() + CANCELLED_WITHIN
        for database in busy:
            database.dialect.cancel(database.connection, max(0.01, until - time.monotonic()))
        with self._lock:
            self._lock.wait_for(lambda: self._busy == [], until - time.monotonic())
            for database in self._busy:
                database.dialect.cut(database.connection)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            self._is_cancelled = False
            idle, self._idle = self._idle, []
        for database in idle:
            database.close()

    def forget(self) -> None:
        """Leave the connections to the parent process."""
        leave_to_parent(*self._idle, *self._busy)
        self._begin()

    @contextlib.contextmanager
    def _connection(self, seconds: float | None = None) -> Iterator[Database]:
        """Yield a connection whose waits end after some seconds. If the block raises, the connection is closed."""
        until = None if seconds is None else time.monotonic() + seconds
        database = self._take(seconds)
        try:
            left = None if until is None else max(0.0, until - time.monotonic())
            database.dialect.limit_waits(database.connection, left)
            yield database
        except BaseException:
            self._put_away(database)
            raise
        self._give_back(database)

    def _take(self, seconds: float | None) -> Database:
        with self._lock:
            if self._idle and not self._is_cancelled:
                database = self._idle.pop()
                self._busy.append(database)
                return database
        return self._open(seconds)

    def _open(self, seconds: float | None) -> Database:
        """Connect on another thread, so that :meth:`cancel` or the time limit ends the wait. The attempt continues."""
        opening: Future[Database] = Future()
        try:
            start_thread(self._try_to_open, name="drainq-connect", args=(opening,))
        except RuntimeError:  # the interpreter is ending and starts no thread any more
            self._try_to_open(opening)
        with self._lock:
            self._lock.wait_for(lambda: opening.done() or self._is_cancelled, seconds)
            if not opening.done():
                opening.cancel()
                raise Unavailable(f"the time ran out while {self.url} was opened")
            database = opening.result()
            self._busy.append(database)
            return database

    def _try_to_open(self, opening: Future[Database]) -> None:
        database, error = None, None
        try:
            database = Database(self.url)
        except BaseException as failure:
            error = failure
        with self._lock:
            is_wanted = opening.set_running_or_notify_cancel()
            if is_wanted and error is not None:
                opening.set_exception(error)
            elif is_wanted and database is not None:
                opening.set_result(database)
            self._lock.notify_all()
        if database is not None and not is_wanted:
            database.close()

    def _give_back(self, database: Database) -> None:
        with self._lock:
            self._busy.remove(database)
            self._idle.append(database)
            self._lock.notify_all()

    def _put_away(self, database: Database) -> None:
        with self._lock:
            self._busy.remove(database)
            self._lock.notify_all()
        database.close()


def no_row(item: Any, upsert: Upsert) -> str | None:
    """Return why an item does not fit the columns, without its values. None if it fits."""
    columns = f"for the columns {list(upsert.columns)!r}"
    if not isinstance(item, (tuple, list)):
        return f"a row must be a tuple or list of values {columns}, got a {type(item).__name__}"
    if len(item) != len(upsert.columns):
        return f"a row needs {len(upsert.columns)} values {columns}, got {len(item)}"
    return None
