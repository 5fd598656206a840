"""DelayedQueue: durable messages with a key, a payload and a due time.

This file opens and closes the queue. Its methods are in ``offer.py`` (producers), ``poll.py`` (consumers) and
``admin.py`` (operators): they check arguments, encode payloads and read the clock. ``storage_session.py`` retries after
temporary failures, and a :class:`~drainq.delayed.storage.base.Storage` does the rest.

# Promises, on every back end

1. A message that was offered is delivered at least once, never before its time, and to one consumer at a time while its
   lease lasts.
2. Only an acknowledgement, a drop, a change of its schedule, or its burial as a dead letter deletes a message.
3. A key names at most one message of a queue.

Source: ``DelayedQueue`` of funfix ``delayedqueue``; dead letters, ``nack``, ``extend``, ``consume`` and offers inside
the caller's transaction are drainq's.
"""

from __future__ import annotations

import hashlib
import time as real_time
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from drainq.arguments import Seconds, helpful, seconds_or_none
from drainq.clock import Clock
from drainq.delayed.admin import Admin, queues_at
from drainq.delayed.codec import Codec, PayloadT
from drainq.delayed.config import MEMORY_POLL_PERIOD, RetryConfig, TimeConfig
from drainq.delayed.connection_pool import ConnectionPool
from drainq.delayed.coroutines import twin_of_open
from drainq.delayed.cron.service import CronService
from drainq.delayed.offer import OfferMethods
from drainq.delayed.poll import PollMethods
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.records import QueueInfo
from drainq.delayed.storage_session import Session
from drainq.delayed.wake import shared_wakeup
from drainq.pickling import refuse
from drainq.threads import ClosedByBlock

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class DelayedQueue(OfferMethods[T], PollMethods[T], Admin, ClosedByBlock):
    """A queue of durable messages with due times and keys. :meth:`open` makes one.

    One object serves many threads. It is a context manager that closes the queue at the end.

    Args:
        storage: the storage of the messages; :meth:`open` finds it by a URL.
        settings: the queue's name and options; :meth:`open` explains each.
        address: equal for two objects of one storage, so that offers to one wake consumers of the other; ``None``: the
            storage itself.

    Example:
        >>> with DelayedQueue.open("memory:", queue="mail") as mail:
        ...     _ = mail.offer("welcome/ann", {"to": "ann"})
        ...     envelope = mail.try_poll()
        ...     print(envelope.message_id, envelope.payload)
        ...     envelope.ack()
        welcome/ann {'to': 'ann'}
        True
    """

    def __init__(self, storage: Storage, settings: QueueSettings | None = None, *, address: Hashable = None) -> None:
        if not isinstance(settings, QueueSettings):
            raise TypeError(
                f"settings must be QueueSettings, got {settings!r}: DelayedQueue.open(url, queue) opens a queue"
            )
        settings.check_storage(storage)
        self.name = settings.name
        kind = partition_kind(settings.name, settings.codec.type_name)
        wakeup = shared_wakeup((storage if address is None else address, kind))  # no id(): a later storage may get it
        self._session = Session(storage, kind, settings, wakeup)
        self.cron: CronService[T] = CronService(self._session)
        """The schedules that put messages into this queue."""

    @staticmethod
    @helpful
    def open(
        url: str | ConnectionPool,
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
        consumer: str | None = None,
        keep_dead: Seconds | None = None,
    ) -> DelayedQueue[PayloadT]:
        """Open a queue, and create missing tables.

        Many processes may do so at once.

        Args:
            url: ``memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user@host/db``;
                or a :class:`ConnectionPool`, whose connections many queues share.
            queue: the queue's name.
            codec: converts payloads to bytes; by default JSON. Queues with different codecs are separate.
            table: the table's name; queues may share one.
            time: lease and polling times; by default ``TimeConfig()``, in memory with a poll period of 0.5 s.
            retry: the tries and delays after a failure of the database, or of a handler.
            clock: tells the time; by default the system's clock.
            migrate: whether to create missing tables, columns and indexes; if not, use ``drainq delayed migrate``. A
                table in use is never locked for longer than a second at a time.
            max_attempts: deliveries after which a message becomes a dead letter instead of being delivered again;
                ``None``: only the limit of :meth:`consume`.
            source: the queue's name in envelopes; by default its name.
            notify: whether offers wake consumers in other processes at once. PostgreSQL only: with an SQLite file
                consumers poll, and a queue in memory has one process.
            max_connections: PostgreSQL: the most connections; schedules use one more, and ``notify`` another.
            prepare: PostgreSQL: whether to prepare statements on the server, which makes them twice as fast. ``None``:
                yes, unless there is a pooler. ``True`` behind a pooler in transaction mode requires a pooler that
                tracks prepared statements (pgbouncer from 1.21 on with ``max_prepared_statements``).
            database_time: whether to use the database's clock instead of ``clock`` for due times, leases and schedules.
                An SQLite file and a queue in memory use the clock of this machine.
            history: the number of ended attempts that :meth:`history` keeps for the whole queue; ``None``: none.
            log_values: whether log lines show keys, and the texts of handlers' errors, which may hold payloads. If not,
                they show the id of a message's row, and an error's type and the line of code that raised it.
            consumer: names this consumer to operators, who see it with each message that it holds; printable ASCII.
                They always see the host and the process.
            keep_dead: the age in seconds above which :meth:`consume` deletes dead letters, hourly; ``None``: no limit.

        Returns:
            The queue; close it, or use it as a context manager.

        Raises:
            ValueError: the URL, a name or a limit is invalid.
            ShutDown: the pool is closed.
            ImportError: the back end's driver is not installed.
            QueueUnavailable: the database could not be reached, or was locked, for the time of ``retry``.
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
            consumer=consumer,
            keep_dead=keep_dead,
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
            reach(storage, settings.retry, migrate=migrate, of=f"queue {queue!r}")
            opened: DelayedQueue[Any] = DelayedQueue(storage, settings, address=address)
            opened._session.migrates = migrate
            opened._enter_name()
            return opened
        except BaseException:
            storage.close()
            raise

    open_async = staticmethod(twin_of_open(open))
    """Call :meth:`open` as a coroutine. When cancelled, close what it opens."""

    @staticmethod
    def queues(url: str, *, table: str = "delayed_queue") -> list[QueueInfo]:
        """Return the queues of a table that were ever opened, by name, with the number of their messages.

        One query counts all messages, and reads the whole table or its indexes. No file and no table is created.

        Args:
            url: a database, as for :meth:`open`.
            table: the table's name.

        Raises:
            ValueError: the URL names no database, or an SQLite file that is not there.
            QueueUnavailable: the database could not be reached.
            QueueBroken: the tables are missing or old, or the database refuses.
        """
        return queues_at(url, table)

    @property
    def source(self) -> str:
        """The queue's name in envelopes."""
        return self._session.source

    @property
    def clock(self) -> Clock:
        """The clock of the queue."""
        return self._session.clock

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._session.closed

    def close(self, timeout: Seconds | None = None) -> bool:
        """Close the schedules and the connections, and end waiting calls. Messages stay.

        Args:
            timeout: seconds to wait for a running check of a schedule (None: as long as it takes), and for messages
                that cancelled coroutines give back (never longer than ``retry.try_timeout``, or 30 s without one).

        Returns:
            False if a check was still running, or a message was still being given back, after that time.
        """
        limit = seconds_or_none("timeout", timeout)
        until = None if limit is None else real_time.monotonic() + limit
        in_time = self.cron.close(limit)
        return self._session.close(None if until is None else max(0.0, until - real_time.monotonic())) and in_time

    def __enter__(self) -> Self:
        self._session.check_open()
        return self

    def __reduce__(self) -> NoReturn:
        refuse(self, "its connections belong to this process", "its URL and name, and open it where it is used")

    def __repr__(self) -> str:
        return f"<DelayedQueue {self.name!r} in {type(self._session.storage).__name__}>"


def partition_kind(queue: str, type_name: str) -> str:
    """Return the value that separates the queues of a table: the md5 of ``queue|type_name``, as in the source.

    Example:
        >>> partition_kind("mail", "java.lang.String")
        'f12affe03ca0a6149654eb12c1ba3b93'
    """
    return hashlib.md5(f"{queue}|{type_name}".encode(), usedforsecurity=False).hexdigest()
