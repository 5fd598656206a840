"""The checks of a schedule: each finds the ticks to plan, and makes those that the database does not know.

:class:`~drainq.delayed.cron.service.CronService` extends this class and computes the times of ticks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from drainq.delayed.cron.admin import CronAdmin, Plan, check_names
from drainq.delayed.cron.cron_message import CronMessage, microseconds
from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.delayed.cron.schedule_watch import Watch
from drainq.delayed.cron.tick_key import tick_key
from drainq.delayed.message import to_ms
from drainq.delayed.storage.records import Tick
from drainq.delayed.storage_session import Session
from drainq.errors import ShutDown

T = TypeVar("T")

Ahead = Callable[[datetime], tuple[list[datetime], timedelta]]
"""Returns, for a time, the ticks to plan, and the longest wait until the next check."""

_SAY_AGAIN = 60.0  # seconds between two warnings about one schedule
_LOOK_AGAIN = 60.0  # seconds after which a check asks the database again for ticks that it knows to be made
_MOST_READ = 4  # up to this many ticks are compared with their messages; more are always written
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Look(Generic[T]):
    """The messages that a check has found, and the longest time until the next check."""

    messages: Sequence[CronMessage[T]]
    again: timedelta


class CronChecks(CronAdmin[T]):
    """Starts schedules and checks them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._watch = Watch(session.clock, lambda keys: session.call_once(self._storage.made_ticks, self._kind, keys))

    def _start(
        self, schedule: Plan[T], look: Callable[[datetime], Look[T]], *, retry: timedelta, ahead: Ahead | None = None
    ) -> CronHandle:
        config_hash, key_prefix = schedule.config_hash, schedule.key_prefix
        check_names(config_hash, key_prefix)
        self._call(lambda: None)  # raises here if the queue is closed, and not in a background check
        first_check = True  # it updates undelivered ticks that an earlier release of the program planned
        said = -_SAY_AGAIN
        known: AbstractSet[str] = frozenset()  # the ticks that the last query found, or that were made
        known_at = 0.0

        def check(handle: CronHandle) -> float:
            nonlocal first_check, said, known, known_at
            now = _EPOCH + timedelta(seconds=self._clock.now())
            found = look(now)
            if handle.closed:  # while the function ran
                return found.again.total_seconds()
            ticks = self._ticks(config_hash, key_prefix, found.messages)
            recent = not first_check and abs(now.timestamp() - known_at) < _LOOK_AGAIN
            if recent and ticks.keys() <= known:
                return found.again.total_seconds()
            if recent and ahead is not None:  # the watch has asked for these ticks, together with others
                self._install(config_hash, key_prefix, ticks)
                known = ticks.keys()
                return found.again.total_seconds()
            state = self._state(schedule, ticks)
            renew = first_check and (
                (state.config_hash, state.description) != (config_hash, schedule.description)
                or not ticks
                or self._outdated(ticks)
            )
            if renew or state.made < len(ticks):
                description = schedule.description if renew else None
                self._install(config_hash, key_prefix, ticks, update=first_check, description=description)
            if renew:
                state = state._replace(config_hash=config_hash)
            first_check, known, known_at = False, ticks.keys(), now.timestamp()
            if ticks and time.monotonic() - said >= _SAY_AGAIN:
                if self._warned(schedule, found.messages, now, state):
                    said = time.monotonic()
            return found.again.total_seconds()

        def counted(handle: CronHandle) -> float:
            try:
                return check(handle)
            except Exception as error:
                if not isinstance(error, ShutDown):
                    self._session.activity.add("schedule_errors", 1)
                raise

        def plan(now: float) -> tuple[list[str], float] | None:
            if ahead is None or first_check or abs(now - known_at) >= _LOOK_AGAIN:
                return None
            times, again = ahead(_EPOCH + timedelta(seconds=now))
            keys = [tick_key(key_prefix, config_hash, microseconds(at)) for at in times]
            return [key for key in keys if key not in known], again.total_seconds()

        self._installed[key_prefix] = schedule
        handle = CronHandle(
            key_prefix,
            counted,
            clock=self._clock,
            retry=retry.total_seconds(),
            watch=self._watch,
            plan=None if ahead is None else plan,
            log_values=self._log_values,
        )
        self._handles[key_prefix] = handle
        handle.start()
        return handle

    def _outdated(self, ticks: Mapping[str, Tick]) -> bool:
        """Return whether a tick has another payload or time than its message, or there are too many to compare."""
        if len(ticks) > _MOST_READ:
            return True
        rows = [self._call(self._storage.read, self._kind, key) for key in ticks]
        return any(
            row is not None and (row.payload, row.scheduled_at) != (tick.payload, tick.scheduled_at)
            for row, tick in zip(rows, ticks.values())
        )

    def _ticks(self, config_hash: str, key_prefix: str, messages: Iterable[CronMessage[T]]) -> dict[str, Tick]:
        """Return the ticks of messages by key, the first of two with one key."""
        ticks: dict[str, Tick] = {}
        for message in messages:
            tick = self._tick(config_hash, key_prefix, message)
            ticks.setdefault(tick.key, tick)
        return ticks

    def _install(
        self,
        config_hash: str,
        key_prefix: str,
        ticks: Mapping[str, Tick],
        *,
        update: bool = False,
        description: str | None = None,
    ) -> int:
        """Make the ticks. With a ``description`` enter the schedule into the list of schedules, too."""
        now = to_ms(self._clock.now(), "the clock")
        made = self._call(
            lambda: self._storage.install_ticks(
                self._kind,
                prefix=key_prefix,
                config_hash=config_hash,
                ticks=[*ticks.values()],
                now=now,
                update=update,
                description=description,
            )
        )
        return self._count(made)
