"""Listener: receives the announcements of other processes' offers, by one LISTEN connection for all queues of a pool.

NOTIFY only shortens the wait, which the poll period bounds. So a lost connection costs time, but no message. LISTEN is
not used through a pooler, because it would stay on a connection that other programs get. The thread waits for sockets
and not for a time, so it cannot use the shared timer (``drainq.timer``). It runs while there is a subscription.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from drainq.delayed.database_retry import RareWarning
from drainq.delayed.storage.postgres.connection import Opener
from drainq.fork import renew_in_child
from drainq.sql.quoting import quote
from drainq.threads import start_thread

_log = logging.getLogger("drainq")
_RECONNECT_AFTER = 1.0
_LOOK_AGAIN_AFTER = 0.1


class Subscription:
    """Connects a callable to the notifications of a channel.

    Attributes:
        listening: set while the server sends the channel's notifications.
    """

    def __init__(self, listener: Listener, channel: str, wake: Callable[[str], None]) -> None:
        self._listener = listener
        self.channel = channel
        self.wake = wake
        self.listening = threading.Event()

    def close(self) -> None:
        """End the subscription. For the last one, return only when the thread and the connection have ended."""
        self._listener.unsubscribe(self)


class Listener:
    """Passes notifications on to the subscriptions of their channels.

    Args:
        opener: opens connections to the database.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._warn = RareWarning()
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._thread: threading.Thread | None = None
        self._changed: socket.socket | None = None  # each change sends the thread a byte through it

    _renew_in_child = _begin

    def subscribe(self, channel: str, wake: Callable[[str], None]) -> Subscription:
        """Call ``wake`` with each notification on a channel, and with the empty text if some may be lost.

        Args:
            channel: the channel's name.
            wake: called from the listener's thread; must not block.
        """
        subscription = Subscription(self, channel, wake)
        with self._lock:
            if self._changed is None:
                self._start(f"drainq-listen-{channel[:16]}")
            else:
                self._changed.send(b".")
            self._subscriptions.append(subscription)
        return subscription

    def _start(self, name: str) -> None:
        changed, changes = socket.socketpair()
        changes.setblocking(False)
        try:
            self._thread = start_thread(self._run, name=name, args=(changed, changes))
        except BaseException:
            for each in (changed, changes):
                each.close()
            raise
        self._changed = changed

    def unsubscribe(self, subscription: Subscription) -> None:
        """Undo :meth:`subscribe`."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                if self._changed is not None:
                    self._changed.send(b".")
            ending = None if self._subscriptions else self._thread
        while ending is not None and ending.is_alive() and not self._subscriptions:  # no new one came
            ending.join(_LOOK_AGAIN_AFTER)

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in self._now():
            subscription.close()

    def _run(self, changed: socket.socket, changes: socket.socket) -> None:
        with changed, changes:
            try:
                while self._is_needed():
                    try:
                        with self._opener.open() as connection:
                            if not connection.behind_a_pooler:
                                self._listen(connection, changes)
                                continue
                        _log.warning("notify=True has no effect through a pooler; polling goes on")
                        while self._is_needed():
                            _wait((changes,), None)
                    except psycopg.Error as error:
                        self._warn("lost the LISTEN connection (%s); polling goes on", type(error).__name__)
                        for subscription in self._now():
                            subscription.listening.clear()
                        _wait((changes,), _RECONNECT_AFTER)
            finally:
                with self._lock:
                    self._end(changed)

    def _is_needed(self) -> bool:
        """Return whether there are subscriptions. If not, the next subscription starts another thread."""
        with self._lock:
            if not self._subscriptions and self._changed is not None:
                self._end(self._changed)
            return bool(self._subscriptions)

    def _end(self, changed: socket.socket) -> None:
        if self._changed is changed:
            self._changed = self._thread = None

    def _now(self) -> list[Subscription]:
        with self._lock:
            return [*self._subscriptions]

    def _listen(self, connection: Any, changes: socket.socket) -> None:
        heard: dict[str, None] = {}  # channels
        while subscriptions := self._now():
            wanted = dict.fromkeys(subscription.channel for subscription in subscriptions)
            verbs = [("UNLISTEN", heard.keys() - wanted.keys()), ("LISTEN", wanted.keys() - heard.keys())]
            statements = [f"{verb} {quote(channel)}" for verb, channels in verbs for channel in channels]
            if statements:
                connection.execute("; ".join(statements), prepare=False)
            heard = wanted
            for subscription in subscriptions:
                if not subscription.listening.is_set():
                    subscription.listening.set()
                    subscription.wake("")  # for messages offered before
            news = dict.fromkeys((notice.channel, notice.payload) for notice in connection.notifies(timeout=0))
            for channel, payload in news:
                for subscription in subscriptions:
                    if subscription.channel == channel:
                        subscription.wake(payload)
            _wait((changes, connection), None)


def _wait(sockets: Iterable[Any], seconds: float | None) -> None:
    """Wait until one of some sockets has something to read, at most ``seconds``. Discard what the first one has."""
    first, *_ = sockets = [*sockets]
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        selector.select(seconds)
    try:
        first.recv(4096)
    except BlockingIOError:
        pass


def channel(kind: str) -> str:
    """Return the name of the channel for this queue's consumers."""
    return f"drainq_{kind}"
