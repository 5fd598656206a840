"""What an operator asks of a queue in memory; a part of :class:`~drainq.delayed.storage.memory.MemoryStorage`."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from drainq.delayed.storage.memory_queue import Message, Queue
from drainq.delayed.storage.operator import FinishedMessage, QueueRow, ScheduleRow, ScheduleState, Tick
from drainq.delayed.storage.records import DeadLetter, Fetched, Held, Row


class MemoryOperator:
    """Reads and writes the same state as the storage, under the storage's lock."""

    _lock: threading.Lock
    _queues: dict[str, Queue]

    def _queue(self, kind: str) -> Queue:
        raise NotImplementedError

    def _next_id(self) -> int:
        raise NotImplementedError

    def _acquire(self, kind: str, limit: int, now: int, until: int, lock: str) -> list[Row]:
        raise NotImplementedError

    def _each(self, kind: str, held: Held, do: Callable[[Queue, Message], None]) -> int:
        raise NotImplementedError

    # --- queues

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
        with self._lock:
            self._queue(kind).ranked = True

    def database_time(self) -> float:
        return time.time()

    # --- consumers

    def acquire_within(self, kind: str, done: Held, most: int, limit: int, now: int, until: int, lock: str) -> Fetched:
        with self._lock:
            acked = self._each(kind, done, Queue.remove)
            room = max(0, min(limit, most - self._queue(kind).in_flight(now)))
            return Fetched(acked, self._acquire(kind, room, now, until, lock))

    def ack_and_remember(self, kind: str, done: Held, now: int, keep: int) -> int:
        def finish(queue: Queue, message: Message) -> None:
            queue.remove(message)
            queue.history.append(FinishedMessage(message.key, message.scheduled_at, message.attempts, now))
            while len(queue.history) > keep:
                queue.history.popleft()

        with self._lock:
            return self._each(kind, done, finish)

    def history(self, kind: str, limit: int) -> list[FinishedMessage]:
        with self._lock:
            return list(self._queue(kind).history)[: -limit - 1 : -1]

    # --- dead letters

    def dead_of(self, kind: str, prefix: str, limit: int) -> list[DeadLetter]:
        with self._lock:
            letters = [letter for letter in self._queue(kind).dead if letter.key.startswith(prefix)]
        return heapq.nlargest(limit, letters, key=lambda letter: letter.id)

    def dead_keys(self, kind: str, prefix: str) -> list[str]:
        with self._lock:
            return sorted({letter.key for letter in self._queue(kind).dead if letter.key.startswith(prefix)})

    def purge_dead(self, kind: str, before: int) -> int:
        with self._lock:
            queue = self._queue(kind)
            stay = [letter for letter in queue.dead if letter.died_at >= before]
            purged = len(queue.dead) - len(stay)
            queue.dead = stay
            return purged

    # --- schedules

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        with self._lock:
            schedules = self._queue(kind).schedules
            there = schedules.get(prefix)
            if there is None or (there.config_hash, there.description) != (config_hash, description):
                schedules[prefix] = ScheduleRow(prefix, config_hash, description, now, None)

    def schedules(self, kind: str) -> list[ScheduleRow]:
        with self._lock:
            queue = self._queue(kind)
            return [
                row._replace(last_tick=_latest(queue, row.key_prefix, row.config_hash))
                for _, row in sorted(queue.schedules.items())
            ]

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        with self._lock:
            queue = self._queue(kind)
            there = queue.schedules.get(prefix)
            return ScheduleState(there.config_hash if there else None, queue.floors.get((prefix, config_hash)))

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        with self._lock:
            queue = self._queue(kind)
            queue.schedules.pop(prefix, None)
            known = [key for key, tick in queue.ticks.items() if tick[0] == prefix]
            floors = [which for which in queue.floors if which[0] == prefix]
            for key in known:
                del queue.ticks[key]
            for which in floors:
                del queue.floors[which]
            return len(known) + len(floors)

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        with self._lock:
            queue = self._queue(kind)
            created = 0
            for tick in ticks:
                if tick.key in queue.ticks or queue.floors.get((prefix, config_hash)) == tick.nominal_at:
                    continue
                queue.ticks[tick.key] = (prefix, config_hash, tick.nominal_at, now)
                if tick.key not in queue.rows:
                    at = tick.scheduled_at
                    queue.insert(Message(self._next_id(), tick.key, tick.payload, at, at, now))
                    created += 1
            return created


def _latest(queue: Queue, prefix: str, config_hash: str) -> int | None:
    known = [at for p, h, at, _ in queue.ticks.values() if (p, h) == (prefix, config_hash)]
    floor = queue.floors.get((prefix, config_hash))
    return max((at for at in (*known, floor) if at is not None), default=None)
