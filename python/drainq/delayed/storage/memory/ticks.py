"""A queue in memory: the ticks of schedules are created once each, and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drainq.delayed.cron.tick_key import escape_hash, hash_in
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.memory.queue import MemoryQueues, Message, Queue
from drainq.delayed.storage.operator_protocol import ScheduleRow, ScheduleState, Tick
from drainq.delayed.storage.protocol import TICK_MEMORY_MS, Offer


class MemoryTicks(MemoryQueues):
    """The part of a storage that keeps the ticks of schedules."""

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
                    if update and there is not None and not there.was_delivered:
                        if (there.payload, there.scheduled_at) != (tick.payload, tick.scheduled_at):
                            queue.replace(there, tick.payload, tick.scheduled_at, now)
                    continue
                queue.ticks[tick.key] = (prefix, config_hash, tick.nominal_at, now)
                offer = Offer(tick.key, tick.payload, tick.scheduled_at, can_update=update)
                created += queue.offer(offer, now) is OfferOutcome.CREATED
            _raise_floor(queue, prefix, config_hash, now)
            return created

    def uninstall_ticks(self, kind: str, *, prefix: str, config_hash: str) -> int:
        with self._lock:
            ours = escape_hash(config_hash)
            return _forget(self._queue(kind), prefix, lambda its_hash, at: its_hash == ours)

    def last_tick(self, kind: str, *, prefix: str, config_hash: str, until: int) -> int | None:
        with self._lock:
            queue = self._queue(kind)
            return max((at for at in _nominals(queue, prefix, config_hash) if at <= until), default=None)

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
                row._replace(last_tick=max(_nominals(queue, row.key_prefix, row.config_hash), default=None))
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
                    queue.insert(Message(next(queue.ids), tick.key, tick.payload, at, at, now))
                    created += 1
            return created


def _nominals(queue: Queue, prefix: str, config_hash: str) -> list[int]:
    """The times of the ticks that this configuration created; for those below its floor, the floor."""
    known = [at for p, h, at, _ in queue.ticks.values() if (p, h) == (prefix, config_hash)]
    floor = queue.floors.get((prefix, config_hash))
    return known if floor is None else [*known, floor]


def _forget(queue: Queue, prefix: str, is_wanted: Callable[[str, int], bool]) -> int:
    """Delete the ticks of ``prefix`` with a wanted hash and time that were never delivered, from the ledger too."""
    doomed = []
    for message in queue.rows.values():
        its_hash = hash_in(message.key, prefix)
        if its_hash is not None and is_wanted(its_hash, message.scheduled_at) and not message.was_delivered:
            doomed.append(message)
    for message in doomed:
        queue.remove(message)
        queue.ticks.pop(message.key, None)
    return len(doomed)


def _raise_floor(queue: Queue, prefix: str, config_hash: str, now: int) -> None:
    """Remember old ticks by one floor instead of one by one."""
    until, which = now - TICK_MEMORY_MS, (prefix, config_hash)
    old = {
        key: at
        for key, (p, h, at, recorded) in queue.ticks.items()
        if (p, h) == which and at < until * 1000 and recorded < until
    }
    delivered = [at for key, at in old.items() if (there := queue.rows.get(key)) is None or there.was_delivered]
    floor = max([*delivered, *([queue.floors[which]] if which in queue.floors else [])], default=None)
    if floor is not None:
        queue.floors[which] = floor
        for key, at in old.items():
            if at <= floor:
                del queue.ticks[key]
