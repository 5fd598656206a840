"""The delayed queue as a dictionary: the plain model that the state machine compares the databases with.

It holds one queue and has the methods of a storage that the state machine calls, each written to be read, not to be
quick.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

from drainq.delayed.cron.tick_key import escape_hash, hash_in
from drainq.delayed.message import OfferOutcome
from drainq.delayed.storage.in_flight_limits import Room
from drainq.delayed.storage.operator_calls import dead_letter, finished, stored_message
from drainq.delayed.storage.records import (
    TICK_MEMORY_MS,
    Fetched,
    Offer,
    Row,
    taken_at_or_none,
)


@dataclass
class Message:
    """A message that is neither acknowledged nor dead."""

    id: int
    offer: Offer
    created_at: int
    due_at: int = field(init=False)
    lock: str | None = None
    attempts: int = 0
    error: str | None = None

    def __post_init__(self):
        self.due_at = self.offer.scheduled_at

    def row(self):
        key, payload, at, _, *more = self.offer
        locked = self.lock is not None
        return Row(self.id, key, payload, at, self.created_at, self.attempts, self.due_at, locked, *more)

    def is_chosen(self, chosen):
        """Whether it is of a key or a prefix."""
        key = self.offer.key
        return key == chosen.key if chosen.key is not None else key.startswith(chosen.prefix or "")

    @property
    def was_delivered(self):
        return self.lock is not None or self.attempts > 0


class Model:
    """A storage of one queue, for one thread."""

    worth_prefetching = False
    most_calls = 1
    is_shared = False

    def __init__(self):
        self._ids = itertools.count(1)
        self._rows = {}  # by key
        self._dead = []
        self._finished = []
        self._paused = False
        self._ticks = {}  # key -> prefix, hash, nominal, recorded
        self._floors = {}  # prefix, hash -> nominal

    def close(self):
        """Do nothing."""

    def is_transient(self, error):
        return False

    def database_time(self):
        return time.time()

    # --- producers

    def offer(self, kind, offers, now, *, connection=None, announce=None, again=False):
        return [self._offer(offer, now) for offer in offers]

    def _offer(self, offer, now):
        there = self._rows.get(offer.key)
        if there is None:
            self._rows[offer.key] = Message(next(self._ids), offer, now)
            return OfferOutcome.CREATED
        if not offer.can_update or there.offer._replace(can_update=True) == offer:
            return OfferOutcome.IGNORED
        self._rows[offer.key] = Message(there.id, offer, now)
        return OfferOutcome.UPDATED

    # --- consumers

    def acquire(self, kind, limit, now, until, lock, *, done=None):
        acked = self.ack(kind, done) if done else 0
        rows = self._acquire(limit, now, until, lock)
        return Fetched(acked, rows, None if rows else self.next_due(kind, now))

    def acquire_within(self, kind, done, limits, limit, now, until, lock):
        acked = self.ack(kind, done)
        in_flight = [key for key, message in self._rows.items() if message.lock is not None and message.due_at > now]
        return Fetched(acked, self._acquire(limit, now, until, lock, Room(limits, in_flight)))

    def _acquire(self, limit, now, until, lock, room=None):
        due = [] if self._paused else [message for message in self._rows.values() if message.due_at <= now]
        due = [message for message in due if self._is_free(message)]
        due.sort(key=lambda message: (message.offer.priority, message.due_at, message.id))
        fitting = (message for message in due if room is None or room.take(message.offer.key))
        taken = list(itertools.islice(fitting, limit))
        for message in taken:
            message.lock, message.due_at, message.attempts = lock, until, message.attempts + 1
        return sorted((message.row() for message in taken), key=lambda row: (row.priority, row.scheduled_at, row.id))

    def _is_free(self, message):
        """Whether it is the first of its group, none of which is in flight, or its own lease has ended."""
        if message.offer.group is None or message.lock is not None:
            return True
        group = [other for other in self._rows.values() if other.offer.group == message.offer.group]
        first = min(group, key=lambda other: (other.offer.scheduled_at, other.id))
        return first is message and all(other.lock is None for other in group)

    def _held(self, held):
        return [message for message in self._rows.values() if message.id in held.ids and message.lock == held.lock]

    def ack(self, kind, done, *, past=None, connection=None):
        ours = self._ended(done, "acknowledged", past)
        for message in ours:
            del self._rows[message.offer.key]
        return len(ours)

    def _ended(self, held, outcome, past, error=None):
        ours = self._held(held)
        for message in sorted(ours, key=lambda message: (message.offer.scheduled_at, message.id)) if past else ():
            offer, started = message.offer, taken_at_or_none(message.lock)
            entry = offer.key, offer.scheduled_at, message.attempts, past.now, outcome, started, error, self.holder
            self._finished.insert(0, finished(*entry))
        if past:
            del self._finished[past.keep :]
        return ours

    def nack(self, kind, held, due_at, error, past=None):
        ours = self._ended(held, "given back", past, error)
        for message in ours:
            message.lock, message.due_at, message.error = None, due_at, message.error if error is None else error
        return len(ours)

    def release(self, kind, held, due_at=None):
        ours = self._held(held)
        for message in ours:
            if due_at is not None:
                message.offer = message.offer._replace(scheduled_at=due_at)
            message.lock, message.due_at, message.attempts = None, message.offer.scheduled_at, message.attempts - 1
        return len(ours)

    def extend(self, kind, held, until):
        ours = self._held(held)
        for message in ours:
            message.due_at = until
        return len(ours)

    def bury(self, kind, held, now, error, past=None):
        for message in self._ended(held, "dead", past, error):
            key, payload, at, _, *more = message.offer
            letter = dead_letter((next(self._ids), key, payload, at, message.attempts, error, now, *more))
            self._dead.append(letter)
        return self.ack(kind, held)

    def next_due(self, kind, after):
        return min((message.due_at for message in self._rows.values() if message.due_at > after), default=None)

    def history(self, kind, limit, key=None):
        return [attempt for attempt in self._finished if key in (None, attempt.key)][:limit]

    # --- reading and removing

    def read(self, kind, key):
        message = self._rows.get(key)
        return message and message.row()

    def delete_unchanged(self, kind, row):
        there = self.read(kind, row.key)
        same = there is not None and (there.id, there.payload, there.scheduled_at, there.created_at) == (
            row.id, row.payload, row.scheduled_at, row.created_at
        )  # fmt: skip
        return same and self.drop(kind, row.key)

    def drop(self, kind, key):
        return self._rows.pop(key, None) is not None

    def _chosen(self, chosen):
        return [message for message in self._rows.values() if message.is_chosen(chosen)]

    def drop_all(self, kind, chosen):
        return sum(self.drop(kind, message.offer.key) for message in self._chosen(chosen))

    def free(self, kind, chosen, now):
        held = [message for message in self._chosen(chosen) if message.lock is not None]
        for message in held:
            message.lock, message.due_at = None, now
        return len(held)

    def reschedule(self, kind, chosen, at, now):
        moved = [it for it in self._chosen(chosen) if (at > now if it.due_at <= now else it.lock is None)]
        for message in moved:
            message.lock, message.due_at, message.offer = None, at, message.offer._replace(scheduled_at=at)
        return len(moved)

    def peek(self, kind, chosen, limit):
        rows = sorted(self._chosen(chosen), key=lambda it: (it.due_at, it.id))[:limit]
        return [
            stored_message(
                [
                    *(it.offer.key, it.offer.payload, it.offer.scheduled_at, it.due_at, it.created_at, it.attempts),
                    *(it.offer.priority, it.error, self.holder, it.lock, it.offer.max_attempts, it.offer.group),
                ]
            )
            for it in rows
        ]

    def counts(self, kind, now):
        rows = self._rows.values()
        ready = [max(0, now - max(it.due_at, it.created_at)) for it in rows if it.due_at <= now]
        leased = sum(message.lock is not None and message.due_at > now for message in rows)
        again = sum(message.attempts > 1 for message in rows)
        age = max(ready, default=0) / 1000
        later = len(rows) - len(ready) - leased
        expired = sum(it.lock is not None and it.due_at <= now for it in rows)
        began = [at for it in rows if it.due_at > now and (at := taken_at_or_none(it.lock)) is not None]
        longest = max(0, now - min(began, default=now)) / 1000
        return len(ready), later, leased, age, again, len(self._dead), self._paused, 0, expired, longest

    # --- dead letters

    def dead(self, kind, limit):
        return self._dead[: -limit - 1 : -1]

    def redrive(self, kind, now, keys=None):
        latest = {letter.key: letter for letter in self._dead if keys is None or letter.key in keys}
        back = sorted(letter for key, letter in latest.items() if key not in self._rows)
        for letter in back:
            self._offer(
                Offer(letter.key, letter.payload, now, False, letter.priority, letter.max_attempts, letter.group), now
            )
            self._dead.remove(letter)
        return len(back)

    def drop_dead(self, kind, keys=None):
        before = len(self._dead)
        self._dead = [letter for letter in self._dead if keys is not None and letter.key not in keys]
        return before - len(self._dead)

    # --- queues

    def set_paused(self, kind, *, name, type_name, paused, by=None):
        before, self._paused = self._paused, paused
        return before != paused

    def is_paused(self, kind):
        return self._paused

    def mark_ranked(self, kind, *, name, type_name, connection=None):
        """Every message is delivered by priority."""

    # --- schedules

    def install_ticks(self, kind, *, prefix, config_hash, ticks, now, update=False, description=None):
        ours, which = escape_hash(config_hash), (prefix, config_hash)
        self._forget(prefix, lambda its_hash, at: its_hash != ours and at > now)
        floor, created = self._floors.get(which), 0
        for tick in ticks:
            offer = Offer(tick.key, tick.payload, tick.scheduled_at, can_update=update)
            there = self._rows.get(tick.key)
            if tick.key not in self._ticks and (floor is None or tick.nominal_at > floor):
                self._ticks[tick.key] = (*which, tick.nominal_at, now)
                created += self._offer(offer, now) is OfferOutcome.CREATED
            elif update and there is not None and not there.was_delivered:
                self._offer(offer, now)
        self._raise_floor(which, now)
        return created

    def uninstall_ticks(self, kind, *, prefix, config_hash):
        ours = escape_hash(config_hash)
        return self._forget(prefix, lambda its_hash, at: its_hash == ours)

    def last_tick(self, kind, *, prefix, config_hash, until):
        known = [at for p, h, at, _ in self._ticks.values() if (p, h) == (prefix, config_hash)]
        floor = self._floors.get((prefix, config_hash))
        return max((at for at in (*known, floor) if at is not None and at <= until), default=None)

    def _forget(self, prefix, is_wanted):
        """Delete the ticks of ``prefix`` with a wanted hash and time that were never delivered."""
        doomed = []
        for key, message in self._rows.items():
            its_hash = hash_in(key, prefix)
            if its_hash is not None and is_wanted(its_hash, message.offer.scheduled_at) and not message.was_delivered:
                doomed.append(key)
        for key in doomed:
            del self._rows[key]
            self._ticks.pop(key, None)
        return len(doomed)

    def _raise_floor(self, which, now):
        """Let one floor stand for the old ticks that were delivered, and for all before them."""
        until = now - TICK_MEMORY_MS
        old = {
            key: at
            for key, (p, h, at, recorded) in self._ticks.items()
            if (p, h) == which and at < until * 1000 and recorded < until
        }
        delivered = [at for key, at in old.items() if key not in self._rows or self._rows[key].was_delivered]
        if which in self._floors:
            delivered.append(self._floors[which])
        if delivered:
            self._floors[which] = max(delivered)
        for key, at in old.items():
            if delivered and at <= max(delivered):
                del self._ticks[key]
