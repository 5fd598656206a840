"""Database: one connection to SQLite or PostgreSQL, with the few methods that writers need.

DB-API alone is not enough, because transactions begin differently, placeholders differ, and the drivers' errors have no
common base class. All other work is left to the drivers.

1. All writes are inside :meth:`Database.transaction`, which commits all of them or none.
2. A connection may be used by several threads, one at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drainq.arguments import Seconds, seconds_or_none
from drainq.sql.connect import connect
from drainq.sql.driver_errors import DatabaseError, one_line
from drainq.sql.url import DatabaseUrl
from drainq.threads import ClosedByBlock

Row = Sequence[Any]


class Database(ClosedByBlock):
    """A connection to a database, and a context manager that closes it.

    Args:
        url: a :class:`~drainq.sql.url.DatabaseUrl` or its text.
    Raises:
        ValueError: the text is not a database URL.
        DatabaseError: the database cannot be opened, or its driver is not installed.

    Example:
        >>> with Database("sqlite:///example.db") as database, database.transaction():
        ...     database.execute("CREATE TABLE IF NOT EXISTS t (a INTEGER)")
        []
    """

    def __init__(self, url: DatabaseUrl | str) -> None:
        self.url = DatabaseUrl.parse(url) if isinstance(url, str) else url
        self.dialect = self.url.dialect
        self.connection: Any = _open(self.url)

    @property
    def errors(self) -> type[Exception]:
        """The base class of the driver's errors."""
        return self.dialect.errors

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the writes of the block if it ends well, or roll them back.

        The transaction takes SQLite's write lock at its start, so that it cannot fail to get the lock later.
        """
        self.connection.execute(self.dialect.begin)
        with self._transaction():
            yield

    @contextlib.contextmanager
    def marked_transaction(self) -> Iterator[str | None]:
        """Do what :meth:`transaction` does. Yield the mark of :meth:`drainq.sql.dialect.Dialect.begin_marked`."""
        mark = self.dialect.begin_marked(self.connection)
        with self._transaction():
            yield mark

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(self.errors):
                self.connection.execute("ROLLBACK")
            raise

    def execute(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        cursor = self.connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def stream(self, statement: str, values: Row = ()) -> Iterator[tuple[Any, ...]]:
        """Run one query and yield its rows without holding all of them. In PostgreSQL this needs a transaction."""
        yield from self.dialect.stream(self.connection, statement, values)

    def execute_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run one statement for each row of values."""
        self.dialect.execute_many(self.connection, statement, rows)

    def close(self, timeout: Seconds | None = None) -> bool:
        """Close the connection. Uncommitted writes are rolled back. A second call does nothing.

        Args:
            timeout: seconds, as for every ``close``. Here nothing waits.
        Returns:
            True: the connection is closed.
        Raises:
            ValueError: ``timeout`` is negative or not a number.

        Example:
            >>> database = Database("sqlite:///example.db")
            >>> database.close(timeout=5), database.close()
            (True, True)
        """
        seconds_or_none("timeout", timeout)
        self.connection.close()
        return True

    def __repr__(self) -> str:
        return f"Database({str(self.url)!r})"


def _open(url: DatabaseUrl) -> Any:
    try:
        return connect(url)
    except ImportError as missing:
        raise DatabaseError(str(missing)) from missing
    except url.dialect.errors as error:
        raise DatabaseError(f"cannot open {url}: {one_line(error)}") from error
