"""Schedule administration: lists schedules, forgets them, and makes up for missed ticks.

:class:`~drainq.delayed.cron.service.CronService` extends this class and installs schedules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice, takewhile
from typing import Generic, NoReturn, TypeVar

from drainq.delayed.coroutines import twin
from drainq.delayed.cron.cron_message import CronMessage, in_utc, microseconds
from drainq.delayed.cron.schedule_handle import CronHandle
from drainq.delayed.cron.tick_key import tick_key
from drainq.delayed.encode import checked_bytes
from drainq.delayed.message import When, check_key, check_text, from_ms, to_ms
from drainq.delayed.storage.records import ScheduleState, Tick
from drainq.delayed.storage_session import Session
from drainq.pickling import refuse


@dataclass(frozen=True)
class InstalledSchedule:
    """A schedule that was installed under a prefix of a queue; see :meth:`CronService.schedules`.

    Attributes:
        key_prefix: names the schedule.
        config_hash: the configuration that was installed last.
        description: its times: ``every 900 s``, ``cron 30 6 * * MON-FRI in Europe/Bucharest``.
        installed_at: since when this configuration is the installed one, in UTC.
        last_tick: the latest tick that this configuration made, also a planned one; None before the first.
    """

    key_prefix: str
    config_hash: str
    description: str
    installed_at: datetime
    last_tick: datetime | None


T = TypeVar("T")

MOST_BACKFILLED = 100_000
"""The most ticks of one :meth:`CronAdmin.backfill`."""

_log = logging.getLogger("drainq")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Ticks(Generic[T]):
    """The times of a schedule, and its messages."""

    after: Callable[[datetime], Iterator[datetime]]
    payload_of: Callable[[datetime], T]


@dataclass(frozen=True)
class Plan(Generic[T]):
    """A schedule that one service installed: its names, its description, and its ticks if they are known in advance."""

    config_hash: str
    key_prefix: str
    description: str
    ticks: Ticks[T] | None


class CronAdmin(Generic[T]):
    """The methods of :class:`~drainq.delayed.CronService` for operators."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storage = session.storage
        self._kind = session.kind
        self._encode: Callable[[T], bytes] = session.codec.encode
        self._clock = session.clock
        self._log_values = session.log_values
        self._call = session.call
        self._installed: dict[str, Plan[T]] = {}
        self._handles: dict[str, CronHandle] = {}

    def __reduce__(self) -> NoReturn:
        refuse(self, "its schedules run in this process", "the URL and name of its queue, and take cron of that")

    def schedules(self) -> list[InstalledSchedule]:
        """Return the schedules that any process has installed in this queue, in the order of their prefixes.

        A schedule stays listed after its handles are closed, until :meth:`forget`. If it still runs then, it is
        listed again: at once if this object installed it, else at one of its next checks.
        """
        rows = self._call(lambda: self._storage.schedules(self._kind))
        return [
            InstalledSchedule(
                row.key_prefix,
                row.config_hash,
                row.description,
                from_ms(row.installed_at),
                None if row.last_tick is None else _EPOCH + timedelta(microseconds=row.last_tick),
            )
            for row in rows
        ]

    def forget(self, key_prefix: str) -> int:
        """Forget which ticks a prefix has made, as if it had never been installed. Its messages stay.

        Use it after a clock was wrong: ticks that were made for future times can then be made again. First use
        :meth:`uninstall_tick` to drop the ticks planned by mistake. A recent tick whose message was handled may be
        sent a second time.

        Args:
            key_prefix: names the schedule.

        Returns:
            How many ticks were forgotten; 0 if the prefix is unknown.
        """
        check_names("-", key_prefix)
        forgotten = self._call(lambda: self._storage.forget_schedule(self._kind, prefix=key_prefix))
        handle = self._handles.get(key_prefix)
        if handle is not None and not handle.closed:
            self._name_again(self._installed[key_prefix])
        return forgotten

    def backfill(self, key_prefix: str, start: When, end: When) -> int:
        """Make all ticks of a range of time now, even those in the past.

        A tick in the ledger (those of the last two days, and planned ones) is not made again. An older tick is made
        again, even if it was handled. Ticks in the past are due at once, the earliest first.

        Args:
            key_prefix: a periodic, cron or daily schedule that this object has installed; its handle may be closed.
            start: the first time of the range, an aware datetime or seconds since the epoch.
            end: the end of the range, which is not part of it.

        Returns:
            How many ticks were made.

        Raises:
            KeyError: this object has installed no such schedule.
            ValueError: the range is empty or reversed, or has more than 100,000 ticks.
        """
        first, last = in_utc(start, "start"), in_utc(end, "end")
        if first >= last:
            raise ValueError(f"start must lie before end, got {start!r} and {end!r}")
        schedule = self._installed.get(key_prefix)
        if schedule is None or schedule.ticks is None:
            known = ", ".join(sorted(p for p, s in self._installed.items() if s.ticks is not None)) or "none"
            raise KeyError(
                f"this object has installed no periodic, cron or daily schedule {key_prefix!r}; it has: {known}"
            )
        ticks, messages = schedule.ticks, list[CronMessage[T]]()
        try:
            times = list(
                islice(
                    takewhile(lambda at: at < last, ticks.after(first - timedelta(microseconds=1))), MOST_BACKFILLED + 1
                )
            )
        except OverflowError:
            raise ValueError(f"the range must lie within the years 2 to 9998, got {start!r} to {end!r}") from None
        if len(times) > MOST_BACKFILLED:
            raise ValueError(f"the range has more than {MOST_BACKFILLED} ticks: take a shorter one")
        messages.extend(CronMessage(ticks.payload_of(at), at) for at in times)
        planned = [self._tick(schedule.config_hash, key_prefix, message) for message in messages]
        now = to_ms(self._clock.now(), "the clock")
        made = self._call(
            lambda: self._storage.backfill_ticks(
                self._kind, prefix=key_prefix, config_hash=schedule.config_hash, ticks=planned, now=now
            )
        )
        return self._count(made)

    def _count(self, made: int) -> int:
        """Count new messages, and wake the consumers."""
        if made:
            self._session.activity.add("offered", made)
            self._session.wakeup.wake()
        return made

    schedules_async = twin(schedules)
    forget_async = twin(forget)
    backfill_async = twin(backfill)

    def _name_again(self, schedule: Plan[T]) -> None:
        """Enter a running schedule into the list of schedules."""
        named = {"prefix": schedule.key_prefix, "config_hash": schedule.config_hash}
        now = to_ms(self._clock.now(), "the clock")
        self._call(lambda: self._storage.name_schedule(self._kind, **named, description=schedule.description, now=now))

    def _state(self, schedule: Plan[T], ticks: Mapping[str, Tick]) -> ScheduleState:
        """Read the state of a schedule and its ticks, in one statement that takes no lock."""
        which = {"prefix": schedule.key_prefix, "config_hash": schedule.config_hash}
        return self._call(lambda: self._storage.schedule_state(self._kind, **which, keys=list(ticks)))

    def _warned(
        self, schedule: Plan[T], messages: Sequence[CronMessage[T]], now: datetime, state: ScheduleState
    ) -> bool:
        """Log why a schedule no longer runs as it was installed, and return True. Return False if it does."""
        prefix = schedule.key_prefix
        if state.config_hash is None:  # another process forgot it while it runs here
            self._name_again(schedule)
        elif state.config_hash != schedule.config_hash:
            _log.warning(
                "schedule %r: another configuration was installed under this prefix after the one here (%s); while both"
                " run, ticks of both are sent",
                prefix,
                schedule.description,
            )
            return True
        floor = state.floor
        refused = (
            0 if floor is None else sum(now < m.schedule_at and microseconds(m.schedule_at) <= floor for m in messages)
        )
        if refused:
            _log.warning(
                "schedule %r: %d ticks lie below its floor and are not sent; if a clock was far ahead when the floor"
                " was raised, queue.cron.forget(%r) makes the schedule begin anew",
                prefix,
                refused,
                prefix,
            )
        return refused > 0

    def _tick(self, config_hash: str, key_prefix: str, message: CronMessage[T]) -> Tick:
        if not isinstance(message, CronMessage):
            raise TypeError(f"messages must hold CronMessage values, got a {type(message).__name__}")
        key = check_key(tick_key(key_prefix, config_hash, microseconds(message.schedule_at)))
        payload = checked_bytes(self._encode(message.payload))
        return Tick(key, payload, microseconds(message.schedule_at), to_ms(message.delivered_at))


def check_names(config_hash: str, key_prefix: str) -> None:
    """Refuse a hash or a prefix that is blank, no str, or too long for a key."""
    for name, value in (("config_hash", config_hash), ("key_prefix", key_prefix)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, got {value!r}")
        if not value.strip():
            raise ValueError(f"{name} must not be blank, got {value!r}")
        check_text(value, name)
    check_key(tick_key(key_prefix, config_hash, 0))
