"""What an operator asks of a back end, beside what producers and consumers do: the second half of the protocol.

A back end implements it in a class of its own (``memory_operator``, ``sqlite_operator``, ``postgres_operator``), which
its storage extends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Tick(NamedTuple):
    """One message of a schedule.

    ``nominal_at`` (microseconds since the epoch) is the moment that the key names; ``scheduled_at`` (milliseconds) is
    when the message is delivered.
    """

    key: str
    payload: bytes
    nominal_at: int
    scheduled_at: int


class ScheduleRow(NamedTuple):
    """A schedule as it is stored; ``installed_at`` is in milliseconds, ``last_tick`` in microseconds."""

    key_prefix: str
    config_hash: str
    description: str
    installed_at: int
    last_tick: int | None


class ScheduleState(NamedTuple):
    """What a scheduler checks when it plans a new tick.

    ``config_hash`` is the configuration that was installed last under the prefix, None if the prefix is unknown;
    ``floor`` (microseconds) belongs to the configuration that was asked for.
    """

    config_hash: str | None
    floor: int | None


class Operator(Protocol):
    """The part of a storage that an operator needs. Methods may be called from many threads at once."""

    # --- schedules

    def name_schedule(self, kind: str, *, prefix: str, config_hash: str, description: str, now: int) -> None:
        """Write down that this configuration is installed under ``prefix``, in place of any other."""
        ...

    def schedules(self, kind: str) -> list[ScheduleRow]:
        """The schedules that were installed, by prefix, each with the latest tick that its configuration created."""
        ...

    def schedule_state(self, kind: str, *, prefix: str, config_hash: str) -> ScheduleState:
        """The configuration that ``prefix`` has now, and the floor of ``config_hash``."""
        ...

    def forget_schedule(self, kind: str, *, prefix: str) -> int:
        """Delete the prefix from the schedules and its ticks and floors from the ledger; return how many entries.

        Messages stay.
        """
        ...

    def backfill_ticks(self, kind: str, *, prefix: str, config_hash: str, ticks: Sequence[Tick], now: int) -> int:
        """Create the ticks that the ledger does not hold, those below the floor too; return how many.

        No other configuration's ticks are deleted.
        """
        ...
