"""What an operator asks of a queue in memory; a part of :class:`~drainq.delayed.storage.memory.MemoryStorage`."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from drainq.delayed.storage.memory_queue import Message, Queue
from drainq.delayed.storage.operator import ScheduleRow, ScheduleState, Tick


class MemoryOperator:
    """Reads and writes the same state as the storage, under the storage's lock."""

    _lock: threading.Lock

    def _queue(self, kind: str) -> Queue:
        raise NotImplementedError

    def _next_id(self) -> int:
        raise NotImplementedError

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
