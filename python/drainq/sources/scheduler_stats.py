"""What a scheduler has done, by source and in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceCounts:
    """What became of one source's items."""

    moved: int
    """Items that the target took."""
    failed: int
    """Items on which the target raised."""
    errors: int
    """Times the source raised."""
    held: int
    """Items returned beyond what was asked for, which come next."""
    ended: bool
    """Whether no item will come any more."""


@dataclass(frozen=True)
class SchedulerStats:
    """Counters of a ``SourceScheduler``, exact while no step is under way."""

    steps: int
    """Steps taken."""
    moved: int
    """Items that the target took."""
    failed: int
    """Items on which the target raised."""
    errors: int
    """Times a source, the backlog, the tracker or the strategy raised."""
    paused: bool
    """Whether the backlog was too large at the last step."""
    sources: Mapping[str, SourceCounts]
    """The same by source."""
