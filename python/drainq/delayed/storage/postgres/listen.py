"""Listener: receives the announcements of other processes' offers, by a LISTEN connection and a thread for each queue.

NOTIFY only shortens the wait, which the poll period bounds. So a lost connection costs time, but no message. LISTEN is
not used through a pooler, because it would stay on a connection that other programs get. The thread waits for a socket
and not for a time, so it cannot use the shared timer (``drainq.timer``).
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

import psycopg

from drainq.delayed.database_retry import RareWarning
from drainq.delayed.storage.postgres.connection import Opener
from drainq.sql.quoting import quote
from drainq.threads import start_thread

_log = logging.getLogger("drainq")
_RECONNECT_AFTER = 1.0


class Listener:
    """Calls ``wake`` with each notification on a channel until it is closed, and with the empty text if some may be
    lost.

    Args:
        opener: opens connections to the database.
        channel: the channel's name.
        wake: called from the listener's thread; must not block.
    """

    def __init__(self, opener: Opener, channel: str, wake: Callable[[str], None]) -> None:
        self._opener = opener
        self._warn = RareWarning()
        self._channel = channel
        self._wake = wake
        self._stop_reader, self._stop_writer = os.pipe()
        self.listening = threading.Event()
        self._thread = start_thread(self._run, name=f"drainq-listen-{channel[:16]}")

    def close(self) -> None:
        """End the thread and close the connection. Return when both have ended."""
        if self._thread.is_alive():
            os.write(self._stop_writer, b".")
            self._thread.join()
            os.close(self._stop_reader)
            os.close(self._stop_writer)

    def _run(self) -> None:
        while True:
            try:
                with self._opener.open() as connection:
                    if connection.behind_a_pooler:
                        _log.warning("notify=True has no effect through a pooler; polling goes on")
                        return
                    connection.execute(f"LISTEN {quote(self._channel)}", prepare=False)
                    self.listening.set()
                    self._wake("")  # for messages offered before
                    while not self._stopped(connection.fileno(), None):
                        for news in {notice.payload for notice in connection.notifies(timeout=0)}:
                            self._wake(news)
                    return
            except psycopg.Error as error:
                self._warn("lost the LISTEN connection (%s); polling goes on", type(error).__name__)
                self.listening.clear()
            if self._stopped(None, _RECONNECT_AFTER):
                return

    def _stopped(self, connection: int | None, seconds: float | None) -> bool:
        """Wait for the connection or the end, at most ``seconds``. Return True at the end."""
        watched = [self._stop_reader] if connection is None else [self._stop_reader, connection]
        ready, _, _ = select.select(watched, [], [], seconds)
        return self._stop_reader in ready


def channel(kind: str) -> str:
    """Return the name of the channel for this queue's consumers."""
    return f"drainq_{kind}"
