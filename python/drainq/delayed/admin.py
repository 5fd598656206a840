"""Looking after a queue: what is in it, and taking things out for good. ``dead_letters_redrive.py`` has dead letters.

What a person at a shell or a dashboard asks; consumers and producers need none of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drainq.delayed.config import NO_RETRIES, TimeConfig
from drainq.delayed.database_retry import with_retries
from drainq.delayed.dead_letters_redrive import DeadLetterAdmin
from drainq.delayed.errors import QueueBroken
from drainq.delayed.message import check_count, check_key
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.records import FinishedMessage, Row
from drainq.errors import DrainqError
from drainq.sql.url import DatabaseUrl
from drainq.statistics import Statistics

_log = logging.getLogger("drainq")

DROP_CONFIRMATION = "Yes, please, I know what I'm doing!"


@dataclass(frozen=True)
class DelayedQueueStats(Statistics):
    """How a queue stands.

    Attributes:
        ready: messages that are due and not on loan; those whose lease ran out are due again.
        scheduled: messages that become due later.
        in_flight: messages on loan.
        oldest_ready_age: seconds that the longest waiting ready message has been due; 0.0 if none is.
        redelivered: messages here now that were delivered more than once.
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
        codec: the ``type_name`` of the codec that it was opened with; queues of one name and other codecs are apart.
        paused: whether it is paused.
    """

    name: str
    codec: str
    paused: bool


class Admin(DeadLetterAdmin):
    """The part of :class:`~drainq.delayed.DelayedQueue` that looks and removes."""

    def contains_message(self, key: str) -> bool:
        """Whether there is a message of this key, due or not, in flight or not."""
        return self._session.call(self._session.storage.contains, self._session.kind, check_key(key))

    def drop_message(self, key: str) -> bool:
        """Delete the message of this key, in flight or not; False if there is none."""
        return self._session.call(self._session.storage.drop, self._session.kind, check_key(key))

    def drop_all_messages(self, confirm: str) -> int:
        """Delete every message of this queue, not its dead letters; other queues of the table keep theirs.

        Args:
            confirm: exactly ``Yes, please, I know what I'm doing!``

        Returns:
            How many there were.

        Raises:
            ValueError: the confirmation is another text.
        """
        if confirm != DROP_CONFIRMATION:
            raise ValueError(f"to drop all messages pass confirm={DROP_CONFIRMATION!r}, got {confirm!r}")
        return self._session.call(self._session.storage.drop_all, self._session.kind)

    def peek(self, limit: int = 10) -> list[Row]:
        """The first messages by due time, as they are stored, without taking them."""
        return self._session.call(self._session.storage.peek, self._session.kind, check_count("limit", limit))

    def stats(self) -> DelayedQueueStats:
        """Count the messages in each state; reads the whole queue's index, about 0.1 s a million messages."""
        now = self._session.now()
        counts = self._session.call(self._session.storage.counts, self._session.kind, now)
        age = 0.0 if counts.oldest_ready is None else (now - counts.oldest_ready) / 1000
        return DelayedQueueStats(counts.ready, counts.scheduled, counts.in_flight, age, counts.redelivered, counts.dead)

    # --- pausing

    def pause(self) -> bool:
        """Stop the delivery of messages, to every consumer of the queue in every process, until :meth:`resume`.

        Offers and schedules go on, and messages that are in flight are finished.

        Returns:
            Whether the queue was not paused before.
        """
        return self._set_paused(True)

    def resume(self) -> bool:
        """Undo :meth:`pause`; return whether the queue was paused.

        Consumers that wait in other processes notice after at most a poll period.
        """
        changed = self._set_paused(False)
        self._session.wakeup.wake()
        return changed

    @property
    def paused(self) -> bool:
        """Whether the queue is paused; the database is asked."""
        return self._session.call(self._session.storage.is_paused, self._session.kind)

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
        """The messages that were acknowledged by queues opened with ``history=``, the latest first."""
        return self._session.call(self._session.storage.history, self._session.kind, check_count("limit", limit))


def queues_at(url: str, table: str) -> list[QueueInfo]:
    """See :meth:`drainq.delayed.DelayedQueue.queues`."""
    with opened_storage(url, table) as storage:
        if not with_retries(storage.is_ready, NO_RETRIES, storage.is_transient):
            raise QueueBroken(f"the tables of {table!r} are missing or old: run 'drainq delayed migrate' first")
        rows = with_retries(storage.queues, NO_RETRIES, storage.is_transient)
    return [QueueInfo(row.name, row.type_name, row.paused) for row in rows]


@contextmanager
def opened_storage(url: str, table: str) -> Iterator[Storage]:
    """The storage at a URL, for reading: nothing is created, and an SQLite file that is not there is an error."""
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
