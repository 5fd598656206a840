"""Session: the access of one open queue to its storage, with its clock, retries, wake-ups and prefetches.

The public class :class:`~drainq.delayed.DelayedQueue`, the envelope, the consuming loop and the lease keeper all use
this object, so that they do not depend on each other.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

from drainq.arguments import Seconds, seconds, seconds_or_none
from drainq.delayed.activity import Activity
from drainq.delayed.config import RetryConfig
from drainq.delayed.consume_prefetch import Prefetched
from drainq.delayed.coroutines import CallThreads
from drainq.delayed.database_clock import DatabaseClock
from drainq.delayed.database_retry import RareWarning, with_retries
from drainq.delayed.dead_letters_bury import decode_or_give_up, delivered_too_often, limit_of
from drainq.delayed.errors import QueueBroken, QueueUnavailable
from drainq.delayed.message import When, error_text, to_ms
from drainq.delayed.own_connection import driver_connection
from drainq.delayed.queue_settings import QueueSettings
from drainq.delayed.storage.base import Storage
from drainq.delayed.storage.records import Closeable, Fetched, Held, Past, Row, new_lock, taken_at
from drainq.delayed.wake import Wakeup, wake_after_commit
from drainq.errors import DrainqError, ShutDown
from drainq.fork import renew_in_child
from drainq.timer import SHARED

P = ParamSpec("P")
R = TypeVar("R")

_SOONEST = 0.005
"""The least seconds that a waiting consumer sleeps, because others may be taking the due messages."""


_PURGE_PERIOD_MS = 3_600_000
"""Milliseconds between two purges of old dead letters."""

_LONGEST_GIVING_BACK = 30.0
"""Seconds for which closing waits for messages that are being released, if ``retry`` has no ``try_timeout``."""


class Session:
    """The shared state of all parts of one open queue.

    Args:
        storage, kind: the storage, and the kind of this queue's messages in it.
        settings: the user's options.
        wakeup: notified by offers of this process.
    """

    def __init__(self, storage: Storage, kind: str, settings: QueueSettings, wakeup: Wakeup) -> None:
        self.storage = storage
        self.kind = kind
        self.name = settings.name
        self.source = settings.source
        self.codec = settings.codec
        self.time = settings.time
        self.retry = settings.retry
        self.max_attempts = settings.max_attempts
        self.notify = settings.notify
        self.history = settings.history
        self.log_values = settings.log_values
        self._keep_dead, self._purge_at = seconds_or_none("keep_dead", settings.keep_dead), 0
        self._consumer: tuple[str, ...] = () if settings.consumer is None else (settings.consumer,)
        self.clock = settings.clock
        self.clock_waits = settings.database_time
        """Whether reading the clock may need a query of the database."""
        if settings.database_time:
            self.clock = DatabaseClock(lambda: self._try(self.retry, storage.database_time))
        self._ranked = self._grouped = False
        self.migrates = False
        """Whether the tables may be altered."""
        self._one_try = replace(settings.retry, max_retries=0)
        self.wakeup = wakeup
        self.warn = RareWarning()
        """Logs a failing database, at most once a minute."""
        self.calls = CallThreads(storage.most_calls)
        """Runs the calls of coroutines."""
        self.closed = False
        self._renew_in_child()
        renew_in_child(self)

    def name_consumer(self, *name: str) -> None:
        """Name the consumers of this queue to operators."""
        self._consumer = name
        host = platform.node().encode("ascii", "backslashreplace").decode()
        self.storage.holder = "/".join((host, str(os.getpid()), *name))

    def _renew_in_child(self) -> None:
        self.name_consumer(*self._consumer)
        self._listener_lock = threading.Lock()
        self.listener: Closeable | None = None
        self._prefetched: list[Prefetched] = []
        self.activity = Activity()

    # --- calling the storage

    def call(self, method: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
        """Call the storage, and again after a temporary failure.

        Raises:
            ShutDown: the queue is closed.
            QueueUnavailable: every try failed.
            QueueBroken: the database refuses for a reason that waiting does not change.
        """
        return self._call(self.retry, lambda: method(*arguments, **more))

    def call_once(self, method: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
        """Call the storage once, for a caller that repeats the call anyway."""
        return self._call(self._one_try, lambda: method(*arguments, **more))

    def call_apart(self, method: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
        """Call the storage once, for a consumer's own work, without settling prefetches."""
        return self._try(self._one_try, lambda: method(*arguments, **more))

    def _call(self, retry: RetryConfig, call: Callable[[], R]) -> R:
        if not self._prefetched:
            return self._try(retry, call)

        def settled_before() -> R:
            self._settle()
            return call()

        return self._try(retry, settled_before)

    def _settle(self) -> None:
        for prefetched in tuple(self._prefetched):
            prefetched.settle()

    def prefetched(self, rows: Sequence[Row], payloads: Sequence[Any], lock: str) -> Prefetched:
        """Return the prefetch of one fetch, for a handler that gets messages one by one."""

        def release(held: Held) -> None:
            self.storage.release(self.kind, held)
            self.wakeup.wake()

        return Prefetched(rows, payloads, lock, now=self.now, ack=self.ack_now, release=release)

    @contextmanager
    def prefetching(self, prefetched: Prefetched) -> Iterator[None]:
        """Register a consumer's prefetch until the end of the block, so that other calls settle it."""
        self._prefetched.append(prefetched)
        try:
            yield
        finally:
            with suppress(ValueError):  # a forked child has none
                self._prefetched.remove(prefetched)

    def settle(self) -> None:
        """Settle the consumers' prefetches, in one try."""
        if self._prefetched:
            self.call_apart(self._settle)

    def _try(self, retry: RetryConfig, call: Callable[[], R]) -> R:
        self.check_open()
        try:
            return with_retries(
                call, retry, self._is_transient, warn=self.warn, values=self.log_values, of=f"queue {self.name!r}"
            )
        except Exception:
            self.check_open()  # closed by another thread in the middle of the call
            raise

    def _is_transient(self, error: BaseException) -> bool:
        return not self.closed and self.storage.is_transient(error)

    def check_open(self) -> None:
        """Raise ShutDown if the queue is closed."""
        if self.closed:
            raise ShutDown(f"the delayed queue {self.name!r} is closed")

    def close(self, timeout: float | None) -> bool:
        """Release messages of cancelled coroutines, wake all waiters, end the listener, and close the storage.

        Returns:
            False if a message was still being released at the end of the timeout.
        """
        longest = self.retry.try_timeout or _LONGEST_GIVING_BACK
        in_time = self.calls.close(longest if timeout is None else min(timeout, longest))
        self.closed = True
        self.wakeup.wake()
        with self._listener_lock:
            listener, self.listener = self.listener, None
        if listener is not None:
            listener.close()
        self.storage.close()
        return in_time

    # --- time

    def now(self) -> int:
        """Return the clock's time in milliseconds."""
        return to_ms(self.clock.now(), "the clock's time")

    def after(self, delay: Seconds, what: str) -> int:
        """Return the time (milliseconds) ``delay`` from now. ``what`` names the argument in errors."""
        return to_ms(self.clock.now() + seconds(what, delay), what)

    def due_time(self, at: When | None, delay: Seconds | None) -> When | None:
        """Check the arguments ``at`` and ``delay`` of a call. Return the due time; None: now."""
        if delay is not None:
            if at is not None:
                raise ValueError(f"pass at or delay, not both, got at={at!r} and delay={delay!r}")
            return self.after(delay, "delay") / 1000
        if at is not None:
            to_ms(at, "at")
        return at

    def lease_end(self, now: int) -> int:
        """Return the end (milliseconds) of a lease that begins now."""
        return now + round(self.time.acquire_timeout * 1000)

    def pause_until(self, due: int | None) -> float:
        """Return the seconds until ``due`` (milliseconds; None: no message is scheduled), at most a poll period."""
        now = self.now()
        period = self.time.poll_period
        return period if due is None else min(period, max(_SOONEST, (due - now) / 1000))

    def listen(self) -> None:
        """Begin to listen for other processes' offers, if ``notify`` is set."""
        if self.notify and self.listener is None:
            with self._listener_lock:
                if self.listener is None and not self.closed:
                    self.listener = self.storage.listen(self.kind, self._heard)

    def news(self, due: int, *, ours: bool) -> str | None:
        """Return the announcement of an offer for other processes; None without ``notify``. ``ours``: this process
        wakes its own consumers."""
        if not self.notify:
            return None
        return f"{self.wakeup.token if ours else ''}@{due}"

    def _heard(self, news: str) -> None:
        """Wake the waiters of this process when a message offered elsewhere is due."""
        whose, _, due = news.partition("@")
        if whose == self.wakeup.token:
            return
        try:
            self.wakeup.wake_in((int(due) - self.now()) / 1000)
        except Exception:  # news of an older version has no time, or the database's clock is unreachable
            self.wakeup.wake()

    # --- taking messages, and giving them back

    def acquire(self, n: int) -> tuple[list[Row], list[Any], str, int | None]:
        """Take up to ``n`` messages, and bury those that cannot be delivered.

        Returns:
            The rows, their payloads, their lock, and the next due time, which is known only without rows.
        """
        while True:
            now = self.now()
            lock = new_lock(now)
            try:
                fetched = self.call(self.storage.acquire, self.kind, n, now, self.lease_end(now), lock)
                rows, payloads = self.deliverable(fetched.rows, lock)
            except (KeyboardInterrupt, SystemExit):
                self.undo_take(lock)
                raise
            if rows or not fetched.rows:
                return rows, payloads, lock, fetched.next_due

    def undo_take(self, lock: str) -> None:
        """Release the messages that an interrupted call has taken by this lock, if the database can be reached."""
        with suppress(DrainqError):
            self.call_apart(self.storage.release_taken, self.kind, lock)
            self.wakeup.wake()

    def deliverable(self, fetched: Sequence[Row], lock: str) -> tuple[list[Row], list[Any]]:
        """Decode fetched messages. Bury those that were delivered too often or cannot be decoded."""
        self._grouped = self._grouped or any(row.group is not None for row in fetched)
        rows, payloads, given_up = decode_or_give_up(fetched, self.codec, self.max_attempts)
        for row, reason in given_up:
            self.bury(lock, row, reason)
        if rows:
            self.activity.delivered(rows, taken_at(lock))
        return rows, payloads

    def bury(self, lock: str, row: Row, error: BaseException | str) -> int:
        """Make a leased message a dead letter. Return 1, or 0 if it was no longer leased."""
        held = Held(lock, (row.id,))
        buried = self.call(self.storage.bury, self.kind, held, self.now(), error_text(error), self._past())
        self.activity.add("buried", buried)
        self.made_room()
        return buried

    def made_room(self) -> None:
        """Wake consumers that may wait for the next message of a group, after a message was deleted."""
        if self._grouped:
            self.wakeup.wake()

    def nack(
        self, lock: str, rows: Sequence[Row], due_at: int, error: BaseException | str | None, limit: int | None
    ) -> int:
        """Release messages for later, and bury those delivered ``limit`` times, or as often as their own limit
        permits. Return how many were still leased."""
        worn_out, again = delivered_too_often(rows, limit)
        ours = sum(self.bury(lock, row, error or f"given back {limit_of(row, limit)} times") for row in worn_out)
        if again:
            text = None if error is None else error_text(error)
            held = Held(lock, tuple(row.id for row in again))
            back = self.call(self.storage.nack, self.kind, held, due_at, text, self._past())
            self.activity.add("retried", back)
            self.wakeup.wake()
            ours += back
        if error is not None:
            self.activity.add("failed", ours)
        return ours

    def mark_ranked(self, connection: Any) -> None:
        """Mark the queue as delivered by priority, before its first offer with a priority."""
        self.check_open()
        if self._ranked:
            return
        mark = partial(self.storage.mark_ranked, self.kind, name=self.name, type_name=self.codec.type_name)
        if connection is not None and not self.storage.marks_apart:
            mark(connection=connection)  # a rollback by the caller undoes it
            return
        self.call(mark)
        if self.migrates:
            SHARED.after(0.0, self._migrate)
        self._ranked = True

    def _migrate(self) -> None:
        """Create the index that only a queue with priorities needs. It may have to wait for others' transactions."""
        try:
            self.call_once(self.storage.migrate)
        except ShutDown:
            pass
        except (QueueUnavailable, QueueBroken) as error:
            self.warn("the index for priorities could not be made now (%s); the next open() tries again", error)

    def ack(self, held: Held, *, again: bool = False) -> int:
        """Delete messages that are still leased, and add them to the history if there is one. Return how many.

        ``again``: the answer of an earlier try was lost, so all of them count as acknowledged.
        """
        return self.call(self.ack_now, held, 0 if self.history is None else self.now(), again=again)

    def ack_now(self, held: Held, now: int, *, again: bool = False) -> int:
        """Acknowledge messages at a given time (milliseconds), raising the storage's errors."""
        acked = self.storage.ack(self.kind, held, past=None if self.history is None else Past(now, self.history))
        acked = len(held.ids) if again else acked
        self.activity.acknowledged(len(held.ids), acked)
        self.made_room()
        return acked

    def _past(self) -> Past | None:
        return None if self.history is None else Past(self.now(), self.history)

    def ack_within(self, held: Held, connection: Any) -> int:
        """Delete messages that are still leased, in the caller's transaction. Return how many."""
        self.check_open()
        if self.history is not None:
            raise ValueError("a queue with history= enters what is done there by itself: leave out connection=")
        connection = driver_connection(connection)
        acked = self.storage.ack(self.kind, held, connection=connection)
        if self._grouped:
            wake_after_commit(connection, self.wakeup.wake, self.time.poll_period)
        self.activity.acknowledged(len(held.ids), acked)
        return acked

    def take_once(
        self, done: Held | None, n: int, limits: Mapping[str, int], lock: str | None = None, *, again: bool = False
    ) -> tuple[Fetched, str]:
        """Acknowledge ``done`` and take the next messages, in one try. If the queue has a history, the caller first
        acknowledges by :meth:`ack_now`.

        Args:
            done: the handled messages; None: none.
            n: the most messages to take.
            limits: the most messages in flight, by key prefix; empty for no limit.
            lock: a new lock for the messages to take; None: one is made.
            again: as for :meth:`ack`.

        Returns:
            The fetched messages and their lock.
        """
        lock = new_lock(self.now()) if lock is None else lock
        now = taken_at(lock)
        until, storage = self.lease_end(now), self.storage
        self._purge_now_and_then(now)
        if limits:
            some = done or Held("", ())
            fetched = self.call_apart(storage.acquire_within, self.kind, some, limits, n, now, until, lock)
        else:
            fetched = self.call_apart(storage.acquire, self.kind, n, now, until, lock, done=done)
        if done is not None:
            fetched = fetched._replace(acked=len(done.ids)) if again else fetched
            self.activity.acknowledged(len(done.ids), fetched.acked)
        return fetched, lock

    def release(self, held: Held, due_at: int | None = None) -> int:
        """Release messages that were taken and not handled, as if they had never been taken. Return how many."""
        released = self.call(self.storage.release, self.kind, held, due_at)
        self.wakeup.wake()
        return released

    def _purge_now_and_then(self, now: int) -> None:
        """Delete the dead letters that are too old, once an hour."""
        if self._keep_dead is not None and now >= self._purge_at:
            self.call_apart(self.storage.purge_dead, self.kind, now - round(self._keep_dead * 1000))
            self._purge_at = now + _PURGE_PERIOD_MS
