"""Connections to PostgreSQL. Waiting for a silent server blocks no other thread, and can be ended.

The driver waits without the GIL and checks ten times a second, with one exception. Before libpq 17 a request to cancel
opens a connection and waits inside libpq, without a limit, while the driver holds the GIL. All threads of the process
would stop until the server answers. So drainq never makes such a request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Any

import psycopg


class PostgresConnection(psycopg.Connection[Any]):
    """A connection that limits the time of a cancel request, or refuses to send one."""

    def cancel_safe(self, *, timeout: float = 30.0) -> None:
        """Ask the server to end the running statement. Wait at most ``timeout`` for its answer.

        Raises:
            psycopg.NotSupportedError: libpq is older than 17. psycopg.Error: the server did not accept the request in
            time.
        """
        if not psycopg.capabilities.has_cancel_safe():
            raise psycopg.NotSupportedError("libpq 17 or later is needed to cancel a statement without a wait")
        super().cancel_safe(timeout=timeout)


class CuttableConnection(PostgresConnection):
    """A connection whose waits end, whatever the server does: after a silence, or when a thread calls :meth:`cut`.

    Attributes:
        patience: seconds without data from the server after which a wait ends.
        limits: the session's limits; None until :meth:`drainq.sql.postgres.PostgresDialect.begin_marked` reads them.
    """

    patience = math.inf
    limits: tuple[float, float] | None = None
    _is_cut = False

    def cut(self) -> None:
        """Make the waiting call, and each later one, raise ``OperationalError`` at its next check."""
        self._is_cut = True

    def wait(self, gen: Any, *arguments: Any, **more: Any) -> Any:
        """Wait for the server, until the connection is cut or the time is over."""
        return super().wait(self._unless_cut(gen), *arguments, **more)

    def _unless_cut(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            wanted, heard_at = next(gen), time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                is_late = time.monotonic() - heard_at >= self.patience
                if self._is_cut or is_late:
                    self.pgconn.finish()  # a late answer would have no reader
                    why = "the server did not answer in time" if is_late else "the wait for the server was ended"
                    raise psycopg.OperationalError(f"{why}; the connection was closed")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
