"""A piece of work in one transaction, on a connection that is opened when it is needed, and again after it was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from drainq.delayed.config import RetryConfig
from drainq.delayed.database_retry import with_retries
from drainq.sql.database import Database
from drainq.sql.driver_errors import passes

T = TypeVar("T")


class Transactions:
    """A connection that is used by one thread at a time; a context manager that closes it.

    Args:
        url: the database's.
        retry: how patiently a database that is away is called again.
    """

    def __init__(self, url: str, *, retry: RetryConfig | None = None) -> None:
        self._url = url
        self._retry = retry or RetryConfig(try_timeout=None)
        self._database: Database | None = None

    def run(self, work: Callable[[Database], T]) -> T:
        """Run ``work(database)`` in a transaction, and commit; again, from its start, while the database is away.

        An answer that got lost makes it run again although it was committed: ``work`` has to see that.

        Raises:
            QueueUnavailable: the database stayed away.
            QueueBroken: the database refuses, and no waiting changes that.
            Exception: what ``work`` raised.
        """

        def attempt() -> T:
            try:
                if self._database is None:
                    self._database = Database(self._url)
                with self._database.transaction():
                    return work(self._database)
            except BaseException:
                self.close()
                raise

        return with_retries(attempt, self._retry, lambda error: passes(error.__cause__ or error))

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
