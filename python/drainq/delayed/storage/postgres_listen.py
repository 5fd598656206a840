"""Hearing of other processes' offers: one LISTEN connection and one thread a queue, in PostgreSQL.

NOTIFY only shortens the wait; the poll period still bounds it. So a connection pooler that swallows notifications, or
a lost connection, costs time and no message.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

from drainq.sql.connect import connect_postgres, postgres_driver
from drainq.sql.names import quote
from drainq.sql.url import DatabaseUrl

_log = logging.getLogger("drainq")
_RECONNECT_AFTER = 1.0


class Listener:
    """Calls ``wake`` at each notification on a channel, until closed.

    Args:
        url: the database.
        channel: the channel's name.
        wake: called from the listener's thread; must not block.
    """

    def __init__(self, url: DatabaseUrl, channel: str, wake: Callable[[], None]) -> None:
        self._url = url
        self._channel = channel
        self._wake = wake
        self._stop_reader, self._stop_writer = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"drainq-listen-{channel[:16]}", daemon=True)
        self.listening = threading.Event()
        self._thread.start()

    def close(self) -> None:
        """End the thread and the connection; return when they are gone."""
        if self._thread.is_alive():
            os.write(self._stop_writer, b".")
            self._thread.join()
            os.close(self._stop_reader)
            os.close(self._stop_writer)

    def _run(self) -> None:
        errors = postgres_driver().Error
        while True:
            try:
                with connect_postgres(self._url) as connection:
                    connection.execute(f"LISTEN {quote(self._channel)}")
                    self.listening.set()
                    self._wake()  # what was offered while nobody listened
                    while not self._stopped(connection.fileno(), None):
                        for _ in connection.notifies(timeout=0):
                            pass
                        self._wake()
                    return
            except errors as error:
                _log.warning("lost the LISTEN connection (%s); polling goes on", type(error).__name__)
                self.listening.clear()
            if self._stopped(None, _RECONNECT_AFTER):
                return

    def _stopped(self, connection: int | None, seconds: float | None) -> bool:
        """Wait for the connection or the end, at most so many seconds; True at the end."""
        watched = [self._stop_reader] if connection is None else [self._stop_reader, connection]
        ready, _, _ = select.select(watched, [], [], seconds)
        return self._stop_reader in ready
