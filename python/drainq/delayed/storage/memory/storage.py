"""The delayed queue in the memory of this process: for tests, and for what may be lost with the process.

It is also the plain model that the databases are compared with, so it is written to be read: a dictionary of rows by
key, a heap of due times in front of it, one lock around both (:mod:`drainq.delayed.storage.memory.queue`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.in_flight_limits import Room
from drainq.delayed.storage.memory.queue import Message, Queue
from drainq.delayed.storage.memory.ticks import MemoryTicks
from drainq.delayed.storage.operator_protocol import FinishedMessage, QueueRow
from drainq.delayed.storage.protocol import Counts, Offer
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row


class MemoryStorage(MemoryTicks):
    """A :class:`~drainq.delayed.storage.protocol.Storage` of this process; several queues may share one."""

    worth_prefetching = False
    is_shared = False

    def connect(self) -> None:
        """There is nothing to connect to."""

    def migrate(self) -> list[str]:
        return []

    def is_ready(self) -> bool:
        return True

    def migration_sql(self) -> str:
        return ""

    # --- producers

    def offer(
        self,
        kind: str,
        offers: Sequence[Offer],
        now: int,
        *,
        connection: Any = None,
        announce: str | None = None,
        again: bool = False,
    ) -> list[OfferOutcome]:
        if connection is not None:
            raise ValueError("a queue in memory has no connection to share; leave out connection=")
        with self._lock:
            queue = self._queue(kind)
            return [queue.offer(offer, now) for offer in offers]

    # --- consumers

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str, *, done: Held | None = None) -> Fetched:
        with self._lock:
            acked = 0 if done is None else self._each(kind, done, Queue.remove)
            rows = self._acquire(kind, limit, now, until, lock)
            return Fetched(acked, rows, None if rows else self._queue(kind).next_due(now))

    def _acquire(self, kind: str, limit: int, now: int, until: int, lock: str, room: Room | None = None) -> list[Row]:
        queue = self._queue(kind)
        taken = queue.due(limit, now, room)
        for message in taken:  # pushed only now: with a lease of no length a message would be popped again
            message.lock = lock
            message.attempts += 1
            queue.push(message, until)
        return sorted((message.row() for message in taken), key=lambda row: (row.priority, row.scheduled_at, row.id))

    def acquire_within(
        self, kind: str, done: Held, limits: Mapping[str, int], limit: int, now: int, until: int, lock: str
    ) -> Fetched:
        with self._lock:
            acked = self._each(kind, done, Queue.remove)
            room = Room(limits, self._queue(kind).in_flight(now))
            return Fetched(acked, self._acquire(kind, limit, now, until, lock, room))

    def ack(self, kind: str, done: Held, *, connection: Any = None) -> int:
        if connection is not None:
            raise ValueError("a queue in memory has no connection to share; leave out connection=")
        with self._lock:
            return self._each(kind, done, Queue.remove)

    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        def finish(queue: Queue, message: Message) -> None:
            queue.remove(message)
            queue.history.append(FinishedMessage(message.key, message.scheduled_at, message.attempts, now))
            while len(queue.history) > keep:
                queue.history.popleft()

        with self._lock:
            return self._each(kind, done, finish)

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        def give_back(queue: Queue, message: Message) -> None:
            message.lock = None
            queue.push(message, due_at)

        with self._lock:
            return self._each(kind, held, give_back)

    def release(self, kind: str, held: Held) -> int:
        def give_back(queue: Queue, message: Message) -> None:
            message.lock = None
            message.attempts -= 1
            queue.push(message, message.scheduled_at)

        with self._lock:
            return self._each(kind, held, give_back)

    def extend(self, kind: str, held: Held, until: int) -> int:
        with self._lock:
            return self._each(kind, held, lambda queue, message: queue.push(message, until))

    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        def move(queue: Queue, m: Message) -> None:
            queue.remove(m)
            queue.dead.append(
                DeadLetter(next(queue.ids), m.key, m.payload, m.scheduled_at, m.attempts, error, now, m.priority)
            )

        with self._lock:
            return self._each(kind, held, move)

    def next_due(self, kind: str, after: int) -> int | None:
        with self._lock:
            return self._queue(kind).next_due(after)

    def history(self, kind: str, limit: int) -> list[FinishedMessage]:
        with self._lock:
            return list(self._queue(kind).history)[: -limit - 1 : -1]

    # --- reading and removing

    def read(self, kind: str, key: str) -> Row | None:
        with self._lock:
            message = self._queue(kind).rows.get(key)
            return message.row() if message else None

    def contains(self, kind: str, key: str) -> bool:
        with self._lock:
            return key in self._queue(kind).rows

    def delete_unchanged(self, kind: str, row: Row) -> bool:
        with self._lock:
            queue = self._queue(kind)
            there = queue.by_id.get(row.id)
            if there is None:
                return False
            if (there.payload, there.scheduled_at, there.created_at) != (row.payload, row.scheduled_at, row.created_at):
                return False
            queue.remove(there)
            return True

    def drop(self, kind: str, key: str) -> bool:
        with self._lock:
            queue = self._queue(kind)
            message = queue.rows.get(key)
            if message is not None:
                queue.remove(message)
            return message is not None

    def drop_all(self, kind: str) -> int:
        with self._lock:
            return self._queue(kind).clear()

    def peek(self, kind: str, limit: int) -> list[Row]:
        with self._lock:
            rows = [message.row() for message in self._queue(kind).rows.values()]
        return heapq.nsmallest(limit, rows, key=lambda row: (row.due_at, row.id))

    def counts(self, kind: str, now: int) -> Counts:
        with self._lock:
            queue = self._queue(kind)
            rows = list(queue.rows.values())
            ready = [m.due_at for m in rows if m.due_at <= now]
            leased = sum(m.lock is not None and m.due_at > now for m in rows)
            again = sum(m.attempts > 1 for m in rows)
            oldest = min(ready, default=None)
            return Counts(len(ready), len(rows) - len(ready) - leased, leased, oldest, again, len(queue.dead))

    # --- dead letters

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        with self._lock:
            return heapq.nlargest(limit, self._queue(kind).dead, key=lambda letter: letter.id)

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        with self._lock:
            letters = [letter for letter in self._queue(kind).dead if letter.key.startswith(prefix)]
        return heapq.nlargest(limit, letters, key=lambda letter: letter.id)

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        with self._lock:
            return sorted({letter.key for letter in self._queue(kind).dead if letter.key.startswith(prefix)})

    def redrive(self, kind: str, now: int, keys: Sequence[str] | None = None) -> int:
        with self._lock:
            queue = self._queue(kind)
            wanted = None if keys is None else set(keys)
            latest = {letter.key: letter for letter in queue.dead if wanted is None or letter.key in wanted}
            back = [
                letter for letter in queue.dead if latest.get(letter.key) is letter and letter.key not in queue.rows
            ]
            for letter in back:
                queue.insert(
                    Message(next(queue.ids), letter.key, letter.payload, now, now, now, priority=letter.priority)
                )
            gone = {letter.id for letter in back}
            queue.dead = [letter for letter in queue.dead if letter.id not in gone]
            return len(back)

    def drop_dead(self, kind: str, keys: Sequence[str] | None = None) -> int:
        with self._lock:
            queue = self._queue(kind)
            stay = [] if keys is None else [letter for letter in queue.dead if letter.key not in set(keys)]
            dropped = len(queue.dead) - len(stay)
            queue.dead = stay
            return dropped

    def purge_dead(self, kind: str, before: int) -> int:
        with self._lock:
            queue = self._queue(kind)
            stay = [letter for letter in queue.dead if letter.died_at >= before]
            purged = len(queue.dead) - len(stay)
            queue.dead = stay
            return purged

    # --- the queue

    def name_queue(self, kind: str, *, name: str, type_name: str) -> None:
        with self._lock:
            self._queue(kind).name = name, type_name

    def queues(self) -> list[QueueRow]:
        with self._lock:
            named = [QueueRow(kind, *queue.name, queue.paused) for kind, queue in self._queues.items() if queue.name]
        return sorted(named, key=lambda row: (row.name, row.type_name))

    def set_paused(self, kind: str, *, name: str, type_name: str, paused: bool) -> bool:
        with self._lock:
            queue = self._queue(kind)
            queue.name = name, type_name
            changed = queue.paused != paused
            queue.paused = paused
            return changed

    def is_paused(self, kind: str) -> bool:
        with self._lock:
            return self._queue(kind).paused

    def mark_ranked(self, kind: str, *, name: str, type_name: str, connection: Any = None) -> None:
        """Every queue here is."""

    def database_time(self) -> float:
        return time.time()

    def listen(self, kind: str, wake: Callable[[str], None]) -> None:
        """Offers of this process wake by themselves."""

    def is_transient(self, error: BaseException) -> bool:
        return False

    def close(self) -> None:
        """Nothing to let go of."""
