"""Administration of a queue: counts, lists, deletes and pauses. ``dead_letters_redrive.py`` handles dead letters.

These methods are for a person or a dashboard. Consumers and producers do not need them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drainq.delayed.config import NO_RETRIES, TimeConfig
from drainq.delayed.coroutines import twin
from drainq.delayed.database_retry import with_retries
from drainq.delayed.dead_letters_redrive import DeadLetterAdmin
from drainq.delayed.errors import QueueBroken
from drainq.delayed.message import check_count, check_key, from_ms
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.records import FinishedMessage, StoredMessage
from drainq.errors import DrainqError
from drainq.sql.url import DatabaseUrl
from drainq.statistics import Statistics

_log = logging.getLogger("drainq")

DROP_CONFIRMATION = "Yes, please, I know what I'm doing!"


@dataclass(frozen=True)
class DelayedQueueStats(Statistics):
    """Counts of a queue's messages by state.

    Attributes:
        ready: messages that are due and not leased. A message whose lease has ended is due again.
        scheduled: messages that become due later.
        in_flight: leased messages.
        oldest_ready_age: seconds since the oldest ready message became due; 0.0 if there is none.
        redelivered: stored messages that were delivered more than once.
        dead: dead letters.
    """

    ready: int
    scheduled: int
    in_flight: int
    oldest_ready_age: float
    redelivered: int
    dead: int


@dataclass(frozen=True)
class QueueInfo:
    """A queue of a table, as :meth:`DelayedQueue.queues` lists it.

    Attributes:
        name: the queue's name.
        codec: the ``type_name`` of its codec. Queues of one name with different codecs are separate.
        paused: whether it is paused.
    """

    name: str
    codec: str
    paused: bool


class Admin(DeadLetterAdmin):
    """The methods of :class:`~drainq.delayed.DelayedQueue` for operators."""

    def contains_message(self, key: str) -> bool:
        """Return whether there is a message of this key, in any state."""
        return self._session.call(self._session.storage.contains, self._session.kind, check_key(key))

    def drop_message(self, key: str) -> bool:
        """Delete the message of this key, even in flight. Return False if there is none."""
        return self._session.call(self._session.storage.drop, self._session.kind, check_key(key))

    def drop_all_messages(self, confirm: str) -> int:
        """Delete every message of this queue. Its dead letters and the table's other queues stay.

        Args:
            confirm: exactly ``Yes, please, I know what I'm doing!``

        Returns:
            The number of deleted messages.

        Raises:
            ValueError: the confirmation is another text.
        """
        if confirm != DROP_CONFIRMATION:
            raise ValueError(f"to drop all messages pass confirm={DROP_CONFIRMATION!r}, got {confirm!r}")
        return self._session.call(self._session.storage.drop_all, self._session.kind)

    def peek(self, limit: int = 10) -> list[StoredMessage]:
        """Return the first messages by due time, without taking or decoding them."""
        rows = self._session.call(self._session.storage.peek, self._session.kind, check_count("limit", limit))
        return [
            StoredMessage(
                row.key,
                row.payload,
                from_ms(row.scheduled_at),
                from_ms(row.due_at),
                from_ms(row.created_at),
                row.attempts,
                row.locked,
                row.priority,
            )
            for row in rows
        ]

    def stats(self) -> DelayedQueueStats:
        """Count the messages in each state. This reads the whole queue's index, about 0.1 s for a million messages."""
        now = self._session.now()
        counts = self._session.call(self._session.storage.counts, self._session.kind, now)
        age = 0.0 if counts.oldest_ready is None else (now - counts.oldest_ready) / 1000
        return DelayedQueueStats(counts.ready, counts.scheduled, counts.in_flight, age, counts.redelivered, counts.dead)

    contains_message_async = twin(contains_message)
    drop_message_async = twin(drop_message)
    drop_all_messages_async = twin(drop_all_messages)
    peek_async = twin(peek)
    stats_async = twin(stats)

    # --- pausing

    def pause(self) -> bool:
        """Stop the delivery of messages, to every consumer of the queue in every process, until :meth:`resume`.

        Offers and schedules continue, and consumers finish the messages in flight.

        Returns:
            Whether the queue was not paused before.
        """
        return self._set_paused(True)

    def resume(self) -> bool:
        """Undo :meth:`pause`. Return whether the queue was paused.

        Consumers that wait in other processes notice after at most a poll period.
        """
        changed = self._set_paused(False)
        self._session.wakeup.wake()
        return changed

    @property
    def paused(self) -> bool:
        """True if the queue is paused, read from the database."""
        return self._session.call(self._session.storage.is_paused, self._session.kind)

    pause_async = twin(pause)
    resume_async = twin(resume)

    async def paused_async(self) -> bool:
        """Return whether the queue is paused, read from the database."""
        return await self._session.calls.run(lambda: self.paused)

    def _set_paused(self, paused: bool) -> bool:
        session = self._session
        return session.call(
            lambda: session.storage.set_paused(
                session.kind, name=session.name, type_name=session.codec.type_name, paused=paused
            )
        )

    def _enter_name(self) -> None:
        session = self._session
        try:
            session.call_once(
                lambda: session.storage.name_queue(session.kind, name=session.name, type_name=session.codec.type_name)
            )
        except DrainqError as error:  # a database that may only be read, or tables that are not there yet
            _log.warning("the name of delayed queue %r could not be entered into its table: %s", session.name, error)

    # --- finished work

    def history(self, limit: int = 100) -> list[FinishedMessage]:
        """Return the messages that were acknowledged by queues opened with ``history=``, the latest first."""
        return self._session.call(self._session.storage.history, self._session.kind, check_count("limit", limit))

    history_async = twin(history)


def queues_at(url: str, table: str) -> list[QueueInfo]:
    """See :meth:`drainq.delayed.DelayedQueue.queues`."""
    with opened_storage(url, table) as storage:
        if not with_retries(storage.is_ready, NO_RETRIES, storage.is_transient):
            raise QueueBroken(f"the tables of {table!r} are missing or old: run 'drainq delayed migrate' first")
        rows = with_retries(storage.queues, NO_RETRIES, storage.is_transient)
    return [QueueInfo(row.name, row.type_name, row.paused) for row in rows]


@contextmanager
def opened_storage(url: str, table: str) -> Iterator[Storage]:
    """Return the storage at a URL, for reading. It creates nothing, and a missing SQLite file is an error."""
    if url == "memory:":
        raise ValueError("a queue in memory lives and dies with its process: name a database")
    where = DatabaseUrl.parse(url)
    missing = where.dialect.why_missing(where.target)
    if missing is not None:
        raise ValueError(f"{missing}: check the URL, or run 'drainq delayed migrate' to make it")
    storage, _ = open_storage(url, table=table, time=TimeConfig(), retry=NO_RETRIES, as_it_is=True)
    try:
        reach(storage, NO_RETRIES, migrate=False)
        yield storage
    finally:
        storage.close()
