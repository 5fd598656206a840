"""The delayed queue: durable messages with a key, a payload and a time.

The queue is opened and closed here. Its methods are in ``offer.py`` (producers), ``poll.py`` (consumers) and
``admin.py`` (operators): they check arguments, encode payloads and read the clock; ``storage_session.py`` tries again
what may pass, and a :class:`~drainq.delayed.storage.base.Storage` does the rest.

# Promises, on every back end

1. A message that was offered is delivered at least once, never before its time, and to one consumer at a time as long
   as that one's lease lasts.
2. It is gone only after an acknowledgement by the one that holds it, a drop, or a move to the dead letters.
3. A key names at most one message of a queue.

Source: ``DelayedQueue`` of funfix ``delayedqueue``; dead letters, ``nack``, ``extend``, ``consume`` and offers inside
the caller's transaction are ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any, NoReturn, TypeVar

from drainq.clock import Clock
from drainq.delayed.admin import Admin, QueueInfo, queues_at
from drainq.delayed.aio import AsyncDelayedQueue
from drainq.delayed.codec import Codec, PayloadT
from drainq.delayed.config import MEMORY_POLL_PERIOD, RetryConfig, TimeConfig
from drainq.delayed.cron.service import CronService
from drainq.delayed.offer import OfferMethods
from drainq.delayed.poll import PollMethods
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage_session import Session
from drainq.delayed.wake import shared_wakeup
from drainq.pickling import refuse

T = TypeVar("T")


class DelayedQueue(OfferMethods[T], PollMethods[T], Admin):
    """Messages that must not be lost, for later, by key; opened with :meth:`open`.

    One object serves many threads. A context manager: :meth:`close` at the end.

    Args:
        storage: where the messages live; :meth:`open` finds it by a URL.
        settings: the queue's name, and how it is used; :meth:`open` explains each.
        address: what two objects of one storage have in common, so that offers to one wake consumers of the other;
            ``None``: the storage itself.

    Example:
        >>> with DelayedQueue.open("memory:", queue="mail") as mail:
        ...     _ = mail.offer_or_update("welcome/ann", {"to": "ann"}, schedule_at=0)
        ...     envelope = mail.try_poll()
        ...     print(envelope.message_id, envelope.payload)
        ...     envelope.ack()
        welcome/ann {'to': 'ann'}
        True
    """

    def __init__(self, storage: Storage, settings: QueueSettings, *, address: Hashable = None) -> None:
        settings.check_storage(storage)
        self.name = settings.name
        kind = partition_kind(settings.name, settings.codec.type_name)
        wakeup = shared_wakeup((id(storage) if address is None else address, kind))
        self._session = Session(storage, kind, settings, wakeup)
        self.cron: CronService[T] = CronService(self._session)
        """The schedules that put messages into this queue."""

    @classmethod
    def open(
        cls,
        url: str,
        queue: str = "default",
        *,
        codec: Codec[PayloadT] | None = None,
        table: str = "delayed_queue",
        time: TimeConfig | None = None,
        retry: RetryConfig | None = None,
        clock: Clock | None = None,
        migrate: bool = True,
        max_attempts: int | None = None,
        source: str | None = None,
        notify: bool = False,
        max_connections: int = 10,
        prepare: bool | None = None,
        database_time: bool = False,
        history: int | None = None,
        log_values: bool = False,
    ) -> DelayedQueue[PayloadT]:
        """Open a queue, and create its tables if they are missing.

        Safe from many processes at once.

        Args:
            url: ``memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``.
            queue: the queue's name.
            codec: turns payloads into bytes; by default JSON. Queues with different codecs are apart.
            table: the table's name; queues may share one.
            time: lease and polling times; by default ``TimeConfig()``, in memory with a poll period of 0.5 s.
            retry: how patiently a failing database, or handler, is tried again.
            clock: what tells the time; by default the system's.
            migrate: whether missing tables, columns and indexes are made; if not, ``drainq delayed migrate`` does it. A
                table that others use is never locked for longer than a second at a time.
            max_attempts: deliveries of one message after which it goes to the dead letters instead of being delivered
                again; ``None`` for no limit but that of :meth:`consume`.
            source: what envelopes call this queue; by default its name.
            notify: whether offers wake consumers in other processes at once (PostgreSQL; on an SQLite file
                they poll, and the memory has no other processes).
            max_connections: PostgreSQL: connections at most; schedules have one more, of their own.
            prepare: PostgreSQL: whether statements are prepared on the server, which makes them twice as quick.
                ``None``: yes, unless there is a pooler before the server. ``True`` behind a pooler that hands out
                connections by the transaction needs one that keeps track of prepared statements (pgbouncer from 1.21
                on with ``max_prepared_statements``).
            database_time: whether the database's clock, in place of ``clock``, decides what is due, leased and fired.
                An SQLite file and the memory have the clock of this machine.
            history: how many acknowledged messages :meth:`history` remembers, for the whole queue; ``None``: none.
            log_values: whether log lines show keys, and the texts of handlers' errors, which may hold payloads. If not,
                they show the id of a message's row, and an error's type and the line of code that raised it.

        Returns:
            The queue; close it, or use it as a context manager.

        Raises:
            ValueError: the URL, a name or a limit is not one.
            ImportError: the back end's driver is not installed.
            QueueUnavailable: the database could not be reached, or is locked, for as long as ``retry`` says.
            QueueBroken: the database refuses: a wrong password, a missing right.

        Example:
            >>> DelayedQueue.open("memory:", "mail").stats().ready
            0
        """
        if time is None and url == "memory:":
            time = TimeConfig(poll_period=MEMORY_POLL_PERIOD)
        settings = QueueSettings.of(
            queue,
            codec=codec,
            time=time,
            retry=retry,
            clock=clock,
            max_attempts=max_attempts,
            source=source,
            notify=notify,
            database_time=database_time,
            history=history,
            log_values=log_values,
        )
        storage, address = open_storage(
            url,
            table=table,
            time=settings.time,
            retry=settings.retry,
            max_connections=max_connections,
            prepare=prepare,
        )
        try:
            settings.check_storage(storage)
            reach(storage, settings.retry, migrate=migrate)
            opened: DelayedQueue[Any] = cls(storage, settings, address=address)
            opened._session.migrates = migrate
            opened._enter_name()
            return opened
        except BaseException:
            storage.close()
            raise

    @staticmethod
    def queues(url: str, *, table: str = "delayed_queue") -> list[QueueInfo]:
        """The queues of a table that were ever opened, by name.

        Nothing is created.

        Args:
            url: as for :meth:`open`, but a database.
            table: the table's name.

        Raises:
            ValueError: the URL names no database, or an SQLite file that is not there.
            QueueUnavailable: the database could not be reached.
            QueueBroken: the tables are missing or old, or the database refuses.
        """
        return queues_at(url, table)

    @property
    def aio(self) -> AsyncDelayedQueue[T]:
        """The same queue for asyncio: ``await queue.aio.poll()``."""
        return AsyncDelayedQueue(self)

    @property
    def source(self) -> str:
        """What envelopes call this queue."""
        return self._session.source

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self._session.clock

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._session.closed

    def close(self) -> None:
        """Close the connections; waiting calls of :meth:`poll` and :meth:`consume` end. Messages stay."""
        self.cron.close()
        self._session.close()

    def __enter__(self) -> DelayedQueue[T]:
        self._session.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse(self, "its connections belong to this process", "its URL and name, and open it where it is used")

    def __repr__(self) -> str:
        return f"<DelayedQueue {self.name!r} in {type(self._session.storage).__name__}>"


def partition_kind(queue: str, type_name: str) -> str:
    """What tells the queues of a table apart: the md5 of ``queue|type_name``, as the source has it.

    Example:
        >>> partition_kind("mail", "java.lang.String")
        'f12affe03ca0a6149654eb12c1ba3b93'
    """
    return hashlib.md5(f"{queue}|{type_name}".encode(), usedforsecurity=False).hexdigest()
