"""The start time of these tests, and their questions to a queue with ticks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from drainq.delayed import DelayedQueue
from drainq.delayed.cron.cron_message import microseconds
from drainq.delayed.cron.tick_key import tick_key

UTC = timezone.utc
START = datetime(2025, 1, 1, 10, 37, 42, 123000, tzinfo=UTC)
LEASE = 30.0
"""Seconds."""


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def key_of(config: str, prefix: str, at: datetime) -> str:
    """Return the key of a tick's message."""
    return tick_key(prefix, config, microseconds(at))


def drain(queue: DelayedQueue) -> list[str]:
    """Take, acknowledge and return the payloads of everything that is due."""
    taken = []
    while envelope := queue.try_poll():
        taken.append(envelope.payload)
        assert envelope.ack()
    return taken


def planned(queue: DelayedQueue, *ticks: tuple[str, str, float]) -> list[bool]:
    """Return whether there is a message for each (hash, prefix, seconds after the start)."""
    return [queue.contains_message(key_of(config, prefix, after(at))) for config, prefix, at in ticks]
