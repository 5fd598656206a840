"""ConnectionPool: the connections that many queues of one process share."""

from __future__ import annotations

from typing import Any, NoReturn

from drainq.arguments import Seconds, seconds, seconds_or_none
from drainq.errors import ShutDown
from drainq.pickling import refuse
from drainq.sql.connect import postgres_driver
from drainq.sql.url import DatabaseUrl, shown
from drainq.threads import ClosedByBlock


class ConnectionPool(ClosedByBlock):
    """Connections to one database, for many delayed queues of this process. Pass it to ``open`` in place of the URL.

    A queue that is opened by a URL has connections of its own, which suits a few queues. With a pool any number of
    queues and their schedules share ``max_connections`` connections, and one more that listens for queues with
    ``notify=True``. With an SQLite file, each queue opens the file itself: there are no server connections to share.

    Args:
        url: a database, as for :meth:`DelayedQueue.open`.
        max_connections: PostgreSQL: the most connections, one of which is for schedules; at least 2. If all
            are in use, a call waits for one.
        prepare: PostgreSQL: as for :meth:`DelayedQueue.open`.
        try_timeout: seconds for one statement, or for waiting for a connection; ``None`` for no limit.

    Raises:
        ValueError: the URL names no database, or a number is out of range.
        ImportError: the driver is not installed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from drainq.delayed import DelayedQueue
        >>> with TemporaryDirectory() as folder, ConnectionPool(f"sqlite:///{folder}/queues.db") as pool:
        ...     with DelayedQueue.open(pool, "mail") as mail, DelayedQueue.open(pool, "calls") as calls:
        ...         _ = mail.offer("a", "Hello")
        ...         mail.stats().ready, calls.stats().ready
        (1, 0)
    """

    def __init__(
        self,
        url: str,
        *,
        max_connections: int = 10,
        prepare: bool | None = None,
        try_timeout: Seconds | None = 10.0,
    ) -> None:
        if url == "memory:":
            raise ValueError("url must be a database's, got 'memory:', whose queues have no connections to share")
        self.url = url
        self.closed = False
        self._connections: Any = None
        where = DatabaseUrl.parse(url)
        self._shown = shown(url)
        limit = None if try_timeout is None else seconds("try_timeout", try_timeout, positive=True)
        if isinstance(max_connections, bool) or not isinstance(max_connections, int) or max_connections < 2:
            raise ValueError(f"max_connections must be a whole number of at least 2, got {max_connections!r}")
        if where.dialect.name == "postgresql":
            postgres_driver()
            from drainq.delayed.storage.postgres.connections import PostgresConnections

            self._connections = PostgresConnections(
                where, try_timeout=limit, max_connections=max_connections - 1, prepare=prepare
            )

    def shared(self) -> Any:
        """Return the connections, or None if each queue has its own. Raises ShutDown after :meth:`close`."""
        if self.closed:
            raise ShutDown("the pool is closed")
        return self._connections

    def close(self, timeout: Seconds | None = None) -> bool:
        """Close the connections. Close the queues first, because their calls raise ShutDown afterwards.

        Args:
            timeout: is checked, but closing never waits.

        Returns:
            True.
        """
        seconds_or_none("timeout", timeout)
        self.closed = True
        if self._connections is not None:
            self._connections.close()
        return True

    def __enter__(self) -> ConnectionPool:
        self.shared()
        return self

    def __reduce__(self) -> NoReturn:
        refuse(self, "its connections belong to this process", "its URL, and make a pool where it is used")

    def __repr__(self) -> str:
        return f"<ConnectionPool to {self._shown}>"
