"""Queues in memory: for each its rows by key, a heap of due times in front of them, its schedules.

# Invariants

1. Every row has exactly one heap entry with its current ``stamp``; entries with an older stamp are skipped.
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
from drainq.delayed.storage.operator import FinishedMessage, ScheduleRow
from drainq.delayed.storage.protocol import Offer
from drainq.delayed.storage.records import DeadLetter, Held, Row


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
    heap: list[tuple[int, int, int]] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    ticks: dict[str, tuple[str, str, int, int]] = field(default_factory=dict)  # key -> prefix, hash, nominal, recorded
    floors: dict[tuple[str, str], int] = field(default_factory=dict)  # prefix, hash -> nominal_at
    schedules: dict[str, ScheduleRow] = field(default_factory=dict)  # by prefix
    history: deque[FinishedMessage] = field(default_factory=deque)
    name: tuple[str, str] | None = None  # and the codec's
    paused: bool = False
    ranked: bool = False

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
        self.replace(there, offer.payload, offer.scheduled_at, now)
        there.priority = offer.priority
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
        heapq.heappush(self.heap, (due_at, message.id, message.stamp))
        if len(self.heap) > 2 * len(self.rows) + 64:
            self.heap = [(m.due_at, m.id, m.stamp) for m in self.rows.values()]
            heapq.heapify(self.heap)

    def remove(self, message: Message) -> None:
        del self.rows[message.key], self.by_id[message.id]

    def is_current(self, entry: tuple[int, int, int]) -> bool:
        message = self.by_id.get(entry[1])
        return message is not None and message.stamp == entry[2]

    def in_flight(self, now: int) -> int:
        return sum(message.lock is not None and message.due_at > now for message in self.rows.values())

    def due(self, limit: int, now: int) -> list[Message]:
        """The due messages to take next; those that the heap gave are to be pushed again."""
        if self.paused:
            return []
        if self.ranked:
            ready = (message for message in self.rows.values() if message.due_at <= now)
            return heapq.nsmallest(limit, ready, key=lambda m: (m.priority, m.due_at, m.id))
        taken: list[Message] = []
        while len(taken) < limit and (message := self.pop_due(now)) is not None:
            taken.append(message)
        return taken

    def pop_due(self, now: int) -> Message | None:
        while self.heap and (self.heap[0][0] <= now or not self.is_current(self.heap[0])):
            entry = heapq.heappop(self.heap)
            if self.is_current(entry):
                return self.by_id[entry[1]]
        return None


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
