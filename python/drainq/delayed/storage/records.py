"""What storages hand out: a stored message, what an acquisition owns, a dead letter."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A message as it is stored; ``scheduled_at`` is the time it was offered for, ``due_at`` when it is due next."""

    id: int
    key: str
    payload: bytes
    scheduled_at: int
    created_at: int
    attempts: int
    due_at: int
    locked: bool
    priority: int = 0


class Held(NamedTuple):
    """Messages that one acquisition owns (invariant 2)."""

    lock: str
    ids: tuple[int, ...]


class Fetched(NamedTuple):
    """What came of taking messages.

    ``acked`` says how many of those that were to be acknowledged with it were still ours. ``next_due`` is known only if
    there are no ``rows``: the earliest later time (milliseconds) at which a message becomes due, None if none will.
    """

    acked: int
    rows: list[Row]
    next_due: int | None = None


class DeadLetter(NamedTuple):
    """A message that was given up on, with the reason."""

    id: int
    key: str
    payload: bytes
    scheduled_at: int
    attempts: int
    error: str
    died_at: int
    priority: int = 0
