"""Administration of a queue: counts, lists, deletes and pauses. ``dead_letters_redrive.py`` handles dead letters.

These methods are for a person or a dashboard. Consumers and producers do not need them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drainq.arguments import Seconds, seconds
from drainq.delayed.activity import DelayedQueueActivity
from drainq.delayed.config import NO_RETRIES, TimeConfig
from drainq.delayed.coroutines import twin
from drainq.delayed.database_retry import with_retries
from drainq.delayed.dead_letters_redrive import DeadLetterAdmin, check_prefix
from drainq.delayed.errors import QueueBroken
from drainq.delayed.message import When, check_count, check_key, check_text, from_ms, to_ms
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.open import open_storage, reach
from drainq.delayed.storage.records import Chosen, FinishedAttempt, QueueInfo, StoredMessage
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
        oldest_ready_age: seconds since the oldest ready message became due, or was offered if that came later; 0.0 if
            there is none.
        redelivered: stored messages that were delivered more than once.
        dead: dead letters.
        paused: whether the queue is paused.
        elsewhere: messages of queues that have the same name and another codec. This queue never delivers them: pass
            the former name of a renamed class, ``MsgspecCodec(Order, name="OldOrder")``.
        expired: ready messages whose lease has ended without an answer of their consumer: its process has died, or its
            handler hangs or does not extend the lease.
        longest_held: the seconds for which a message in flight has been held longest; 0.0 if none is. The value grows
            while a handler hangs and its consumer extends the lease.
    """

    ready: int
    scheduled: int
    in_flight: int
    oldest_ready_age: float
    redelivered: int
    dead: int
    paused: bool
    elsewhere: int
    expired: int
    longest_held: float


class Admin(DeadLetterAdmin):
    """The methods of :class:`~drainq.delayed.DelayedQueue` for operators."""

    def contains_message(self, key: str) -> bool:
        """Return whether there is a message of this key, in any state."""
        return self._session.call(self._session.storage.contains, self._session.kind, check_key(key))

    def drop_message(self, key: str) -> bool:
        """Delete the message of this key, even in flight. Return False if there is none."""
        dropped = self._session.call(self._session.storage.drop, self._session.kind, check_key(key))
        self._session.made_room()
        return dropped

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
        return self._change(self._session.storage.drop_all, _chosen(prefix=""))

    def drop_messages(self, prefix: str) -> int:
        """Delete the messages whose keys begin with ``prefix``, even in flight. Return how many.

        Args:
            prefix: at least one character.
        """
        if not prefix:
            raise ValueError(f"prefix must not be empty, got {prefix!r}: drop_all_messages deletes every message")
        return self._change(self._session.storage.drop_all, _chosen(prefix=prefix))

    def peek(self, limit: int = 10, *, key: str | None = None, prefix: str | None = None) -> list[StoredMessage]:
        """Return the first messages by due time, without taking or decoding them.

        Args:
            limit: the largest number.
            key: only the message of this key.
            prefix: only messages whose keys begin with it.
        """
        chosen = _chosen(key, "" if key is None and prefix is None else prefix)
        return self._session.call(self._session.storage.peek, self._session.kind, chosen, check_count("limit", limit))

    def release(
        self,
        key: str | None = None,
        *,
        prefix: str | None = None,
        holder: str | None = None,
        older_than: Seconds | None = None,
    ) -> int:
        """Take messages away from their consumers, and make them due now. The delivery counts as an attempt.

        A consumer that still works on such a message loses it: the consumer's acknowledgement changes nothing, and its
        handler may run at the same time as the next consumer's.

        Args:
            key: the message of this key.
            prefix: messages whose keys begin with it.
            holder: messages of this host, of this process as ``host/process``, or of a consumer of this name.
            older_than: messages that a consumer has held for more than this time, in seconds.

        Returns:
            How many were in flight, or had an expired lease, and are due now.

        Raises:
            ValueError: no argument is given, or both ``key`` and ``prefix``.

        Example:
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "mail") as mail:
            ...     _ = mail.offer("welcome/ann", "Hello Ann")
            ...     lost = mail.poll()
            ...     mail.release(prefix="welcome/"), lost.ack(), mail.poll().attempt
            (1, False, 2)
        """
        before = None if older_than is None else self._session.now() - int(seconds("older_than", older_than) * 1000)
        return self._change(self._session.storage.free, _chosen(key, prefix, holder, before), self._session.now())

    def reschedule(
        self,
        key: str | None = None,
        *,
        prefix: str | None = None,
        at: When | None = None,
        delay: Seconds | None = None,
    ) -> int:
        """Give waiting messages another due time, by default now. Payload and attempts stay.

        A later offer of the same key with the former time changes the time back.

        Args:
            key: the message of this key.
            prefix: messages whose keys begin with it.
            at, delay: as for :meth:`offer`.

        Returns:
            How many were changed. Messages in flight do not change, nor do due messages if the new time is now.

        Raises:
            ValueError: neither ``key`` nor ``prefix`` is given, or both, or both ``at`` and ``delay``.
        """
        now = self._session.now()
        due = self._session.due_time(at, delay)
        return self._change(
            self._session.storage.reschedule, _chosen(key, prefix), now if due is None else to_ms(due), now
        )

    def _change(self, change: Callable[..., int], chosen: Chosen, *times: int) -> int:
        changed = self._session.call(change, self._session.kind, chosen, *times)
        self._session.wakeup.wake()
        return changed

    def stats(self) -> DelayedQueueStats:
        """Count the messages in each state. This reads the whole queue, about a second for a million messages."""
        now = self._session.now()
        return DelayedQueueStats(*self._session.call(self._session.storage.counts, self._session.kind, now))

    def activity(self) -> DelayedQueueActivity:
        """Return what this process has done with the queue since it opened the queue. This needs no query.

        Example:
            >>> from drainq.delayed import DelayedQueue
            >>> with DelayedQueue.open("memory:", "mail") as mail:
            ...     _ = mail.offer("welcome/ann", "Hello"), mail.poll().ack()
            ...     mail.activity().acknowledged
            1
        """
        return self._session.activity.read()

    contains_message_async = twin(contains_message)
    drop_message_async = twin(drop_message)
    drop_all_messages_async = twin(drop_all_messages)
    drop_messages_async = twin(drop_messages)
    peek_async = twin(peek)
    release_async = twin(release)
    reschedule_async = twin(reschedule)
    stats_async = twin(stats)

    # --- pausing

    def pause(self, reason: str = "") -> bool:
        """Stop the delivery of messages, to every consumer of the queue in every process, until :meth:`resume`.

        Offers and schedules continue, and consumers finish the messages in flight.

        Args:
            reason: a text for other operators. :meth:`queues` shows it, with the time and the name of this process.

        Returns:
            True if this call paused the queue. False if the queue was paused before; the first reason then stays.
        """
        if not isinstance(reason, str):
            raise TypeError(f"reason must be a text, got {reason!r}")
        check_text(reason, "reason")
        now = from_ms(self._session.now())
        by = f"{self._session.storage.holder} at {now:%Y-%m-%d %H:%M:%S} UTC"
        return self._set_paused(True, f"{by}: {reason}" if reason else by)

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

    def _set_paused(self, paused: bool, by: str | None = None) -> bool:
        session = self._session
        return session.call(
            lambda: session.storage.set_paused(
                session.kind, name=session.name, type_name=session.codec.type_name, paused=paused, by=by
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

    def history(self, limit: int = 100, *, key: str | None = None) -> list[FinishedAttempt]:
        """Return the ended attempts of this queue, the latest first. Objects opened with ``history=`` store theirs.

        Args:
            limit: the largest number.
            key: the message; ``None`` for all.
        """
        limit, key = check_count("limit", limit), None if key is None else check_key(key)
        return self._session.call(self._session.storage.history, self._session.kind, limit, key)

    history_async = twin(history)


def _chosen(
    key: str | None = None, prefix: str | None = None, holder: str | None = None, before: int | None = None
) -> Chosen:
    """Return an operator's choice of messages. Refuse a key together with a prefix, and a choice without conditions."""
    if key is not None and prefix is not None:
        raise ValueError("pass key or prefix, not both")
    if key is None and prefix is None and holder is None and before is None:
        raise ValueError('name the messages; prefix="" means all of the queue')
    if holder is not None and not isinstance(holder, str):
        raise TypeError(f"holder must be a str, got {holder!r}")
    return Chosen(
        None if key is None else check_key(key), None if prefix is None else check_prefix(prefix), holder, before
    )


def queues_at(url: str, table: str) -> list[QueueInfo]:
    """See :meth:`drainq.delayed.DelayedQueue.queues`."""
    with opened_storage(url, table) as storage:
        if not with_retries(storage.is_ready, NO_RETRIES, storage.is_transient):
            raise QueueBroken(f"the tables of {table!r} are missing or old: run 'drainq delayed migrate' first")
        return with_retries(lambda: storage.overview(to_ms(time.time())), NO_RETRIES, storage.is_transient)


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
