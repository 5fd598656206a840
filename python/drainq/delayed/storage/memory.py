"""The delayed queue in the memory of this process: for tests, and for what may be lost with the process.

It is also the plain model that the databases are compared with, so it is written to be read: a dictionary of rows by
key, a heap of due times in front of it, one lock around both.

# Invariant

All state is read and written under ``_lock``.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from drainq.delayed.cron.tick_key import escape_hash, hash_in
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.memory_operator import MemoryOperator
from drainq.delayed.storage.memory_queue import Message as _Message
from drainq.delayed.storage.memory_queue import Queue as _Queue
from drainq.delayed.storage.operator import Tick
from drainq.delayed.storage.protocol import TICK_MEMORY_MS, Counts, Offer
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row


class MemoryStorage(MemoryOperator):
    """A :class:`~drainq.delayed.storage.protocol.Storage` of this process; several queues may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        self._ids = itertools.count(1)

    def connect(self) -> None:
        """There is nothing to connect to."""

    def migrate(self) -> list[str]:
        return []

    def migration_sql(self) -> str:
        return ""

    def offer(
        self,
        kind: str,
        offers: Sequence[Offer],
        now: int,
        *,
        connection: Any = None,
        announce: bool = False,
        again: bool = False,
    ) -> list[OfferOutcome]:
        if connection is not None:
            raise ValueError("a queue in memory has no connection to share; leave out connection=")
        with self._lock:
            queue = self._queue(kind)
            return [self._offer(queue, offer, now) for offer in offers]

    def _offer(self, queue: _Queue, offer: Offer, now: int) -> OfferOutcome:
        there = queue.rows.get(offer.key)
        if there is None:
            at = offer.scheduled_at
            queue.insert(_Message(next(self._ids), offer.key, offer.payload, at, at, now, priority=offer.priority))
            return OfferOutcome.CREATED
        same = (there.payload, there.scheduled_at, there.priority) == (
            offer.payload,
            offer.scheduled_at,
            offer.priority,
        )
        if same or not offer.can_update:
            return OfferOutcome.IGNORED
        _replace(queue, there, offer.payload, offer.scheduled_at, now)
        there.priority = offer.priority
        return OfferOutcome.UPDATED

    def acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        with self._lock:
            return self._acquire(kind, limit, now, until, lock)

    def _acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        queue = self._queue(kind)
        taken = queue.due(limit, now)
        for message in taken:  # pushed only now: with a lease of no length a message would be popped again
            message.lock = lock
            message.attempts += 1
            queue.push(message, until)
        return sorted((message.row() for message in taken), key=lambda row: (row.priority, row.scheduled_at, row.id))

    def ack_and_acquire(self, kind: str, done: Held, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._lock:
            return Fetched(self._each(kind, done, _Queue.remove), self._acquire(kind, limit, now, until, lock))

    def ack(self, kind: str, done: Held) -> int:
        with self._lock:
            return self._each(kind, done, _Queue.remove)

    def nack(self, kind: str, held: Held, due_at: int, error: str | None) -> int:
        def give_back(queue: _Queue, message: _Message) -> None:
            message.lock = None
            queue.push(message, due_at)

        with self._lock:
            return self._each(kind, held, give_back)

    def release(self, kind: str, held: Held) -> int:
        def give_back(queue: _Queue, message: _Message) -> None:
            message.lock = None
            message.attempts -= 1
            queue.push(message, message.scheduled_at)

        with self._lock:
            return self._each(kind, held, give_back)

    def extend(self, kind: str, held: Held, until: int) -> int:
        with self._lock:
            return self._each(kind, held, lambda queue, message: queue.push(message, until))

    def bury(self, kind: str, held: Held, now: int, error: str) -> int:
        def move(queue: _Queue, m: _Message) -> None:
            queue.remove(m)
            queue.dead.append(
                DeadLetter(next(self._ids), m.key, m.payload, m.scheduled_at, m.attempts, error, now, m.priority)
            )

        with self._lock:
            return self._each(kind, held, move)

    def next_due(self, kind: str, after: int) -> int | None:
        with self._lock:
            queue = self._queue(kind)
            while queue.heap and not queue.is_current(queue.heap[0]):
                heapq.heappop(queue.heap)
            if queue.heap and queue.heap[0][0] <= after:  # something is due already: look past it
                return min((m.due_at for m in queue.rows.values() if m.due_at > after), default=None)
            return queue.heap[0][0] if queue.heap else None

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
            queue = self._queue(kind)
            dropped = len(queue.rows)
            queue.rows.clear()
            queue.by_id.clear()
            queue.heap.clear()
            return dropped

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

    def dead(self, kind: str, limit: int) -> list[DeadLetter]:
        with self._lock:
            return heapq.nlargest(limit, self._queue(kind).dead, key=lambda letter: letter.id)

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
                    _Message(next(self._ids), letter.key, letter.payload, now, now, now, priority=letter.priority)
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

    def install_ticks(
        self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int, update: bool = False
    ) -> int:
        with self._lock:
            queue = self._queue(kind)
            ours = escape_hash(config_hash)
            _forget(queue, prefix, lambda its_hash, at: its_hash != ours and at > now)
            floor = queue.floors.get((prefix, config_hash))
            created = 0
            for tick in ticks:
                if tick.key in queue.ticks or (floor is not None and tick.nominal_at <= floor):
                    there = queue.rows.get(tick.key)
                    if update and there is not None and _never_delivered(there):
                        if (there.payload, there.scheduled_at) != (tick.payload, tick.scheduled_at):
                            _replace(queue, there, tick.payload, tick.scheduled_at, now)
                    continue
                queue.ticks[tick.key] = (prefix, config_hash, tick.nominal_at, now)
                offer = Offer(tick.key, tick.payload, tick.scheduled_at, can_update=update)
                created += self._offer(queue, offer, now) is OfferOutcome.CREATED
            _raise_floor(queue, prefix, config_hash, now)
            return created

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        with self._lock:
            ours = escape_hash(config_hash)
            return _forget(self._queue(kind), prefix, lambda its_hash, at: its_hash == ours)

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        with self._lock:
            queue = self._queue(kind)
            known = [at for p, h, at, _ in queue.ticks.values() if (p, h) == (prefix, config_hash)]
            floor = queue.floors.get((prefix, config_hash))
            return max((at for at in (*known, floor) if at is not None and at <= until), default=None)

    def listen(self, kind: str, wake: Callable[[], None]) -> None:
        """Offers of this process wake by themselves."""

    def is_transient(self, error: BaseException) -> bool:
        return False

    def close(self) -> None:
        """Nothing to let go of."""

    def _next_id(self) -> int:
        return next(self._ids)

    def _queue(self, kind: str) -> _Queue:
        return self._queues.setdefault(kind, _Queue())

    def _each(self, kind: str, held: Held, do: Callable[[_Queue, _Message], None]) -> int:
        """Call ``do`` for each message that ``held`` still owns."""
        queue = self._queue(kind)
        ours = [m for m in map(queue.by_id.get, held.ids) if m is not None and m.lock == held.lock]
        for message in ours:
            do(queue, message)
        return len(ours)


def _replace(queue: _Queue, message: _Message, payload: bytes, scheduled_at: int, now: int) -> None:
    message.payload, message.scheduled_at, message.created_at = payload, scheduled_at, now
    message.lock, message.attempts = None, 0
    queue.push(message, scheduled_at)


def _never_delivered(message: _Message) -> bool:
    return message.lock is None and message.attempts == 0


def _forget(queue: _Queue, prefix: str, is_wanted: Callable[[str, int], bool]) -> int:
    """Delete the ticks of ``prefix`` with a wanted hash and time that were never delivered, from the ledger too."""
    doomed = []
    for message in queue.rows.values():
        its_hash = hash_in(message.key, prefix)
        if its_hash is not None and is_wanted(its_hash, message.scheduled_at) and _never_delivered(message):
            doomed.append(message)
    for message in doomed:
        queue.remove(message)
        queue.ticks.pop(message.key, None)
    return len(doomed)


def _raise_floor(queue: _Queue, prefix: str, config_hash: str, now: int) -> None:
    """Remember old ticks by one floor instead of one by one."""
    until, which = now - TICK_MEMORY_MS, (prefix, config_hash)
    old = {
        key: at
        for key, (p, h, at, recorded) in queue.ticks.items()
        if (p, h) == which and at < until * 1000 and recorded < until
    }
    delivered = [at for key, at in old.items() if (there := queue.rows.get(key)) is None or not _never_delivered(there)]
    floor = max([*delivered, *([queue.floors[which]] if which in queue.floors else [])], default=None)
    if floor is not None:
        queue.floors[which] = floor
        for key, at in old.items():
            if at <= floor:
                del queue.ticks[key]
