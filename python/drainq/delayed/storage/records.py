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
    """The answer of an acknowledgement that fetches the next: how many were still ours, and what came."""

    acked: int
    rows: list[Row]


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
