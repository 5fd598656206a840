"""Queues in memory: for each its rows by key, a heap of due times for each priority, its schedules.

# Invariants

1. Every row has exactly one entry with its current ``stamp``, in the heap of its priority; others are skipped.
2. All state is read and written under :class:`MemoryQueues`'s ``_lock``.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.in_flight_limits import Room
from drainq.delayed.storage.operator_protocol import FinishedMessage, ScheduleRow
from drainq.delayed.storage.protocol import Offer
from drainq.delayed.storage.records import DeadLetter, Held, Row

Entry = tuple[int, int, int]
NEVER = float("inf")


@dataclass
class Message:
    id: int
    key: str
    payload: bytes
    scheduled_at: int
    due_at: int
    created_at: int
    lock: str | None = None
    attempts: int = 0
    priority: int = 0
    stamp: int = 0
    changes: int = 0

    def row(self) -> Row:
        return Row(
            self.id,
            self.key,
            self.payload,
            self.scheduled_at,
            self.created_at,
            self.attempts,
            self.due_at,
            self.lock is not None,
            self.priority,
        )

    @property
    def was_delivered(self) -> bool:
        return self.lock is not None or self.attempts > 0


@dataclass
class Queue:
    """One queue: the rows of one ``kind``."""

    ids: Iterator[int]
    rows: dict[str, Message] = field(default_factory=dict)
    by_id: dict[int, Message] = field(default_factory=dict)
    heaps: dict[int, list[Entry]] = field(default_factory=dict)  # by priority; due time, id, stamp
    entries: int = 0  # in all heaps
    dead: list[DeadLetter] = field(default_factory=list)
    ticks: dict[str, tuple[str, str, int, int]] = field(default_factory=dict)  # key -> prefix, hash, nominal, recorded
    floors: dict[tuple[str, str], int] = field(default_factory=dict)  # prefix, hash -> nominal_at
    schedules: dict[str, ScheduleRow] = field(default_factory=dict)  # by prefix
    history: deque[FinishedMessage] = field(default_factory=deque)
    name: tuple[str, str] | None = None  # and the codec's
    paused: bool = False

    def offer(self, offer: Offer, now: int) -> OfferOutcome:
        there = self.rows.get(offer.key)
        if there is None:
            at = offer.scheduled_at
            self.insert(Message(next(self.ids), offer.key, offer.payload, at, at, now, priority=offer.priority))
            return OfferOutcome.CREATED
        same = (there.payload, there.scheduled_at, there.priority) == (
            offer.payload,
            offer.scheduled_at,
            offer.priority,
        )
        if same or not offer.can_update:
            return OfferOutcome.IGNORED
        there.priority = offer.priority
        self.replace(there, offer.payload, offer.scheduled_at, now)
        return OfferOutcome.UPDATED

    def replace(self, message: Message, payload: bytes, scheduled_at: int, now: int) -> None:
        message.payload, message.scheduled_at, message.created_at = payload, scheduled_at, now
        message.lock, message.attempts = None, 0
        self.push(message, scheduled_at)

    def insert(self, message: Message) -> None:
        self.rows[message.key] = self.by_id[message.id] = message
        self.push(message, message.due_at)

    def push(self, message: Message, due_at: int) -> None:
        message.due_at = due_at
        message.stamp += 1
        self._enter(message)
        if self.entries > 2 * len(self.rows) + 64:
            self.heaps.clear()
            self.entries = 0
            for row in self.rows.values():
                self._enter(row)

    def _enter(self, message: Message) -> None:
        heap = self.heaps.setdefault(message.priority, [])
        heapq.heappush(heap, (message.due_at, message.id, message.stamp))
        self.entries += 1

    def clear(self) -> int:
        dropped = len(self.rows)
        self.rows.clear()
        self.by_id.clear()
        self.heaps.clear()
        self.entries = 0
        return dropped

    def remove(self, message: Message) -> None:
        del self.rows[message.key], self.by_id[message.id]

    def is_current(self, entry: Entry) -> bool:
        message = self.by_id.get(entry[1])
        return message is not None and message.stamp == entry[2]

    def in_flight(self, now: int) -> list[str]:
        """The keys of the messages in flight."""
        return [key for key, message in self.rows.items() if message.lock is not None and message.due_at > now]

    def due(self, limit: int, now: int, room: Room | None = None) -> list[Message]:
        """The due messages to take next, as far as there is ``room``; they are to be pushed again."""
        taken: list[Message] = []
        passed: list[Message] = []
        for priority in [] if self.paused else sorted(self.heaps):
            while len(taken) < limit and self._first(priority) <= now:
                message = self.by_id[heapq.heappop(self.heaps[priority])[1]]
                self.entries -= 1
                (taken if room is None or room.take(message.key) else passed).append(message)
        for message in passed:
            self._enter(message)
        return taken

    def next_due(self, after: int) -> int | None:
        firsts = [self._first(priority) for priority in list(self.heaps)]
        if any(first <= after for first in firsts):  # something is due already: look past it
            return min((m.due_at for m in self.rows.values() if m.due_at > after), default=None)
        soonest = min(firsts, default=NEVER)
        return None if soonest == NEVER else int(soonest)

    def _first(self, priority: int) -> float:
        """When the first message of a priority becomes due."""
        heap = self.heaps.get(priority, [])
        while heap and not self.is_current(heap[0]):
            heapq.heappop(heap)
            self.entries -= 1
        if not heap:
            self.heaps.pop(priority, None)
            return NEVER
        return heap[0][0]


class MemoryQueues:
    """The queues of a storage in memory by their kind, and the lock around them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, Queue] = {}
        self._ids = itertools.count(1)

    def _queue(self, kind: str) -> Queue:
        queue = self._queues.get(kind)
        return queue or self._queues.setdefault(kind, Queue(self._ids))

    def _each(self, kind: str, held: Held, do: Callable[[Queue, Message], None]) -> int:
        """Call ``do`` for each message that ``held`` still owns."""
        queue = self._queue(kind)
        ours = [m for m in map(queue.by_id.get, held.ids) if m is not None and m.lock == held.lock]
        for message in ours:
            do(queue, message)
        return len(ours)
