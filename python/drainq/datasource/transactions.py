"""Runs a function in one transaction. The connection is opened at first use, and opened again if it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from drainq.delayed.config import RetryConfig
from drainq.delayed.database_retry import with_retries
from drainq.sql.database import Database
from drainq.sql.driver_errors import passes

T = TypeVar("T")


class Transactions:
    """A connection for one thread at a time, and a context manager that closes it.

    Args:
        url: the database's.
        retry: how long, and how often, to try again while the database is away.
    """

    def __init__(self, url: str, *, retry: RetryConfig | None = None) -> None:
        self._url = url
        self._retry = retry or RetryConfig(try_timeout=None)
        self._database: Database | None = None

    def run(self, work: Callable[[Database], T]) -> T:
        """Run ``work(database)`` in a transaction, and commit. Run it again from its start while the database is away.

        If the answer to a commit is lost, ``work`` may run again after the commit, and must detect the commit.

        Raises:
            QueueUnavailable: the database stayed away.
            QueueBroken: the database refuses for a reason that waiting does not change.
            Exception: the error of ``work``.
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
        """Close the connection. The next :meth:`run` opens another connection."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
