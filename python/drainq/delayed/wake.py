"""Wakes consumers that wait because no message is due.

Offers in this process wake them by a :class:`Wakeup`, which all objects of one queue (table, name, codec) share. A
consumer reads the count *before* it polls, and sleeps only if the count is unchanged, so it never misses an offer.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from drainq.timer import SHARED, Alarm

_FIRST_CHECK, _LAST_CHECK = 0.005, 0.1
"""Seconds between two checks whether a caller's transaction has ended; they grow by half."""


class Wakeup:
    """A count of wake-ups, and a way to wait for the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._waiting = 0
        self._alarm: Alarm | None = None
        self._rings_at = 0.0
        self._listeners: set[Callable[[], None]] = set()
        self.token = uuid.uuid4().hex
        """Marks the announcements of this process's offers, which have already woken this process's consumers."""

    def count(self) -> int:
        """Return how often :meth:`wake` was called. Read it before the poll."""
        return self._count

    def wake(self) -> None:
        """Make every waiting consumer poll again."""
        with self._changed:
            self._count += 1
            if self._waiting:
                self._changed.notify_all()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()

    def wake_in(self, seconds: float) -> None:
        """Call :meth:`wake` after ``seconds`` (real time), or at once without waiters. Earlier polls find it."""
        if seconds > 0:
            with self._changed:
                if self._waiting or self._listeners:
                    now = time.monotonic()
                    if not now < self._rings_at <= now + seconds:
                        # An earlier alarm is enough: a consumer that it wakes finds this due time. An overdue alarm may
                        # not have rung yet, so it is not cancelled.
                        if self._alarm is not None and now < self._rings_at:
                            self._alarm.cancel()
                        self._rings_at, self._alarm = now + seconds, SHARED.after(seconds, self.wake)
                    return
        self.wake()

    def wait(self, noted: int, seconds: float) -> bool:
        """Sleep until the count exceeds ``noted``, at most ``seconds`` of real time."""
        with self._changed:
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: self._count != noted, seconds)
            finally:
                self._waiting -= 1

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` at each :meth:`wake`. It must not block."""
        with self._changed:
            self._listeners.add(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Undo :meth:`add_listener`."""
        with self._changed:
            self._listeners.discard(listener)


_shared: weakref.WeakValueDictionary[Hashable, Wakeup] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def shared_wakeup(address: Hashable) -> Wakeup:
    """Return this process's wakeup for the queue at an address."""
    with _shared_lock:
        wakeup = _shared.get(address)
        if wakeup is None:
            wakeup = _shared[address] = Wakeup()
        return wakeup


def wake_after_commit(connection: Any, wake: Callable[[], None], most: float) -> None:
    """Call ``wake`` after the open transaction of a caller's connection has ended.

    No driver reports a commit, so the connection's state is read at growing intervals. The caller may use the
    connection meanwhile. After ``most`` seconds there is no wake-up, because every waiting consumer has polled by then.

    Args:
        connection: a ``sqlite3`` or ``psycopg`` connection, to which a reference is kept until the last check.
        wake: must not block.
        most: the longest wait in seconds.
    """
    ends_at = time.monotonic() + most

    def check(pause: float) -> None:
        if not _in_transaction(connection):
            wake()
        elif time.monotonic() < ends_at:
            SHARED.after(pause, lambda: check(min(pause * 1.5, _LAST_CHECK)))

    check(_FIRST_CHECK)


def _in_transaction(connection: Any) -> bool:
    try:
        if hasattr(connection, "in_transaction"):  # sqlite3
            return bool(connection.in_transaction)
        return int(connection.info.transaction_status) in (1, 2)  # libpq: a statement runs, or a transaction is open
    except Exception:  # closed: committed, or rolled back
        return False
