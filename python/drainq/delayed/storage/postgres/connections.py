"""PostgresConnections: the pool, the connection for schedules, and the listener, of one queue or of several."""

from __future__ import annotations

from drainq.delayed.storage.postgres.listen import Listener
from drainq.delayed.storage.postgres.pool import PostgresPool
from drainq.sql.url import DatabaseUrl


class PostgresConnections:
    """A process's connections to one database.

    Args:
        url: the database.
        try_timeout: seconds for one statement, or for waiting for a connection; None for no limit.
        max_connections: the most connections of the pool.
        prepare: whether statements are prepared; None: yes, unless there is a pooler before the server.

    Attributes:
        most: ``max_connections``.
        schedules: one connection more, so that a schedule that waits for a frozen scheduler's lock delays no consumer.
        listener: has one more connection while a queue listens.
    """

    def __init__(
        self,
        url: DatabaseUrl,
        *,
        try_timeout: float | None = 10.0,
        max_connections: int = 10,
        prepare: bool | None = None,
    ) -> None:
        self.most = max_connections
        self.pool = PostgresPool(url, try_timeout=try_timeout, max_connections=max_connections, prepare=prepare)
        self.schedules = PostgresPool(url, try_timeout=try_timeout, max_connections=1, prepare=prepare)
        self.listener = Listener(self.pool.opener)

    def close(self) -> None:
        """Stop listening. Close the idle connections at once, and each one in use when it is returned."""
        self.listener.close()
        self.pool.close()
        self.schedules.close()
