"""InstalledSchedule: the description of a schedule for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class InstalledSchedule:
    """A schedule that was installed under a prefix of a queue; see :meth:`CronService.schedules`.

    Attributes:
        key_prefix: names the schedule.
        config_hash: the configuration that was installed last.
        description: its times: ``every 900 s``, ``cron 30 6 * * MON-FRI in Europe/Bucharest``.
        installed_at: when this configuration was first installed, in UTC.
        last_tick: the latest tick that it made, also a planned one; None before the first.
    """

    key_prefix: str
    config_hash: str
    description: str
    installed_at: datetime
    last_tick: datetime | None
